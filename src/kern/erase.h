/* SPDX-License-Identifier: Apache-2.0 */
/* erase.h - the values that fill an erased rectangle, and noise on pixels, for the host and a GPU.
 *
 * All of it is addressed: pixel i has numbers of its own, whichever thread computes it and in which
 * order. */
#ifndef STOKER_KERN_ERASE_H
#define STOKER_KERN_ERASE_H

#include "kern/normal.h"
#include "kern/point.h"

/* STK_ACT_ERASE_ROW: pixel i of the rectangle, in the row's own units. */
STK_HD static inline void stk_erase_values(const stk_action *a, uint32_t i, float v[3])
{
    const stk_rng_stream s = { { a->v.u[5], a->v.u[6] }, { a->v.u[7], a->v.u[8], a->v.u[9] } };
    uint32_t bits[4];
    stk_pair first;

    if (!a->v.u[4]) {
        for (int c = 0; c < 3; c++)
            v[c] = a->v.f[5 + c];
        return;
    }
    stk_rng_stream_block(&s, i, bits);
    first = stk_normal_pair(bits[0]);
    v[0] = first.a;
    v[1] = first.b;
    v[2] = stk_normal_pair(bits[1]).a;
}

/* STK_ACT_ERASE: the same as a pixel. */
STK_HD static inline uint32_t stk_erase_pixel(const stk_action *a, uint32_t i)
{
    const stk_rng_stream s = { { a->v.u[5], a->v.u[6] }, { a->v.u[7], a->v.u[8], a->v.u[9] } };
    uint32_t bits[4];

    if (!a->v.u[4])
        return stk_px((uint32_t)a->v.f[5], (uint32_t)a->v.f[6], (uint32_t)a->v.f[7]);
    stk_rng_stream_block(&s, i / 4, bits);
    return bits[i % 4] >> 8;
}

/* STK_ACT_NOISE: pixel i of the picture has words 2 (i & 1) and the next of block i / 2. */
STK_HD static inline uint32_t stk_pt_noise(const stk_action *a, uint32_t px, uint32_t i)
{
    const stk_rng_stream s = { { a->v.u[0], a->v.u[1] }, { a->v.u[2], a->v.u[3], a->v.u[4] } };
    float mean = a->v.f[5] + 0.5f, dev = a->v.f[6];
    uint32_t bits[4];
    stk_pair rg, b;

    stk_rng_stream_block(&s, i / 2, bits);
    rg = stk_normal_pair(bits[2 * (i & 1)]);
    b = stk_normal_pair(bits[2 * (i & 1) + 1]);
    return stk_px(stk_pt_cut((float)stk_px_r(px) + (rg.a * dev + mean)),
                  stk_pt_cut((float)stk_px_g(px) + (rg.b * dev + mean)),
                  stk_pt_cut((float)stk_px_b(px) + (b.a * dev + mean)));
}

#endif

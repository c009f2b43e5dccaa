/* SPDX-License-Identifier: Apache-2.0 */
/* row_act.c - a rectangle of a row erased: by values in the row's own units, or by normal noise.
 *
 * Noise is addressed: pixel i of the rectangle has the numbers of block i, whatever the layout. */
#include "kern/row_act.h"

#include "kern/half.h"
#include "kern/normal.h"

static void put(void *dst, size_t at, float v, stk_dtype dtype)
{
    switch (dtype) {
    case STK_F16: ((uint16_t *)dst)[at] = stk_f16_from(v); break;
    case STK_BF16: ((uint16_t *)dst)[at] = stk_bf16_from(v); break;
    case STK_F32: ((float *)dst)[at] = v; break;
    default: ((uint8_t *)dst)[at] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v); break;
    }
}

static void values(const stk_action *a, uint32_t i, float v[3])
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

void stk_row_act(const stk_action *a, const stk_sample_job *job)
{
    const uint32_t *r = a->v.u; /* x, y, w, h */
    size_t w = job->view->vis_w, plane = w * job->view->vis_h;
    int planar = job->layout == STK_CHW;
    float v[3];

    for (uint32_t y = 0; y < r[3]; y++)
        for (uint32_t x = 0; x < r[2]; x++) {
            size_t at = (size_t)(r[1] + y) * w + r[0] + x;

            values(a, y * r[2] + x, v);
            for (size_t c = 0; c < 3; c++)
                put(job->dst, planar ? at + c * plane : 3 * at + c, v[c], job->dtype);
        }
}

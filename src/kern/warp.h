/* SPDX-License-Identifier: Apache-2.0 */
/* warp.h - moves pixels by a 3x3 matrix, for the host and a GPU: torchvision's affine, rotate and
 * perspective of uint8 tensors.
 *
 * The matrix takes the center of an output pixel to a place of the source; places are whole numbers
 * of 2^-32 pixels, weights of 2^-11, so all that follows the matrix is integers.  What is outside
 * the picture is `fill`, blended in at its edge as grid_sample() blends. */
#ifndef STOKER_KERN_WARP_H
#define STOKER_KERN_WARP_H

#include "kern/taps_core.h" /* STK_HD */

#define STK_WARP_ONE 4294967296.0 /* 2^32: a pixel */

typedef struct stk_warp {
    int64_t a, b, c, d, e, f; /* affine: sx = a x + b y + c, sy = d x + e y + f */
    double m[8];
    int flat; /* affine */
    uint32_t filter, fill;
} stk_warp;

/* Bounded so that sums over 65535 pixels stay in 63 bits. */
STK_HD static inline int64_t stk_warp_fixed(double v, double most)
{
    v = v < most ? v : most;
    v = v > -most ? v : -most;
    return (int64_t)(v * STK_WARP_ONE);
}

/* STK_ACT_WARP: f[0..7] is the matrix (the ninth is 1), u[8] the filter, u[9] the fill. */
STK_HD static inline stk_warp stk_warp_of(const stk_action *a)
{
    stk_warp w;

    for (int i = 0; i < 8; i++)
        w.m[i] = (double)a->v.f[i];
    w.flat = w.m[6] == 0 && w.m[7] == 0;
    w.filter = a->v.u[8];
    w.fill = a->v.u[9];
    w.a = stk_warp_fixed(w.m[0], 8192);
    w.b = stk_warp_fixed(w.m[1], 8192);
    w.c = stk_warp_fixed(w.m[2], 268435456) + w.a / 2 + w.b / 2 - (INT64_C(1) << 31);
    w.d = stk_warp_fixed(w.m[3], 8192);
    w.e = stk_warp_fixed(w.m[4], 8192);
    w.f = stk_warp_fixed(w.m[5], 268435456) + w.d / 2 + w.e / 2 - (INT64_C(1) << 31);
    return w;
}

/* Where output pixel (x, y) is, counted from the center of source pixel (0, 0). */
STK_HD static inline void stk_warp_at(const stk_warp *w, uint32_t x, uint32_t y, int64_t *sx,
                                      int64_t *sy)
{
    double px = x + 0.5, py = y + 0.5, by;

    if (w->flat) {
        *sx = w->a * x + w->b * y + w->c;
        *sy = w->d * x + w->e * y + w->f;
        return;
    }
    by = w->m[6] * px + w->m[7] * py + 1;
    *sx = stk_warp_fixed((w->m[0] * px + w->m[1] * py + w->m[2]) / by - 0.5, 268435456);
    *sy = stk_warp_fixed((w->m[3] * px + w->m[4] * py + w->m[5]) / by - 0.5, 268435456);
}

/* The nearest pixel, halves to even. */
STK_HD static inline int64_t stk_warp_round(int64_t v)
{
    return (v + 0x7FFFFFFF + (v >> 32 & 1)) >> 32;
}

STK_HD static inline uint32_t stk_warp_px(const uint32_t *px, uint32_t w, uint32_t h, int64_t x,
                                          int64_t y, uint32_t fill)
{
    return x >= 0 && y >= 0 && x < w && y < h ? px[(uint64_t)y * w + (uint64_t)x] : fill;
}

/* Red and blue together, each with 32 bits of room. */
STK_HD static inline uint64_t stk_warp_rb(uint32_t px)
{
    return (px & 255) | (uint64_t)(px >> 16 & 255) << 32;
}

STK_HD static inline uint32_t stk_warp_mix(const uint32_t q[4], uint32_t fx, uint32_t fy)
{
    uint32_t gx = 2048 - fx, gy = 2048 - fy, g;
    uint64_t rb = (stk_warp_rb(q[0]) * gx + stk_warp_rb(q[1]) * fx) * gy +
                  (stk_warp_rb(q[2]) * gx + stk_warp_rb(q[3]) * fx) * fy +
                  ((UINT64_C(1) << 53) | (1u << 21));

    g = ((q[0] >> 8 & 255) * gx + (q[1] >> 8 & 255) * fx) * gy +
        ((q[2] >> 8 & 255) * gx + (q[3] >> 8 & 255) * fx) * fy + (1u << 21);
    return (uint32_t)(rb >> 22 & 255) | g >> 22 << 8 | (uint32_t)(rb >> 54) << 16;
}

/* Output pixel at that place of a w x h picture. */
STK_HD static inline uint32_t stk_warp_pixel(const stk_warp *m, const uint32_t *px, uint32_t w,
                                             uint32_t h, int64_t sx, int64_t sy)
{
    int64_t x, y;
    uint32_t q[4];

    if (m->filter == STK_NEAREST)
        return stk_warp_px(px, w, h, stk_warp_round(sx), stk_warp_round(sy), m->fill);
    sx = (sx + (1 << 20)) >> 21;
    sy = (sy + (1 << 20)) >> 21;
    x = sx >> 11;
    y = sy >> 11;
    if (x >= 0 && y >= 0 && x + 1 < w && y + 1 < h) {
        const uint32_t *p = px + (uint64_t)y * w + (uint64_t)x;

        q[0] = p[0];
        q[1] = p[1];
        q[2] = p[w];
        q[3] = p[w + 1];
    } else {
        q[0] = stk_warp_px(px, w, h, x, y, m->fill);
        q[1] = stk_warp_px(px, w, h, x + 1, y, m->fill);
        q[2] = stk_warp_px(px, w, h, x, y + 1, m->fill);
        q[3] = stk_warp_px(px, w, h, x + 1, y + 1, m->fill);
    }
    return stk_warp_mix(q, (uint32_t)sx & 2047, (uint32_t)sy & 2047);
}

/* A whole tile, into memory of the scratch; t->data moves there.  0 or STK_ENOMEM. */
int stk_warp_run(const stk_action *a, stk_tile *t, stk_scratch *scratch, stk_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* warp.h - pixels that move by a matrix, for the host and a GPU alike.
 *
 * The matrix leads from places of the output to places of the input, both counted in pixels from the
 * middle of the first one, as whole numbers with 24 bits of a fraction: place (x, y) is the same on any
 * machine, whatever the order in which pixels are made. */
#ifndef STOKER_KERN_WARP_H
#define STOKER_KERN_WARP_H

#include "kern/point.h"

#define STK_WARP_BITS 24

typedef struct stk_warp {
    int64_t m[6]; /* x' = m0 x + m1 y + m2, y' = m3 x + m4 y + m5 */
    uint32_t width, height, fill;
} stk_warp;

typedef struct stk_warp_at {
    int64_t x, y;
} stk_warp_at;

/* One number of a matrix; beyond any picture it stays in range. */
STK_HD static inline int64_t stk_warp_fixed(double v)
{
    v *= 1 << STK_WARP_BITS;
    v = v < 0x1p46 ? v : 0x1p46;
    v = v > -0x1p46 ? v : -0x1p46;
    return (int64_t)(v < 0 ? v - 0.5 : v + 0.5);
}

STK_HD static inline stk_warp_at stk_warp_place(const stk_warp *w, uint32_t x, uint32_t y)
{
    stk_warp_at at;

    at.x = w->m[0] * x + w->m[1] * y + w->m[2];
    at.y = w->m[3] * x + w->m[4] * y + w->m[5];
    return at;
}

/* A pixel of the input; outside of it, the fill. */
STK_HD static inline uint32_t stk_warp_pixel(const stk_warp *w, const uint32_t *src, int64_t x,
                                             int64_t y)
{
    int inside = x >= 0 && x < w->width && y >= 0 && y < w->height;

    return inside ? src[(uint64_t)y * w->width + (uint64_t)x] : w->fill;
}

STK_HD static inline uint32_t stk_warp_nearest(const stk_warp *w, const uint32_t *src,
                                               stk_warp_at at)
{
    const int64_t half = 1 << (STK_WARP_BITS - 1);

    return stk_warp_pixel(w, src, (at.x + half) >> STK_WARP_BITS, (at.y + half) >> STK_WARP_BITS);
}

STK_HD static inline uint32_t stk_warp_mix(const uint32_t p[4], int32_t shift, int32_t fx, int32_t fy)
{
    int32_t a = (int32_t)(p[0] >> shift & 255), b = (int32_t)(p[1] >> shift & 255),
            c = (int32_t)(p[2] >> shift & 255), d = (int32_t)(p[3] >> shift & 255);
    int32_t top = (a << 11) + (b - a) * fx, bottom = (c << 11) + (d - c) * fx;

    /* 255 << 11, times 1 << 11 */
    return (uint32_t)((top * (2048 - fy) + bottom * fy + (1 << 21)) >> 22) << shift;
}

STK_HD static inline uint32_t stk_warp_bilinear(const stk_warp *w, const uint32_t *src,
                                                stk_warp_at at)
{
    int64_t x = at.x >> STK_WARP_BITS, y = at.y >> STK_WARP_BITS;
    int32_t fx = (int32_t)(at.x >> (STK_WARP_BITS - 11) & 2047),
            fy = (int32_t)(at.y >> (STK_WARP_BITS - 11) & 2047);
    uint32_t p[4];

    p[0] = stk_warp_pixel(w, src, x, y);
    p[1] = stk_warp_pixel(w, src, x + 1, y);
    p[2] = stk_warp_pixel(w, src, x, y + 1);
    p[3] = stk_warp_pixel(w, src, x + 1, y + 1);
    return stk_warp_mix(p, 0, fx, fy) | stk_warp_mix(p, 8, fx, fy) | stk_warp_mix(p, 16, fx, fy);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* pil.h - Pillow's arithmetic where torchvision's differs, for timm's policies, on the host and on
 * a GPU: ImageEnhance, ImageOps.autocontrast(), and transform() by an affine map.
 *
 * Blends are floats, cut down; maps and weights are doubles, as Pillow has them.  No build fuses
 * operations, so that all give the same bits. */
#ifndef STOKER_KERN_PIL_H
#define STOKER_KERN_PIL_H

#include <math.h>

#include "kern/near.h"
#include "kern/tile_code.h"

/* ---- pixels ---- */

/* Pillow's "L". */
STK_HD static inline int32_t stk_pil_gray(uint32_t px)
{
    return (stk_px_r(px) * 19595 + stk_px_g(px) * 38470 + stk_px_b(px) * 7471 + 0x8000) >> 16;
}

/* Image.blend(): share 0 is `from`, 1 is `to`; beyond these it is clamped. */
STK_HD static inline uint32_t stk_pil_blend(int32_t from, int32_t to, float share)
{
    return stk_pt_cut((float)from + share * (float)(to - from));
}

/* ... of one value with all channels. */
STK_HD static inline uint32_t stk_pil_blend3(int32_t from, uint32_t px, float share)
{
    return stk_px(stk_pil_blend(from, stk_px_r(px), share),
                  stk_pil_blend(from, stk_px_g(px), share),
                  stk_pil_blend(from, stk_px_b(px), share));
}

/* What contrast blends with: the mean of "L", rounded. */
STK_HD static inline int32_t stk_pil_mean(uint64_t gray, uint64_t pixels)
{
    return (int32_t)((2 * gray + pixels) / (2 * pixels));
}

STK_HD static inline uint8_t stk_pil_autocontrast(uint32_t v, uint32_t min, uint32_t max)
{
    double scale, out;

    if (min >= max)
        return (uint8_t)v;
    scale = 255.0 / (double)(max - min);
    out = v * scale + -(double)min * scale;
    return (uint8_t)(out < 0 ? 0 : out > 255 ? 255 : out);
}

STK_HD static inline uint32_t stk_pil_solarize_add(uint32_t v, uint32_t add, uint32_t below)
{
    return v >= below ? v : v + add < 255 ? v + add : 255;
}

STK_HD static inline uint8_t stk_pil_sharpen(int32_t v, int32_t sum, float factor)
{
    return (uint8_t)stk_pil_blend(stk_soft(sum), v, factor);
}

/* STK_ACT_PIL_BOX: one pass of Pillow's BoxBlur, of 2^24ths. */
STK_HD static inline uint32_t stk_pil_box(const stk_action *a, const uint32_t *data, uint32_t w,
                                          uint32_t h, uint32_t at)
{
    int32_t n = (int32_t)(a->v.u[3] ? h : w), i = (int32_t)(a->v.u[3] ? at / w : at % w);
    int32_t half = (int32_t)a->v.u[0];
    size_t step = a->v.u[3] ? w : 1, line = at - (size_t)i * step;
    uint32_t sum[3] = { 1u << 23, 1u << 23, 1u << 23 };

    for (int32_t k = -half - 1; k <= half + 1; k++) {
        int32_t x = i + k < 0 ? 0 : i + k < n ? i + k : n - 1;
        uint32_t v = data[line + (size_t)x * step];
        uint32_t weight = k < -half || k > half ? a->v.u[2] : a->v.u[1];

        for (int c = 0; c < 3; c++)
            sum[c] += (v >> 8 * c & 255) * weight;
    }
    return sum[0] >> 24 | sum[1] >> 24 << 8 | sum[2] >> 24 << 16;
}

/* ---- pixels that move ---- */

enum { STK_PIL_ROTATE, STK_PIL_SHEAR_X, STK_PIL_SHEAR_Y, STK_PIL_MOVE_X, STK_PIL_MOVE_Y };

typedef union stk_pil_number { /* of an action, in two words */
    double d;
    uint32_t u[2];
} stk_pil_number;

typedef struct stk_pil_map {
    double m[6]; /* x = m0 x + m1 y + m2, y = m3 x + m4 y + m5, of the centers of pixels */
    uint32_t filter, fill;
} stk_pil_map;

STK_HD static inline double stk_pil_double(const stk_action *a, int i)
{
    stk_pil_number v;

    v.u[0] = a->v.u[2 * i];
    v.u[1] = a->v.u[2 * i + 1];
    return v.d;
}

/* STK_ACT_PIL_WARP on a picture of w x h: u[0..3] are two doubles (of a rotation the cosine and the
 * sine, else the share or the pixels), u[4] says which map, u[8] the filter, u[9] the fill. */
STK_HD static inline stk_pil_map stk_pil_map_of(const stk_action *a, uint32_t w, uint32_t h)
{
    double v = stk_pil_double(a, 0), s = stk_pil_double(a, 1), cx = w / 2.0, cy = h / 2.0;
    stk_pil_map p = { { 1, 0, 0, 0, 1, 0 }, a->v.u[8], a->v.u[9] };

    switch (a->v.u[4]) {
    case STK_PIL_ROTATE:
        p.m[0] = p.m[4] = v;
        p.m[1] = s;
        p.m[3] = -s;
        p.m[2] = v * -cx + s * -cy + cx;
        p.m[5] = -s * -cx + v * -cy + cy;
        break;
    case STK_PIL_SHEAR_X: p.m[1] = v; break;
    case STK_PIL_SHEAR_Y: p.m[3] = v; break;
    case STK_PIL_MOVE_X: p.m[2] = v; break;
    default: p.m[5] = v;
    }
    return p;
}

/* The same map as STK_ACT_WARP has it, of what moves pixels in either way: for places, and for
 * pictures that are not of 8 bits. */
STK_HD static inline stk_action stk_pil_as_warp(const stk_action *a, uint32_t w, uint32_t h)
{
    stk_action out = *a;
    stk_pil_map p;

    if (a->code == STK_ACT_WARP)
        return out;
    p = stk_pil_map_of(a, w, h);
    out.code = STK_ACT_WARP;
    for (int i = 0; i < 8; i++)
        out.v.f[i] = i < 6 ? (float)p.m[i] : 0;
    return out;
}

STK_HD static inline uint64_t stk_pil_clip(int32_t i, uint32_t n)
{
    return i < 0 ? 0 : (uint32_t)i < n ? (uint32_t)i : n - 1;
}

/* Keys' cubic of four neighbours, a = -1, at d between the second and the third. */
STK_HD static inline double stk_pil_cubic(const double v[4], double d)
{
    double b = v[2] - v[0], c = 2 * (v[0] - v[1]) + v[2] - v[3], e = -v[0] + v[1] - v[2] + v[3];

    return v[1] + d * (b + d * (c + d * e));
}

/* One channel, from `taps` rows and columns of which x, y is the first. */
STK_HD static inline uint32_t stk_pil_channel(const uint32_t *const row[4], const uint64_t col[4],
                                              int shift, double dx, double dy, int cubic)
{
    double down[4], v[4];

    for (int j = 0; j < (cubic ? 4 : 2); j++) {
        for (int i = 0; i < (cubic ? 4 : 2); i++)
            v[i] = (double)(row[j][col[i]] >> shift & 255);
        down[j] = cubic ? stk_pil_cubic(v, dx) : v[0] + (v[1] - v[0]) * dx;
    }
    v[0] = cubic ? stk_pil_cubic(down, dy) : down[0] + (down[1] - down[0]) * dy;
    return v[0] <= 0 ? 0 : v[0] >= 255 ? 255 : (uint32_t)v[0];
}

STK_HD static inline uint32_t stk_pil_pixel(const stk_pil_map *p, const uint32_t *px, uint32_t w,
                                            uint32_t h, uint32_t x, uint32_t y)
{
    double sx = p->m[0] * (x + 0.5) + p->m[1] * (y + 0.5) + p->m[2];
    double sy = p->m[3] * (x + 0.5) + p->m[4] * (y + 0.5) + p->m[5];
    int cubic = p->filter == STK_BICUBIC;
    const uint32_t *row[4];
    uint64_t col[4];
    int32_t ix, iy;

    if (!(sx >= 0 && sx < w && sy >= 0 && sy < h))
        return p->fill;
    if (p->filter == STK_NEAREST)
        return px[(uint64_t)sy * w + (uint64_t)sx];
    sx -= 0.5;
    sy -= 0.5;
    ix = (int32_t)floor(sx);
    iy = (int32_t)floor(sy);
    sx -= ix;
    sy -= iy;
    for (int i = 0; i < 4; i++) {
        col[i] = stk_pil_clip(ix + i - cubic, w);
        row[i] = px + stk_pil_clip(iy + i - cubic, h) * w;
    }
    return stk_px(stk_pil_channel(row, col, 0, sx, sy, cubic),
                  stk_pil_channel(row, col, 8, sx, sy, cubic),
                  stk_pil_channel(row, col, 16, sx, sy, cubic));
}

#endif

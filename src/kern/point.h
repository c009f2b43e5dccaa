/* SPDX-License-Identifier: Apache-2.0 */
/* point.h - changes of single pixels (saturation, hue, solarize, ...), for the host and a GPU.
 *
 * The meaning is torchvision's of uint8 tensors: results are cut down to whole numbers, not
 * rounded.  Floats are multiplied, added, compared and converted, each rounded by itself (no build
 * fuses them); all else is whole numbers.  A pixel is R, G, B, X from the lowest byte on. */
#ifndef STOKER_KERN_POINT_H
#define STOKER_KERN_POINT_H

#include <stdint.h>

#include "kern/taps_core.h" /* STK_HD */

/* 0.2989 R + 0.587 G + 0.114 B, in units of 2^-20. */
#define STK_GRAY_R 313419
#define STK_GRAY_G 615514
#define STK_GRAY_B 119538

STK_HD static inline uint32_t stk_px(uint32_t r, uint32_t g, uint32_t b)
{
    return r | g << 8 | b << 16;
}

STK_HD static inline int32_t stk_px_r(uint32_t px)
{
    return (int32_t)(px & 255);
}

STK_HD static inline int32_t stk_px_g(uint32_t px)
{
    return (int32_t)(px >> 8 & 255);
}

STK_HD static inline int32_t stk_px_b(uint32_t px)
{
    return (int32_t)(px >> 16 & 255);
}

/* Into 0..255, cut down. */
STK_HD static inline uint32_t stk_pt_cut(float v)
{
    v = v > 0 ? v : 0;
    v = v < 255 ? v : 255;
    return (uint32_t)(int32_t)v;
}

STK_HD static inline uint32_t stk_pt_linear(int32_t v, float mul, float add)
{
    return stk_pt_cut((float)v * mul + add);
}

STK_HD static inline int32_t stk_pt_gray(uint32_t px)
{
    return (stk_px_r(px) * STK_GRAY_R + stk_px_g(px) * STK_GRAY_G + stk_px_b(px) * STK_GRAY_B) >>
           20;
}

STK_HD static inline uint32_t stk_pt_saturation(uint32_t px, float mul)
{
    float add = (float)stk_pt_gray(px) * (1 - mul);

    return stk_px(stk_pt_linear(stk_px_r(px), mul, add), stk_pt_linear(stk_px_g(px), mul, add),
                  stk_pt_linear(stk_px_b(px), mul, add));
}

/* Hue without a division: everything is counted in units of d = max - min, a sixth of the circle,
 * STK_HUE_UNIT parts each.  The unit is 2^16 * 257 / 256: torchvision comes from 0..1 to 8 bits
 * with 255.999, so that a value is cut down by a shift.  6 d and less are under 2^27. */
#define STK_HUE_UNIT 65792

STK_HD static inline int32_t stk_hue_parts(int32_t v) /* v * STK_HUE_UNIT, quicker in vectors */
{
    return (int32_t)(((uint32_t)v << 16) + ((uint32_t)v << 8));
}

typedef struct stk_hue {
    int32_t max, plain, d; /* plain: d as it is; d in parts */
    uint32_t at;           /* 0 .. 6 d, in parts */
} stk_hue;

/* x, of which at most one `full` is too much or, as a negative number, missing. */
STK_HD static inline uint32_t stk_hue_wrap(uint32_t x, uint32_t other)
{
    return x < other ? x : other;
}

STK_HD static inline stk_hue stk_hue_of(int32_t r, int32_t g, int32_t b)
{
    stk_hue h;
    int32_t min = r < g ? r : g, d, at;

    min = min < b ? min : b;
    h.max = r > g ? r : g;
    h.max = h.max > b ? h.max : b;
    d = h.max - min;
    at = h.max == r ? g - b : h.max == g ? 2 * d + b - r : 4 * d + r - g;
    h.plain = d;
    h.d = stk_hue_parts(d);
    h.at = (uint32_t)stk_hue_parts(at);
    return h;
}

/* turn: sixths of the circle, 0 up to 6, in units of 2^-16. */
STK_HD static inline void stk_hue_turn(stk_hue *h, int32_t turn)
{
    uint32_t full = ((uint32_t)h->d << 2) + ((uint32_t)h->d << 1);

    h->at = stk_hue_wrap(h->at, h->at + full);
    h->at += (uint32_t)(h->plain * (turn + turn / 256));
    h->at = stk_hue_wrap(h->at, h->at - full);
}

/* One channel, in parts: k is 5 for R, 3 for G, 1 for B. */
STK_HD static inline int32_t stk_hue_channel(const stk_hue *h, int32_t k)
{
    uint32_t d = (uint32_t)h->d, u = h->at + d;
    int32_t v, w;

    u = k == 1 ? u : k == 3 ? u + (d << 1) : u + (d << 2);
    u = stk_hue_wrap(u, u - (d << 2) - (d << 1));
    v = (int32_t)u;
    w = (int32_t)(d << 2) - v;
    v = v < w ? v : w;
    v = v < h->d ? v : h->d;
    v = v > 0 ? v : 0;
    return stk_hue_parts(h->max) - v;
}

/* A turn that comes with an action: any number is one. */
STK_HD static inline int32_t stk_hue_sixths_of(uint32_t turn)
{
    return (int32_t)(turn < 6u << 16 ? turn : 6u << 16);
}

STK_HD static inline uint32_t stk_pt_hue(uint32_t px, int32_t turn)
{
    stk_hue h = stk_hue_of(stk_px_r(px), stk_px_g(px), stk_px_b(px));

    stk_hue_turn(&h, turn);
    return stk_px((uint32_t)stk_hue_channel(&h, 5) >> 16, (uint32_t)stk_hue_channel(&h, 3) >> 16,
                  (uint32_t)stk_hue_channel(&h, 1) >> 16);
}

STK_HD static inline uint32_t stk_pt_hsv_channel(const stk_hue *h, int32_t k, float max,
                                                 float ratio)
{
    /* max - d * (how far from max, 0..1): the latter by the old d, so that it needs no division */
    float away = (float)(h->max * STK_HUE_UNIT - stk_hue_channel(h, k));

    return stk_pt_cut(max - away * ratio + 0.5f);
}

/* Hue turned, saturation and value multiplied and kept within 1. */
STK_HD static inline uint32_t stk_pt_hsv(uint32_t px, int32_t turn, float sat, float val)
{
    stk_hue h = stk_hue_of(stk_px_r(px), stk_px_g(px), stk_px_b(px));
    float max = (float)h.max * val, d, ratio; /* d: saturation */

    stk_hue_turn(&h, turn);
    max = max < 255 ? max : 255;
    d = (float)h.d * sat / (float)(h.max * STK_HUE_UNIT + (h.max == 0)); /* never by 0 */
    d = d < 1 ? d : 1;
    ratio = d * max / (float)(h.d + (h.d == 0));
    return stk_px(stk_pt_hsv_channel(&h, 5, max, ratio), stk_pt_hsv_channel(&h, 3, max, ratio),
                  stk_pt_hsv_channel(&h, 1, max, ratio));
}

#endif

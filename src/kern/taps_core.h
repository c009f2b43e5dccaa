/* SPDX-License-Identifier: Apache-2.0 */
/* taps_core.h - filter weights of one output of an axis, for the host and for a GPU alike.
 *
 * Invariant: an output's weights are >= 0 and sum to exactly 1 << shift, so a flat area
 * keeps its value and nothing ever leaves 0..255.  Weights are rounded by running sum, which
 * keeps every partial sum within half a unit: with one rounding a weight, thousands of taps (a
 * huge downscale) would drift by whole gray levels.  For the same reason the shift grows with
 * the scale, as far as the largest weight fits 16 bits and a sum fits 32.  Only + - * / on
 * doubles, never fused: the same weights on every machine. */
#ifndef STOKER_TAPS_CORE_H
#define STOKER_TAPS_CORE_H

#include <stdint.h>

#if defined(__CUDACC__)
#define STK_HD __host__ __device__
#else
#define STK_HD
#endif

#define STK_TAPS_SHIFT_MIN 14
#define STK_TAPS_SHIFT_MAX 22 /* 255 << 22, and a half, fits int32 */

/* `in` pixels are resized to `res`, of which `n` from `off` on are output; flip: in reverse
 * order. */
typedef struct stk_axis {
    uint32_t in, res; /* at most INT32_MAX */
    int32_t off;
    uint32_t n;
    int flip;
} stk_axis;

typedef struct stk_filter {
    double scale, support, inv; /* inputs an output; half the window's width; 1 / support */
    int copies;                 /* same size: one tap */
} stk_filter;

typedef struct stk_window {
    double center;
    uint32_t lo, hi;
} stk_window;

STK_HD static inline stk_filter stk_axis_filter(const stk_axis *a)
{
    stk_filter f;

    f.scale = a->res ? (double)a->in / a->res : 1;
    f.support = f.scale > 1 ? f.scale : 1;
    f.inv = 1 / f.support;
    f.copies = a->in == a->res;
    return f;
}

/* Taps that one output can have, as a stride. */
STK_HD static inline uint32_t stk_axis_stride(const stk_axis *a, const stk_filter *f)
{
    double width = 2 * f->support;
    uint32_t taps = a->in;

    if (f->copies)
        return 1;
    if (width < taps) {
        taps = (uint32_t)width;
        taps += taps < width;
    }
    return taps <= 2 ? 2 : (taps + 1) & ~1u;
}

STK_HD static inline uint32_t stk_axis_shift(const stk_filter *f)
{
    uint32_t shift = STK_TAPS_SHIFT_MIN;

    while (shift < STK_TAPS_SHIFT_MAX && (2u << (shift - STK_TAPS_SHIFT_MIN)) <= f->support)
        shift++;
    return shift;
}

/* The inputs of output i of the whole resized axis. */
STK_HD static inline stk_window stk_axis_window(const stk_axis *a, const stk_filter *f, uint32_t i)
{
    stk_window w;
    double lo, hi;

    w.center = (i + 0.5) * f->scale;
    w.lo = i;
    w.hi = i + 1;
    if (f->copies)
        return w;
    lo = w.center - f->support + 0.5;
    hi = w.center + f->support + 0.5;
    w.lo = lo > 0 ? (uint32_t)lo : 0;
    w.hi = hi < a->in ? (uint32_t)hi : a->in;
    return w;
}

/* Outputs inside the resized picture, as numbers of the whole axis: [*lo, *hi). */
STK_HD static inline void stk_axis_visible(const stk_axis *a, uint32_t *lo, uint32_t *hi)
{
    int64_t begin = a->off, end = (int64_t)a->off + a->n;

    if (begin < 0)
        begin = 0;
    if (end > a->res)
        end = a->res;
    if (begin >= end || a->in == 0)
        begin = end = 0;
    *lo = (uint32_t)begin;
    *hi = (uint32_t)end;
}

/* The inputs that the outputs touch: [*lo, *hi), empty when all outputs are outside. */
STK_HD static inline void stk_axis_inputs(const stk_axis *a, const stk_filter *f, uint32_t *lo,
                                          uint32_t *hi)
{
    uint32_t begin, end;

    stk_axis_visible(a, &begin, &end);
    *lo = *hi = 0;
    if (begin == end)
        return;
    *lo = stk_axis_window(a, f, begin).lo;
    *hi = stk_axis_window(a, f, end - 1).hi;
}

STK_HD static inline double stk_triangle(double x)
{
    if (x < 0)
        x = -x;
    return x < 1 ? 1 - x : 0;
}

/* Weights of one window; the rest of its stride is the caller's to zero. */
STK_HD static inline void stk_axis_weights(int16_t *out, const stk_window *w, double inv,
                                           uint32_t shift)
{
    double total = 0, sum = 0, unit;
    int32_t before = 0;

    for (uint32_t x = w->lo; x < w->hi; x++)
        total += stk_triangle((x - w->center + 0.5) * inv);
    unit = (1u << shift) / total;
    for (uint32_t x = w->lo; x < w->hi; x++) {
        int32_t upto;

        sum += stk_triangle((x - w->center + 0.5) * inv);
        upto = x + 1 == w->hi ? 1 << shift : (int32_t)(sum * unit + 0.5);
        out[x - w->lo] = (int16_t)(upto - before);
        before = upto;
    }
}

#endif

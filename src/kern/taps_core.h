/* SPDX-License-Identifier: Apache-2.0 */
/* taps_core.h - makes the filter weights of one output of an axis, for the host and for a GPU.
 *
 * Filters, windows and centers are Pillow's.  Invariant: an output's weights sum to exactly
 * 1 << shift, so a flat area keeps its value; those of bicubic and Lanczos can be negative, so sums
 * are clamped to 0..255.  Weights are rounded by running sum, which
 * keeps every partial sum within half a unit: with one rounding a weight, thousands of taps (a
 * huge downscale) would drift by whole gray levels.  For the same reason the shift grows with
 * the scale, as far as the largest weight fits 16 bits and a sum fits 32.  Only + - * / on
 * doubles, never fused: the same weights on every machine.
 *
 * A filter that is exact has the weights of another library, bit for bit, each rounded alone.
 * Pillow's are of 22 bits (`fine`); it goes down first where the height shrinks by more than twice
 * the pixels that the width shrinks by.  torch's are of 16 bits, with as many bits after the point
 * as the largest weight of the axis leaves: whoever makes a stk_axis finds that number once
 * (stk_axis_settle() of taps.h). */
#ifndef STOKER_TAPS_CORE_H
#define STOKER_TAPS_CORE_H

#include <stdint.h>
#include <stoker/plugin.h>

#if defined(__CUDACC__)
#define STK_HD __host__ __device__
#else
#define STK_HD
#endif

#define STK_TAPS_SHIFT_MIN 14
#define STK_TAPS_SHIFT_MAX 22 /* 255 << 22, and a half, fits int32 */
#define STK_AXIS_FINE 64u     /* in stk_axis.filter: weights come as int32_t, for the same sums */

/* `in` pixels are resized to `res`, of which `n` from `off` on are output; flip: in reverse
 * order. */
typedef struct stk_axis {
    uint32_t in, res; /* at most INT32_MAX */
    int32_t off;
    uint32_t n;
    int flip;
    /* stk_filter_kind and STK_FILTER_*; of TORCH: shift << 8, from 14 to 22 */
    uint32_t filter;
    uint32_t border; /* stk_border; not FILL: only where in == res */
} stk_axis;

typedef struct stk_filter {
    double scale, support; /* inputs an output; half the window's width */
    double wide, inv;      /* how much the filter is stretched, 1: as it is; 1 / wide */
    uint32_t kind, sharp;
    uint32_t exact, shift; /* STK_FILTER_PILLOW, STK_FILTER_TORCH or 0; of TORCH: what is given */
    int copies;            /* one tap: same size, or nearest */
    int fine;              /* weights are int32_t */
} stk_filter;

typedef struct stk_window {
    double center;
    uint32_t lo, hi;
} stk_window;

STK_HD static inline stk_filter stk_axis_filter(const stk_axis *a)
{
    stk_filter f;

    f.kind = a->filter & STK_FILTER_KIND;
    f.sharp = a->filter & STK_FILTER_SHARP;
    f.exact = a->filter & (STK_FILTER_PILLOW | STK_FILTER_TORCH);
    f.shift = a->filter >> 8;
    f.scale = a->res ? (double)a->in / a->res : 1;
    f.wide = f.scale > 1 && !f.sharp && f.kind != STK_NEAREST ? f.scale : 1;
    f.inv = 1 / f.wide;
    f.support = f.kind == STK_BICUBIC ? 2 * f.wide : f.kind == STK_LANCZOS ? 3 * f.wide : f.wide;
    f.copies = a->in == a->res || f.kind == STK_NEAREST;
    f.fine = !f.copies && (a->filter & (STK_FILTER_PILLOW | STK_AXIS_FINE));
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
    if (f->fine)
        return (taps + 3) & ~3u;
    return taps <= 2 ? 2 : (taps + 1) & ~1u;
}

STK_HD static inline uint32_t stk_axis_shift(const stk_filter *f)
{
    uint32_t shift = STK_TAPS_SHIFT_MIN;

    if (f->exact == STK_FILTER_PILLOW)
        return STK_TAPS_SHIFT_MAX - 8 * !f->fine; /* copies have weights of 16 bits */
    if (f->exact == STK_FILTER_TORCH && f->shift >= STK_TAPS_SHIFT_MIN &&
        f->shift <= STK_TAPS_SHIFT_MAX)
        return f->shift;
    while (shift < STK_TAPS_SHIFT_MAX && (2u << (shift - STK_TAPS_SHIFT_MIN)) <= f->wide)
        shift++;
    return shift;
}

/* Nearest, as Pillow finds it: steps are added up, roundoff included. */
STK_HD static inline uint32_t stk_axis_nearest(const stk_axis *a, const stk_filter *f, uint32_t i)
{
    double x = f->scale * 0.5;

    if (a->in == a->res)
        return i;
    while (i--)
        x += f->scale;
    return x < a->in ? (uint32_t)x : a->in - 1;
}

/* Which input of `in` stands at place i, which may be outside. */
STK_HD static inline uint32_t stk_border_at(uint32_t border, int64_t i, uint32_t in)
{
    int64_t n = in, period = border == STK_BORDER_REFLECT ? 2 * n - 2 : 2 * n;

    if (border == STK_BORDER_EDGE)
        return (uint32_t)(i < 0 ? 0 : i < n ? i : n - 1);
    if (period == 0)
        return 0;
    i = (i % period + period) % period;
    if (i < n)
        return (uint32_t)i;
    return (uint32_t)(border == STK_BORDER_REFLECT ? period - i : period - 1 - i);
}

/* The inputs of output i of the whole resized axis. */
STK_HD static inline stk_window stk_axis_window(const stk_axis *a, const stk_filter *f, uint32_t i)
{
    stk_window w;
    double lo, hi;

    w.center = (i + 0.5) * f->scale;
    w.lo = i;
    if (f->copies) {
        if (f->kind == STK_NEAREST)
            w.lo = stk_axis_nearest(a, f, i);
        w.hi = w.lo + 1;
        return w;
    }
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
    *lo = 0;
    *hi = a->border ? a->in : 0;
    if (begin == end || a->border)
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

/* Keys' cubic: a is -0.5 where it is stretched (Pillow), -0.75 where it is not (torch). */
STK_HD static inline double stk_cubic(double x, double a)
{
    if (x < 0)
        x = -x;
    if (x < 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

/* sin(pi x) / (pi x) for |x| <= 3, by a series: the same bits wherever it runs. */
STK_HD static inline double stk_sinc(double x)
{
    const double pi = 3.14159265358979323846;
    double whole = (double)(int32_t)(x < 0 ? x - 0.5 : x + 0.5), r = (x - whole) * pi, q = r * r;
    double s = r * (1 + q * (-1.0 / 6 +
                             q * (1.0 / 120 + q * (-1.0 / 5040 +
                                                   q * (1.0 / 362880 +
                                                        q * (-1.0 / 39916800 +
                                                             q * (1.0 / 6227020800 -
                                                                  q * (1.0 / 1307674368000))))))));

    if (x == 0)
        return 1;
    return ((int32_t)whole % 2 ? -s : s) / (pi * x);
}

STK_HD static inline double stk_filter_at(const stk_filter *f, double x)
{
    if (f->kind == STK_BICUBIC)
        return stk_cubic(x, f->sharp ? -0.75 : -0.5);
    if (f->kind == STK_LANCZOS)
        return x > -3 && x < 3 ? stk_sinc(x) * stk_sinc(x / 3) : 0;
    return stk_triangle(x);
}

/* Weights as they are rounded: by running sum. */
STK_HD static inline int32_t stk_weight_upto(double sum, double unit)
{
    double v = sum * unit;

    return (int32_t)(v < 0 ? v - 0.5 : v + 0.5);
}

/* The same of filters other than bilinear.  What of a sharp one is outside the picture counts for
 * the pixel at its edge, as torch has it; else it does not count, as Pillow has it. */
STK_HD static inline void stk_axis_weights_of(int16_t *out, const stk_filter *f,
                                              const stk_window *w, uint32_t shift)
{
    double total = 0, sum = 0, unit, first = 0, last = 0;
    int32_t before = 0;

    if (f->sharp)
        for (int k = 1; k <= 4; k++) {
            first += stk_filter_at(f, (double)w->lo - k - w->center + 0.5);
            last += stk_filter_at(f, (double)w->hi - 1 + k - w->center + 0.5);
        }
    total = first + last;
    for (uint32_t x = w->lo; x < w->hi; x++)
        total += stk_filter_at(f, (x - w->center + 0.5) * f->inv);
    unit = (1u << shift) / total;
    sum = first;
    for (uint32_t x = w->lo; x < w->hi; x++) {
        int32_t upto;

        sum += stk_filter_at(f, (x - w->center + 0.5) * f->inv);
        upto = x + 1 == w->hi ? 1 << shift : stk_weight_upto(sum, unit);
        out[x - w->lo] = (int16_t)(upto - before);
        before = upto;
    }
}

/* ---- exact ones ---- */

/* What the weights of a window are divided by. */
STK_HD static inline double stk_axis_total(const stk_filter *f, const stk_window *w)
{
    double total = 0;

    for (uint32_t x = w->lo; x < w->hi; x++)
        total += stk_filter_at(f, (x - w->center + 0.5) * f->inv);
    return total;
}

STK_HD static inline int32_t stk_weight_alone(double share, uint32_t shift)
{
    double v = share * (1 << shift);

    return (int32_t)(v < 0 ? v - 0.5 : v + 0.5);
}

/* The weight of input x, as Pillow and torch round it. */
STK_HD static inline int32_t stk_axis_exact(const stk_filter *f, const stk_window *w, double total,
                                            uint32_t x, uint32_t shift)
{
    return stk_weight_alone(stk_filter_at(f, (x - w->center + 0.5) * f->inv) / total, shift);
}

/* Does Pillow resize down before across?  Both axes of one view. */
STK_HD static inline int stk_axes_down_first(const stk_axis *x, const stk_axis *y)
{
    return (x->filter & STK_FILTER_PILLOW) && (x->filter & STK_FILTER_KIND) != STK_NEAREST &&
           x->in != x->res && y->res < y->in &&
           (int64_t)y->in - y->res > 2 * ((int64_t)x->in - x->res);
}

/* Weights of one window of a filter that is not fine; the rest of its stride is the caller's to
 * zero. */
STK_HD static inline void stk_axis_weights(int16_t *out, const stk_filter *f, const stk_window *w,
                                           uint32_t shift)
{
    double total = 0, sum = 0, unit, inv = f->inv;
    int32_t before = 0;

    if (f->copies) {
        out[0] = (int16_t)(1 << shift);
        return;
    }
    if (f->exact) {
        total = stk_axis_total(f, w);
        for (uint32_t x = w->lo; x < w->hi; x++)
            out[x - w->lo] = (int16_t)stk_axis_exact(f, w, total, x, shift);
        return;
    }
    if (f->kind != STK_BILINEAR) {
        stk_axis_weights_of(out, f, w, shift);
        return;
    }

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

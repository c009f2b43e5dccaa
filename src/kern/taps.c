/* SPDX-License-Identifier: Apache-2.0 */
/* taps.c - filter weights of one axis.
 *
 * Invariant: an output's weights are >= 0 and sum to exactly 1 << shift, so a flat area
 * keeps its value and nothing ever leaves 0..255.  Weights are rounded by running sum, which
 * keeps every partial sum within half a unit: with one rounding a weight, thousands of taps (a
 * huge downscale) would drift by whole gray levels.  For the same reason the shift grows with
 * the scale, as far as the largest weight fits 16 bits and a sum fits 32. Only + - * / on
 * doubles: the same weights on every machine. */
#include "kern/taps.h"

#include <string.h>

#define SHIFT_MIN 14
#define SHIFT_MAX 22 /* 255 << 22, and a half, fits int32 */

struct filter {
    double scale, support, inv; /* inputs an output; half the window's width; 1 / support */
    int copies;                 /* same size: one tap */
};

struct window {
    double center;
    uint32_t lo, hi;
};

static struct filter axis_filter(const stk_axis *a)
{
    struct filter f = { .scale = a->res ? (double)a->in / a->res : 1, .copies = a->in == a->res };

    f.support = f.scale > 1 ? f.scale : 1;
    f.inv = 1 / f.support;
    return f;
}

/* Taps that one output can have, as a stride. */
static uint32_t axis_stride(const stk_axis *a)
{
    struct filter f = axis_filter(a);
    double width = 2 * f.support;
    uint32_t taps = a->in;

    if (f.copies)
        return 1;
    if (width < taps) {
        taps = (uint32_t)width;
        taps += taps < width;
    }
    return taps <= 2 ? 2 : (taps + 1) & ~1u;
}

/* The inputs of output i of the whole resized axis. */
static struct window axis_window(const stk_axis *a, const struct filter *f, uint32_t i)
{
    struct window w = { .center = (i + 0.5) * f->scale, .lo = i, .hi = i + 1 };
    double lo = w.center - f->support + 0.5, hi = w.center + f->support + 0.5;

    if (f->copies)
        return w;
    w.lo = lo > 0 ? (uint32_t)lo : 0;
    w.hi = hi < a->in ? (uint32_t)hi : a->in;
    return w;
}

/* Outputs inside the resized picture, as numbers of the whole axis: [*lo, *hi). */
static void axis_visible(const stk_axis *a, uint32_t *lo, uint32_t *hi)
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

void stk_axis_span(const stk_axis *a, uint32_t *lo, uint32_t *hi)
{
    struct filter f = axis_filter(a);
    uint32_t begin, end;

    axis_visible(a, &begin, &end);
    *lo = *hi = 0;
    if (begin == end)
        return;
    *lo = axis_window(a, &f, begin).lo;
    *hi = axis_window(a, &f, end - 1).hi;
}

size_t stk_taps_bytes(const stk_axis *a)
{
    uint64_t stride = axis_stride(a), each = 2 * sizeof(uint32_t) + stride * sizeof(int16_t);

    if (a->n > SIZE_MAX / 8 / each)
        return SIZE_MAX / 4 + 1;
    return (size_t)(a->n * each + 2 + 63) & ~(size_t)63; /* 2: first[] is aligned to 4 */
}

static double triangle(double x)
{
    if (x < 0)
        x = -x;
    return x < 1 ? 1 - x : 0;
}

/* Weights of one window; the caller has zeroed the rest. */
static void fill_weights(int16_t *out, const struct window *w, double inv, uint32_t shift)
{
    double total = 0, sum = 0, unit;
    int32_t before = 0;

    for (uint32_t x = w->lo; x < w->hi; x++)
        total += triangle((x - w->center + 0.5) * inv);
    unit = (1u << shift) / total;
    for (uint32_t x = w->lo; x < w->hi; x++) {
        int32_t upto;

        sum += triangle((x - w->center + 0.5) * inv);
        upto = x + 1 == w->hi ? 1 << shift : (int32_t)(sum * unit + 0.5);
        out[x - w->lo] = (int16_t)(upto - before);
        before = upto;
    }
}

void stk_taps_make(stk_taps *t, const stk_axis *a, void *memory)
{
    struct filter f = axis_filter(a);
    uint32_t begin, end;

    t->n = a->n;
    t->stride = axis_stride(a);
    t->shift = SHIFT_MIN;
    while (t->shift < SHIFT_MAX && (2u << (t->shift - SHIFT_MIN)) <= f.support)
        t->shift++;
    stk_axis_span(a, &t->lo, &t->hi);
    t->weight = memory; /* first: vector loads like the alignment */
    memset(memory, 0, stk_taps_bytes(a));
    t->first = (uint32_t *)(void *)(t->weight + (((size_t)t->n * t->stride + 1) & ~(size_t)1));
    t->count = t->first + t->n;
    axis_visible(a, &begin, &end);
    for (uint32_t i = begin; i < end; i++) {
        uint32_t j = (uint32_t)(i - (int64_t)a->off);
        struct window w = axis_window(a, &f, i);

        if (a->flip)
            j = a->n - 1 - j;
        if (w.hi - w.lo > t->stride) /* roundoff; that tap would weigh nothing */
            w.hi = w.lo + t->stride;
        t->first[j] = w.lo - t->lo;
        t->count[j] = w.hi - w.lo;
        fill_weights(t->weight + (size_t)j * t->stride, &w, f.inv, t->shift);
    }
}

void stk_taps_slide(stk_taps *t)
{
    uint32_t span = t->hi - t->lo, last = span > t->stride ? span - t->stride : 0;

    for (uint32_t i = 0; i < t->n; i++) {
        int16_t *w = t->weight + (size_t)i * t->stride;
        uint32_t by = t->first[i] > last ? t->first[i] - last : 0;

        if (!by)
            continue;
        memmove(w + by, w, t->count[i] * sizeof *w);
        memset(w, 0, by * sizeof *w);
        t->first[i] -= by;
        t->count[i] += by;
    }
}

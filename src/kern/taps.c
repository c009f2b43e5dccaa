/* SPDX-License-Identifier: Apache-2.0 */
/* taps.c - filter weights of one axis, laid out for the host's kernels; the arithmetic is in
 * taps_core.h. */
#include "kern/taps.h"

#include <assert.h>
#include <string.h>

void stk_axis_span(const stk_axis *a, uint32_t *lo, uint32_t *hi)
{
    stk_filter f = stk_axis_filter(a);

    stk_axis_inputs(a, &f, lo, hi);
}

/* torch: one more bit as long as the largest weight of all outputs stays below 1 << 15. */
void stk_axis_settle(stk_axis *a)
{
    stk_filter f = stk_axis_filter(a);
    uint32_t shift = STK_TAPS_SHIFT_MIN;
    double most = 0;

    a->filter &= 0xFF;
    if (f.copies || f.exact != STK_FILTER_TORCH)
        return;
    for (uint32_t i = 0; i < a->res; i++) {
        stk_window w = stk_axis_window(a, &f, i);
        double total = 0, top = 0;

        for (uint32_t x = w.lo; x < w.hi; x++) {
            double v = stk_filter_at(&f, (x - w.center + 0.5) * f.inv);

            total += v;
            top = v > top ? v : top;
        }
        most = top / total > most ? top / total : most;
    }
    while (shift < STK_TAPS_SHIFT_MAX && (int)(0.5 + most * (2 << shift)) < 1 << 15)
        shift++;
    a->filter |= shift << 8;
}

size_t stk_taps_bytes(const stk_axis *a)
{
    stk_filter f = stk_axis_filter(a);
    uint64_t stride = stk_axis_stride(a, &f), each = 2 * sizeof(uint32_t) + stride * 2;
    uint64_t n = a->n;

    if (f.fine) { /* the weights, and again as a kernel packs them: of whole fours of outputs */
        each = 2 * sizeof(uint32_t) + stride * 8;
        n += 8;
    }
    if (n > SIZE_MAX / 8 / each)
        return SIZE_MAX / 4 + 1;
    return (size_t)(n * each + 2 + 63) & ~(size_t)63; /* 2: first[] is aligned to 4 */
}

/* Outputs of an axis with a border: one input each. */
static void border_taps(stk_taps *t, const stk_axis *a)
{
    for (uint32_t j = 0; j < a->n && a->in; j++) {
        uint32_t i = a->flip ? a->n - 1 - j : j;

        t->first[j] = stk_border_at(a->border, (int64_t)a->off + i, a->in);
        t->count[j] = 1;
        t->weight[j] = (int16_t)(1 << t->shift);
    }
}

/* Nearest in one walk: see stk_axis_nearest(). */
static void nearest_taps(stk_taps *t, const stk_axis *a, const stk_filter *f)
{
    double x = f->scale * 0.5;
    uint32_t begin, end;

    stk_axis_visible(a, &begin, &end);
    for (uint32_t i = 0; i < end; i++, x += f->scale) {
        uint32_t j = (uint32_t)(i - (int64_t)a->off);

        if (i < begin)
            continue;
        j = a->flip ? a->n - 1 - j : j;
        t->first[j] = (x < a->in ? (uint32_t)x : a->in - 1) - t->lo;
        t->count[j] = 1;
        t->weight[j] = (int16_t)(1 << t->shift);
    }
}

void stk_axis_fine(int32_t *out, const stk_filter *f, const stk_window *w)
{
    uint32_t n = w->hi - w->lo, shift = stk_axis_shift(f);
    int16_t *narrow = (int16_t *)(void *)out + n, one; /* in the second half of the room */

    if (f->exact == STK_FILTER_PILLOW) {
        double total = stk_axis_total(f, w);

        for (uint32_t k = 0; k < n; k++)
            out[k] = stk_axis_exact(f, w, total, w->lo + k, STK_TAPS_SHIFT_MAX);
        return;
    }
    stk_axis_weights(narrow, f, w, shift);
    for (uint32_t k = 0; k < n; k++) {
        memcpy(&one, narrow + k, sizeof one);
        out[k] = one * (1 << (STK_TAPS_SHIFT_MAX - shift));
    }
}

#define FEW 64 /* weights of an output that are looked at once */

/* Weights that are exact, of output j; the same as those of taps_core.h, in half the time. */
static void exact_weights(stk_taps *t, uint32_t j, const stk_filter *f, const stk_window *w)
{
    uint32_t n = w->hi - w->lo,
             up = f->exact == STK_FILTER_PILLOW ? 0 : STK_TAPS_SHIFT_MAX - t->shift;
    double v[FEW], total = 0;

    assert(n <= FEW);
    for (uint32_t k = 0; k < n; k++) {
        v[k] = stk_filter_at(f, (w->lo + k - w->center + 0.5) * f->inv);
        total += v[k];
    }
    for (uint32_t k = 0; k < n; k++) {
        int32_t one = stk_weight_alone(v[k] / total, t->shift);

        if (t->fine)
            t->fine[(size_t)j * t->stride + k] = one * (1 << up);
        else
            t->weight[(size_t)j * t->stride + k] = (int16_t)one;
    }
}

void stk_taps_make(stk_taps *t, const stk_axis *a, void *memory)
{
    stk_filter f = stk_axis_filter(a);
    uint32_t begin, end;

    t->n = a->n;
    t->stride = stk_axis_stride(a, &f);
    t->shift = stk_axis_shift(&f);
    stk_axis_inputs(a, &f, &t->lo, &t->hi);
    t->weight = memory; /* first: vector loads like the alignment */
    t->fine = NULL;
    t->packed = NULL;
    memset(memory, 0, stk_taps_bytes(a));
    t->first = (uint32_t *)(void *)(t->weight + (((size_t)t->n * t->stride + 1) & ~(size_t)1));
    if (f.fine) {
        t->packed = memory;
        t->fine = (int32_t *)memory + (((size_t)t->n + 3) & ~(size_t)3) * t->stride;
        t->weight = NULL;
        t->first = (uint32_t *)t->fine + (size_t)t->n * t->stride;
    }
    t->count = t->first + t->n;
    if (a->border) {
        border_taps(t, a);
        return;
    }
    if (f.kind == STK_NEAREST && a->in != a->res) {
        nearest_taps(t, a, &f);
        return;
    }
    stk_axis_visible(a, &begin, &end);
    for (uint32_t i = begin; i < end; i++) {
        uint32_t j = (uint32_t)(i - (int64_t)a->off);
        stk_window w = stk_axis_window(a, &f, i);

        if (a->flip)
            j = a->n - 1 - j;
        if (w.hi - w.lo > t->stride) /* roundoff; that tap would weigh nothing */
            w.hi = w.lo + t->stride;
        t->first[j] = w.lo - t->lo;
        t->count[j] = w.hi - w.lo;
        if (f.exact && !f.copies && t->count[j] <= FEW)
            exact_weights(t, j, &f, &w);
        else if (t->fine)
            stk_axis_fine(t->fine + (size_t)j * t->stride, &f, &w);
        else
            stk_axis_weights(t->weight + (size_t)j * t->stride, &f, &w, t->shift);
    }
}

void stk_taps_slide(stk_taps *t)
{
    uint32_t span = t->hi - t->lo, last = span > t->stride ? span - t->stride : 0;
    size_t size = t->fine ? sizeof *t->fine : sizeof *t->weight;
    uint8_t *weights = t->fine ? (uint8_t *)t->fine : (uint8_t *)t->weight;

    for (uint32_t i = 0; i < t->n; i++) {
        uint8_t *w = weights + (size_t)i * t->stride * size;
        uint32_t by = t->first[i] > last ? t->first[i] - last : 0;

        if (!by)
            continue;
        memmove(w + by * size, w, t->count[i] * size);
        memset(w, 0, by * size);
        t->first[i] -= by;
        t->count[i] += by;
    }
}

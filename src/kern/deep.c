/* SPDX-License-Identifier: Apache-2.0 */
/* deep.c - 16-bit pictures: weights in doubles, two passes, and warps.  See deep.h. */
#include "kern/deep.h"

#include <string.h>

#include "kern/taps_core.h"
#include "kern/warp.h"

typedef struct deep_axis {
    uint32_t n, lo, hi; /* outputs; the inputs that they touch */
    uint32_t stride;
    uint32_t *first, *count; /* of an output's inputs, counted from lo; count 0: it is outside */
    double *weight;
} deep_axis;

/* Weights of one window, which sum to 1; what a sharp filter sees outside counts for the edge, as
 * in taps_core.h. */
static void make_weights(const stk_filter *f, const stk_window *w, double *out)
{
    uint32_t n = w->hi - w->lo;
    double total = 0;

    for (uint32_t i = 0; i < n; i++)
        out[i] = f->copies ? 1 : stk_filter_at(f, (w->lo + i - w->center + 0.5) * f->inv);
    for (int k = 1; k <= 4 && f->sharp && f->kind != STK_BILINEAR && !f->copies; k++) {
        out[0] += stk_filter_at(f, (double)w->lo - k - w->center + 0.5);
        out[n - 1] += stk_filter_at(f, (double)w->hi - 1 + k - w->center + 0.5);
    }
    for (uint32_t i = 0; i < n; i++)
        total += out[i];
    for (uint32_t i = 0; i < n; i++)
        out[i] *= 1 / total;
}

/* Output i of the whole resized axis; x: where nearest is, by steps that are added up. */
static stk_window window_of(const stk_axis *a, const stk_filter *f, uint32_t i, double x)
{
    stk_window w = { 0 };

    if (f->kind != STK_NEAREST || a->in == a->res)
        return stk_axis_window(a, f, i);
    w.lo = x < a->in ? (uint32_t)x : a->in - 1;
    w.hi = w.lo + 1;
    return w;
}

static void make_windows(deep_axis *t, const stk_axis *a, const stk_filter *f)
{
    uint32_t begin, end;
    double x = f->scale * 0.5;

    stk_axis_visible(a, &begin, &end);
    for (uint32_t i = 0; i < end; i++, x += f->scale) {
        uint32_t j = (uint32_t)(i - (int64_t)a->off);
        stk_window w;

        if (i < begin)
            continue;
        w = window_of(a, f, i, x);
        j = a->flip ? a->n - 1 - j : j;
        if (w.hi - w.lo > t->stride) /* roundoff; that tap would weigh nothing */
            w.hi = w.lo + t->stride;
        t->first[j] = w.lo - t->lo;
        t->count[j] = w.hi - w.lo;
        make_weights(f, &w, t->weight + (size_t)j * t->stride);
    }
}

static void make_border(deep_axis *t, const stk_axis *a)
{
    for (uint32_t j = 0; j < a->n; j++) {
        t->first[j] = stk_border_at(a->border, (int64_t)a->off + (a->flip ? a->n - 1 - j : j),
                                    a->in);
        t->count[j] = 1;
        t->weight[j] = 1;
    }
}

static int make_axis(deep_axis *t, const stk_axis *a, stk_scratch *scratch, stk_error *err)
{
    stk_filter f = stk_axis_filter(a);
    uint64_t stride = a->border ? 1 : stk_axis_stride(a, &f), each = 8 * stride + 8;
    size_t size = a->n < SIZE_MAX / 2 / each ? (size_t)(a->n * each) : SIZE_MAX / 2;
    uint8_t *memory = stk_scratch_get(scratch, size + 64);

    if (!memory)
        return stk_fail(err, STK_ENOMEM, "no memory for %zu bytes", size);
    memset(memory, 0, size);
    *t = (deep_axis){ .n = a->n, .stride = (uint32_t)stride };
    t->weight = (double *)(void *)memory;
    t->first = (uint32_t *)(void *)(t->weight + (size_t)a->n * stride);
    t->count = t->first + a->n;
    stk_axis_inputs(a, &f, &t->lo, &t->hi);
    if (a->border && a->in)
        make_border(t, a);
    else
        make_windows(t, a, &f);
    return 0;
}

static uint16_t rounded(double sum)
{
    return (uint16_t)(sum <= 0 ? 0 : sum >= 65535 ? 65535 : sum + 0.5);
}

/* One input row across. */
static void across(const deep_axis *x, const uint32_t *src, uint16_t *dst, uint16_t fill)
{
    for (uint32_t j = 0; j < x->n; j++) {
        const double *w = x->weight + (size_t)j * x->stride;
        const uint32_t *from = src + x->first[j];
        double sum = 0;

        for (uint32_t k = 0; k < x->count[j]; k++)
            sum += (from[k] & 65535) * w[k];
        dst[j] = x->count[j] ? rounded(sum) : fill;
    }
}

static void down(const deep_axis *y, uint32_t j, const uint16_t *rows, uint32_t n, uint32_t *dst)
{
    const double *w = y->weight + (size_t)j * y->stride;

    for (uint32_t i = 0; i < n; i++) {
        const uint16_t *from = rows + (size_t)y->first[j] * n + i;
        double sum = 0;

        for (uint32_t k = 0; k < y->count[j]; k++)
            sum += from[(size_t)k * n] * w[k];
        dst[i] = rounded(sum);
    }
}

static stk_axis axis_of(const stk_view *v, int vertical)
{
    return (stk_axis){ .in = vertical ? v->clip.h : v->clip.w,
                       .res = vertical ? v->res_h : v->res_w,
                       .off = vertical ? v->vis_y : v->vis_x,
                       .n = vertical ? v->vis_h : v->vis_w,
                       .flip = vertical ? v->flip_y : v->flip_x,
                       .filter = v->filter,
                       .border = v->border };
}

int stk_deep_sample(const stk_view *v, const stk_pixels *px, stk_tile *out, stk_scratch *scratch,
                    stk_error *err)
{
    const stk_axis ax = axis_of(v, 0), ay = axis_of(v, 1);
    size_t n = (size_t)v->vis_w * v->vis_h;
    deep_axis x, y;
    uint16_t *rows;
    uint32_t span;

    *out = (stk_tile){ stk_scratch_get(scratch, n * 4), v->vis_w, v->vis_h };
    if (!out->data)
        return stk_fail(err, STK_ENOMEM, "no memory for %zu bytes", n * 4);
    STK_TRY(make_axis(&x, &ax, scratch, err));
    STK_TRY(make_axis(&y, &ay, scratch, err));
    for (size_t i = 0; i < n; i++)
        out->data[i] = v->fill[0];
    span = x.hi > x.lo && px->data ? y.hi - y.lo : 0;
    if (!span)
        return 0;
    rows = stk_scratch_get(scratch, (size_t)span * x.n * sizeof *rows);
    if (!rows)
        return stk_fail(err, STK_ENOMEM, "no memory for %zu bytes", (size_t)span * x.n * 2);
    for (uint32_t r = 0; r < span; r++) {
        size_t line = v->clip.y + y.lo + r - px->area.y, at = v->clip.x + x.lo - px->area.x;

        across(&x, (const uint32_t *)(const void *)(px->data + line * px->stride) + at,
               rows + (size_t)r * x.n, v->fill[0]);
    }
    for (uint32_t j = 0; j < y.n; j++)
        if (y.count[j])
            down(&y, j, rows, x.n, out->data + (size_t)j * x.n);
    return 0;
}

/* Four neighbours, as stk_warp_pixel() weighs them. */
static uint32_t mix(const stk_warp *m, const stk_tile *t, int64_t sx, int64_t sy)
{
    uint64_t q[4], fx, fy;
    int64_t x, y;

    sx = (sx + (1 << 20)) >> 21;
    sy = (sy + (1 << 20)) >> 21;
    x = sx >> 11;
    y = sy >> 11;
    fx = (uint64_t)sx & 2047;
    fy = (uint64_t)sy & 2047;
    for (int i = 0; i < 4; i++)
        q[i] = stk_warp_px(t->data, t->width, t->height, x + i % 2, y + i / 2, m->fill) & 65535;
    return (uint32_t)(((q[0] * (2048 - fx) + q[1] * fx) * (2048 - fy) +
                       (q[2] * (2048 - fx) + q[3] * fx) * fy + (1u << 21)) >>
                      22);
}

int stk_deep_warp(const stk_action *a, stk_tile *t, stk_scratch *scratch, stk_error *err)
{
    size_t size = (size_t)t->width * t->height * sizeof *t->data;
    uint32_t *to = stk_scratch_get(scratch, size);
    stk_warp m = stk_warp_of(a);

    if (!to)
        return stk_fail(err, STK_ENOMEM, "no memory for %zu bytes", size);
    m.fill &= 255;
    for (uint32_t y = 0; y < t->height; y++)
        for (uint32_t x = 0; x < t->width; x++) {
            int64_t sx, sy;

            stk_warp_at(&m, x, y, &sx, &sy);
            to[(size_t)y * t->width + x] = m.filter == STK_NEAREST
                                               ? stk_warp_pixel(&m, t->data, t->width, t->height,
                                                                sx, sy)
                                               : mix(&m, t, sx, sy);
        }
    t->data = to;
    return 0;
}

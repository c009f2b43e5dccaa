/* SPDX-License-Identifier: Apache-2.0 */
/* sample.c - the sampling pass: rows across into a ring, down into a line, the line into the
 * batch.
 *
 * Invariant: source rows are resampled across once each, in order, and only those that an
 * output row touches; the ring holds as many as one output row can touch, so the pass works in
 * L1 and L2 whatever the picture's size.  An axis that keeps its size costs nothing: rows are
 * then used where they are.  Outputs outside the picture have the view's fill, which goes through
 * color as any pixel does.
 *
 * Where a view is exactly Pillow's, and Pillow goes down first, rows go into the ring as they are:
 * an output row is made of them in `tall`, and that is resampled across. */
#include "kern/sample.h"

#include <string.h>

#include "base/mem.h"
#include "kern/taps.h"

struct stk_resampler {
    const stk_kern *kern;
    stk_sample_job job;
    stk_taps x, y;
    stk_color color;
    stk_rect need;
    const uint8_t *src; /* pixel (x.lo, y.lo + from) of the clip */
    size_t src_stride;
    uint32_t from, upto; /* rows that are there, counted from y.lo */
    uint32_t next;       /* output row */
    int down_first;      /* then across */
    int direct;          /* nothing is done across before: rows are used in place */
    int bands;           /* pixels come in pieces, whose memory does not stay */
    int plain;           /* direct, and each row is that of one output: no row has to stay */
    uint32_t done;       /* rows made so far, counted from y.lo */
    size_t row_bytes;
    uint8_t *ring, *line, *empty, *pad; /* pad: NULL unless the span is shorter than a window */
    uint8_t *tall;                      /* down_first: a row of source width, made down */
    uint32_t fill;                      /* a pixel outside of the picture; 0: black */
    const uint8_t **have, **rows;       /* ring slots; those of one window in order */
};

void stk_sample_axes(const stk_view *v, stk_axis *x, stk_axis *y)
{
    *x = (stk_axis){ .in = v->clip.w,
                     .res = v->res_w,
                     .off = v->vis_x,
                     .n = v->vis_w,
                     .flip = v->flip_x,
                     .filter = v->filter,
                     .border = v->border };
    *y = (stk_axis){ .in = v->clip.h,
                     .res = v->res_h,
                     .off = v->vis_y,
                     .n = v->vis_h,
                     .filter = v->filter,
                     .border = v->border };
}

int stk_sample_down_first(const stk_view *view)
{
    stk_axis x, y;
    stk_rect need;

    stk_sample_axes(view, &x, &y);
    if (!stk_axes_down_first(&x, &y))
        return 0;
    stk_sample_need(view, &need);
    return need.w > 0;
}

void stk_sample_need(const stk_view *view, stk_rect *need)
{
    uint32_t x0, x1, y0, y1;
    stk_axis x, y;

    stk_sample_axes(view, &x, &y);
    stk_axis_span(&x, &x0, &x1);
    stk_axis_span(&y, &y0, &y1);
    memset(need, 0, sizeof *need);
    if (x0 == x1 || y0 == y1)
        return;
    *need = (stk_rect){
        .x = view->clip.x + x0, .y = view->clip.y + y0, .w = x1 - x0, .h = y1 - y0
    };
}

/* Weights of 16 bits are some of 22, which make the same sums: by instructions that take four at a
 * time where the machine has them. */
static void settle(const stk_kern *kern, stk_axis *a)
{
    stk_filter f;

    stk_axis_settle(a);
    f = stk_axis_filter(a);
    if (kern->fine_is_quick && stk_axis_stride(a, &f) > 6)
        a->filter |= STK_AXIS_FINE;
}

/* Both axes' weights. */
static int pass_plan(stk_resampler *p, stk_scratch *scratch, stk_error *err)
{
    size_t x_bytes, y_bytes;
    stk_axis x, y;
    uint8_t *memory;

    stk_sample_axes(p->job.view, &x, &y);
    settle(p->kern, &x);
    settle(p->kern, &y);
    stk_sample_need(p->job.view, &p->need);
    p->down_first = stk_sample_down_first(p->job.view);
    if (p->need.w == 0)
        y.in = 0; /* nothing seen across: every row is black */
    x_bytes = stk_taps_bytes(&x);
    y_bytes = stk_taps_bytes(&y);
    memory = stk_scratch_get(scratch, x_bytes + y_bytes);
    if (!memory)
        return stk_fail_nomem(err, x_bytes + y_bytes);
    stk_taps_make(&p->x, &x, memory);
    stk_taps_make(&p->y, &y, memory + x_bytes);
    stk_taps_slide(&p->x);
    if (p->x.fine)
        p->kern->pack_fine(&p->x);
    p->direct = p->x.stride == 1 && !x.flip && x.in == x.res && p->x.hi - p->x.lo == p->x.n &&
                (!x.border || !x.off); /* a border sees all inputs, wherever its window is */
    p->direct |= p->down_first;
    p->plain = p->direct && (!p->bands || (p->y.stride == 1 && y.in == y.res && !y.border));
    return 0;
}

static int pass_room(stk_resampler *p, stk_scratch *scratch, stk_error *err)
{
    uint32_t span = p->x.hi - p->x.lo;
    int short_span = span && span < p->x.stride;
    size_t ring = p->y.stride, pad = short_span ? (size_t)p->x.stride * 4 : 0;
    size_t rows = (p->plain ? 2 : ring + 2) + (size_t)p->down_first, need;
    size_t widest = p->down_first && span > p->x.n ? span : p->x.n;
    uint8_t *memory;

    if (p->down_first && short_span && p->x.stride > widest)
        widest = p->x.stride;
    p->row_bytes = (widest * 4 + 63) & ~(size_t)63;
    need = SIZE_MAX;
    if (rows < SIZE_MAX / 8 / (p->row_bytes + 64))
        need = rows * p->row_bytes + pad + 2 * ring * sizeof *p->have;
    memory = stk_scratch_get(scratch, need);
    if (!memory)
        return stk_fail_nomem(err, need);
    p->line = memory;
    p->empty = memory + p->row_bytes;
    p->ring = memory + 2 * p->row_bytes;
    memset(p->empty, 0, p->row_bytes);
    for (uint32_t i = 0; p->fill && i < p->x.n; i++)
        memcpy(p->empty + 4 * (size_t)i, &p->fill, 4);
    memory += rows * p->row_bytes;
    p->tall = p->down_first ? memory - p->row_bytes : NULL; /* the last of the rows */
    if (p->tall)
        memset(p->tall, 0, p->row_bytes);
    p->have = (const uint8_t **)(void *)memory;
    p->rows = p->have + ring;
    memory += 2 * ring * sizeof *p->have;
    p->pad = pad ? memory : NULL;
    if (pad)
        memset(memory, 0, pad);
    return 0;
}

/* Pixels of a row in the ring. */
static size_t row_pixels(const stk_resampler *p)
{
    return p->down_first ? p->x.hi - p->x.lo : p->x.n;
}

/* Columns that see no picture. */
static void fill_columns(const stk_resampler *p, uint8_t *row)
{
    for (uint32_t i = 0; i < p->x.n; i++)
        if (!p->x.count[i])
            memcpy(row + 4 * (size_t)i, &p->fill, 4);
}

/* A row of source pixels -> one of outputs. */
static void across(const stk_resampler *p, uint8_t *dst, const uint8_t *src)
{
    if (p->x.fine)
        p->kern->hresample_fine(dst, src, &p->x);
    else
        p->kern->hresample(dst, src, &p->x);
    if (p->fill)
        fill_columns(p, dst);
}

/* Make rows up to, not including, `upto`. */
static void pass_across(stk_resampler *p, uint32_t upto)
{
    for (; p->done < upto; p->done++) {
        const uint8_t *src = p->src + (size_t)(p->done - p->from) * p->src_stride;
        uint32_t slot = p->done % p->y.stride;
        uint8_t *dst = p->ring + slot * p->row_bytes;

        p->have[slot] = p->plain ? src : dst;
        if (p->direct) {
            if (!p->plain)
                memcpy(dst, src, row_pixels(p) * 4);
            continue;
        }
        if (p->pad)
            src = memcpy(p->pad, src, (size_t)(p->x.hi - p->x.lo) * 4);
        across(p, dst, src);
    }
}

/* The rows that output row i is made of, in p->rows; 0: some of them are not there yet, and all
 * that are have been made. */
static int pass_rows(stk_resampler *p, uint32_t i)
{
    uint32_t first = p->y.first[i], end = first + p->y.count[i];

    if (p->y.stride == 1 && first + 1 != p->done && first < p->upto)
        p->done = first; /* one row each: any order, some left out */
    if (end > p->upto && p->y.stride > 1)
        pass_across(p, p->upto);
    if (end > p->upto)
        return 0;
    pass_across(p, end);
    for (uint32_t k = first; k < end; k++)
        p->rows[k - first] = p->have[k % p->y.stride];
    return 1;
}

/* The rows of a window -> one. */
static void down(const stk_resampler *p, uint32_t i, uint8_t *dst)
{
    size_t at = (size_t)i * p->y.stride, bytes = row_pixels(p) * 4;
    uint32_t count = p->y.count[i];

    if (p->y.fine)
        p->kern->vresample_fine(dst, p->rows, p->y.fine + at, count, bytes);
    else
        p->kern->vresample(dst, p->rows, p->y.weight + at, count, p->y.shift, bytes);
}

/* The RGBX line of output row i; NULL: it has to wait for rows. */
static const uint8_t *pass_down(stk_resampler *p, uint32_t i)
{
    uint32_t count = p->y.count[i];

    if (count == 0)
        return p->empty;
    if (!pass_rows(p, i))
        return NULL;
    if (p->down_first) {
        down(p, i, p->tall);
        across(p, p->line, p->tall);
        return p->line;
    }
    if (count == 1)
        return p->rows[0];
    down(p, i, p->line);
    return p->line;
}

static uint32_t fill_word(const stk_view *v)
{
    uint8_t px[4] = { v->fill[0], v->fill[1], v->fill[2], 0 };
    uint32_t word;

    memcpy(&word, px, sizeof word);
    return word;
}

/* Output row i; 0: it has to wait. */
static int pass_row(stk_resampler *p, uint32_t i)
{
    const stk_sample_job *job = &p->job;
    uint32_t w = job->view->vis_w, h = job->view->vis_h, at = job->view->flip_y ? h - 1 - i : i;
    size_t first = (size_t)at * w * stk_dtype_size(job->dtype);
    uint8_t *row = job->tile ? (uint8_t *)(job->tile + (size_t)at * w) : NULL;
    const uint8_t *line;

    if (row)
        p->line = row; /* rows that are sums are made in their place */
    line = pass_down(p, i);
    if (!line)
        return 0;
    if (row && line != row)
        memcpy(row, line, (size_t)w * 4);
    else if (!row && job->layout == STK_CHW)
        p->kern->store_planar((uint8_t *)job->dst + first, (size_t)w * h, line, w, &p->color);
    else if (!row)
        p->kern->store_packed((uint8_t *)job->dst + 3 * first, line, w, &p->color);
    return 1;
}

void stk_sample_band(stk_resampler *p, const stk_pixels *px)
{
    uint32_t h = p->job.view->vis_h;

    if (p->need.w) {
        uint32_t above = px->area.y < p->need.y ? p->need.y - px->area.y : 0;

        p->from = px->area.y + above - p->need.y;
        p->upto = px->area.y + px->area.h - p->need.y;
        p->src_stride = px->stride;
        p->src = px->data + above * px->stride + (size_t)(p->need.x - px->area.x) * 4;
    }
    if (!p->from)
        p->done = p->next = 0;
    while (p->next < h && pass_row(p, p->next))
        p->next++;
}

static int start(stk_resampler *p, const stk_kern *kern, const stk_sample_job *job,
                 stk_scratch *scratch, stk_error *err)
{
    p->kern = kern;
    p->job = *job;
    p->fill = fill_word(job->view);
    memcpy(p->color.mul, job->mul, sizeof p->color.mul);
    memcpy(p->color.add, job->add, sizeof p->color.add);
    p->color.dtype = job->dtype;
    STK_TRY(pass_plan(p, scratch, err));
    return pass_room(p, scratch, err);
}

int stk_sample_open(stk_resampler **out, const stk_kern *kern, const stk_sample_job *job,
                    stk_scratch *scratch, stk_error *err)
{
    stk_resampler *p = stk_scratch_get(scratch, sizeof *p);

    *out = p;
    if (!p)
        return stk_fail_nomem(err, sizeof *p);
    *p = (stk_resampler){ .bands = 1 };
    return start(p, kern, job, scratch, err);
}

static void make_rows(stk_resampler *p, const stk_pixel_rows *source)
{
    uint32_t end = p->need.y + p->need.h;
    stk_rect part = p->need;

    for (; part.y < end; part.y += part.h) {
        stk_pixels band;

        part.h = end - part.y < source->most ? end - part.y : source->most;
        source->make(source->cookie, &part, &band);
        stk_sample_band(p, &band);
    }
}

int stk_sample_run(const stk_kern *kern, const stk_sample_job *job, stk_scratch *scratch,
                   stk_error *err)
{
    const stk_pixel_rows *rows = job->pixels->rows;
    stk_resampler p = { .bands = rows != NULL };

    STK_TRY(start(&p, kern, job, scratch, err));
    if (!rows || !p.need.w)
        stk_sample_band(&p, job->pixels);
    else
        make_rows(&p, rows);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_base.c - our own JPEG decoder: blocks to samples to pixels.
 *
 * The scan (jpeg_scan.c) hands over chunks of coefficients; their pixels go to one plane a
 * component, which covers the MCUs that the rectangle sees and no more.  Each row of the
 * rectangle is put together from the planes, chroma brought to size on the way.  Which filter
 * brings it there, and with which neighbours, is libjpeg-turbo's choice (see choose()).
 *
 * Without seek points rows of MCUs come in order: pixels are put together as soon as a row of MCUs
 * and the one below it are there, from planes that hold two of them, while these are in the cache.
 * With seek points two rows come at a time, in any order, so planes hold all of them. */
#include "codec/jpeg_base.h"

#include <stdatomic.h>

#include "codec/jpeg_scan.h"

#define MARGIN 64 /* bytes beside a plane's rows: a neighbour beyond the edge, vectors' overreach */

enum up { UP_NONE, UP_H2, UP_V2, UP_H2V2, UP_BOX };

typedef struct plane {
    uint8_t *data; /* sample (x, y) of the component */
    size_t stride;
    uint32_t rows;   /* that data has; later ones take the place of those before */
    uint32_t x, y;   /* of data[0] */
    uint32_t w, h;   /* samples of the component: where its edge is */
    uint32_t hx, vx; /* it must grow by */
    enum up up;
} plane;

typedef struct picture { /* the pixels that are made */
    stk_rect need;
    uint32_t next; /* row of the picture that comes next */
    uint8_t *lines;
    size_t line; /* bytes of each of them */
    stk_pixels *out;
    const stk_decode_request *ask; /* where bands go; NULL: out has room for all */
} picture;

struct stk_jpeg {
    stk_cpu level;
    const stk_jpeg_kern *kern;
    const stk_jpeg_head *head;
    plane plane[STK_JPEG_COMPS];
    uint32_t first; /* MCU column of the planes' begin */
    int16_t *coefs[STK_JPEG_COMPS];
    picture pic;
    stk_jpeg_scan scan;
};

int stk_jpeg_open(stk_jpeg **out, stk_cpu level, stk_error *err)
{
    stk_jpeg *j = STK_NEW(stk_jpeg);

    *out = j;
    if (!j)
        return stk_fail_nomem(err, sizeof *j);
    j->level = level;
    j->kern = stk_jpeg_kern_table(level);
    return 0;
}

void stk_jpeg_close(stk_jpeg **j)
{
    stk_free(*j);
    *j = NULL;
}

/* ---- what the rectangle sees ---- */

static enum up choose(const plane *p)
{
    if (p->hx == 1 && p->vx == 1)
        return UP_NONE;
    if (p->hx == 1 && p->vx == 2)
        return UP_V2;
    if (p->hx == 2 && p->vx <= 2 && p->w > 2)
        return p->vx == 1 ? UP_H2 : UP_H2V2;
    return UP_BOX;
}

/* Samples lo..hi of an axis for outputs from..to (inclusive): with a triangle filter an even
 * output wants the sample before its own, an odd one the sample after it. */
static void samples(uint32_t from, uint32_t to, uint32_t grow, int fancy, uint32_t *lo,
                    uint32_t *hi)
{
    *lo = from / grow;
    *hi = to / grow;
    if (fancy) {
        *lo -= *lo && !(from & 1);
        *hi += to & 1;
    }
}

static plane shape_of(const stk_jpeg_head *h, unsigned c)
{
    plane p = { .w = stk_jpeg_comp_w(h, c),
                .h = stk_jpeg_comp_h(h, c),
                .hx = h->max_h / h->comp[c].h,
                .vx = h->max_v / h->comp[c].v };

    p.up = choose(&p);
    return p;
}

/* Makes *from to *end wide enough for samples lo to hi, of which `mcu` are in an MCU and `n` in
 * all. */
static void reach(uint32_t lo, uint32_t hi, uint32_t mcu, uint32_t n, uint32_t *from, uint32_t *end)
{
    hi = hi < n ? hi : n - 1;
    *from = lo / mcu < *from ? lo / mcu : *from;
    *end = hi / mcu >= *end ? hi / mcu + 1 : *end;
}

void stk_jpeg_rows(const stk_jpeg_head *h, const stk_rect *need, uint32_t *y0, uint32_t *y1)
{
    uint32_t lo, hi;

    *y0 = UINT32_MAX;
    *y1 = 0;
    for (unsigned c = 0; c < h->n_comps; c++) {
        plane p = shape_of(h, c);

        samples(need->y, need->y + need->h - 1, p.vx, p.up == UP_V2 || p.up == UP_H2V2, &lo, &hi);
        reach(lo, hi, 8u * h->comp[c].v, p.h, y0, y1);
    }
}

/* The MCUs that are wanted, in d, and the shape of the planes. */
static void frame(stk_jpeg *j, const stk_rect *need)
{
    const stk_jpeg_head *h = j->head;
    stk_jpeg_scan *d = &j->scan;
    uint32_t lo, hi;

    d->x0 = UINT32_MAX;
    d->x1 = 0;
    stk_jpeg_rows(h, need, &d->y0, &d->y1);
    for (unsigned c = 0; c < h->n_comps; c++) {
        plane *p = &j->plane[c];

        *p = shape_of(h, c);
        samples(need->x, need->x + need->w - 1, p->hx, p->up == UP_H2 || p->up == UP_H2V2, &lo,
                &hi);
        reach(lo, hi, 8u * h->comp[c].h, p->w, &d->x0, &d->x1);
    }
    j->first = d->x0 / d->chunk * d->chunk;
}

/* Planes for `rows` rows of the wanted MCUs, and a line a component; 0 or STK_ENOMEM. */
static int get_planes(stk_jpeg *j, uint32_t rows, stk_scratch *scratch)
{
    const stk_jpeg_head *h = j->head;
    const stk_jpeg_scan *d = &j->scan;
    uint32_t cols = stk_jpeg_ceil(d->x1 - j->first, d->chunk) * d->chunk;
    size_t size = STK_JPEG_COMPS * j->pic.line, at = size;
    uint8_t *mem;

    for (unsigned c = 0; c < h->n_comps; c++) {
        plane *p = &j->plane[c];

        p->stride = (size_t)cols * h->comp[c].h * 8 + 2 * MARGIN;
        p->x = j->first * h->comp[c].h * 8;
        p->y = d->y0 * h->comp[c].v * 8;
        p->rows = rows * h->comp[c].v * 8;
        size += p->stride * p->rows;
    }
    mem = stk_scratch_get(scratch, size);
    if (!mem)
        return STK_ENOMEM;
    j->pic.lines = mem;
    for (unsigned c = 0; c < h->n_comps; c++) {
        plane *p = &j->plane[c];

        p->data = mem + at + MARGIN;
        at += p->stride * p->rows;
    }
    return 0;
}

static uint8_t *plane_row(const plane *p, uint32_t y)
{
    return p->data + (size_t)((y - p->y) % p->rows) * p->stride;
}

/* ---- sinks ---- */

static void to_planes(const stk_jpeg_scan *d, const stk_jpeg_stream *s)
{
    const stk_jpeg *j = d->cookie;
    const int16_t *group = s->coef;
    const uint8_t *last = s->last;

    for (unsigned c = 0; c < d->head->n_comps; c++) {
        const stk_jpeg_comp *k = &d->head->comp[c];
        const uint16_t *q = d->head->quant[k->quant];
        const plane *p = &j->plane[c];
        uint8_t *to = plane_row(p, s->row * k->v * 8) +
                      (size_t)(s->chunk * d->chunk - j->first) * k->h * 8;

        for (unsigned y = 0; y < k->v; y++, to += 8 * p->stride)
            for (unsigned x = 0; x < k->h * d->chunk / 4; x++) {
                j->kern->idct(to + (size_t)x * 32, p->stride, group, q, last);
                group += STK_JPEG_GROUP;
                last += 4;
            }
    }
}

static void to_coefs(const stk_jpeg_scan *d, const stk_jpeg_stream *s)
{
    const stk_jpeg *j = d->cookie;
    uint32_t first = s->chunk * d->chunk, base = 0;

    for (unsigned c = 0; c < d->head->n_comps; c++) {
        const stk_jpeg_comp *k = &d->head->comp[c];
        uint32_t per_row = d->chunk * k->h, n = (s->col - first) * k->h;

        for (uint32_t y = 0; y < k->v; y++) {
            size_t row = ((size_t)s->row * k->v + y) * d->cols * k->h;
            int16_t *to = j->coefs[c] + (row + (size_t)first * k->h) * 64;

            for (uint32_t i = 0; i < n; i++, to += 64) {
                uint32_t slot = base + y * per_row + i;
                const int16_t *from = s->coef + slot / 4 * STK_JPEG_GROUP + slot % 4 * 8;

                j->kern->keep(to, from);
            }
        }
        base += per_row * k->v;
    }
}

/* ---- pixels ---- */

/* Copies of the outermost samples after the left and right edge, where a filter looks; of a row
 * of MCUs. */
static void extend_edges(const stk_jpeg *j, uint32_t mcu_row)
{
    const stk_jpeg_scan *d = &j->scan;

    for (unsigned c = 0; c < j->head->n_comps; c++) {
        const plane *p = &j->plane[c];
        uint32_t rows = j->head->comp[c].v * 8;

        if (p->up != UP_H2 && p->up != UP_H2V2)
            continue;
        for (uint32_t y = 0; y < rows; y++) {
            uint8_t *row = plane_row(p, mcu_row * rows + y);

            if (!p->x)
                row[-1] = row[0];
            if (d->x1 == d->cols)
                row[p->w - p->x] = row[p->w - p->x - 1];
        }
    }
}

static void box(uint8_t *dst, const uint8_t *src, size_t n, uint32_t grow)
{
    for (size_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < grow; k++)
            *dst++ = src[i];
}

/* Row y of the picture, columns need->x.., of one component: where it is, or in `line`. */
static const uint8_t *sample_row(const stk_jpeg *j, const plane *p, const stk_rect *need,
                                 uint32_t y, uint8_t *line)
{
    uint32_t row = y / p->vx, other = row, first = need->x / p->hx;
    size_t n = (need->x + need->w - 1) / p->hx - first + 1;
    const uint8_t *near = plane_row(p, row) + (first - p->x), *far;

    if (y & 1)
        other += row + 1 < p->h;
    else
        other -= row > 0;
    far = plane_row(p, other) + (first - p->x);
    switch (p->up) {
    case UP_NONE: return near;
    case UP_H2: j->kern->up_h2(line, near, n); break;
    case UP_V2: j->kern->up_v2(line, near, far, n, 1 + (y & 1)); break;
    case UP_H2V2: j->kern->up_h2v2(line, near, far, n); break;
    case UP_BOX: box(line, near, n, p->hx); break;
    }
    return line + (need->x - first * p->hx);
}

/* Rows of the picture up to, not including, `upto`, where there is room for them. */
static void emit(stk_jpeg *j, uint32_t upto)
{
    picture *p = &j->pic;
    const stk_rect *need = &p->need;
    const uint8_t *src[STK_JPEG_COMPS];

    for (; p->next < upto; p->next++) {
        uint8_t *to = p->out->data + (size_t)(p->next - p->out->area.y) * p->out->stride;

        for (unsigned c = 0; c < STK_JPEG_COMPS; c++)
            src[c] = c < j->head->n_comps
                         ? sample_row(j, &j->plane[c], need, p->next, p->lines + c * p->line)
                         : p->lines + p->line;
        j->kern->pack_rgb(to, src, need->w);
    }
}

static void hand_over(stk_jpeg *j, uint32_t upto)
{
    picture *p = &j->pic;
    stk_rect *area = &p->out->area;

    if (upto <= p->next)
        return;
    area->y = p->next;
    area->h = upto - p->next;
    emit(j, upto);
    p->ask->band(p->ask->cookie, p->out);
}

/* A chunk of rows that come in order.  The last row of pixels waits for the samples below it. */
static void to_pixels(const stk_jpeg_scan *d, const stk_jpeg_stream *s)
{
    stk_jpeg *j = d->cookie;
    picture *p = &j->pic;
    uint32_t end = p->need.y + p->need.h, upto = (s->row + 1) * 8 * d->head->max_v - 1;

    to_planes(d, s);
    if ((s->chunk + 1) * d->chunk < d->x1)
        return;
    extend_edges(j, s->row);
    if (s->row + 1 == d->y1 || upto > end)
        upto = end;
    if (p->ask)
        hand_over(j, upto);
    else
        emit(j, upto);
}

/* ---- the calls ---- */

static int damaged(const stk_jpeg_job *job, int rc, stk_error *err)
{
    if (rc == STK_ESTALE)
        return stk_fail(err, rc, "JPEG of %ux%u: its seek points do not fit: index again",
                        job->head->width, job->head->height);
    return stk_fail(err, rc, "JPEG of %ux%u: its scan is damaged", job->head->width,
                    job->head->height);
}

static int begin(stk_jpeg *j, const stk_jpeg_job *job, stk_error *err)
{
    const stk_jpeg_seek *k = job->seek;

    j->head = job->head;
    if ((uint64_t)job->at + job->in.len < job->head->scan || (job->at && !k))
        return damaged(job, k ? STK_ESTALE : STK_ECORRUPT, err);
    if (k && (k->rows != stk_jpeg_mcus_y(j->head) || k->cols != stk_jpeg_mcus_x(j->head) ||
              k->n_comps != j->head->n_comps ||
              k->chunk * stk_jpeg_mcu_blocks(j->head) > STK_JPEG_CHUNK_BLOCKS ||
              (!job->at && k->scan_len > job->in.len - job->head->scan)))
        return damaged(job, STK_ESTALE, err);
    stk_jpeg_scan_init(&j->scan, job);
    j->scan.cookie = j;
    return 0;
}

static int check_need(const stk_jpeg_head *h, const stk_rect *need, stk_error *err)
{
    if (need->w && need->h && need->x < h->width && need->w <= h->width - need->x &&
        need->y < h->height && need->h <= h->height - need->y)
        return 0;
    return stk_fail(err, STK_EINVAL, "region %ux%u at (%u, %u) is not inside the %ux%u picture",
                    need->w, need->h, need->x, need->y, h->width, h->height);
}

/* Memory for planes and pixels: of all rows, or of those that are in work at a time. */
static int make_room(stk_jpeg *j, stk_scratch *scratch, stk_pixels *out)
{
    const stk_rect *need = &j->pic.need;
    uint32_t mcus = j->scan.y1 - j->scan.y0, rows = need->h;

    if (j->pic.ask && rows > 8u * j->head->max_v + 1)
        rows = 8u * j->head->max_v + 1; /* the last of the MCUs above waited */
    if (!j->scan.seek && mcus > 2)
        mcus = 2;
    out->stride = ((size_t)need->w * 4 + 63) & ~(size_t)63;
    out->data = stk_scratch_get(scratch, out->stride * rows);
    j->pic.line = ((size_t)need->w + 3 * MARGIN) & ~(size_t)63;
    return out->data ? get_planes(j, mcus, scratch) : STK_ENOMEM;
}

/* All rows of MCUs are there. */
static void emit_all(stk_jpeg *j)
{
    for (uint32_t row = j->scan.y0; row < j->scan.y1; row++)
        extend_edges(j, row);
    emit(j, j->pic.need.y + j->pic.need.h);
}

int stk_jpeg_decode(stk_jpeg *j, const stk_jpeg_job *job, const stk_decode_request *ask,
                    stk_scratch *scratch, stk_pixels *out, stk_error *err)
{
    const stk_rect *need = &ask->need;
    int rc;

    STK_TRY(check_need(job->head, need, err));
    STK_TRY(begin(j, job, err));
    frame(j, need);
    j->pic = (picture){
        .need = *need, .next = need->y, .out = out, .ask = ask->band && !job->seek ? ask : NULL
    };
    out->area = *need;
    out->lane = job->seek ? STK_LANE_SEEK : STK_LANE_PLAIN;
    if (make_room(j, scratch, out))
        return stk_fail(err, STK_ENOMEM, "no memory for %ux%u pixels", need->w, need->h);
    if (j->head->n_comps == 1)
        memset(j->pic.lines + j->pic.line, 128, j->pic.line);
    j->scan.sink = job->seek ? to_planes : to_pixels;
    rc = stk_jpeg_scan_run(&j->scan, j->level);
    if (rc < 0)
        return damaged(job, rc, err);
    if (job->seek)
        emit_all(j);
    out->area = *need;
    if (j->pic.ask)
        out->data = NULL;
    return 0;
}

int stk_jpeg_coefs(stk_jpeg *j, const stk_jpeg_job *job, stk_scratch *scratch, int16_t **out,
                   stk_error *err)
{
    const stk_jpeg_head *h = job->head;
    size_t mcus, n;
    int rc;

    STK_TRY(begin(j, job, err));
    mcus = (size_t)j->scan.cols * j->scan.rows;
    n = mcus * j->scan.blocks * 64;
    *out = stk_scratch_get(scratch, n * sizeof **out);
    if (!*out)
        return stk_fail_nomem(err, n * sizeof **out);
    n = 0;
    for (unsigned c = 0; c < h->n_comps; c++) {
        j->coefs[c] = *out + n;
        n += mcus * h->comp[c].h * h->comp[c].v * 64;
    }
    j->scan.sink = to_coefs;
    rc = stk_jpeg_scan_run(&j->scan, j->level);
    atomic_thread_fence(memory_order_seq_cst); /* stores past the caches have no order */
    return rc < 0 ? damaged(job, rc, err) : 0;
}

int stk_jpeg_seek_build(stk_jpeg *j, const stk_jpeg_head *head, stk_bytes in, stk_scratch *scratch,
                        stk_bytes *out, stk_error *err)
{
    stk_jpeg_job job = { .head = head, .in = in };
    stk_jpeg_scan *d = &j->scan;
    uint8_t *to;
    int rc;

    STK_TRY(begin(j, &job, err));
    d->points = stk_scratch_get(scratch, (size_t)d->rows * d->chunks * sizeof *d->points);
    to = stk_scratch_get(scratch, stk_jpeg_seek_room(head));
    if (!d->points || !to)
        return stk_fail(err, STK_ENOMEM, "no memory for seek points");
    rc = stk_jpeg_scan_run(d, j->level);
    if (rc < 0)
        return damaged(&job, rc, err);
    *out = (stk_bytes){ to, stk_jpeg_seek_pack(to, head, in, head->scan + d->end, d->points) };
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* pic.c - a record from a picture and a view: geometry, tables, units, and the bytes that count.
 *
 * Runs once a picture in every worker, so it touches each seek point that counts once and each byte
 * of the file once.  Points are not trusted: rows must follow one another inside the scan, so that
 * no hostile index makes a record larger than its file. */
#include "gpu/pic.h"

#include "cuda/pic_geom.h"
#include "kern/sample.h"
#include "kern/taps.h"

static int refuse(stk_error *err, const char *why)
{
    return stk_fail(err, STK_ENOTSUP, "not decoded on the GPU: %s", why);
}

static int stale(stk_error *err)
{
    return stk_fail(err, STK_ESTALE, "JPEG seek points do not fit the file: index again");
}

/* ---- geometry and tables ---- */

static void set_view(stk_pic *r, const stk_view *v)
{
    stk_rect need;

    stk_axis x, y;

    stk_sample_need(v, &need);
    stk_sample_axes(v, &x, &y);
    stk_axis_settle(&x);
    stk_axis_settle(&y);
    r->x = (stk_pic_axis){ x.in, x.res, x.off, x.n, x.flip != 0, x.filter };
    r->y = (stk_pic_axis){ y.in, y.res, y.off, y.n, v->flip_y, y.filter };
    if (stk_sample_down_first(v)) /* its program goes across: pic_program.c */
        r->x = (stk_pic_axis){ x.in, x.in, (int32_t)(need.x - v->clip.x), need.w, 0, x.filter };
    r->fill = v->fill[0] | (uint32_t)v->fill[1] << 8 | (uint32_t)v->fill[2] << 16;
    r->clip_x = v->clip.x;
    r->clip_y = v->clip.y;
    r->need[0] = need.x;
    r->need[1] = need.y;
    r->need[2] = need.w;
    r->need[3] = need.h;
}

/* The record's number of the file's table `which`; `of` has n so far. */
static uint8_t number(uint8_t of[3], uint8_t *n, uint8_t which)
{
    uint8_t i = 0;

    while (i < *n && of[i] != which)
        i++;
    if (i == *n)
        of[(*n)++] = which;
    return i;
}

static void set_head(stk_pic_gather *g, const stk_jpeg_head *h)
{
    stk_pic *r = &g->rec;

    r->n_comps = h->n_comps;
    r->width = h->width;
    r->height = h->height;
    r->cols = stk_jpeg_mcus_x(h);
    r->rows = stk_jpeg_mcus_y(h);
    r->max_h = h->max_h;
    r->max_v = h->max_v;
    for (unsigned c = 0; c < h->n_comps; c++) {
        r->h[c] = h->comp[c].h;
        r->v[c] = h->comp[c].v;
        r->tables.quant[c] = number(g->quant, &r->tables.n_quant, h->comp[c].quant);
        r->tables.dc[c] = number(g->dc, &r->tables.n_dc, h->comp[c].dc);
        r->tables.ac[c] = number(g->ac, &r->tables.n_ac, h->comp[c].ac);
    }
}

static int takes(const stk_pic *r, const stk_jpeg_head *h, stk_error *err)
{
    if (h->restart)
        return refuse(err, "restart intervals");
    if (r->tables.n_dc > STK_PIC_TABLES || r->tables.n_ac > STK_PIC_TABLES)
        return refuse(err, "more than two Huffman tables of a kind");
    return 0;
}

static int takes_view(const stk_pic *r, const stk_view *view, stk_error *err)
{
    if (!stk_pic_axis_sound(&r->x) || !stk_pic_axis_sound(&r->y))
        return refuse(err, "a view that shrinks more than 256 times, or is larger than 65535");
    return view->border ? refuse(err, "a border that repeats the picture") : 0;
}

/* ---- units ---- */

typedef struct row {     /* of MCUs: bits of the scan */
    uint64_t begin, end; /* of the first unit; after what is copied */
    uint64_t next;       /* the next row, or the scan's end */
    int last;
} row;

/* From which chunk on a row is decoded, and how many chunks a unit has. */
static uint32_t first_chunk(const stk_jpeg_seek *k, uint32_t x0)
{
    return k->rows_only ? 0 : x0 / k->chunk / k->dc_step * k->dc_step;
}

static uint32_t unit_chunks(const stk_jpeg_seek *k)
{
    return k->rows_only ? k->chunks : k->dc_step;
}

/* Fields of points, read one after the other from a copy with PAD bytes after it. */
#define PAD 8

typedef struct cursor {
    const uint8_t *data;
    uint64_t at; /* bit */
} cursor;

static inline uint64_t next_bits(cursor *c, unsigned bits)
{
    uint64_t v;

    memcpy(&v, c->data + c->at / 8, sizeof v);
    v >>= c->at % 8;
    c->at += bits;
    return v;
}

/* DC values of one point.  Those of components that are not there take no bits. */
static inline void unit_dc(stk_pic_unit *u, const stk_jpeg_seek *k, cursor *dcs)
{
    uint64_t v = next_bits(dcs, k->dc_sum);

    u->dc[0] = (int16_t)(k->dc_min[0] + (int32_t)(v & ((1u << k->dc_bits[0]) - 1)));
    v >>= k->dc_bits[0];
    u->dc[1] = (int16_t)(k->dc_min[1] + (int32_t)(v & ((1u << k->dc_bits[1]) - 1)));
    v >>= k->dc_bits[1];
    u->dc[2] = (int16_t)(k->dc_min[2] + (int32_t)(v & ((1u << k->dc_bits[2]) - 1)));
}

/* 1: some DC value of the points is larger than any that a JPEG can have. */
static int dc_too_large(const stk_jpeg_seek *k)
{
    int32_t dc[STK_JPEG_COMPS] = { 0, 0, 0 };
    int can = 0;

    for (unsigned c = 0; c < k->n_comps; c++)
        can |= k->dc_min[c] + (1 << k->dc_bits[c]) - 1 > INT16_MAX;
    for (uint32_t y = 0; can && y < k->rows; y++)
        for (uint32_t i = 0; i < k->dcs; i++) {
            stk_jpeg_seek_dc(k, y, i, dc);
            for (int c = 0; c < 3; c++)
                if (dc[c] > INT16_MAX)
                    return 1;
        }
    return 0;
}

/* The bits of chunks i to end - 1; what the last chunk of a row takes is not among them. */
static inline uint64_t unit_bits(const stk_jpeg_seek *k, cursor *lens, uint32_t i, uint32_t end)
{
    const uint64_t mask = ((uint64_t)1 << k->len_bits) - 1;
    uint64_t sum = 0;

    end = k->rows_only ? i : end < k->chunks ? end : k->chunks - 1;
    for (uint32_t n = end - i; n; n--)
        sum += next_bits(lens, k->len_bits) & mask;
    return sum + (uint64_t)k->base * (end - i);
}

/* Units of a row, and which bits it takes; 0 or STK_ESTALE.  A unit's `at` counts from the scan's
 * begin. */
static int add_row(stk_pic_gather *g, const stk_jpeg_seek *k, uint32_t y, row *w)
{
    uint32_t first = first_chunk(k, g->rec.x0), step = unit_chunks(k), x1 = g->rec.x1;
    uint32_t upto = stk_jpeg_ceil(x1, k->chunk), end;
    cursor lens = { k->len.data, (uint64_t)y * (k->chunks - 1) * k->len_bits };
    cursor dcs = { k->dc.data, ((uint64_t)y * k->dcs + first / k->dc_step) * k->dc_sum };
    stk_pic_unit *u = g->unit + g->rec.n_units;
    uint64_t at;

    w->last = y + 1 == k->rows;
    w->next = w->last ? (uint64_t)k->scan_len * 8 : stk_jpeg_seek_row(k, y + 1);
    w->begin = at = stk_jpeg_seek_row(k, y) + unit_bits(k, &lens, 0, first);
    for (uint32_t i = first; i < upto; i = end, u++) {
        uint32_t whole, col = i * k->chunk;
        uint64_t from = at;

        end = i + step < upto ? i + step : upto;
        whole = end < k->chunks ? end * k->chunk : k->cols;
        at += unit_bits(k, &lens, i, end);
        if (at > w->next)
            return STK_ESTALE;
        if (end == k->chunks || k->rows_only)
            at = w->next;
        *u = (stk_pic_unit){ .at = (uint32_t)from,
                             .mcu = y * g->rec.cols + col,
                             .count = (uint16_t)((whole < x1 ? whole : x1) - col) };
        if (whole <= x1 && at - from <= UINT16_MAX &&
            (whole == k->cols ? !w->last : !k->rows_only)) /* else it is not known what it takes */
            u->bits = (uint16_t)(at - from);
        unit_dc(u, k, &dcs);
    }
    g->rec.n_units = (uint32_t)(u - g->unit);
    w->end = at;
    return 0;
}

/* A row's bytes join those before where they follow them. */
static int add_range(stk_pic_gather *g, const row *w, size_t len, uint32_t first_unit)
{
    stk_pic *r = &g->rec;
    stk_pic_range *last = g->n_ranges ? &g->range[g->n_ranges - 1] : NULL;
    uint64_t from = w->begin / 8, to = (w->end + 7) / 8 + (w->last ? 2 : 1), shift;

    to = to < len ? to : len; /* one byte more: the last may be 0xFF; two: the end marker */
    if (from >= to)
        return STK_ESTALE;
    if (last && from >= last->at && from <= (uint64_t)last->at + last->len &&
        to >= (uint64_t)last->at + last->len) {
        r->data_len += (uint32_t)(to - last->at) - last->len;
        last->len = (uint32_t)(to - last->at);
    } else {
        last = &g->range[g->n_ranges++];
        *last = (stk_pic_range){ (uint32_t)from, (uint32_t)(to - from) };
        r->data_len += last->len;
    }
    shift = ((uint64_t)last->at + last->len - r->data_len) * 8; /* of the scan, less of the data */
    for (uint32_t i = first_unit; i < r->n_units; i++)
        g->unit[i].at -= (uint32_t)shift;
    return 0;
}

static int gather_rows(stk_pic_gather *g, const stk_jpeg_seek *k, size_t len)
{
    uint64_t before = 0;

    for (uint32_t y = g->rec.y0; y < g->rec.y1; y++) {
        uint32_t unit = g->rec.n_units;
        row w;

        STK_TRY(add_row(g, k, y, &w));
        if (w.begin < before || w.end > (uint64_t)len * 8)
            return STK_ESTALE;
        before = w.end;
        if (!g->all)
            STK_TRY(add_range(g, &w, len, unit));
    }
    return 0;
}

/* The scan and its end marker. */
static void take_all(stk_pic_gather *g, const stk_jpeg_seek *k)
{
    g->rec.data_len = k->scan_len + 2;
    g->rec.scan = 1;
    g->range[0] = (stk_pic_range){ 0, g->rec.data_len };
    g->n_ranges = !g->rec.arena_at;
}

/* A part of the points with PAD bytes after it, so that words can be read anywhere in it. */
static stk_bytes padded(uint8_t **to, stk_bytes part)
{
    stk_bytes copy = { *to, part.len };

    if (part.len)
        memcpy(*to, part.data, part.len);
    memset(*to + part.len, 0, PAD);
    *to += part.len + PAD;
    return copy;
}

static int gather_seek(stk_pic_gather *g, const stk_jpeg_seek *k, size_t len, stk_scratch *scratch,
                       stk_error *err)
{
    stk_pic *r = &g->rec;
    uint32_t rows = r->y1 - r->y0, chunks = stk_jpeg_ceil(r->x1, k->chunk) - first_chunk(k, r->x0);
    size_t units = (size_t)rows * stk_jpeg_ceil(chunks, unit_chunks(k));
    size_t bytes = rows * sizeof *g->range + units * sizeof *g->unit;
    uint8_t *memory = stk_scratch_get(scratch, bytes + k->len.len + k->dc.len + (size_t)2 * PAD);
    stk_jpeg_seek points = *k;
    int rc;

    if (!memory)
        return stk_fail_nomem(err, bytes);
    g->range = (stk_pic_range *)(void *)memory;
    g->unit = (stk_pic_unit *)(void *)(memory + rows * sizeof *g->range);
    memory += bytes;
    points.len = padded(&memory, k->len);
    points.dc = padded(&memory, k->dc);
    for (unsigned c = k->n_comps; c < STK_JPEG_COMPS; c++)
        points.dc_bits[c] = 0, points.dc_min[c] = 0;
    rc = dc_too_large(k) ? STK_ESTALE : gather_rows(g, &points, len);
    if (g->all)
        take_all(g, k);
    return rc < 0 ? stale(err) : 0;
}

/* ---- the calls ---- */

/* Where the parts of a record are. */
static void lay_out(stk_pic *r)
{
    uint32_t at = (sizeof *r + 15) & ~15u;

    r->tables.quants_at = at;
    at += r->tables.n_quant * 128u;
    r->tables.dcs_at = at;
    at += r->tables.n_dc * (uint32_t)sizeof(stk_pic_huff);
    r->tables.acs_at = at;
    at += r->tables.n_ac * (uint32_t)sizeof(stk_pic_huff);
    r->units_at = at;
    at += r->kind == STK_PIC_FRAME ? (uint32_t)sizeof(stk_pic_yuv)
                                   : r->n_units * (uint32_t)sizeof(stk_pic_unit);
    at = (at + 15) & ~15u;
    r->data_at = at;
    r->size = (uint32_t)stk_pic_up64((uint64_t)at + (r->arena_at ? 0 : r->data_len) + STK_PIC_PAD);
}

/* Of a part only the rows that are taken must be there, which has_ranges() finds. */
static int seek_fits(const stk_jpeg_job *job, size_t len)
{
    const stk_jpeg_seek *k = job->seek;
    const stk_jpeg_head *h = job->head;

    return k->rows == stk_jpeg_mcus_y(h) && k->cols == stk_jpeg_mcus_x(h) &&
           k->n_comps == h->n_comps && k->chunk && k->dc_step && (job->at || k->scan_len <= len);
}

/* MCUs that the view sees, and others with it. */
static void set_frame(stk_pic *r, const stk_rect *wide)
{
    uint32_t need[4] = { r->need[0], r->need[1], r->need[2], r->need[3] }, seen[4];

    if (wide) {
        need[0] = wide->x;
        need[1] = wide->y;
        need[2] = wide->w;
        need[3] = wide->h;
    }
    stk_pic_frame(r, need, seen);
    r->x0 = seen[0];
    r->y0 = seen[1];
    r->x1 = seen[2];
    r->y1 = seen[3];
}

/* Is all that goes over among the bytes that were read? */
static int has_ranges(const stk_pic_gather *g, size_t to)
{
    for (uint32_t i = 0; i < g->n_ranges; i++)
        if (g->range[i].at < g->scan_at || g->range[i].at > to ||
            g->range[i].len > to - g->range[i].at)
            return 0;
    return 1;
}

static int gather_bytes(stk_pic_gather *g, const stk_jpeg_job *job, stk_scratch *scratch,
                        stk_error *err)
{
    size_t len = (size_t)stk_jpeg_job_to(job);

    if (len > STK_PIC_MAX_DATA)
        return refuse(err, "more than 256 MiB");
    if (job->seek && (!seek_fits(job, len) || (g->all && (uint64_t)job->seek->scan_len + 2 > len)))
        return stale(err);
    if (job->seek) {
        STK_TRY(gather_seek(g, job->seek, len, scratch, err));
        return has_ranges(g, len) ? 0 : stale(err);
    }
    g->range = stk_scratch_get(scratch, sizeof *g->range);
    if (!g->range)
        return stk_fail_nomem(err, sizeof *g->range);
    *g->range = (stk_pic_range){ 0, (uint32_t)len };
    g->n_ranges = 1;
    g->rec.data_len = (uint32_t)len;
    return 0;
}

static int size_of(stk_pic_gather *g, const stk_jpeg_job *job, const stk_pic_ask *ask,
                   stk_scratch *scratch, stk_error *err)
{
    const stk_view *view = ask->view;
    stk_pic *r = &g->rec;

    g->head = job->head;
    r->kind = job->seek ? STK_PIC_SEEK : STK_PIC_WHOLE;
    set_head(g, job->head);
    set_view(r, view);
    STK_TRY(takes(r, job->head, err));
    STK_TRY(takes_view(r, view, err));
    if (view->clip.x > r->width || view->clip.w > r->width - view->clip.x ||
        view->clip.y > r->height || view->clip.h > r->height - view->clip.y)
        return stk_fail(err, STK_EINVAL, "a view of another picture than this one of %ux%u",
                        r->width, r->height);
    if ((uint64_t)job->at + job->in.len < job->head->scan || (job->at && !job->seek))
        return stk_fail(err, STK_ECORRUPT, "JPEG ends before its scan");
    g->scan_at = stk_jpeg_job_from(job);
    g->scan = job->in.data ? job->in.data + (job->head->scan + g->scan_at - job->at) : NULL;
    if (r->need[2]) {
        set_frame(r, ask->wide);
        STK_TRY(gather_bytes(g, job, scratch, err));
    }
    lay_out(r);
    return 0;
}

int stk_pic_jpeg_ask(stk_pic_gather *g, const stk_jpeg_job *job, const stk_pic_ask *ask,
                     stk_scratch *scratch, stk_error *err)
{
    stk_jpeg_job there = *job;

    memset(g, 0, sizeof *g);
    g->all = ask->all || ask->gpu_cached;
    g->rec.arena_at = ask->gpu_cached;
    if (ask->gpu_cached)
        there.in = (stk_bytes){ NULL, (size_t)job->head->scan + job->seek->scan_len + 2 };
    return size_of(g, &there, ask, scratch, err);
}

int stk_pic_shared_size(stk_pic_gather *g, const stk_pic *lead, const stk_view *view,
                        stk_error *err)
{
    stk_pic *r = &g->rec;

    memset(g, 0, sizeof *g);
    r->kind = STK_PIC_SHARED;
    r->n_comps = lead->n_comps;
    r->width = lead->width;
    r->height = lead->height;
    r->cols = lead->cols;
    r->rows = lead->rows;
    r->x0 = lead->x0;
    r->y0 = lead->y0;
    r->x1 = lead->x1;
    r->y1 = lead->y1;
    r->max_h = lead->max_h;
    r->max_v = lead->max_v;
    memcpy(r->h, lead->h, sizeof r->h);
    memcpy(r->v, lead->v, sizeof r->v);
    set_view(r, view);
    STK_TRY(takes_view(r, view, err));
    lay_out(r);
    return 0;
}

static void write_huff(stk_pic_huff *to, const stk_jpeg_huff *from)
{
    memset(to, 0, sizeof *to);
    memcpy(to->bits, from->bits, sizeof to->bits);
    memcpy(to->vals, from->vals, from->n);
    to->n = from->n;
}

void stk_pic_gather_write(void *to, const stk_pic_gather *g)
{
    const stk_pic *r = &g->rec;
    uint32_t end = r->prog.n_steps ? r->prog.at : r->size; /* a program is another's */
    uint8_t *base = to, *p;

    memset(base, 0, r->tables.quants_at);
    memcpy(base, r, sizeof *r);
    for (unsigned i = 0; i < r->tables.n_quant; i++)
        memcpy(base + r->tables.quants_at + i * 128u, g->head->quant[g->quant[i]], 128);
    for (unsigned i = 0; i < r->tables.n_dc; i++)
        write_huff((stk_pic_huff *)(void *)(base + r->tables.dcs_at) + i, &g->head->dc[g->dc[i]]);
    for (unsigned i = 0; i < r->tables.n_ac; i++)
        write_huff((stk_pic_huff *)(void *)(base + r->tables.acs_at) + i, &g->head->ac[g->ac[i]]);
    p = base + r->units_at;
    if (r->n_units)
        memcpy(p, g->unit, r->n_units * sizeof *g->unit);
    p += r->n_units * sizeof *g->unit;
    memset(p, 0, (size_t)(base + r->data_at - p));
    p = base + r->data_at;
    for (uint32_t i = 0; i < g->n_ranges; i++) {
        memcpy(p, g->scan + (g->range[i].at - g->scan_at), g->range[i].len);
        p += g->range[i].len;
    }
    memset(p, 0, (size_t)(base + end - p));
}

size_t stk_pic_plain_size(size_t len)
{
    return stk_pic_up64(((sizeof(stk_pic) + 15) & ~(size_t)15) + len + STK_PIC_PAD);
}

void *stk_pic_plain_write(void *to, stk_pic_kind kind, uint32_t w, uint32_t h, size_t len)
{
    stk_pic *r = to;
    uint8_t *data;

    memset(r, 0, sizeof *r);
    r->size = (uint32_t)stk_pic_plain_size(len);
    r->kind = (uint16_t)kind;
    r->x.n = w;
    r->y.n = h;
    r->data_at = (sizeof *r + 15) & ~15u;
    r->data_len = (uint32_t)len;
    data = (uint8_t *)to + r->data_at;
    memset(data + len, 0, r->size - r->data_at - len);
    return data;
}

/* ---- pictures that are there ---- */

void stk_pic_on_gpu_head(stk_pic *r, const stk_view *view, uint32_t width, uint32_t height)
{
    memset(r, 0, sizeof *r);
    r->kind = STK_PIC_ON_GPU;
    r->n_comps = 3;
    r->width = width;
    r->height = height;
    set_view(r, view);
    lay_out(r);
}

size_t stk_pic_on_gpu_size(void)
{
    return stk_pic_up64(((sizeof(stk_pic) + 15) & ~(size_t)15) + STK_PIC_PAD);
}

int stk_pic_on_gpu_takes(const stk_view *view, uint32_t width, uint32_t height, stk_error *err)
{
    stk_pic r;

    if (view->border)
        return stk_fail(err, STK_ENOTSUP,
                        "padding by edge, reflect or symmetric is not done on a GPU: use fill");
    stk_pic_on_gpu_head(&r, view, width, height);
    if (stk_pic_seen_sound(&r))
        return 0;
    return stk_fail(err, STK_ENOTSUP,
                    "it is %ux%u and comes out %ux%u, which a GPU does not do: sides up to %d, %d "
                    "as they come out, and at most %d times smaller",
                    width, height, view->vis_w, view->vis_h, STK_PIC_MAX_SIDE, STK_PIC_MAX_OUT,
                    STK_PIC_MAX_SCALE);
}

void stk_pic_on_gpu_write(void *to, const stk_view *view, uint32_t width, uint32_t height)
{
    stk_pic r;

    stk_pic_on_gpu_head(&r, view, width, height);
    memset(to, 0, r.size);
    memcpy(to, &r, sizeof r);
}

/* ---- frames of videos ---- */

void stk_pic_made_write(void *to)
{
    stk_pic *r = to;

    memset(r, 0, stk_pic_on_gpu_size());
    r->kind = STK_PIC_MADE;
    lay_out(r);
}

int stk_pic_frame_head(stk_pic *r, const stk_view *view, uint32_t width, uint32_t height,
                       stk_error *err)
{
    stk_pic_on_gpu_head(r, view, width, height);
    r->kind = STK_PIC_FRAME;
    lay_out(r);
    if (view->border || !stk_pic_seen_sound(r))
        return refuse(err, "a view that shrinks more than 256 times, or repeats the picture");
    return 0;
}

void stk_pic_yuv_colors(stk_pic_yuv *f, const stk_yuv *c, uint32_t siting)
{
    f->c_y = c->y;
    f->rv = c->rv;
    f->gu = c->gu;
    f->gv = c->gv;
    f->bu = c->bu;
    f->y_zero = c->y_zero;
    f->c_zero = c->c_zero;
    f->shift = c->shift;
    f->bytes = c->wide ? 2 : 1;
    f->left = siting != STK_SITING_CENTER && siting != STK_SITING_TOP;
    f->top = siting == STK_SITING_TOP_LEFT || siting == STK_SITING_TOP;
}

/* Samples of U and V that pixels from..from + n - 1 see, of an axis with `all`. */
static void chroma_of(uint32_t half, uint32_t from, uint32_t n, uint32_t all, uint32_t *at,
                      uint32_t *count)
{
    uint32_t lo = half ? from / 2 : from, hi = half ? (from + n - 1) / 2 : from + n - 1;

    lo -= half && lo;
    hi += half && hi + 1 < all;
    *at = lo;
    *count = hi + 1 - lo;
}

/* Which samples of each plane are seen, and where they go. */
static void set_planes(stk_pic_framed *g)
{
    const stk_planes *p = g->planes;
    stk_pic_yuv *f = &g->yuv;
    uint32_t w = p->area.w, h = p->area.h, wide = f->bytes;

    f->half_x = p->half_x != 0;
    f->half_y = p->half_y != 0;
    f->step = p->kind == STK_PLANES_NV12 ? 2 : 1;
    f->x = g->rec.need[0];
    f->y = g->rec.need[1];
    f->w = g->rec.need[2] ? g->rec.need[2] : 1; /* of what is all black: one */
    f->h = g->rec.need[3] ? g->rec.need[3] : 1;
    f->stride = (f->w * wide + 15) & ~15u;
    if (p->data[1]) {
        chroma_of(f->half_x, f->x, f->w, f->half_x ? (w + 1) / 2 : w, &f->cx, &f->cw);
        chroma_of(f->half_y, f->y, f->h, f->half_y ? (h + 1) / 2 : h, &f->cy, &f->ch);
    }
    f->cstride = (f->cw * wide * f->step + 15) & ~15u;
    f->at[1] = (uint64_t)f->stride * f->h;
    f->at[2] = f->step == 2 ? f->at[1] + wide : f->at[1] + (uint64_t)f->cstride * f->ch;
    g->rec.data_len = (uint32_t)(f->at[1] + (uint64_t)f->cstride * f->ch * (f->step == 2 ? 1 : 2));
}

int stk_pic_frame_ask(stk_pic_framed *g, const stk_planes *p, const stk_view *view, stk_error *err)
{
    stk_yuv c;

    memset(g, 0, sizeof *g);
    g->planes = p;
    if (p->kind != STK_PLANES_YUV && p->kind != STK_PLANES_NV12)
        return refuse(err, "pixels that are no planes");
    STK_TRY(stk_yuv_init(&c, p, err));
    if (c.gbr)
        return refuse(err, "planes of G, B and R");
    STK_TRY(stk_pic_frame_head(&g->rec, view, p->area.w, p->area.h, err));
    stk_pic_yuv_colors(&g->yuv, &c, p->siting);
    if ((uint64_t)p->area.w * p->area.h * 3 * g->yuv.bytes > STK_PIC_MAX_DATA)
        return refuse(err, "a frame of more than 256 MiB");
    set_planes(g);
    lay_out(&g->rec);
    return 0;
}

static void copy_rows(uint8_t *to, size_t step, const uint8_t *from, size_t stride, size_t bytes,
                      uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        memcpy(to + i * step, from + i * stride, bytes);
        memset(to + i * step + bytes, 0, step - bytes);
    }
}

void stk_pic_frame_write(void *to, const stk_pic_framed *g)
{
    const stk_pic_yuv *f = &g->yuv;
    const stk_planes *p = g->planes;
    uint8_t *base = to, *data = base + g->rec.data_at;
    uint32_t end = g->rec.prog.n_steps ? g->rec.prog.at : g->rec.size;
    size_t wide = f->bytes, bytes = f->cw * wide * f->step;

    memset(base, 0, g->rec.data_at);
    memcpy(base, &g->rec, sizeof g->rec);
    memcpy(base + g->rec.units_at, f, sizeof *f);
    copy_rows(data, f->stride, p->data[0] + f->y * p->stride[0] + f->x * wide, p->stride[0],
              f->w * wide, f->h);
    for (int k = 1; k < (f->step == 2 ? 2 : 3) && f->cw; k++)
        copy_rows(data + f->at[k], f->cstride,
                  p->data[k] + f->cy * p->stride[k] + f->cx * wide * f->step, p->stride[k], bytes,
                  f->ch);
    memset(data + g->rec.data_len, 0, (size_t)(base + end - (data + g->rec.data_len)));
}

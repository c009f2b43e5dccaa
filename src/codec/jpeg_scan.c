/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_scan.c - which MCUs a stream decodes next, and whether it is where it should be.
 *
 * A run is a stretch of MCUs without any decision in it: up to the end of the chunk, the next
 * restart marker or the last column that is wanted.  The loops (jpeg_loop.h) decode runs; all the
 * rest is here, once a run.  A stream that used bits after the end of the data, or between
 * markers, is found at the end of its run, so damage costs at most a chunk of nonsense. */
#include "codec/jpeg_scan.h"

#include "config.h"

/* ---- set-up ---- */

/* The table number for `which`, built if it is new; n of them there are, numbers in `of`. */
static uint32_t table(uint8_t *of, uint32_t *n, uint8_t which)
{
    uint32_t i = 0;

    while (i < *n && of[i] != which)
        i++;
    if (i == *n)
        of[(*n)++] = which;
    return i;
}

static void build_tables(stk_jpeg_scan *d)
{
    const stk_jpeg_head *h = d->head;

    d->n_dc = d->n_ac = 0;
    for (unsigned c = 0; c < h->n_comps; c++) {
        const stk_jpeg_huff *dc = &h->dc[h->comp[c].dc], *ac = &h->ac[h->comp[c].ac];
        uint32_t was_dc = d->n_dc, was_ac = d->n_ac;
        uint32_t i = table(d->dc_of, &d->n_dc, h->comp[c].dc);
        uint32_t k = table(d->ac_of, &d->n_ac, h->comp[c].ac);

        if (i == was_dc) {
            (void)stk_jpeg_long_build(&d->more[0][i], dc, 1);
            stk_jpeg_fast_build(d->dc_fast[i], STK_JPEG_DC_BITS, dc, 1);
        }
        if (k == was_ac) {
            (void)stk_jpeg_long_build(&d->more[1][k], ac, 0);
            stk_jpeg_fast_build(d->ac_fast[k], STK_JPEG_AC_BITS, ac, 0);
        }
        d->dc[c] = (stk_jpeg_lut){ d->dc_fast[i], &d->more[0][i], dc->vals, STK_JPEG_DC_BITS };
        d->ac[c] = (stk_jpeg_lut){ d->ac_fast[k], &d->more[1][k], ac->vals, STK_JPEG_AC_BITS };
    }
}

/* Blocks of a chunk: a component's groups are one after another, a row of blocks after the other,
 * so that the pixels of a group are side by side. */
static void build_ops(stk_jpeg_scan *d)
{
    const stk_jpeg_head *h = d->head;
    stk_jpeg_op *op = d->op;

    for (uint32_t m = 0; m < d->chunk; m++) {
        uint32_t base = 0;

        for (unsigned c = 0; c < h->n_comps; c++) {
            const stk_jpeg_comp *k = &h->comp[c];

            for (uint32_t y = 0; y < k->v; y++)
                for (uint32_t x = 0; x < k->h; x++, op++) {
                    uint32_t slot = base + y * k->h * d->chunk + m * k->h + x;

                    op->slot = (uint8_t)slot;
                    op->at = (uint16_t)(slot / 4 * STK_JPEG_GROUP + slot % 4 * 8);
                    op->comp = (uint8_t)c;
                    op->dc = d->dc[c].fast;
                    op->ac = d->ac[c].fast;
                    op->skip = d->ac_skip[(d->ac[c].fast - d->ac_fast[0]) >> STK_JPEG_AC_BITS];
                }
            base += (uint32_t)k->h * k->v * d->chunk;
        }
    }
}

void stk_jpeg_scan_init(stk_jpeg_scan *d, const stk_jpeg_job *job)
{
    const stk_jpeg_head *h = job->head;
    const stk_jpeg_seek *seek = job->seek;

    d->head = h;
    d->in.from = stk_jpeg_job_from(job);
    d->in.data = job->in.data + (size_t)(h->scan + d->in.from - job->at);
    d->in.len = (size_t)(stk_jpeg_job_to(job) - d->in.from);
    d->seek = seek;
    d->points = NULL;
    d->sink = NULL;
    d->cols = stk_jpeg_mcus_x(h);
    d->rows = stk_jpeg_mcus_y(h);
    d->chunk = seek ? seek->chunk : stk_jpeg_chunk(h);
    d->chunks = stk_jpeg_ceil(d->cols, d->chunk);
    d->blocks = stk_jpeg_mcu_blocks(h);
    d->x0 = d->y0 = 0;
    d->x1 = d->cols;
    d->y1 = d->rows;
    d->end = 0;
    build_tables(d);
    build_ops(d);
}

/* Is there anything to read over, and worth the tables? */
static void plan_skips(stk_jpeg_scan *d)
{
    d->may_skip = !d->seek && (!d->sink || d->y0 || d->x0 || d->x1 < d->cols);
    for (uint32_t i = 0; d->may_skip && i < d->n_ac; i++)
        stk_jpeg_skip_build(d->ac_skip[i], d->ac_fast[i], STK_JPEG_AC_BITS);
}

/* ---- places in the scan, counted from its begin also where only a part is here ---- */

static void begin_at(const stk_jpeg_scan *d, stk_jpeg_stream *s, uint64_t bit)
{
    stk_jpeg_bits_init(&s->r.b, d->in.data, d->in.len, bit - 8 * d->in.from);
}

static uint64_t bit_of(const stk_jpeg_scan *d, const stk_jpeg_stream *s)
{
    uint64_t at = stk_jpeg_bits_at(&s->r.b, d->in.data);

    return at == UINT64_MAX ? at : at + 8 * d->in.from;
}

/* Bytes of d->in.data up to the marker that comes next; UINT64_MAX: none does. */
static uint64_t marker_of(const stk_jpeg_scan *d, const stk_jpeg_stream *s)
{
    uint64_t at = stk_jpeg_bits_at(&s->r.b, d->in.data), byte;

    if (at == UINT64_MAX)
        return at;
    byte = stk_jpeg_marker_at(d->in.data, at);
    return d->in.len < 2 || byte > d->in.len - 2 || d->in.data[byte] != 0xFF ? UINT64_MAX : byte;
}

/* ---- runs ---- */

static int wanted(const stk_jpeg_scan *d, const stk_jpeg_stream *s)
{
    uint32_t from = s->chunk * d->chunk;

    return d->sink && s->row >= d->y0 && from < d->x1 && from + d->chunk > d->x0;
}

/* MCUs up to the next decision. */
static void set_run(stk_jpeg_scan *d, stk_jpeg_stream *s)
{
    uint32_t in_chunk = s->col % d->chunk, n = d->chunk - in_chunk;

    if (n > s->until - s->col)
        n = s->until - s->col;
    if (d->head->restart && n > s->left)
        n = s->left;
    s->run = n;
    s->skip = d->may_skip && !wanted(d, s);
    s->r.op = d->op + (size_t)in_chunk * d->blocks;
    s->stop = s->r.op + (size_t)n * d->blocks;
}

/* Begin at a seek point: the chunk with DC values at or before the first column wanted. */
static int seek_row(stk_jpeg_scan *d, stk_jpeg_stream *s, uint32_t row)
{
    const stk_jpeg_seek *k = d->seek;
    uint32_t dc = k->rows_only ? 0 : d->x0 / d->chunk / k->dc_step, first = dc * k->dc_step;
    uint64_t mcu = (uint64_t)row * d->cols + (uint64_t)first * d->chunk;

    s->row = row;
    s->chunk = first;
    s->col = first * d->chunk;
    s->until = d->x1;
    s->at = stk_jpeg_seek_row(k, row) + stk_jpeg_seek_span(k, row, 0, first);
    if (s->at / 8 < d->in.from || s->at / 8 - d->in.from >= d->in.len)
        return STK_ESTALE;
    stk_jpeg_seek_dc(k, row, dc, s->pred);
    if (d->head->restart) {
        s->left = d->head->restart - (uint32_t)(mcu % d->head->restart);
        s->marker = (uint32_t)(mcu / d->head->restart);
    }
    begin_at(d, s, s->at);
    set_run(d, s);
    return 1;
}

/* The end of the current chunk by seek points; UINT64_MAX: they do not say. */
static uint64_t chunk_end(const stk_jpeg_scan *d, const stk_jpeg_stream *s)
{
    const stk_jpeg_seek *k = d->seek;

    if (s->chunk + 1 < d->chunks)
        return k->rows_only ? UINT64_MAX : s->at + stk_jpeg_seek_len(k, s->row, s->chunk);
    return s->row + 1 < d->rows ? stk_jpeg_seek_row(k, s->row + 1) : UINT64_MAX;
}

/* At the start of a chunk for which the points have DC values: are they ours? */
static int dc_fits(const stk_jpeg_scan *d, const stk_jpeg_stream *s)
{
    const stk_jpeg_seek *k = d->seek;
    uint32_t row = s->row, chunk = s->chunk + 1;
    int32_t dc[STK_JPEG_COMPS];

    if (chunk == d->chunks) {
        row++;
        chunk = 0;
    }
    if (row == d->rows || chunk % k->dc_step)
        return 1;
    stk_jpeg_seek_dc(k, row, chunk / k->dc_step, dc);
    for (unsigned c = 0; c < d->head->n_comps; c++)
        if (dc[c] != s->pred[c])
            return 0;
    return 1;
}

/* The marker that must come between two MCUs. */
static int restart(stk_jpeg_scan *d, stk_jpeg_stream *s)
{
    uint64_t byte = marker_of(d, s);

    if (byte == UINT64_MAX || d->in.data[byte + 1] != 0xD0 + s->marker % 8)
        return STK_ECORRUPT;
    s->marker++;
    s->left = d->head->restart;
    memset(s->pred, 0, sizeof s->pred);
    begin_at(d, s, (d->in.from + byte + 2) * 8);
    return 0;
}

/* After the picture's last MCU nothing but the end marker may come. */
static int finish(stk_jpeg_scan *d, const stk_jpeg_stream *s)
{
    uint64_t byte = marker_of(d, s);

    if (byte == UINT64_MAX || d->in.data[byte + 1] != 0xD9)
        return STK_ECORRUPT;
    d->end = d->in.from + byte;
    return d->seek && d->seek->scan_len != d->end ? STK_ESTALE : 0;
}

/* A chunk is whole (or cut at the last column): check it, hand it over. */
static int end_chunk(stk_jpeg_scan *d, stk_jpeg_stream *s)
{
    if (d->seek && (s->col == d->cols || s->col % d->chunk == 0)) {
        uint64_t want = chunk_end(d, s);

        if ((want != UINT64_MAX && bit_of(d, s) != want) || !dc_fits(d, s))
            return STK_ESTALE;
        s->at = want;
    }
    for (unsigned c = 0; c < d->head->n_comps; c++)
        if (s->pred[c] != (int16_t)s->pred[c])
            return STK_ECORRUPT;
    if (wanted(d, s))
        d->sink(d, s);
    if (d->sink && !s->skip)
        memset(s->coef, 0, (size_t)d->chunk * d->blocks * 128);
    s->chunk++;
    return 0;
}

static int note_point(stk_jpeg_scan *d, const stk_jpeg_stream *s)
{
    stk_jpeg_point *p = &d->points[(size_t)s->row * d->chunks + s->chunk];

    p->at = (uint32_t)bit_of(d, s);
    for (unsigned c = 0; c < d->head->n_comps; c++)
        p->dc[c] = (int16_t)s->pred[c];
    return 1;
}

/* The row is done; in order, or whichever comes next. */
static int next_row(stk_jpeg_scan *d, stk_jpeg_stream *s)
{
    if (d->seek)
        return d->next_row < d->y1 ? seek_row(d, s, d->next_row++) : 0;
    if (s->row + 1 == d->y1)
        return 0;
    s->row++;
    s->col = s->chunk = 0;
    s->until = s->row + 1 == d->y1 ? d->x1 : d->cols;
    return 1;
}

int stk_jpeg_scan_next(stk_jpeg_scan *d, stk_jpeg_stream *s)
{
    int last, rc;

    if (s->r.b.over > (s->r.b.n & 255))
        return STK_ECORRUPT;
    s->col += s->run;
    last = s->col == d->cols && s->row + 1 == d->rows;
    if (d->head->restart) {
        s->left -= s->run;
        if (!s->left && !last)
            STK_TRY(restart(d, s));
    }
    if (last)
        STK_TRY(finish(d, s));
    if (s->col == s->until || s->col % d->chunk == 0)
        STK_TRY(end_chunk(d, s));
    if (s->col == s->until) {
        rc = next_row(d, s);
        if (rc <= 0)
            return rc;
    }
    if (d->points && s->col % d->chunk == 0)
        note_point(d, s);
    set_run(d, s);
    return 1;
}

/* ---- the whole ---- */

static int start(stk_jpeg_scan *d, stk_jpeg_stream *s, const stk_jpeg_loops *loops)
{
    memset(s->coef, 0, (size_t)d->chunk * d->blocks * 128);
    memset(s->pred, 0, sizeof s->pred);
    if (d->seek) {
        STK_TRY(seek_row(d, s, d->next_row++));
    } else {
        s->row = s->col = s->chunk = 0;
        s->until = d->y1 == 1 ? d->x1 : d->cols;
        s->left = d->head->restart;
        s->marker = 0;
        begin_at(d, s, 0);
        if (d->points)
            note_point(d, s);
        set_run(d, s);
    }
    return loops->begin(d, s);
}

static int run(stk_jpeg_scan *d, const stk_jpeg_loops *loops)
{
    stk_jpeg_stream *s = &d->s[0];
    int rc;

    d->next_row = d->y0;
    plan_skips(d);
    rc = start(d, s, loops);
    if (rc <= 0)
        return rc;
    if (d->seek && d->next_row < d->y1) {
        STK_TRY(start(d, &d->s[1], loops));
        rc = loops->two(d, s, &d->s[1]);
        if (rc < 0)
            return rc;
        s = &d->s[!rc]; /* the other one still has a row in hand */
    }
    return loops->one(d, s);
}

int stk_jpeg_scan_run(stk_jpeg_scan *d, stk_cpu level)
{
    const stk_jpeg_loops *loops = &stk_jpeg_loops_c;
    int rc;

#if STK_HAVE_AVX2
    if (level >= STK_CPU_AVX2)
        loops = &stk_jpeg_loops_bmi2;
#endif
    (void)level;
    rc = run(d, loops);
    return rc < 0 && d->seek ? STK_ESTALE : rc;
}

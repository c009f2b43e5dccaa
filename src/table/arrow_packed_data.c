/* SPDX-License-Identifier: Apache-2.0 */
/* arrow_packed_data.c - what Arrow tables have to make before a row can point to it: packed
 * columns, decimals, lists with nulls or of texts, and columns taken together.
 *
 * A packed column of one batch is a block: its buffers are unpacked once and kept in the block
 * cache.  So are columns taken together of a packed batch, as whole rows, and its lists of texts:
 * by row where each ends, then all of them.  Everything else is made for one row. */
#include <string.h>

#include "base/mem.h"
#include "format/text_list.h"
#include "table/arrow_data.h"

#define NUMBER_BITS 16                /* of a block's number: the field; the rest is the batch */
#define TEXTS_MAX ((uint64_t)4 << 30) /* bytes that the lists of texts of a batch may take */
#define ALIGNED(n) (((n) + 7) & ~(uint64_t)7)

/* ---- where it is ---- */

/* Bytes of each decimal that is made: f64, or text; 0: of values that are not made. */
static uint32_t made_bytes(const stk_arrow_shard *s, uint32_t number)
{
    const stk_arrow_leaf *l = stk_arrow_leaf_of(s, number);

    if (!l->decimal)
        return 0;
    return number < s->schema->n ? sizeof(double) : (uint32_t)stk_arrow_decimal_room(l);
}

/* What comes after a packed column: decimals as they are made, or what its lists have where they
 * are made. */
static int made_room(const stk_arrow_shard *s, const stk_arrow_batch *b, uint32_t number,
                     uint64_t packed, uint64_t *out, stk_error *err)
{
    const stk_arrow_leaf *l = stk_arrow_leaf_of(s, number);
    uint64_t n = l->decimal ? b->rows : 0, bytes = 0;
    uint64_t each = l->decimal ? made_bytes(s, number) : stk_dtype_size(l->dtype);

    if (stk_arrow_has_made(b, l))
        STK_TRY(stk_arrow_items(b, l, &n, &bytes, err));
    if (bytes > packed || n > (PTRDIFF_MAX - packed) / (each < 8 ? 8 : each))
        return stk_fail(err, STK_ECORRUPT, "a batch of %" PRIu64 " values", n);
    *out = n * each;
    return 0;
}

/* A packed column in memory of its own. */
typedef struct opened {
    uint8_t *room;
    size_t len;
    stk_arrow_batch batch;
} opened;

static int open_column(const stk_arrow_batch *b, const stk_arrow_leaf *l, opened *o, stk_error *err)
{
    uint64_t len = 0;
    int rc = stk_arrow_column_room(b, l, &len, err);

    *o = (opened){ .len = (size_t)len };
    STK_TRY(rc);
    o->room = stk_large_alloc(o->len);
    if (!o->room)
        return stk_fail_nomem(err, o->len);
    rc = stk_arrow_column_unpack(b, l, (stk_bytes){ o->room, o->len }, err);
    stk_arrow_column_open(b, l, (stk_bytes){ o->room, o->len }, &o->batch);
    return rc;
}

static void close_column(opened *o)
{
    stk_large_free(o->room, o->len);
}

/* Lists of texts of a packed batch, by row where each ends, then all of them: *all bytes, which are
 * written where dst is not NULL.  One that is null has no bytes. */
static int texts_of(const stk_arrow_batch *b, const stk_arrow_leaf *l, uint8_t *dst, uint64_t *all,
                    stk_error *err)
{
    uint64_t head = b->rows * sizeof(uint64_t);
    stk_text_list t = { dst ? dst + head : NULL, dst ? *all - head : 0, 0, 0 };
    opened o = { 0 };
    int rc = b->rows > TEXTS_MAX / sizeof head ? STK_ELIMIT : open_column(b, l, &o, err);

    for (uint64_t i = 0; rc == 0 && i < b->rows; i++) {
        rc = stk_arrow_texts(&o.batch, l, i, &t, err);
        rc = rc == STK_ENOTFOUND ? 0 : rc;
        if (rc == 0 && dst)
            memcpy(dst + i * sizeof t.len, &t.len, sizeof t.len);
        if (t.len > TEXTS_MAX)
            rc = STK_ELIMIT;
    }
    close_column(&o);
    if (rc == STK_ELIMIT)
        return stk_fail(err, rc,
                        "column %.60s: the lists of texts of a batch take over %" PRIu64
                        " bytes: write smaller batches",
                        l->name, TEXTS_MAX);
    STK_TRY(rc);
    if (dst && head + t.len > *all)
        return stk_fail(err, STK_ECORRUPT, "column %.60s changed while it was read", l->name);
    *all = head + t.len;
    return 0;
}

static int column_room(const stk_arrow_shard *s, const stk_arrow_batch *b, uint32_t number,
                       uint64_t *packed, uint64_t *all, stk_error *err)
{
    const stk_arrow_leaf *l = stk_arrow_leaf_of(s, number);
    _Atomic uint64_t
        *known = &s->room[(size_t)(b - s->batch) * s->schema->n + (size_t)(l - s->schema->leaf)];

    if (b->refused || (l->refused && !l->blobs))
        return stk_fail(err, STK_ENOTSUP, "column %.60s: not supported because %s", l->name,
                        l->refused ? l->refused : b->refused);
    *packed = atomic_load_explicit(known, memory_order_relaxed) - 1;
    if (*packed == UINT64_MAX) {
        STK_TRY(l->texts ? texts_of(b, l, NULL, packed, err)
                         : stk_arrow_column_room(b, l, packed, err));
        atomic_store_explicit(known, *packed + 1, memory_order_relaxed);
    }
    *all = 0;
    if (!l->texts)
        STK_TRY(made_room(s, b, number, *packed, all, err));
    *all += *packed;
    return 0;
}

/* Whole rows of a packed batch, then 1 + the column that has no value, for each row. */
static int gather_room(const stk_arrow_batch *b, const stk_gather *g, uint64_t *rows, uint64_t *all,
                       stk_error *err)
{
    if (__builtin_mul_overflow(b->rows, (uint64_t)g->n * g->size, rows) ||
        *rows > PTRDIFF_MAX / 2 || b->rows > PTRDIFF_MAX / 16)
        return stk_fail(err, STK_ECORRUPT, "a batch of %" PRIu64 " rows", b->rows);
    *rows = ALIGNED(*rows);
    *all = *rows + (g->strict ? 4 * b->rows : 0) + 1;
    return 0;
}

int stk_arrow_made_place(const stk_arrow *a, const stk_entry *e, uint32_t number,
                         const stk_arrow_batch *b, stk_place *out, stk_error *err)
{
    const stk_arrow_shard *s = &a->shard[e->shard];
    const stk_gather *g = number >= STK_GATHER_FIRST ? stk_gather_number(&a->base.gathers, number)
                                                     : NULL;
    uint64_t part;

    *out = (stk_place){ .block = (uint64_t)(b - s->batch) << NUMBER_BITS | number,
                        .row = e->row - b->first };
    out->shared = b->packed != 0;
    if (!b->packed) /* of lists the caller knows */
        out->unpacked = g ? (uint64_t)g->n * g->size : made_bytes(s, number);
    else if (g)
        STK_TRY(gather_room(b, g, &part, &out->unpacked, err));
    else
        STK_TRY(column_room(s, b, number, &part, &out->unpacked, err));
    return 0;
}

/* ---- making it ---- */

typedef struct making {
    const stk_arrow *a;
    const stk_arrow_shard *s;
    const stk_arrow_batch *b;
    uint32_t number;
} making;

static making making_of(const stk_arrow *a, uint64_t shard, uint64_t block)
{
    const stk_arrow_shard *s = &a->shard[shard];

    return (making){ a, s, &s->batch[block >> NUMBER_BITS],
                     (uint32_t)(block & ((1u << NUMBER_BITS) - 1)) };
}

/* A value as columns() takes it: decimals as f64, in *room. */
static int value_of(const stk_arrow_batch *b, const stk_arrow_leaf *l, uint64_t row, double *room,
                    stk_bytes *out, stk_error *err)
{
    STK_TRY(stk_arrow_value(b, l, row, out, err));
    if (!l->decimal)
        return 0;
    *room = stk_arrow_decimal(l, *out);
    *out = (stk_bytes){ (const uint8_t *)room, sizeof *room };
    return 0;
}

/* The decimal of a row, of `b` that is m->b or what that was unpacked to, as it is handed out:
 * `each` bytes. */
static int put_decimal(const making *m, const stk_arrow_batch *b, uint64_t row, uint8_t *dst,
                       uint32_t each, stk_error *err)
{
    const stk_arrow_leaf *l = stk_arrow_leaf_of(m->s, m->number);
    stk_bytes value;
    double v;

    STK_TRY(stk_arrow_value(b, l, row, &value, err));
    if (m->number >= m->s->schema->n) {
        stk_arrow_decimal_text(l, value, dst, each);
        return 0;
    }
    v = stk_arrow_decimal(l, value);
    memcpy(dst, &v, sizeof v);
    return 0;
}

static int unpack_column(const making *m, stk_unpack_job *job, stk_error *err)
{
    const stk_arrow_leaf *l = stk_arrow_leaf_of(m->s, m->number);
    uint32_t each = made_bytes(m->s, m->number);
    uint64_t packed = 0, all = 0;
    stk_arrow_batch open;
    stk_bytes room;

    STK_TRY(column_room(m->s, m->b, m->number, &packed, &all, err));
    if (all > job->len)
        return stk_fail(err, STK_ECORRUPT, "column %.60s changed while it was read", l->name);
    if (l->texts) {
        STK_TRY(texts_of(m->b, l, job->dst, &all, err));
        job->len = (size_t)all;
        return 0;
    }
    room = (stk_bytes){ job->dst, (size_t)packed };
    STK_TRY(stk_arrow_column_unpack(m->b, l, room, err));
    job->len = (size_t)all;
    stk_arrow_column_open(m->b, l, room, &open);
    for (uint64_t i = 0; each && i < m->b->rows; i++) {
        int rc = put_decimal(m, &open, i, (uint8_t *)job->dst + packed + each * i, each, err);

        if (rc < 0 && rc != STK_ENOTFOUND)
            return rc;
        if (rc < 0)
            memset((uint8_t *)job->dst + packed + each * i, 0, each);
    }
    if (all > packed && !l->decimal)
        return stk_arrow_list_make(&open, l, 0, (all - packed) / stk_dtype_size(l->dtype),
                                   (uint8_t *)job->dst + packed, err);
    return 0;
}

/* Column c of all rows of a packed batch. */
static int gather_column(const making *m, const stk_gather *g, uint32_t c, stk_unpack_job *job,
                         uint32_t *null, stk_error *err)
{
    const stk_arrow_leaf *l = &m->s->schema->leaf[g->column[c].field];
    size_t each = (size_t)g->n * g->size;
    opened o;
    int rc = open_column(m->b, l, &o, err);

    for (uint64_t i = 0; rc == 0 && i < m->b->rows; i++) {
        uint8_t *row = (uint8_t *)job->dst + i * each;
        stk_bytes value;
        double v = 0;

        rc = value_of(&o.batch, l, i, &v, &value, err);
        if (rc == 0)
            rc = stk_gather_put(g, c, value.data, 1, row, err);
        else if (rc == STK_ENOTFOUND) {
            memcpy(row + (size_t)c * g->size, g->empty, g->size);
            if (null)
                null[i] = c + 1;
            rc = 0;
        }
    }
    close_column(&o);
    return rc;
}

static int unpack_gather(const making *m, const stk_gather *g, stk_unpack_job *job, stk_error *err)
{
    uint64_t rows = 0, all = 0;
    uint32_t *null;

    STK_TRY(gather_room(m->b, g, &rows, &all, err));
    if (all > job->len)
        return stk_fail(err, STK_ECORRUPT, "a batch changed while it was read");
    null = g->strict ? (uint32_t *)(void *)((uint8_t *)job->dst + rows) : NULL;
    if (null)
        memset(null, 0, (size_t)(4 * m->b->rows));
    for (uint32_t c = 0; c < g->n; c++)
        STK_TRY(gather_column(m, g, c, job, null, err));
    job->len = (size_t)all;
    return 0;
}

/* One row of columns that are not packed. */
static int gather_row(const making *m, const stk_gather *g, stk_unpack_job *job, stk_error *err)
{
    for (uint32_t c = 0; c < g->n; c++) {
        stk_bytes value;
        double v = 0;
        int rc = value_of(m->b, &m->s->schema->leaf[g->column[c].field], job->place->row, &v,
                          &value, err);

        if (rc == STK_ENOTFOUND && g->strict)
            return stk_gather_null(g, &m->a->base.data, c, err);
        if (rc == STK_ENOTFOUND)
            memcpy((uint8_t *)job->dst + (size_t)c * g->size, g->empty, g->size);
        else if (rc < 0)
            return rc;
        else
            STK_TRY(stk_gather_put(g, c, value.data, 1, job->dst, err));
    }
    job->len = (size_t)g->n * g->size;
    return 0;
}

/* A decimal as it is in its place: text ends before the zeros. */
static size_t made_len(const making *m, const uint8_t *made, uint32_t each)
{
    return m->number < m->s->schema->n ? each : strnlen((const char *)made, each);
}

static int made_row(const making *m, stk_unpack_job *job, stk_error *err)
{
    const stk_arrow_leaf *l = stk_arrow_leaf_of(m->s, m->number);
    uint32_t each = made_bytes(m->s, m->number);
    uint64_t from = 0, n = 0;

    if (l->texts) {
        stk_text_list t = { job->dst, job->len, 0, 0 };

        STK_TRY(stk_arrow_texts(m->b, l, job->place->row, &t, err));
        if (t.len > t.room)
            return stk_fail(err, STK_ECORRUPT, "column %.60s changed while it was read", l->name);
        job->len = (size_t)t.len;
        return 0;
    }
    if (l->list) {
        STK_TRY(stk_arrow_list(m->b, l, job->place->row, &from, &n, err));
        if (n > job->len / stk_dtype_size(l->dtype))
            return stk_fail(err, STK_ECORRUPT, "column %.60s changed while it was read", l->name);
        job->len = (size_t)n * stk_dtype_size(l->dtype);
        return stk_arrow_list_make(m->b, l, from, n, job->dst, err);
    }
    STK_TRY(put_decimal(m, m->b, job->place->row, job->dst, each, err));
    job->len = made_len(m, job->dst, each);
    return 0;
}

int stk_arrow_make(const stk_arrow *a, stk_unpack_job *job, stk_error *err)
{
    making m = making_of(a, job->shard, job->place->block);
    const stk_gather *g = m.number >= STK_GATHER_FIRST
                              ? stk_gather_number(&a->base.gathers, m.number)
                              : NULL;

    if (job->place->shared)
        return g ? unpack_gather(&m, g, job, err) : unpack_column(&m, job, err);
    return g ? gather_row(&m, g, job, err) : made_row(&m, job, err);
}

/* ---- rows of blocks ---- */

static int pick_row(const making *m, const stk_gather *g, uint64_t row, stk_bytes *bytes,
                    stk_error *err)
{
    size_t each = (size_t)g->n * g->size;
    uint64_t rows = 0, all = 0;

    STK_TRY(gather_room(m->b, g, &rows, &all, err));
    if (row >= m->b->rows || all > bytes->len)
        return stk_fail(err, STK_ECORRUPT, "row %" PRIu64 " of a batch of %" PRIu64, row,
                        m->b->rows);
    if (g->strict) {
        uint32_t null;

        memcpy(&null, bytes->data + rows + 4 * row, 4);
        if (null)
            return stk_gather_null(g, &m->a->base.data, null - 1, err);
    }
    *bytes = (stk_bytes){ bytes->data + row * each, each };
    return 0;
}

/* Row `row` of lists whose values were made, all of them. */
static int pick_list(const stk_arrow_batch *b, const stk_arrow_leaf *l, uint64_t row, stk_bytes all,
                     stk_bytes *out, stk_error *err)
{
    uint64_t each = stk_dtype_size(l->dtype), from = 0, n = 0;

    STK_TRY(stk_arrow_list(b, l, row, &from, &n, err));
    if (from > all.len / each || n > all.len / each - from)
        return stk_fail(err, STK_ECORRUPT, "row %" PRIu64 " of its batch: values are outside", row);
    *out = (stk_bytes){ all.data + from * each, (size_t)(n * each) };
    return 0;
}

static int pick_texts(const stk_arrow_batch *b, uint64_t row, stk_bytes *bytes, stk_error *err)
{
    uint64_t from = 0, to = 0, head = b->rows * sizeof to;

    if (row >= b->rows || head > bytes->len)
        return stk_fail(err, STK_ECORRUPT, "row %" PRIu64 " of a batch of %" PRIu64, row, b->rows);
    if (row)
        memcpy(&from, bytes->data + (row - 1) * sizeof from, sizeof from);
    memcpy(&to, bytes->data + row * sizeof to, sizeof to);
    *bytes = (stk_bytes){ bytes->data + head + from, (size_t)(to - from) };
    return from == to ? STK_ENOTFOUND : 0;
}

int stk_arrow_pick(const stk_arrow *a, const stk_entry *e, const stk_place *at, stk_bytes *bytes,
                   stk_error *err)
{
    making m = making_of(a, e->shard, at->block);
    const stk_arrow_leaf *l;
    const uint8_t *made;
    stk_arrow_batch open;
    stk_bytes value;
    uint64_t room = 0;
    uint32_t each;
    size_t packed;
    int rc;

    if (m.number >= STK_GATHER_FIRST)
        return pick_row(&m, stk_gather_number(&a->base.gathers, m.number), at->row, bytes, err);
    l = stk_arrow_leaf_of(m.s, m.number);
    if (l->texts)
        return pick_texts(m.b, at->row, bytes, err);
    each = made_bytes(m.s, m.number);
    STK_TRY(made_room(m.s, m.b, m.number, bytes->len, &room, err));
    packed = bytes->len - (size_t)room;
    stk_arrow_column_open(m.b, l, (stk_bytes){ bytes->data, packed }, &open);
    if (room && !l->decimal)
        return pick_list(&open, l, at->row, (stk_bytes){ bytes->data + packed, (size_t)room },
                         bytes, err);
    rc = stk_arrow_value(&open, l, at->row, &value, err);
    if (rc == STK_ARROW_MADE && value.len)
        return stk_fail(err, STK_ECORRUPT, "column %.60s: lists without values", l->name);
    STK_TRY(rc);
    made = bytes->data + packed + each * at->row;
    *bytes = each ? (stk_bytes){ made, made_len(&m, made, each) } : value;
    return 0;
}

static void gather_span(const making *m, const stk_gather *g, uint64_t row, stk_value_span *s)
{
    uint64_t rows = 0, all = 0, n = 0, each = (uint64_t)g->n * g->size, most = s->n;

    s->n = 0;
    if (gather_room(m->b, g, &rows, &all, NULL) < 0 || row >= m->b->rows || all > s->block.len ||
        each > UINT32_MAX)
        return;
    most = most < m->b->rows - row ? most : m->b->rows - row;
    for (uint32_t null = 0; n < most && !null; n += !null)
        if (g->strict)
            memcpy(&null, s->block.data + rows + 4 * (row + n), 4);
    s->n = n;
    s->first = NULL;
    s->width = (uint32_t)each;
    s->data = s->block.data + row * each;
}

void stk_arrow_made_span(const stk_arrow *a, const stk_entry *e, const stk_place *at,
                         stk_value_span *s)
{
    making m = making_of(a, e->shard, at->block);
    const stk_arrow_leaf *l;
    stk_arrow_batch open;
    stk_bytes values = { 0 };

    if (m.number >= STK_GATHER_FIRST) {
        gather_span(&m, stk_gather_number(&a->base.gathers, m.number), at->row, s);
        return;
    }
    l = stk_arrow_leaf_of(m.s, m.number);
    if (l->decimal || l->texts) {
        s->n = 0;
        return;
    }
    stk_arrow_column_open(m.b, l, s->block, &open);
    s->n = stk_arrow_rows(&open, l, at->row, s->n, &values);
    s->first = NULL;
    s->data = values.data;
    s->width = s->n ? (uint32_t)(values.len / s->n) : 0;
}

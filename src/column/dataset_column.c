/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_column.c - a typed column of a data set: one value a sample, whole.
 *
 * A chunk a shard comes from the index, from the class that a folder is, or, where the caller
 * says so, from reading the samples.  Shards may differ in type: all together say what the column
 * is, and numbers in a column of text become text here.  After open every value is in memory and
 * known to be sound. */
#include "column/dataset_column.h"

#include <pthread.h>
#include <string.h>

#include "base/numeral.h"
#include "base/opts.h"
#include "column/column_read.h"
#include "column/media_sizes.h"
#include "data/data.h"
#include "base/jobs.h"

struct stk_column {
    stk_dataset *ds;
    stk_chunk_type type;
    uint64_t rows, nulls, n; /* n: chunks, one a shard */
    stk_chunk *chunk;
    uint64_t *first;
};

static stk_column_type shown_type(stk_chunk_type t)
{
    return t == STK_CHUNK_TEXT  ? STK_COLUMN_TEXT
           : t == STK_CHUNK_I64 ? STK_COLUMN_I64
                                : STK_COLUMN_F64; /* without any value: all NaN */
}

static int is_float(stk_dtype t)
{
    return t == STK_F16 || t == STK_BF16 || t == STK_F32 || t == STK_F64;
}

/* Where nothing is kept of columns, fields that are numbers or texts are. */
static const char *value_field(const stk_dataset *ds, uint32_t i, stk_column_type *type)
{
    stk_field_type t;

    for (uint32_t k = 0; ds->ops->type(ds, k, &t); k++) {
        if ((!t.dtype && !t.text) || t.ndim || i--)
            continue;
        if (type)
            *type = t.text ? STK_COLUMN_TEXT : is_float(t.dtype) ? STK_COLUMN_F64 : STK_COLUMN_I64;
        return t.name;
    }
    return NULL;
}

/* Without those of media. */
static const char *own_column(const stk_dataset *ds, uint32_t i, stk_column_type *type)
{
    stk_chunk_type t;
    const char *name;

    if (!ds->ops->columns.column)
        return value_field(ds, i, type);
    name = ds->ops->columns.column(ds, i, &t);
    if (name && type)
        *type = shown_type(t);
    return name;
}

const char *stk_dataset_column(const stk_dataset *ds, uint32_t i, stk_column_type *type)
{
    const stk_mediafile *m;
    const char *name;
    uint32_t own = 0;

    if (ds->can & STK_DATA_IMMEDIATE)
        return NULL;
    name = own_column(ds, i, type);
    m = name ? NULL : stk_media_found((stk_dataset *)(uintptr_t)ds);
    if (!m)
        return name;
    while (own_column(ds, own, NULL))
        own++;
    if (type)
        *type = STK_COLUMN_I64;
    return stk_mediafile_figure(m, i - own);
}

/* ---- where the chunks come from ---- */

static int is_known(const stk_dataset *ds, const char *name)
{
    const char *have;

    for (uint32_t i = 0; (have = own_column(ds, i, NULL)); i++)
        if (!strcmp(have, name))
            return 1;
    return 0;
}

static int take_known(stk_column *col, const char *name, stk_error *err)
{
    for (uint64_t i = 0; i < col->n; i++)
        STK_TRY(col->ds->ops->columns.chunk(col->ds, name, i, &col->chunk[i], err));
    return 0;
}

typedef struct fetching {
    stk_column *col;
    stk_column_job job;
    const stk_column_options *opt;
    _Atomic uint64_t done, bad;
    _Atomic int stop;
    pthread_t caller;
} fetching;

static int tick(void *cookie)
{
    fetching *f = cookie;

    if (f->opt->progress && pthread_equal(f->caller, pthread_self()) &&
        f->opt->progress(f->opt->progress_cookie,
                         atomic_load_explicit(&f->done, memory_order_relaxed),
                         stk_dataset_len(f->job.data)))
        atomic_store_explicit(&f->stop, 1, memory_order_relaxed);
    return atomic_load_explicit(&f->stop, memory_order_relaxed);
}

static int fetch_shard(void *cookie, uint64_t i, stk_error *err)
{
    fetching *f = cookie;
    int rc;

    tick(f);
    rc = stk_column_read(&f->job, i, &f->col->chunk[i], err);
    if (rc < 0)
        stk_error_at(err, stk_dataset_shard_name(f->col->ds, i), STK_NO_OFFSET, (stk_bytes){ 0 });
    atomic_fetch_add_explicit(&f->done, f->col->chunk[i].rows, memory_order_relaxed);
    return rc;
}

static int take_read(stk_column *col, const char *name, const stk_column_options *opt,
                     stk_error *err)
{
    stk_dataset *ds = col->ds;
    fetching f = { .col = col, .opt = opt, .caller = pthread_self() };
    uint64_t bad;

    f.job = (stk_column_job){ ds, &name, 1, &f.stop, &f.bad };
    STK_TRY(stk_jobs_watch(opt->num_workers, col->n, fetch_shard, tick, &f, err));
    bad = atomic_load_explicit(&f.bad, memory_order_relaxed);
    if (bad)
        stk_log_line(&ds->log, STK_LOG_WARN,
                     "column %s: %" PRIu64 " values were left out: their field is not JSON; stoker "
                     "check names the samples",
                     name, bad);
    return 0;
}

static int take_media(stk_column *col, const stk_media_what *what, const stk_column_options *opt,
                      stk_error *err)
{
    const stk_media_making how = { .workers = opt->num_workers,
                                   .progress = opt->progress,
                                   .progress_cookie = opt->progress_cookie };
    const stk_mediafile *m;
    stk_shard_info s;

    STK_TRY(stk_media_sizes(col->ds, &how, &m, err));
    for (uint64_t i = 0; i < col->n; i++) {
        STK_TRY(col->ds->ops->shard(col->ds, i, &s, err));
        STK_TRY(stk_media_chunk(m, what, i, s.samples, &col->chunk[i], err));
    }
    return 0;
}

/* Fields of tables may be called anything. */
static int is_field(const stk_dataset *ds, const char *name)
{
    stk_field_type t;

    for (uint32_t i = 0; strlen(name) < 256 && ds->ops->type(ds, i, &t); i++)
        if (!strcmp(t.name, name))
            return 1;
    return 0;
}

static int take(stk_column *col, const char *name, const stk_column_options *opt, stk_error *err)
{
    stk_dataset *ds = col->ds;
    stk_media_what what;
    stk_chunk none;
    int media;

    if (!is_field(ds, name))
        STK_TRY(stk_column_name_check(name, err));
    if (ds->ops->columns.chunk && is_known(ds, name))
        return take_known(col, name, err);
    media = stk_media_is_column(ds, name, &what, err);
    if (media)
        return media < 0 ? media : take_media(col, &what, opt, err);
    if (opt->read == STK_YES || !ds->ops->columns.chunk)
        return take_read(col, name, opt, err);
    return ds->ops->columns.chunk(ds, name, 0, &none, err); /* says what to do */
}

/* ---- open ---- */

static int settle(stk_column *col, const char *name, stk_error *err)
{
    for (uint64_t i = 0; i < col->n; i++) {
        stk_chunk *c = &col->chunk[i];

        col->first[i] = col->rows;
        col->rows += c->rows;
        col->nulls += c->rec.type == STK_CHUNK_NULL ? c->rows : c->rec.nulls;
        col->type = c->rec.type > col->type ? (stk_chunk_type)c->rec.type : col->type;
    }
    col->first[col->n] = col->rows;
    if (col->rows && col->type <= STK_CHUNK_NULL)
        return stk_column_no_value(col->ds, name, err);
    for (uint64_t i = 0; col->type == STK_CHUNK_TEXT && i < col->n; i++) {
        stk_chunk text, *c = &col->chunk[i];

        if (c->rec.type == STK_CHUNK_TEXT || c->rec.type == STK_CHUNK_NULL)
            continue;
        STK_TRY(stk_chunk_to_text(c, &text, err));
        stk_chunk_fini(c);
        *c = text;
    }
    return 0;
}

int stk_column_open(stk_column **out, stk_dataset *ds, const char *name,
                    const stk_column_options *opt, stk_error *err)
{
    stk_column_options o;
    stk_column *col;
    int rc;

    *out = NULL;
    if (ds->can & STK_DATA_IMMEDIATE)
        return stk_needs_index(ds, "a column", err);
    col = STK_NEW(stk_column);
    if (!col)
        return stk_fail_nomem(err, sizeof *col);
    stk_options_take(&o, sizeof o, opt);
    col->ds = stk_dataset_ref(ds);
    col->n = stk_dataset_shards(ds);
    col->chunk = stk_zalloc(col->n + 1, sizeof *col->chunk);
    col->first = stk_zalloc(col->n + 1, sizeof *col->first);
    rc = col->chunk && col->first ? take(col, name, &o, err)
                                  : stk_fail_nomem(err, col->n * sizeof *col->chunk);
    if (rc == 0)
        rc = settle(col, name, err);
    if (rc < 0)
        stk_column_close(&col);
    *out = col;
    return rc;
}

void stk_column_close(stk_column **c)
{
    stk_column *x = *c;

    *c = NULL;
    if (!x)
        return;
    for (uint64_t i = 0; x->chunk && i < x->n; i++)
        stk_chunk_fini(&x->chunk[i]);
    stk_free(x->chunk);
    stk_free(x->first);
    stk_dataset_unref(&x->ds);
    stk_free(x);
}

stk_column_type stk_column_kind(const stk_column *c)
{
    return shown_type(c->type);
}

uint64_t stk_column_nulls(const stk_column *c)
{
    return c->nulls;
}

int stk_column_utf8(const stk_column *c)
{
    for (uint64_t i = 0; i < c->n; i++)
        if (!stk_chunk_utf8(&c->chunk[i]))
            return 0;
    return 1;
}

/* ---- values ---- */

/* The chunk with first[s] <= i < first[s + 1]; i < rows. */
static uint64_t chunk_of(const stk_column *c, uint64_t i)
{
    uint64_t lo = 0, hi = c->n;

    while (hi - lo > 1) {
        uint64_t mid = lo + (hi - lo) / 2;

        if (c->first[mid] <= i)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

typedef struct piece { /* rows of one chunk */
    const stk_chunk *chunk;
    uint64_t row, n, at; /* at: place in what the caller gave */
} piece;

/* Walk the chunks that [first, first + n) touches: 1 and *p, or 0 at the end. */
static int next_piece(const stk_column *c, uint64_t first, uint64_t n, piece *p)
{
    uint64_t s, at = p->chunk ? p->at + p->n : 0;

    if (at == n)
        return 0;
    s = p->chunk ? (uint64_t)(p->chunk - c->chunk) + 1 : chunk_of(c, first);
    while (c->first[s + 1] <= first + at)
        s++; /* empty ones */
    p->chunk = &c->chunk[s];
    p->row = first + at - c->first[s];
    p->at = at;
    p->n = c->first[s + 1] - (first + at);
    p->n = p->n < n - at ? p->n : n - at;
    return 1;
}

static int range_check(const stk_column *c, uint64_t first, uint64_t n, int fits, stk_error *err)
{
    if (first > c->rows || n > c->rows - first)
        return stk_fail(err, STK_EINVAL, "%" PRIu64 " values from %" PRIu64 " of %" PRIu64, n,
                        first, c->rows);
    return fits ? 0 : stk_fail(err, STK_EINVAL, "the column is of another type");
}

int stk_column_i64(const stk_column *c, uint64_t first, uint64_t n, int64_t *out, stk_error *err)
{
    piece p = { 0 };

    STK_TRY(range_check(c, first, n, c->type == STK_CHUNK_I64, err));
    while (next_piece(c, first, n, &p))
        stk_chunk_i64(p.chunk, p.row, p.n, out + p.at);
    return 0;
}

int stk_column_f64(const stk_column *c, uint64_t first, uint64_t n, double *out, stk_error *err)
{
    piece p = { 0 };

    STK_TRY(range_check(c, first, n, c->type != STK_CHUNK_TEXT, err));
    while (next_piece(c, first, n, &p))
        stk_chunk_f64(p.chunk, p.row, p.n, out + p.at);
    return 0;
}

int stk_column_valid(const stk_column *c, uint64_t first, uint64_t n, uint8_t *out, stk_error *err)
{
    piece p = { 0 };

    STK_TRY(range_check(c, first, n, 1, err));
    while (next_piece(c, first, n, &p))
        for (uint64_t i = 0; i < p.n; i++)
            out[p.at + i] = (uint8_t)stk_chunk_valid(p.chunk, p.row + i);
    return 0;
}

int stk_column_text(const stk_column *c, uint64_t first, uint64_t n, const char **text, size_t *len,
                    stk_error *err)
{
    piece p = { 0 };

    STK_TRY(range_check(c, first, n, c->type == STK_CHUNK_TEXT, err));
    while (next_piece(c, first, n, &p))
        for (uint64_t i = 0; i < p.n; i++) {
            stk_bytes t = stk_chunk_text(p.chunk, p.row + i);

            text[p.at + i] = (const char *)t.data;
            len[p.at + i] = t.len;
        }
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* dataset.c - shards plus index as one handle: open it, count, read single samples, build the
 * index on its own.
 *
 * Reading here is for people, tests and map-style access: one sample, whole, in the calling
 * thread.  It takes no lock, so it also works in a forked child; shared are the open files and the
 * block that was unpacked last, which makes neighbours cheap.  Whoever looks at that block takes it
 * out and puts it back: another thread finds nothing meanwhile and unpacks its own. */
#include <stoker/dataset.h>
#include <stoker/tools.h>

#include <stdio.h>
#include <string.h>

#include "array/arrays_open.h"
#include "base/opts.h"
#include "data/data.h"
#include "dataset/indexer.h"
#include "dataset/seek_build.h"

#define KEPT_MAX ((size_t)64 << 20) /* bytes of the block that a data set keeps */
#define READ_GAP 4096u /* fields no farther apart than this (headers, padding) are read in one go */

/* ---- open ---- */

void stk_seek_path(const char *index_path, char *out, size_t size)
{
    size_t len = strlen(index_path);

    out[0] = 0;
    if (len > 4 && !strcmp(index_path + len - 4, ".idx"))
        snprintf(out, size, "%.*s.seek", (int)(len - 4), index_path);
}

/* Seek points save work and decide nothing: bad ones are told of and left alone. */
static void seek_find(stk_dataset *ds)
{
    char path[1290];
    stk_error err;

    stk_seek_path(ds->index_path, path, sizeof path);
    if (!path[0])
        return;
    stk_error_clear(&err);
    if (stk_seekfile_open(&ds->seek, path, ds->index, &err) < 0) {
        if (err.code != STK_ENOTFOUND)
            stk_log_line(&ds->log, STK_LOG_WARN, "going on without seek points: %s", err.message);
        return;
    }
    stk_seekfile_tell(ds->seek, &ds->log);
    if (stk_seekfile_foreign(ds->seek))
        stk_log_line(&ds->log, STK_LOG_WARN,
                     "going on without some seek points: in %s those of %" PRIu64
                     " shard(s) are of other data; make them anew: stoker index --jpeg ...",
                     path, stk_seekfile_foreign(ds->seek));
}

/* For stk_dataset_options.jpeg; STK_ECLOSED: progress said stop. */
static int seek_make(stk_dataset *ds, const stk_dataset_options *o, stk_error *err)
{
    stk_seek_build b = { .workers = o->num_workers,
                         .progress = o->progress,
                         .progress_cookie = o->progress_cookie };
    stk_error why = { 0 };
    int rc = stk_seek_build_run(&b, ds, &why);

    if (rc == STK_EIO) {
        stk_log_line(&ds->log, STK_LOG_WARN, "going on without seek points: %s", why.message);
        return 0;
    }
    if (rc < 0 && err)
        *err = why;
    return rc;
}

static int dataset_take(stk_dataset *ds, stk_indexer *x, const stk_dataset_options *o,
                        stk_error *err)
{
    ds->index = x->index;
    ds->format = x->format;
    ds->log = x->log;
    x->index = NULL;
    memcpy(ds->index_path, x->path, sizeof ds->index_path);
    seek_find(ds);
    if (o->n_classes && !ds->format->class_name)
        return stk_fail(err, STK_EINVAL,
                        "classes= is for folders of pictures; this data set is %s and has none",
                        ds->format->name);
    if (ds->format->open) {
        stk_format_data in = { (const char *const *)x->names.name, x->names.n,
                               o->n_classes ? o->classes : NULL, o->n_classes };

        STK_TRY(ds->format->open(&in, &ds->state, err));
    }
    return stk_shards_open(&ds->shards, ds->index, ds->format, &x->names, err);
}

static int open_arrays(stk_dataset *ds, const char *const *urls, size_t n,
                       const stk_dataset_options *o, stk_error *err)
{
    if (o->n_classes || o->n_columns || o->jpeg == STK_YES)
        return stk_fail(err, STK_EINVAL,
                        "classes, columns and jpeg are for shards with an index; these are arrays");
    ds->log = (stk_log){ o->log, o->log_cookie };
    return stk_arrays_open(&ds->arrays, urls, n, o, err);
}

int stk_dataset_open(stk_dataset **out, const char *const *urls, size_t n,
                     const stk_dataset_options *opt, stk_error *err)
{
    stk_dataset_options o;
    stk_indexer x = { 0 };
    stk_dataset *ds = NULL;
    int rc;

    *out = NULL;
    stk_options_take(&o, sizeof o, opt);
    x.cache_dir = o.cache_dir;
    x.format_name = o.format;
    x.columns = o.columns;
    x.n_columns = o.n_columns;
    x.workers = o.num_workers;
    x.log = (stk_log){ o.log, o.log_cookie };
    x.progress = o.progress;
    x.progress_cookie = o.progress_cookie;
    x.classes_fixed = o.n_classes > 0;
    ds = STK_NEW(stk_dataset);
    if (!ds)
        return stk_fail_nomem(err, sizeof *ds);
    atomic_init(&ds->refs, 1);
    if (!o.format && stk_arrays_meant(urls, n, &o)) {
        rc = open_arrays(ds, urls, n, &o, err);
    } else {
        rc = stk_indexer_open(&x, urls, n, err);
        if (rc == 0)
            rc = dataset_take(ds, &x, &o, err);
    }
    if (rc == 0 && o.jpeg == STK_YES)
        rc = seek_make(ds, &o, err);
    if (rc < 0)
        stk_dataset_unref(&ds);
    stk_indexer_fini(&x);
    *out = ds;
    return rc;
}

stk_dataset *stk_dataset_ref(stk_dataset *ds)
{
    atomic_fetch_add_explicit(&ds->refs, 1, memory_order_relaxed);
    return ds;
}

typedef struct stk_kept_block { /* unpacked; samples and the data set hold it */
    _Atomic uint32_t refs;
    uint64_t shard, block;
    void *data;
    size_t len;
} stk_kept_block;

static void kept_unref(stk_kept_block *b)
{
    if (!b || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1)
        return;
    stk_free(b->data);
    stk_free(b);
}

/* Hand a reference to the data set. */
static void kept_put(stk_dataset *ds, stk_kept_block *b)
{
    kept_unref(atomic_exchange_explicit(&ds->last, b, memory_order_acq_rel));
}

/* A reference to the block, if it is the one that was unpacked last; else NULL. */
static stk_kept_block *kept_find(stk_dataset *ds, uint64_t shard, uint64_t block)
{
    stk_kept_block *b = atomic_exchange_explicit(&ds->last, NULL, memory_order_acq_rel);

    if (b && (b->shard != shard || b->block != block)) {
        kept_unref(b);
        return NULL;
    }
    if (b) {
        atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
        kept_put(ds, b);
    }
    return b;
}

void stk_dataset_unref(stk_dataset **ds)
{
    stk_dataset *d = *ds;

    *ds = NULL;
    if (!d || atomic_fetch_sub_explicit(&d->refs, 1, memory_order_acq_rel) != 1)
        return;
    kept_put(d, NULL);
    stk_shards_close(&d->shards);
    if (d->state)
        d->format->close(d->state);
    stk_seekfile_close(&d->seek);
    stk_index_close(&d->index);
    stk_arrays_close(&d->arrays);
    stk_free(d);
}

uint64_t stk_dataset_len(const stk_dataset *ds)
{
    return ds->arrays ? ds->arrays->rows : stk_index_samples(ds->index);
}

uint64_t stk_dataset_shards(const stk_dataset *ds)
{
    return ds->arrays ? ds->arrays->files : stk_index_shards(ds->index);
}

const char *stk_dataset_arrays(const stk_dataset *ds)
{
    return ds->arrays ? ds->arrays->kind : NULL;
}

/* Files are counted through all arrays. */
static const char *array_file(const stk_arrays *s, uint64_t i)
{
    for (uint32_t k = 0; k < s->n; k++) {
        const stk_array *a = &s->array[k];

        if (a->part[0].data) /* memory, or unpacked */
            continue;
        if (i < a->n_parts)
            return a->part[i].name;
        i -= a->n_parts;
    }
    return NULL;
}

const char *stk_dataset_shard_name(const stk_dataset *ds, uint64_t shard)
{
    return ds->arrays ? array_file(ds->arrays, shard) : stk_shards_name(ds->shards, shard);
}

const char *stk_dataset_index_path(const stk_dataset *ds)
{
    return ds->index_path;
}

const char *stk_dataset_field(const stk_dataset *ds, uint32_t field)
{
    if (ds->arrays)
        return field < ds->arrays->n ? ds->arrays->array[field].name : NULL;
    return stk_index_name(ds->index, field);
}

const char *stk_dataset_key(const stk_dataset *ds, uint64_t i, size_t *len)
{
    stk_entry e;

    *len = 0;
    if (ds->arrays || stk_index_entry(ds->index, i, &e, NULL) < 0)
        return NULL;
    *len = stk_key_shown(e.key).len;
    return (const char *)e.key.data;
}

const char *stk_dataset_class(const stk_dataset *ds, uint32_t i)
{
    return ds->state && ds->format->class_name ? ds->format->class_name(ds->state, i) : NULL;
}

/* ---- one sample ---- */

typedef struct sample_field {
    stk_field at;
    const uint8_t *data;
    size_t len;
    stk_kept_block *block; /* that it is in; NULL: in none */
    void *owned;           /* read for this field */
} sample_field;

struct stk_sample {
    stk_dataset *ds; /* held: key and names lie in its index */
    stk_entry entry;
    uint8_t *bytes; /* fields that were read as plain ranges */
    sample_field f[];
};

static int sample_new(stk_dataset *ds, uint64_t i, stk_sample **out, stk_error *err)
{
    stk_entry e;
    stk_sample *s;
    int rc = 0;

    STK_TRY(stk_index_entry(ds->index, i, &e, err));
    s = stk_zalloc(1, sizeof *s + e.n_fields * sizeof *s->f);
    if (!s)
        return stk_fail_nomem(err, sizeof *s + e.n_fields * sizeof *s->f);
    s->ds = stk_dataset_ref(ds);
    s->entry = e;
    for (uint32_t k = 0; rc == 0 && k < e.n_fields; k++)
        rc = stk_index_field(ds->index, &e, k, &s->f[k].at, err);
    *out = s;
    return rc;
}

/* Ranges come from the index, which may lie: nothing is allocated for bytes that the shard
 * cannot have. */
static int ranges_check(const stk_sample *s, uint64_t *lo, uint64_t *hi, uint64_t *sum,
                        stk_error *err)
{
    stk_shard_info shard;

    STK_TRY(stk_index_shard(s->ds->index, s->entry.shard, &shard, err));
    *lo = UINT64_MAX;
    *hi = *sum = 0;
    for (uint32_t k = 0; k < s->entry.n_fields; k++) {
        const stk_field *f = &s->f[k].at;

        if (f->offset > shard.size || f->size > shard.size - f->offset) {
            stk_fail(err, STK_ECORRUPT,
                     "field %s has %" PRIu64 " bytes and ends past the shard's %" PRIu64
                     "; run: stoker index --force ...",
                     f->name, f->size, shard.size);
            stk_error_at(err, NULL, f->offset, (stk_bytes){ 0 });
            return STK_ECORRUPT;
        }
        *lo = f->offset < *lo ? f->offset : *lo;
        *hi = f->offset + f->size > *hi ? f->offset + f->size : *hi;
        *sum = f->size > UINT64_MAX / 2 - *sum ? UINT64_MAX / 2
                                               : *sum + f->size; /* fields may overlap */
    }
    return 0;
}

static int read_ranges(stk_sample *s, stk_file *file, stk_error *err)
{
    uint64_t lo, hi, sum, at = 0, n = s->entry.n_fields;
    int whole;

    STK_TRY(ranges_check(s, &lo, &hi, &sum, err));
    if (!sum)
        lo = hi = 0;
    whole = sum && hi - lo <= sum + n * READ_GAP;
    s->bytes = stk_alloc(whole ? hi - lo : sum);
    if (!s->bytes)
        return stk_fail_nomem(err, whole ? hi - lo : sum);
    if (whole)
        STK_TRY(stk_file_read(file, lo, s->bytes, hi - lo, err));
    for (uint32_t k = 0; k < n; k++) {
        sample_field *f = &s->f[k];

        f->len = f->at.size;
        f->data = s->bytes + (whole && f->len ? f->at.offset - lo : at);
        if (!whole && f->len)
            STK_TRY(stk_file_read(file, f->at.offset, s->bytes + at, f->len, err));
        at += whole ? 0 : f->len;
    }
    return 0;
}

/* The range that locate() gave, in memory of its own. */
static int read_place(const stk_sample *s, stk_file *file, const stk_place *p, void **out,
                      stk_error *err)
{
    stk_shard_info shard;
    int rc;

    STK_TRY(stk_index_shard(s->ds->index, s->entry.shard, &shard, err));
    if (p->offset > shard.size || p->len > shard.size - p->offset) {
        stk_fail(err, STK_ECORRUPT, "%" PRIu64 " bytes are wanted past the shard's end at %" PRIu64,
                 p->len, shard.size);
        stk_error_at(err, NULL, p->offset, (stk_bytes){ 0 });
        return STK_ECORRUPT;
    }
    *out = stk_alloc(p->len);
    if (!*out)
        return stk_fail_nomem(err, p->len);
    rc = stk_file_read(file, p->offset, *out, p->len, err);
    if (rc < 0) {
        stk_free(*out);
        *out = NULL;
    }
    return rc;
}

/* The file, or part of it, that a field names. */
static int read_named(const stk_sample *s, const stk_place *p, void **out, size_t *len,
                      stk_error *err)
{
    stk_file *f = NULL;
    uint64_t n = 0;
    int rc = stk_named_open(stk_sample_shard(s), NULL, p, &f, &n, err);

    if (rc == 0) {
        *out = stk_alloc(n);
        rc = *out ? stk_file_read(f, p->offset, *out, n, err) : stk_fail_nomem(err, n);
    }
    *len = (size_t)n;
    stk_file_close(&f);
    return rc;
}

/* *out: a reference to the block, read and unpacked. */
static int block_read(const stk_sample *s, stk_file *file, const stk_place *p, stk_kept_block **out,
                      stk_error *err)
{
    stk_kept_block *b = STK_NEW(stk_kept_block);
    void *raw = NULL;
    int rc = b ? read_place(s, file, p, &raw, err) : stk_fail_nomem(err, sizeof *b);

    if (rc == 0) {
        b->len = (size_t)p->unpacked;
        b->data = stk_alloc(b->len);
        rc = b->data ? s->ds->format->unpack((stk_bytes){ raw, p->len }, b->data, &b->len, err)
                     : stk_fail_nomem(err, b->len);
    }
    stk_free(raw);
    if (rc < 0) {
        if (b)
            stk_free(b->data);
        stk_free(b);
        return rc;
    }
    atomic_init(&b->refs, 1);
    b->shard = s->entry.shard;
    b->block = p->block;
    *out = b;
    return 0;
}

/* The unpacked block of a field: an earlier field's when it is the same one, or the one that was
 * unpacked last. */
static int block_of(stk_sample *s, uint32_t k, stk_file *file, const stk_place *p, stk_bytes *out,
                    stk_error *err)
{
    stk_kept_block *b = NULL;

    for (uint32_t j = 0; j < k && !b; j++)
        if (s->f[j].block && s->f[j].block->block == p->block)
            b = s->f[j].block;
    if (b) {
        atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    } else {
        b = kept_find(s->ds, s->entry.shard, p->block);
        if (!b) {
            STK_TRY(block_read(s, file, p, &b, err));
            if (b->len <= KEPT_MAX) {
                atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
                kept_put(s->ds, b);
            }
        }
    }
    s->f[k].block = b;
    *out = (stk_bytes){ b->data, b->len };
    return 0;
}

static int read_located(stk_sample *s, stk_file *file, stk_error *err)
{
    const stk_format *format = s->ds->format;

    for (uint32_t k = 0; k < s->entry.n_fields; k++) {
        sample_field *f = &s->f[k];
        stk_place p = { 0 };
        stk_bytes block, got;

        s->entry.state = s->ds->state;
        STK_TRY(format->locate(&s->entry, &f->at, &p, err));
        if (p.here.data) {
            f->data = p.here.data;
            f->len = p.here.len;
            continue;
        }
        if (p.name.data) {
            STK_TRY(read_named(s, &p, &f->owned, &f->len, err));
            f->data = f->owned;
            continue;
        }
        if (p.shared) {
            STK_TRY(block_of(s, k, file, &p, &block, err));
            STK_TRY(format->pick(block, &s->entry, &f->at, &got, err));
            f->data = got.data;
            f->len = got.len;
            continue;
        }
        STK_TRY(read_place(s, file, &p, &f->owned, err));
        f->data = f->owned;
        f->len = p.len;
    }
    return 0;
}

static int sample_read(stk_sample *s, stk_error *err)
{
    stk_shards *shards = s->ds->shards;
    stk_file *file;
    int rc;

    STK_TRY(stk_shards_acquire(shards, s->entry.shard, &file, err));
    rc = s->ds->format->locate ? read_located(s, file, err) : read_ranges(s, file, err);
    stk_shards_release(shards, s->entry.shard);
    return rc;
}

/* A row of every array, as it is stored. */
static int sample_rows(stk_dataset *ds, uint64_t i, stk_sample **out, stk_error *err)
{
    const stk_arrays *set = ds->arrays;
    stk_sample *s;
    int rc = 0;

    *out = NULL;
    if (i >= set->rows)
        return stk_fail(err, STK_EINVAL, "sample %" PRIu64 " of %" PRIu64 " does not exist", i,
                        set->rows);
    s = stk_zalloc(1, sizeof *s + set->n * sizeof *s->f);
    if (!s)
        return stk_fail_nomem(err, sizeof *s);
    s->ds = stk_dataset_ref(ds);
    s->entry.n_fields = set->n;
    s->entry.key.data = (const uint8_t *)"";
    for (uint32_t k = 0; rc == 0 && k < set->n; k++) {
        const stk_array *a = &set->array[k];
        sample_field *f = &s->f[k];
        uint64_t rows;

        f->at.name = a->name;
        f->len = a->row_bytes;
        f->data = f->owned = stk_alloc(f->len);
        rc = f->owned ? stk_array_read(a, i, 1, f->owned, &rows, err) : stk_fail_nomem(err, f->len);
    }
    if (rc < 0)
        stk_sample_close(&s);
    *out = s;
    return rc;
}

int stk_dataset_read(stk_dataset *ds, uint64_t i, stk_sample **out, stk_error *err)
{
    stk_sample *s = NULL;
    int rc;

    if (ds->arrays)
        return sample_rows(ds, i, out, err);
    rc = sample_new(ds, i, &s, err);
    if (rc == 0)
        rc = sample_read(s, err);
    if (rc < 0) {
        if (s)
            stk_error_at(err, stk_shards_name(ds->shards, s->entry.shard), s->entry.offset,
                         s->entry.key);
        if (s && err)
            err->sample = i;
        stk_sample_close(&s);
    }
    *out = s;
    return rc;
}

int stk_dataset_look(stk_dataset *ds, uint64_t i, stk_sample **out, stk_error *err)
{
    stk_sample *s = NULL;
    int rc = stk_needs_index(ds, "looking", err);

    if (rc == 0)
        rc = sample_new(ds, i, &s, err);

    for (uint32_t k = 0; rc == 0 && k < s->entry.n_fields; k++)
        s->f[k].len = s->f[k].at.size;
    if (rc < 0)
        stk_sample_close(&s);
    *out = s;
    return rc;
}

uint64_t stk_sample_offset(const stk_sample *s)
{
    return s->entry.offset;
}

const char *stk_sample_key(const stk_sample *s, size_t *len)
{
    if (len)
        *len = stk_key_shown(s->entry.key).len;
    return (const char *)s->entry.key.data;
}

const char *stk_sample_shard(const stk_sample *s)
{
    return s->ds->arrays ? "" : stk_shards_name(s->ds->shards, s->entry.shard);
}

uint32_t stk_sample_fields(const stk_sample *s)
{
    return s->entry.n_fields;
}

const char *stk_sample_field(const stk_sample *s, uint32_t i, const void **data, size_t *len)
{
    if (i >= s->entry.n_fields)
        return NULL;
    if (data)
        *data = s->f[i].data;
    if (len)
        *len = s->f[i].len;
    return s->f[i].at.name;
}

void stk_sample_close(stk_sample **s)
{
    stk_sample *x = *s;

    *s = NULL;
    if (!x)
        return;
    for (uint32_t k = 0; k < x->entry.n_fields; k++) {
        stk_free(x->f[k].owned);
        kept_unref(x->f[k].block);
    }
    stk_free(x->bytes);
    stk_dataset_unref(&x->ds);
    stk_free(x);
}

/* ---- stk_index_build ---- */

static int index_jpegs(stk_seek_build *b, const char *const *urls, size_t n,
                       const stk_index_options *o, stk_error *err)
{
    stk_dataset_options d = { .size = sizeof d,
                              .cache_dir = o->cache_dir,
                              .format = o->format,
                              .log = o->log,
                              .log_cookie = o->log_cookie };
    stk_dataset *ds = NULL;
    int rc = stk_dataset_open(&ds, urls, n, &d, err);

    b->workers = o->num_workers;
    b->force = o->force == STK_YES;
    b->progress = o->jpeg_progress;
    b->progress_cookie = o->progress_cookie;
    if (rc == 0)
        rc = stk_seek_build_run(b, ds, err);
    stk_dataset_unref(&ds);
    return rc;
}

static int report_fill(const stk_indexer *x, const stk_seek_build *jpegs, stk_index_report *out,
                       stk_error *err)
{
    stk_index_report r = { .size = sizeof r,
                           .shards = stk_index_shards(x->index),
                           .samples = stk_index_samples(x->index),
                           .fields = stk_index_names(x->index),
                           .index_bytes = stk_index_bytes(x->index),
                           .reused_shards = x->reused,
                           .built = x->built || jpegs->built,
                           .jpegs = jpegs->jpegs,
                           .jpeg_bytes = jpegs->jpeg_bytes,
                           .seek_bytes = jpegs->bytes,
                           .jpegs_without = jpegs->others };
    stk_shard_info s;
    uint32_t given = out->size;

    for (uint32_t c = 0; c < stk_index_columns(x->index); c++)
        r.columns += stk_index_column_known(x->index, c) != 0;
    for (uint64_t i = 0; i < r.shards; i++) {
        STK_TRY(stk_index_shard(x->index, i, &s, err));
        r.data_bytes += s.size;
    }
    if (strlen(x->path) < sizeof r.path) /* a cut path would be another file's */
        memcpy(r.path, x->path, strlen(x->path));
    if (given < sizeof given)
        return stk_fail(err, STK_EINVAL, "the report says size %u: set it to sizeof of the struct",
                        given);
    if (given > sizeof r)
        given = sizeof r;
    r.size = given;
    memcpy(out, &r, given);
    return 0;
}

int stk_index_build(const char *const *urls, size_t n, const stk_index_options *opt,
                    stk_index_report *report, stk_error *err)
{
    stk_index_options o;
    stk_indexer x = { 0 };
    stk_seek_build jpegs = { 0 };
    int rc;

    stk_options_take(&o, sizeof o, opt);
    x.cache_dir = o.cache_dir;
    x.format_name = o.format;
    x.columns = o.columns;
    x.n_columns = o.n_columns;
    x.workers = o.num_workers;
    x.force = o.force == STK_YES;
    x.log = (stk_log){ o.log, o.log_cookie };
    x.progress = o.progress;
    x.progress_cookie = o.progress_cookie;
    rc = stk_indexer_mend(&x, urls, n, err);
    if (rc == 0 && o.jpeg == STK_YES)
        rc = index_jpegs(&jpegs, urls, n, &o, err);
    if (rc == 0 && report)
        rc = report_fill(&x, &jpegs, report, err);
    stk_indexer_fini(&x);
    return rc;
}

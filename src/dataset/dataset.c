/* SPDX-License-Identifier: Apache-2.0 */
/* dataset.c - shards plus index as one handle: open it, count, read single samples, build the
 * index on its own.
 *
 * Reading here is for people, tests and map-style access: one sample, whole, in the calling
 * thread, by the reader of fetch/.  It works in a forked child and from several threads: they share
 * the open files, and in one process the blocks that were unpacked last. */
#include <stoker/dataset.h>
#include <stoker/store.h>
#include <stoker/tools.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/opts.h"
#include "fetch/request.h"
#include "indexer/indexer.h"
#include "dataset/read_some.h"
#include "column/media_sizes.h"
#include "indexer/seek_build.h"

/* ---- open ---- */

/* Seek points save work and decide nothing: bad ones are told of and left alone. */
static void seek_find(stk_shard_data *ds)
{
    char path[1290];
    stk_error err;

    stk_seek_path(ds->base.index_path, path, sizeof path);
    if (!path[0])
        return;
    stk_error_clear(&err);
    if (stk_seekfile_open(&ds->seek, path, ds->index, &err) < 0) {
        if (err.code != STK_ENOTFOUND)
            stk_log_line(&ds->base.log, STK_LOG_WARN, "going on without seek points: %s",
                         err.message);
        return;
    }
    stk_seekfile_tell(ds->seek, &ds->base.log);
    if (stk_seekfile_foreign(ds->seek))
        stk_log_line(&ds->base.log, STK_LOG_WARN,
                     "going on without some seek points: in %s those of %" PRIu64
                     " shard(s) are of other data; make them again: stoker index --jpeg ...",
                     path, stk_seekfile_foreign(ds->seek));
}

/* For stk_dataset_options.jpeg; STK_ECLOSED: progress said stop. */
static int seek_make(stk_shard_data *ds, const stk_dataset_options *o, stk_error *err)
{
    stk_seek_build b = { .workers = o->num_workers,
                         .progress = o->progress,
                         .progress_cookie = o->progress_cookie };
    stk_error why = { 0 };
    int rc = stk_seek_build_run(&b, ds, &why);

    if (rc == STK_EIO) {
        stk_log_line(&ds->base.log, STK_LOG_WARN, "going on without seek points: %s", why.message);
        return 0;
    }
    if (rc < 0 && err)
        *err = why;
    return rc;
}

/* For stk_dataset_options.columns that are sizes of pictures. */
static int sizes_make(stk_shard_data *ds, const stk_dataset_options *o, stk_error *err)
{
    const stk_media_making how = { .workers = o->num_workers,
                                   .progress = o->progress,
                                   .progress_cookie = o->progress_cookie };
    const stk_mediafile *m;

    return stk_media_sizes(&ds->base, &how, &m, err);
}

static int take_indexed(stk_shard_data *ds, stk_indexer *x, const stk_dataset_options *o,
                        stk_error *err)
{
    stk_shard_data_init(ds, x->format);
    ds->index = x->index;
    ds->base.log = x->log;
    x->index = NULL;
    if (o->encoding) {
        ds->encoding = stk_alloc(256 * sizeof *ds->encoding);
        if (!ds->encoding)
            return stk_fail_nomem(err, 256 * sizeof *ds->encoding);
        memcpy(ds->encoding, o->encoding, 256 * sizeof *ds->encoding);
    }
    stk_index_scan_as(ds->index, &(stk_scan){ .salvage = x->torn && x->salvage,
                                              .skip_damaged = x->torn,
                                              .encoding = ds->encoding });
    memcpy(ds->base.index_path, x->path, sizeof ds->base.index_path);
    seek_find(ds);
    stk_shard_data_seek(ds);
    if (o->n_classes && !ds->format->class_name)
        return stk_fail(err, STK_EINVAL,
                        "classes= is for folders of pictures; this data set is %s and has none",
                        ds->format->name);
    STK_TRY(stk_shard_data_open(ds,
                                (stk_format_data){ .shards = (const char *const *)x->names.name,
                                                   .n_shards = x->names.n,
                                                   .classes = o->n_classes ? o->classes : NULL,
                                                   .n_classes = o->n_classes },
                                err));
    return stk_shards_open(&ds->shards, ds->index, ds->format, &x->names, err);
}

static int take_shards(stk_dataset **out, stk_indexer *x, const stk_dataset_options *o,
                       stk_error *err)
{
    stk_shard_data *ds = STK_NEW(stk_shard_data);
    int rc;

    if (!ds)
        return stk_fail_nomem(err, sizeof *ds);
    *out = &ds->base;
    rc = take_indexed(ds, x, o, err);
    if (rc == 0 && o->jpeg == STK_YES)
        rc = seek_make(ds, o, err);
    if (rc == 0 && x->media)
        rc = sizes_make(ds, o, err);
    if (rc < 0)
        stk_dataset_unref(out);
    return rc;
}

static int open_shards(stk_dataset **out, const char *const *urls, size_t n,
                       const stk_dataset_options *o, stk_error *err)
{
    stk_indexer x = { .cache_dir = o->cache_dir,
                      .format_name = o->format,
                      .columns = o->columns,
                      .n_columns = o->n_columns,
                      .workers = o->num_workers,
                      .log = { o->log, o->log_cookie },
                      .progress = o->progress,
                      .progress_cookie = o->progress_cookie,
                      .classes_fixed = o->n_classes > 0,
                      .grow = o->reindex == STK_YES,
                      .salvage = o->salvage == STK_YES,
                      .skip_damaged = o->salvage == STK_YES || o->skip_damaged == STK_YES,
                      .encoding = o->encoding,
                      .names = { .store = o->store } };
    int rc = stk_indexer_open(&x, urls, n, err);

    if (rc == 0)
        rc = take_shards(out, &x, o, err);
    stk_indexer_fini(&x);
    return rc;
}

int stk_dataset_open(stk_dataset **out, const char *const *urls, size_t n,
                     const stk_dataset_options *opt, stk_error *err)
{
    const stk_data_kind *kind;
    stk_dataset_options o;
    int rc;

    *out = NULL;
    stk_options_take(&o, sizeof o, opt);
    kind = stk_kind_meant(urls, n, &o);
    rc = kind ? kind->open(out, kind, urls, n, &o, err) : open_shards(out, urls, n, &o, err);
    if (rc == 0)
        (*out)->store = stk_store_ref(o.store);
    return rc;
}

stk_dataset *stk_dataset_ref(stk_dataset *ds)
{
    atomic_fetch_add_explicit(&ds->refs, 1, memory_order_relaxed);
    return ds;
}

void stk_dataset_unref(stk_dataset **ds)
{
    stk_dataset *d = *ds;
    stk_mediafile *media;
    stk_store *store;
    uint64_t *runs;

    *ds = NULL;
    if (!d || atomic_fetch_sub_explicit(&d->refs, 1, memory_order_acq_rel) != 1)
        return;
    store = d->store;
    runs = d->runs;
    media = atomic_load_explicit(&d->media, memory_order_acquire);
    stk_mediafile_close(&media);
    stk_dataset_rest(d);
    d->ops->close(d);
    stk_store_unref(&store); /* its files are closed */
    stk_free(runs);
}

uint64_t stk_dataset_len(const stk_dataset *ds)
{
    return ds->ops->len(ds);
}

uint64_t stk_dataset_shards(const stk_dataset *ds)
{
    return ds->ops->shards(ds);
}

const char *stk_dataset_arrays(const stk_dataset *ds)
{
    return ds->can & STK_DATA_IMMEDIATE ? ds->ops->kind(ds) : NULL;
}

const char *stk_dataset_shard_name(const stk_dataset *ds, uint64_t shard)
{
    return ds->ops->shard_name(ds, shard);
}

const char *stk_dataset_index_path(const stk_dataset *ds)
{
    return ds->index_path;
}

const char *stk_dataset_field(const stk_dataset *ds, uint32_t field)
{
    stk_field_type t;

    return ds->ops->type(ds, field, &t) ? t.name : NULL;
}

int stk_dataset_field_type(const stk_dataset *ds, uint32_t field, stk_field_type *out)
{
    return ds->ops->type(ds, field, out);
}

const char *stk_dataset_key(const stk_dataset *ds, uint64_t i, size_t *len)
{
    stk_entry e;

    *len = 0;
    if (!(ds->can & STK_DATA_KEYS) || ds->ops->entry(ds, i, &e, NULL) < 0)
        return NULL;
    *len = stk_key_shown(e.key).len;
    return (const char *)e.key.data;
}

const char *stk_dataset_class(const stk_dataset *ds, uint32_t i)
{
    return ds->ops->class_name ? ds->ops->class_name(ds, i) : NULL;
}

int stk_dataset_print(const stk_dataset *ds, stk_fingerprint *out, stk_error *err)
{
    *out = (stk_fingerprint){ 0 };
    return ds->ops->fingerprint(ds, out, err);
}

/* ---- one sample ---- */

typedef struct sample_field {
    const char *name;
    stk_bytes bytes;
} sample_field;

struct stk_sample {
    stk_dataset *ds; /* held: key and names are in its index */
    stk_entry entry;
    uint8_t *picked; /* fields that are in blocks, or in maps of files */
    sample_field f[];
};

/* Field k of a sample; of tables all samples have the same. */
static const char *field_name(const stk_dataset *ds, const stk_entry *e, uint32_t k)
{
    const char *name = ds->can & STK_DATA_INDEXED ? NULL : stk_dataset_field(ds, k);
    stk_field f;

    if (ds->can & STK_DATA_INDEXED && ds->ops->field(ds, e, k, &f, NULL) == 0)
        name = f.name;
    return name ? name : "";
}

/* *bytes: `room` bytes of the sample. */
static int sample_new(stk_dataset *ds, const stk_entry *e, uint64_t room, stk_sample **out,
                      uint8_t **bytes, stk_error *err)
{
    size_t head = (sizeof **out + e->n_fields * sizeof(sample_field) + 63) & ~(size_t)63;
    stk_sample *s = room <= SIZE_MAX / 2 ? stk_alloc(head + room) : NULL;

    *out = s;
    if (!s)
        return stk_fail_nomem(err, head + room);
    s->ds = stk_dataset_ref(ds);
    s->entry = *e;
    s->picked = NULL;
    *bytes = (uint8_t *)s + head;
    return 0;
}

/* In memory that does not stay as it is: a block, the map of a file, or what the request read to
 * find other fields. */
static int is_elsewhere(const stk_request *r, const stk_wanted *w)
{
    return w->bytes.data && (w->block || (!w->file && (r->reads.stage == STK_REQUEST_SECOND ||
                                                       stk_guarded_has(w->bytes.data))));
}

/* Blocks come and go, and files that are mapped can be cut short: the sample has its fields of them
 * to itself. */
static int keep_picked(stk_sample *s, const stk_request *r, stk_error *err)
{
    size_t at = 0;

    for (uint32_t k = 0; k < r->n; k++)
        at += is_elsewhere(r, &r->want[k]) ? r->want[k].bytes.len : 0;
    if (!at)
        return 0;
    s->picked = stk_alloc(at);
    if (!s->picked)
        return stk_fail_nomem(err, at);
    at = 0;
    for (uint32_t k = 0; k < r->n; k++) {
        stk_bytes *b = &s->f[r->want[k].number].bytes;

        if (!is_elsewhere(r, &r->want[k])) /* null stays null */
            continue;
        memcpy(s->picked + at, b->data, b->len);
        b->data = s->picked + at;
        at += b->len;
    }
    return 0;
}

/* The fields want[0..n) of r->entry; those that are not among them have a name. */
static int sample_read(stk_dataset *ds, stk_request *r, uint32_t n, stk_sample **out,
                       stk_error *err)
{
    uint64_t tears = stk_guarded_tears();
    uint8_t *bytes = NULL;
    stk_sample *s;

    STK_TRY(stk_request_begin(r, n, err));
    STK_TRY(sample_new(ds, &r->entry, r->reads.total, out, &bytes, err));
    s = *out;
    STK_TRY(stk_request_wait(r, bytes, err));
    for (uint32_t k = 0; n < r->entry.n_fields && k < r->entry.n_fields; k++)
        s->f[k] = (sample_field){ field_name(ds, &r->entry, k), { 0 } };
    for (uint32_t k = 0; k < n; k++)
        s->f[r->want[k].number] = (sample_field){ r->want[k].field.name, r->want[k].bytes };
    STK_TRY(keep_picked(s, r, err));
    return stk_dataset_whole(ds, tears, err);
}

static uint32_t choose_fields(const stk_dataset *ds, stk_request *r, const stk_field_choice *choice)
{
    uint32_t n = 0;

    for (uint32_t k = 0; k < r->entry.n_fields; k++)
        if (!choice || !choice->wants ||
            choice->wants(choice->cookie, field_name(ds, &r->entry, k)))
            r->want[n++].number = k;
    return n;
}

static size_t row_bytes(const stk_field_type *t)
{
    size_t bytes = stk_dtype_size(t->dtype);

    for (uint32_t i = 0; i < t->ndim; i++)
        bytes *= (size_t)t->shape[i]; /* no overflow: it was opened */
    return bytes;
}

/* A row of every field, as it is stored. */
static int read_now(stk_dataset *ds, uint64_t i, stk_sample **out, stk_error *err)
{
    stk_entry e = { .key.data = (const uint8_t *)"" };
    uint64_t total = 0;
    stk_field_type t;
    uint8_t *at = NULL;
    int rc = 0;

    if (i >= stk_dataset_len(ds))
        return stk_fail(err, STK_EINVAL, "sample %" PRIu64 " of %" PRIu64 " does not exist", i,
                        stk_dataset_len(ds));
    for (; ds->ops->type(ds, e.n_fields, &t); e.n_fields++)
        total += row_bytes(&t);
    STK_TRY(sample_new(ds, &e, total, out, &at, err));
    for (uint32_t k = 0; rc == 0 && ds->ops->type(ds, k, &t); k++) {
        (*out)->f[k] = (sample_field){ t.name, { at, row_bytes(&t) } };
        rc = ds->ops->immediate.read(ds, i, k, at, err);
        at += row_bytes(&t);
    }
    if (rc < 0)
        stk_sample_close(out);
    return rc;
}

int stk_dataset_read(stk_dataset *ds, uint64_t i, stk_sample **out, stk_error *err)
{
    if (!(ds->can & STK_DATA_IMMEDIATE))
        return stk_dataset_read_some(ds, i, NULL, out, err);
    *out = NULL;
    return read_now(ds, i, out, err);
}

/* sample_read() of the fields that are chosen, one of them opened. */
static int read_chosen(stk_dataset *ds, stk_request *r, const stk_field_choice *choice,
                       stk_sample **out, stk_error *err)
{
    uint32_t n = choose_fields(ds, r, choice);
    const char **roots = choice && choice->open ? stk_zalloc(n + 1u, sizeof *roots) : NULL;
    int rc = roots || !choice || !choice->open ? 0 : stk_fail_nomem(err, n * sizeof *roots);

    for (uint32_t k = 0; roots && k < n; k++)
        if (!strcmp(field_name(ds, &r->entry, r->want[k].number), choice->open))
            roots[k] = "";
    r->open_root = roots;
    if (rc == 0)
        rc = sample_read(ds, r, n, out, err);
    r->open_root = NULL;
    stk_free(roots);
    return rc;
}

int stk_dataset_read_some(stk_dataset *ds, uint64_t i, const stk_field_choice *choice,
                          stk_sample **out, stk_error *err)
{
    stk_request *r = NULL;
    char row[STK_ROW_KEY];
    stk_entry e;
    int rc;

    *out = NULL;
    STK_TRY(ds->ops->entry(ds, i, &e, err));
    rc = stk_dataset_request(ds, e.n_fields, &r, err);
    if (rc == 0) {
        r->entry = e;
        rc = read_chosen(ds, r, choice, out, err);
        stk_dataset_request_done(ds, &r);
    }
    if (rc < 0) {
        stk_error_at(err, ds->ops->shard_name(ds, e.shard), e.offset, stk_entry_key(ds, &e, row));
        if (err)
            err->sample = i;
        stk_sample_close(out);
    }
    return rc;
}

int stk_dataset_look(stk_dataset *ds, uint64_t i, stk_sample **out, stk_error *err)
{
    uint8_t *bytes = NULL;
    stk_entry e;
    stk_field f;
    int rc = 0;

    *out = NULL;
    if (ds->can & STK_DATA_IMMEDIATE)
        return stk_needs_index(ds, "looking", err);
    if (!(ds->can & STK_DATA_INDEXED)) /* sizes are known once the row is read */
        return stk_dataset_read(ds, i, out, err);
    STK_TRY(ds->ops->entry(ds, i, &e, err));
    STK_TRY(sample_new(ds, &e, 0, out, &bytes, err));
    for (uint32_t k = 0; rc == 0 && k < e.n_fields; k++) {
        rc = ds->ops->field(ds, &e, k, &f, err);
        (*out)->f[k] = (sample_field){ rc == 0 ? f.name : NULL, { NULL, rc == 0 ? f.size : 0 } };
    }
    if (rc < 0)
        stk_sample_close(out);
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
    const char *name = s->ds->can & STK_DATA_IMMEDIATE
                           ? NULL
                           : s->ds->ops->shard_name(s->ds, s->entry.shard);

    return name ? name : "";
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
        *data = s->f[i].bytes.data;
    if (len)
        *len = s->f[i].bytes.len;
    return s->f[i].name;
}

void stk_sample_close(stk_sample **s)
{
    stk_sample *x = *s;

    *s = NULL;
    if (!x)
        return;
    stk_free(x->picked);
    stk_dataset_unref(&x->ds);
    stk_free(x);
}

/* ---- stk_index_build ---- */

/* What is beside the index: seek points, where they are asked for, and sizes of media. */
static int index_beside(stk_seek_build *b, const char *const *urls, size_t n,
                        const stk_index_options *o, stk_error *err)
{
    stk_dataset_options d = { .size = sizeof d,
                              .cache_dir = o->cache_dir,
                              .format = o->format,
                              .store = o->store,
                              .log = o->log,
                              .log_cookie = o->log_cookie };
    const stk_media_making how = { .workers = o->num_workers, .force = o->force == STK_YES };
    const stk_mediafile *media;
    stk_dataset *ds = NULL;
    int rc = stk_dataset_open(&ds, urls, n, &d, err);

    b->workers = o->num_workers;
    b->force = o->force == STK_YES;
    b->progress = o->jpeg_progress;
    b->progress_cookie = o->progress_cookie;
    if (rc == 0)
        rc = stk_needs_index(ds, "jpeg", err);
    if (rc == 0 && o->jpeg == STK_YES)
        rc = stk_seek_build_run(b, stk_shard_data_of(ds), err);
    if (rc == 0) /* by the points, where there are some */
        rc = stk_media_sizes(ds, &how, &media, err);
    stk_dataset_unref(&ds);
    return rc;
}

static int report_give(stk_index_report *out, stk_index_report *r, stk_error *err)
{
    uint32_t given = out->size;

    if (given < sizeof given)
        return stk_fail(err, STK_EINVAL, "the report says size %u: set it to sizeof of the struct",
                        given);
    if (given > sizeof *r)
        given = sizeof *r;
    r->size = given;
    memcpy(out, r, given);
    return 0;
}

static int report_take(stk_index_report *out, const stk_dataset *ds, stk_error *err)
{
    stk_index_report r = { .shards = stk_dataset_shards(ds),
                           .samples = stk_dataset_len(ds),
                           .index_bytes = ds->index_bytes,
                           .built = ds->index_built,
                           .table = 1 };
    stk_shard_info s;

    while (stk_dataset_field(ds, r.fields))
        r.fields++;
    for (uint64_t i = 0; i < r.shards; i++) {
        STK_TRY(ds->ops->shard(ds, i, &s, err));
        r.data_bytes += s.size;
    }
    if (strlen(ds->index_path) < sizeof r.path)
        memcpy(r.path, ds->index_path, strlen(ds->index_path));
    return report_give(out, &r, err);
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

    for (uint32_t c = 0; c < stk_index_columns(x->index); c++)
        r.columns += stk_index_column_known(x->index, c) != 0;
    for (uint64_t i = 0; i < r.shards; i++) {
        STK_TRY(stk_index_shard(x->index, i, &s, err));
        r.data_bytes += s.size;
    }
    if (strlen(x->path) < sizeof r.path) /* a cut path would be another file's */
        memcpy(r.path, x->path, strlen(x->path));
    return report_give(out, &r, err);
}

/* Of a table, opening makes what its index has (row seek points). */
static int index_table(const stk_data_kind *kind, const char *const *urls, size_t n,
                       const stk_index_options *o, stk_index_report *out, stk_error *err)
{
    stk_dataset_options d = { .size = sizeof d,
                              .num_workers = o->num_workers,
                              .cache_dir = o->cache_dir,
                              .store = o->store,
                              .log = o->log,
                              .log_cookie = o->log_cookie,
                              .progress = o->progress,
                              .progress_cookie = o->progress_cookie };
    stk_dataset *ds = NULL;
    int rc = kind->open(&ds, kind, urls, n, &d, err);

    if (rc == 0 && o->force == STK_YES && ds->index_path[0] && !ds->index_built) {
        unlink(ds->index_path);
        stk_dataset_unref(&ds);
        rc = kind->open(&ds, kind, urls, n, &d, err);
    }
    if (rc == 0 && out)
        rc = report_take(out, ds, err);
    stk_dataset_unref(&ds);
    return rc;
}

int stk_index_build(const char *const *urls, size_t n, const stk_index_options *opt,
                    stk_index_report *report, stk_error *err)
{
    stk_index_options o;
    stk_indexer x = { 0 };
    stk_seek_build jpegs = { 0 };
    const stk_data_kind *kind;
    int rc;

    stk_options_take(&o, sizeof o, opt);
    kind = stk_kind_meant(urls, n, &(stk_dataset_options){ .format = o.format });
    if (kind && kind->rows)
        return index_table(kind, urls, n, &o, report, err);
    x.cache_dir = o.cache_dir;
    x.format_name = o.format;
    x.columns = o.columns;
    x.n_columns = o.n_columns;
    x.workers = o.num_workers;
    x.force = o.force == STK_YES;
    x.log = (stk_log){ o.log, o.log_cookie };
    x.progress = o.progress;
    x.progress_cookie = o.progress_cookie;
    x.names.store = o.store;
    x.part = o.part;
    x.parts = o.parts;
    if (o.parts && (o.part >= o.parts || o.jpeg == STK_YES))
        return stk_fail(
            err, STK_EINVAL,
            o.part >= o.parts
                ? "parts are numbered from 0 to how many there are, less 1"
                : "seek points are made of the whole: give jpeg to the merge, not to a part");
    rc = stk_indexer_repair(&x, urls, n, err);
    if (rc == 0 && (o.jpeg == STK_YES || x.media))
        rc = index_beside(&jpegs, urls, n, &o, err);
    if (rc == 0 && o.merge == STK_YES)
        stk_indexer_drop_parts(&x);
    if (rc == 0 && !o.parts)
        stk_indexer_publish(&x, x.built || jpegs.built);
    if (rc == 0 && report)
        rc = report_fill(&x, &jpegs, report, err);
    stk_indexer_fini(&x);
    return rc;
}

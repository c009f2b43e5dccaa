/* SPDX-License-Identifier: Apache-2.0 */
/* table_data.c - see table_data.h. */
#include "table/table_data.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

static const stk_table *of(const stk_dataset *d)
{
    return (const stk_table *)d;
}

/* ---- opening and closing ---- */

void stk_table_init(stk_table *t, const stk_data_ops *ops, uint32_t can,
                    const stk_dataset_options *o)
{
    stk_dataset_init(&t->data, ops, can);
    t->data.log = (stk_log){ o->log, o->log_cookie };
    t->names.store = o->store;
}

int stk_table_files(stk_table *t, uint64_t n, stk_error *err)
{
    t->file = stk_zalloc(n, sizeof *t->file);
    return t->file ? 0 : stk_fail_nomem(err, n * sizeof *t->file);
}

int stk_table_rows(stk_table *t, uint64_t i, uint64_t rows, stk_error *err)
{
    t->file[i].first = t->rows;
    t->file[i].rows = rows;
    if (__builtin_add_overflow(t->rows, rows, &t->rows)) {
        stk_fail(err, STK_ECORRUPT, "%" PRIu64 " rows are more than can be counted", rows);
        stk_error_at(err, t->names.name[i], STK_NO_OFFSET, (stk_bytes){ 0 });
        return STK_ECORRUPT;
    }
    return 0;
}

int stk_table_columns(stk_table *t, uint32_t n, uint32_t readable, stk_error *err)
{
    t->column = stk_zalloc(n ? n : 1, sizeof *t->column);
    if (!t->column)
        return stk_fail_nomem(err, n * sizeof *t->column);
    t->n_columns = n;
    t->n_readable = readable;
    return 0;
}

void stk_table_decimal(stk_table *t, uint32_t i)
{
    t->column[i].decimal = t->n_columns <= STK_GATHER_FIRST / 2;
}

int stk_table_opened(stk_table *t, int rc, stk_dataset **out)
{
    *out = rc == 0 ? &t->data : NULL;
    if (rc < 0)
        t->data.ops->close(&t->data);
    return rc;
}

void stk_table_fini(stk_table *t)
{
    for (size_t i = 0; t->file && i < t->names.n; i++) {
        stk_file *f = atomic_load_explicit(&t->file[i].file, memory_order_relaxed);

        stk_file_close(&f);
    }
    stk_free(t->file);
    stk_free(t->column);
    stk_gathers_fini(&t->gathers);
    stk_names_fini(&t->names);
}

/* ---- what there is ---- */

uint64_t stk_table_len(const stk_dataset *d)
{
    return of(d)->rows;
}

const char *stk_table_kind(const stk_dataset *d)
{
    return d->ops->name;
}

uint64_t stk_table_shards(const stk_dataset *d)
{
    return of(d)->names.n;
}

const char *stk_table_shard_name(const stk_dataset *d, uint64_t shard)
{
    return shard < of(d)->names.n ? of(d)->names.name[shard] : NULL;
}

int stk_table_shard(const stk_dataset *d, uint64_t shard, stk_shard_info *out, stk_error *err)
{
    const stk_table *t = of(d);
    const stk_table_file *f;

    if (shard >= t->names.n)
        return stk_fail(err, STK_EINVAL, "file %" PRIu64 " of %zu does not exist", shard,
                        t->names.n);
    f = &t->file[shard];
    *out = (stk_shard_info){ .name = t->names.name[shard],
                             .size = f->size,
                             .mtime_ns = f->mtime_ns,
                             .etag = f->etag,
                             .first = f->first,
                             .samples = f->rows,
                             .print = f->print };
    return 0;
}

/* NULL: the number is not one of columns taken together. */
static const stk_gather *gather_of(const stk_table *t, uint32_t number)
{
    return number >= STK_GATHER_FIRST ? stk_gather_number(&t->gathers, number) : NULL;
}

int stk_table_type(const stk_dataset *d, uint32_t field, stk_field_type *out)
{
    const stk_table *t = of(d);
    const stk_gather *g = gather_of(t, field);

    *out = (stk_field_type){ 0 };
    if (g)
        stk_gather_type(g, out);
    else if (field < t->n_columns)
        *out = t->column[field];
    return g || field < t->n_columns;
}

int stk_table_gather(const stk_dataset *d, const stk_gather_ask *ask, stk_field_type *out,
                     stk_error *err)
{
    return stk_gather_add(&((stk_table *)(uintptr_t)d)->gathers, d, NULL, ask, out, err);
}

void stk_table_print(const stk_table *t, stk_fingerprint *out)
{
    for (uint64_t i = 0; i < t->names.n; i++) {
        const char *name = t->names.name[i], *base = strrchr(name, '/');

        base = base ? base + 1 : name;
        out->names = stk_hash64(out->names, base, strlen(base));
        out->bytes += t->file[i].size;
    }
    out->shards += t->names.n;
    out->samples += t->rows;
}

/* ---- a sample ---- */

uint32_t stk_table_schemas(const stk_dataset *d)
{
    (void)d;
    return 1;
}

int stk_table_find(const stk_dataset *d, uint32_t schema, const char *name)
{
    const stk_table *t = of(d);
    const stk_gather *g;
    size_t n = strlen(name);
    int inner = -1, decimal = -1;

    (void)schema;
    for (uint32_t i = 0; i < t->n_columns; i++) {
        const char *have = t->column[i].name;

        if (!strcmp(have, name))
            return (int)i;
        if (!strncmp(have, name, n) && !strcmp(have + n, ".bytes"))
            inner = (int)i;
        if (t->column[i].decimal && !strncmp(have, name, strlen(have)) &&
            !strcmp(name + strlen(have), ".text"))
            decimal = (int)(t->n_columns + i);
    }
    inner = inner < 0 ? decimal : inner;
    if (inner < 0 && (g = stk_gather_find(&t->gathers, name)))
        inner = (int)g->number;
    return inner;
}

int stk_table_entry(const stk_dataset *d, uint64_t sample, stk_entry *out, stk_error *err)
{
    const stk_table *t = of(d);
    uint64_t lo = 0, hi = t->names.n;

    if (sample >= t->rows)
        return stk_fail(err, STK_EINVAL, "sample %" PRIu64 " of %" PRIu64 " does not exist", sample,
                        t->rows);
    while (hi - lo > 1) { /* first of lo <= sample; of files without rows the last one */
        uint64_t mid = lo + (hi - lo) / 2;

        if (t->file[mid].first <= sample)
            lo = mid;
        else
            hi = mid;
    }
    *out = (stk_entry){ .shard = lo,
                        .row = sample - t->file[lo].first,
                        .n_fields = t->n_readable,
                        .key = { (const uint8_t *)"", 0 } };
    return 0;
}

int stk_table_field(const stk_dataset *d, const stk_entry *e, uint32_t number, stk_field *out,
                    stk_error *err)
{
    const stk_table *t = of(d);
    const stk_gather *g = gather_of(t, number);
    uint32_t column = number < t->n_columns ? number : number - t->n_columns;
    const char *name;

    (void)e;
    if (!g && (column >= t->n_columns || (column != number && !t->column[column].decimal)))
        return stk_fail(err, STK_EINVAL, "column %u of %u does not exist", number, t->n_columns);
    name = g ? g->name : t->column[column].name;
    *out = (stk_field){ name, strlen(name), number, 0 };
    return 0;
}

/* ---- its file ---- */

/* Is it the file that the table was opened with? */
static int compare(const stk_table *t, const stk_table_file *was, stk_file *f, stk_error *err)
{
    stk_file_info now;

    STK_TRY(stk_file_stat(f, &now, err));
    if (now.size != was->size && t->list)
        return stk_fail(err, STK_ESTALE, "the file has %" PRIu64 " bytes, and %s says %" PRIu64,
                        now.size, t->list, was->size);
    if (now.size != was->size || (was->mtime_ns && now.mtime_ns != was->mtime_ns) ||
        (was->id && now.id != was->id) || (was->etag[0] && strcmp(now.etag, was->etag) != 0))
        return stk_fail(err, STK_ESTALE,
                        "the file is another one than when the data set was opened: open it again");
    return 0;
}

int stk_table_acquire(const stk_dataset *d, uint64_t shard, stk_file **out, stk_error *err)
{
    const stk_table *t = of(d);
    const char *name = t->names.name[shard];
    stk_table_file *f = &t->file[shard];
    stk_file *have = atomic_load_explicit(&f->file, memory_order_acquire), *mine = NULL;
    int rc;

    *out = have;
    if (have)
        return 0;
    STK_TRY(stk_url_open(&(stk_open_info){ .url = name,
                                           .etag = f->etag,
                                           .size = f->size,
                                           .mtime_ns = f->mtime_ns,
                                           .store = t->names.store },
                         &mine, err));
    rc = compare(t, f, mine, err);
    if (rc < 0)
        stk_error_at(err, name, STK_NO_OFFSET, (stk_bytes){ 0 });
    else if (atomic_compare_exchange_strong_explicit(&f->file, &have, mine, memory_order_acq_rel,
                                                     memory_order_acquire)) {
        *out = mine;
        return 0;
    }
    stk_file_close(&mine);
    *out = have;
    return rc;
}

int stk_table_unchanged(const stk_dataset *d, stk_error *err)
{
    const stk_table *t = of(d);
    int rc = 0;

    for (uint64_t i = 0; rc == 0 && i < t->names.n; i++) {
        stk_file *f = atomic_load_explicit(&t->file[i].file, memory_order_acquire);

        rc = f ? stk_named_unchanged(t->names.name[i], f, err) : 0;
    }
    return rc;
}

int stk_table_no_file(const stk_dataset *d, uint64_t shard, stk_file **out, stk_error *err)
{
    (void)d, (void)shard, (void)err;
    *out = &stk_no_file;
    return 0;
}

void stk_table_release(const stk_dataset *d, uint64_t shard)
{
    (void)d, (void)shard; /* files stay open */
}

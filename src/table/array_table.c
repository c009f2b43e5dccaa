/* SPDX-License-Identifier: Apache-2.0 */
/* array_table.c - see array_table.h.  The files of the table are those of the first array. */
#include "table/array_table.h"

#include <string.h>

#include "base/mem.h"

typedef struct array_table { /* Thread: any, once opened. */
    stk_table base;
    stk_dataset *arrays;      /* a reference */
    const stk_array **column; /* base.n_columns */
} array_table;

static const array_table *of(const stk_dataset *d)
{
    return (const array_table *)d;
}

static int data_fingerprint(const stk_dataset *d, stk_fingerprint *out, stk_error *err)
{
    const stk_dataset *arrays = of(d)->arrays;

    return arrays->ops->fingerprint(arrays, out, err);
}

/* Rows in memory are there; those of files are copied by unpack(), which may wait for the disk. */
static int data_locate(const stk_dataset *d, const stk_entry *e, const stk_field *f, int named,
                       stk_place *out, stk_error *err)
{
    const array_table *t = of(d);
    const stk_array *a = t->column[f->offset];
    uint64_t row = t->base.file[e->shard].first + e->row;

    (void)named, (void)err;
    if (a->part[0].data)
        out->here = stk_array_peek(a, row, 1);
    else
        *out = (stk_place){ .unpacked = a->row_bytes, .block = f->offset, .row = row };
    return 0;
}

static int data_unpack(const stk_dataset *d, stk_unpack_job *job, stk_error *err)
{
    const stk_array *a = of(d)->column[job->place->block];
    stk_span at;

    STK_TRY(stk_array_span(a, job->place->row, 1, job->dst, &at, err));
    if (at.data != job->dst)
        memcpy(job->dst, at.data, a->row_bytes);
    job->len = a->row_bytes;
    return stk_array_copied(a, job->place->row, a->row_bytes, err);
}

static void data_close(stk_dataset *d)
{
    array_table *t = (array_table *)d;

    stk_free((void *)t->column);
    stk_dataset_unref(&t->arrays);
    stk_table_fini(&t->base);
    stk_free(t);
}

static const stk_data_ops ops = {
    .name = "arrays",
    .plural = "arrays and token files",
    STK_TABLE_OPS,
    .fingerprint = data_fingerprint,
    .locate = data_locate,
    .acquire = stk_table_no_file,
    .unpack = data_unpack,
    .close = data_close,
};

static int add_columns(array_table *t, stk_error *err)
{
    const stk_dataset *d = t->arrays;
    stk_field_type type;
    uint32_t n = 0;

    while (d->ops->type(d, n, &type))
        n++;
    STK_TRY(stk_table_columns(&t->base, n, n, err));
    t->column = stk_zalloc(n, sizeof *t->column);
    if (!t->column)
        return stk_fail_nomem(err, n * sizeof *t->column);
    for (uint32_t i = 0; i < n; i++) {
        d->ops->type(d, i, &t->base.column[i]);
        t->column[i] = d->ops->immediate.array(d, t->base.column[i].name);
        if (t->column[i]->rows != t->column[0]->rows)
            return stk_fail(err, STK_EINVAL,
                            "%s has %" PRIu64 " rows and %s has %" PRIu64
                            ": beside shards and tables, arrays of one "
                            "data set have a row for every sample",
                            t->column[0]->name, t->column[0]->rows, t->column[i]->name,
                            t->column[i]->rows);
    }
    if (n == 1)
        t->base.data.can |= STK_DATA_ONE_FIELD;
    return 0;
}

static int add_files(array_table *t, stk_error *err)
{
    const stk_array *a = t->column[0];

    STK_TRY(stk_table_files(&t->base, a->n_parts, err));
    for (uint32_t i = 0; i < a->n_parts; i++) {
        const char *name = a->part[i].name ? a->part[i].name : "(array in memory)";
        uint64_t rows = a->first[i + 1] - a->first[i];

        STK_TRY(stk_names_add(&t->base.names, name, strlen(name), err));
        t->base.file[i].size = rows * a->row_bytes;
        STK_TRY(stk_table_rows(&t->base, i, rows, err));
    }
    return 0;
}

int stk_array_table_open(stk_dataset **out, stk_dataset *arrays, stk_error *err)
{
    array_table *t = STK_NEW(array_table);
    int rc;

    *out = NULL;
    if (!t)
        return stk_fail_nomem(err, sizeof *t);
    stk_table_init(
        &t->base, &ops, 0,
        &(stk_dataset_options){ .log = arrays->log.fn, .log_cookie = arrays->log.cookie });
    t->arrays = stk_dataset_ref(arrays);
    rc = add_columns(t, err);
    if (rc == 0)
        rc = add_files(t, err);
    return stk_table_opened(&t->base, rc, out);
}

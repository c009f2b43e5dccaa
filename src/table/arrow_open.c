/* SPDX-License-Identifier: Apache-2.0 */
/* arrow_open.c - from names of Arrow files, or another library's table, to a data set. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/mem.h"
#include "base/opts.h"
#include "table/arrow_data.h"
#include "table/table_files.h"

static const stk_table_files_of arrow_files = {
    .ends = (const char *const[]){ ".arrow", ".feather", ".ipc", ".arrows", NULL },
    .hides = "cache-", /* what Hugging Face's map() left beside the data */
};

static int arrow_meant(const char *const *urls, size_t n, const stk_dataset_options *o)
{
    (void)o;
    return stk_table_files_meant(&arrow_files, urls, n);
}

static int map_file(stk_arrow_shard *s, stk_table_file *t, stk_file *f, stk_error *err)
{
    stk_file_info info;
    int rc, fd;

    STK_TRY(stk_file_stat(f, &info, err));
    t->size = info.size;
    t->mtime_ns = info.mtime_ns;
    t->id = info.id;
    s->mtime_ns = f->source == &stk_source_local ? info.mtime_ns : 0;
    rc = stk_file_fill(f, err); /* remote: into the host cache, all of it */
    if (rc < 0 && rc != STK_END)
        return rc;
    fd = stk_file_fd(f);
    if (rc == STK_END || fd < 0)
        return stk_fail(
            err, STK_ENOTSUP,
            "Arrow files are mapped: a remote one needs a cache with room for all of it "
            "(store=stoker.Store(cache=...), --store-cache), or copy it first");
    if (!t->size)
        return stk_fail(err, STK_ECORRUPT, "not an Arrow file: it has no bytes");
    if (stk_guarded_map(&s->map, fd, (size_t)t->size) == 0) {
        s->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (s->fd >= 0)
            return 0;
        stk_guarded_close(&s->map);
    }
    return stk_fail(err, STK_EIO, "the file can't be mapped: %s", strerror(errno));
}

/* File i with those before: with the first, and of columns that have no type there with the first
 * that says one. */
static int compare(const stk_arrow *a, uint64_t i, stk_error *err)
{
    const stk_arrow_schema *first = a->shard[0].schema, *here = a->shard[i].schema;

    STK_TRY(stk_arrow_compare(first, here, err));
    for (uint32_t c = 0; c < first->n; c++) {
        const stk_arrow_leaf *was = &first->leaf[c];

        for (uint64_t k = 1; k < i && stk_arrow_is_nothing(was); k++)
            was = &a->shard[k].schema->leaf[c];
        STK_TRY(stk_arrow_compare_column(was, &here->leaf[c], err));
    }
    return 0;
}

static int open_file(stk_arrow *a, uint64_t i, const stk_dataset_options *o, stk_error *err)
{
    stk_arrow_shard *s = &a->shard[i];
    stk_file *f = NULL;
    int rc = stk_url_open(STK_URL(a->base.names.name[i], a->base.names.store), &f, err);

    if (rc == 0)
        rc = map_file(s, &a->base.file[i], f, err);
    stk_file_close(&f);
    if (rc == 0)
        rc = stk_arrow_ipc_open(
            &s->ipc, (stk_bytes){ stk_guarded_data(s->map), (size_t)a->base.file[i].size }, s->fd,
            err);
    if (rc == 0)
        rc = stk_arrow_dictionaries_unpack(s->ipc, err);
    if (rc == 0 && o->list_null)
        rc = stk_arrow_fill_lists(&s->ipc->schema, *o->list_null, err);
    if (rc == 0) {
        s->schema = &s->ipc->schema;
        s->batch = s->ipc->batch;
        s->n_batches = s->ipc->n;
        for (uint64_t k = 0; k < s->n_batches && !s->refused; k++)
            s->refused = s->batch[k].refused;
        rc = i ? compare(a, i, err) : 0;
    }
    if (rc == 0)
        rc = stk_table_rows(&a->base, i, s->ipc->rows, err);
    if (stk_guarded_torn(s->map))
        rc = stk_fail(err, STK_ESTALE, "the file was cut short while it was opened");
    if (rc < 0)
        stk_error_at(err, a->base.names.name[i], err ? err->offset : STK_NO_OFFSET,
                     (stk_bytes){ 0 });
    return rc;
}

static int open_files(stk_arrow *a, const char *const *urls, size_t n, const stk_dataset_options *o,
                      stk_error *err)
{
    STK_TRY(stk_table_files_names(&arrow_files, &a->base.names, urls, n, err));
    STK_TRY(stk_table_files(&a->base, a->base.names.n, err));
    a->shard = stk_zalloc(a->base.names.n, sizeof *a->shard);
    if (!a->shard)
        return stk_fail_nomem(err, a->base.names.n * sizeof *a->shard);
    for (uint64_t i = 0; i < a->base.names.n; i++)
        STK_TRY(open_file(a, i, o, err));
    return 0;
}

static stk_arrow *arrow_new(const stk_dataset_options *o)
{
    stk_arrow *a = STK_NEW(stk_arrow);

    if (!a)
        return NULL;
    stk_table_init(&a->base, &stk_arrow_ops, STK_DATA_MEMORY | STK_DATA_NAMES_FILES, o);
    return a;
}

static int is_packed(const stk_arrow_shard *s)
{
    for (uint64_t i = 0; i < s->n_batches; i++)
        if (s->batch[i].packed)
            return 1;
    return 0;
}

/* Why reading a column of this file is an error, although its type is read; NULL: it is not. */
static const char *why_not(const stk_arrow_shard *s, const stk_arrow_leaf *l)
{
    const stk_arrow_field *f = stk_arrow_value_field(l);
    const char *why = s->refused;

    for (uint64_t k = 0; s->ipc && f->encoded && k < s->ipc->n_dictionaries && !why; k++)
        if (s->ipc->dictionary[k].id == f->dictionary)
            why = s->ipc->dictionary[k].batch.refused;
    return why;
}

static int columns(stk_arrow *a, const stk_arrow_schema *schema, stk_error *err)
{
    STK_TRY(stk_table_columns(&a->base, schema->n, schema->n_readable, err));
    for (uint32_t i = 0; i < schema->n; i++) {
        const stk_arrow_leaf *l = &schema->leaf[i];
        stk_field_type *t = &a->base.column[i];
        int decimal;

        /* of a column that has only nulls, and no type, in some files: the others' */
        for (uint64_t k = 1; k < a->base.names.n && stk_arrow_is_nothing(l); k++)
            l = &a->shard[k].schema->leaf[i];
        *t = (stk_field_type){ .name = l->name, .nullable = l->nullable, .refused = l->refused };
        if (l->blobs) {
            t->ndim = 1;
            t->shape[0] = -1;
        }
        if (l->refused)
            continue;
        t->dtype = l->dtype;
        t->text = stk_arrow_value_field(l)->text;
        decimal = l->decimal;
        /* what all files say, not only the first */
        for (uint64_t k = 0; k < a->base.names.n; k++) {
            const stk_arrow_leaf *o = &a->shard[k].schema->leaf[i];

            t->text &= stk_arrow_is_nothing(o) || stk_arrow_value_field(o)->text;
            t->nullable |= stk_arrow_is_nothing(o) || o->nullable;
            decimal &= stk_arrow_is_nothing(o) || o->decimal;
        }
        if (decimal)
            stk_table_decimal(&a->base, i);
        t->ndim = l->list != 0;
        t->shape[0] = l->list ? l->fixed : 0;
        for (uint64_t k = 0; k < a->base.names.n && !t->refused; k++)
            t->refused = why_not(&a->shard[k], &a->shard[k].schema->leaf[i]);
    }
    return 0;
}

/* Not all of it is in memory. */
static int packed_open(stk_arrow *a, stk_arrow_shard *s, stk_error *err)
{
    a->base.data.can = STK_DATA_BLOCKS | STK_DATA_NAMES_FILES;
    s->room = stk_zalloc(s->n_batches, (s->schema->n + 1) * sizeof *s->room);
    return s->room ? 0 : stk_fail_nomem(err, s->n_batches * sizeof *s->room);
}

static int finish(stk_arrow *a, int rc, stk_dataset **out, stk_error *err)
{
    if (rc == 0)
        rc = columns(a, a->shard[0].schema, err);
    for (uint64_t i = 0; rc == 0 && i < a->base.names.n; i++)
        if (is_packed(&a->shard[i]))
            rc = packed_open(a, &a->shard[i], err);
    return stk_table_opened(&a->base, rc, out);
}

static int arrow_open(stk_dataset **out, const stk_data_kind *kind, const char *const *urls,
                      size_t n, const stk_dataset_options *o, stk_error *err)
{
    stk_arrow *a = arrow_new(o);

    (void)kind;
    *out = NULL;
    if (!a)
        return stk_fail_nomem(err, sizeof *a);
    return finish(a, open_files(a, urls, n, o, err), out, err);
}

const stk_data_kind stk_data_arrow = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_data_kind),
    .name = "arrow",
    .help = "Arrow and Feather files, and folders of them",
    .meant = arrow_meant,
    .open = arrow_open,
    .rows = 1,
};

static int take_runs(stk_arrow *a, const stk_dataset_options *o, stk_error *err)
{
    stk_dataset *d = &a->base.data;

    for (uint64_t i = 0; i < o->n_runs; i++)
        if (o->runs[i] >= a->memory->rows || (i ? o->runs[i] <= o->runs[i - 1] : o->runs[i] > 0))
            return stk_fail(err, STK_EINVAL, "runs are numbers of rows, ascending from 0");
    if (!o->n_runs)
        return 0;
    d->runs = stk_alloc(o->n_runs * sizeof *d->runs);
    if (!d->runs)
        return stk_fail_nomem(err, o->n_runs * sizeof *d->runs);
    memcpy(d->runs, o->runs, o->n_runs * sizeof *d->runs);
    d->n_runs = o->n_runs;
    return 0;
}

static int take_memory(stk_arrow *a, struct ArrowArrayStream *stream, const stk_dataset_options *o,
                       stk_error *err)
{
    static const char name[] = "(Arrow table in memory)";

    STK_TRY(stk_arrow_memory_open(&a->memory, stream, err));
    if (o->list_null)
        STK_TRY(stk_arrow_fill_lists(&a->memory->schema, *o->list_null, err));
    STK_TRY(stk_names_add(&a->base.names, name, sizeof name - 1, err));
    STK_TRY(stk_table_files(&a->base, 1, err));
    a->shard = STK_NEW(stk_arrow_shard);
    if (!a->shard)
        return stk_fail_nomem(err, sizeof *a->shard);
    *a->shard = (stk_arrow_shard){ .schema = &a->memory->schema,
                                   .batch = a->memory->batch,
                                   .n_batches = a->memory->n };
    STK_TRY(take_runs(a, o, err));
    return stk_table_rows(&a->base, 0, a->memory->rows, err);
}

int stk_dataset_open_arrow(stk_dataset **out, struct ArrowArrayStream *stream,
                           const stk_dataset_options *opt, stk_error *err)
{
    stk_dataset_options o;
    stk_arrow *a;

    *out = NULL;
    stk_options_take(&o, sizeof o, opt);
    a = arrow_new(&o);
    if (!a) {
        stream->release(stream);
        return stk_fail_nomem(err, sizeof *a);
    }
    return finish(a, take_memory(a, stream, &o, err), out, err);
}

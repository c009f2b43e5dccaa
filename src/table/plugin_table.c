/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_table.c - tables whose format is a plug-in: it says where values are, and all else is what
 * tables share (table_data.h). */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "table/table_data.h"

typedef struct plugin_table {
    stk_table base;
    stk_data_ops ops; /* with the kind's name */
    const stk_data_kind *kind;
    void **state; /* by file */
} plugin_table;

static const plugin_table *of(const stk_dataset *d)
{
    return (const plugin_table *)d;
}

static int data_fingerprint(const stk_dataset *d, stk_fingerprint *out, stk_error *err)
{
    (void)err;
    stk_table_print(&of(d)->base, out);
    return 0;
}

static int data_locate(const stk_dataset *d, const stk_entry *e, const stk_field *f, int named,
                       stk_place *out, stk_error *err)
{
    const plugin_table *t = of(d);
    uint64_t size = t->base.file[e->shard].size;
    stk_place at = { 0 };

    (void)named;
    STK_TRY(t->kind->locate(t->state[e->shard], e->row, (uint32_t)f->offset, &at, err));
    if (at.offset > size || at.len > size - at.offset)
        return stk_fail(err, STK_ECORRUPT, "its bytes are said to be past the end of the file");
    if (!at.len && !at.here.data && !at.absent)
        at.here = (stk_bytes){ (const uint8_t *)"", 0 };
    *out = (stk_place){ .offset = at.offset, .len = at.len, .here = at.here, .absent = at.absent };
    return 0;
}

static void data_close(stk_dataset *d)
{
    plugin_table *t = (plugin_table *)d;

    for (size_t i = 0; t->state && i < t->base.names.n; i++)
        if (t->state[i])
            t->kind->file_close(t->state[i]);
    stk_free(t->state);
    stk_table_fini(&t->base);
    stk_free(t);
}

static const stk_data_ops plugin_ops = {
    STK_TABLE_OPS,
    .fingerprint = data_fingerprint,
    .locate = data_locate,
    .acquire = stk_table_acquire,
    .trust.unchanged = stk_table_unchanged,
    .close = data_close,
};

/* ---- open ---- */

static int read_file(plugin_table *t, uint64_t i, stk_error *err)
{
    stk_file_info info = { 0 };
    stk_file *f = NULL;
    uint64_t rows = 0;
    int rc = stk_url_open(STK_URL(t->base.names.name[i], t->base.names.store), &f, err);

    if (rc == 0)
        rc = stk_file_stat(f, &info, err);
    t->base.file[i].size = info.size;
    t->base.file[i].mtime_ns = info.mtime_ns;
    t->base.file[i].id = info.id;
    if (rc == 0)
        rc = t->kind->file_open(f, info.size, &t->state[i], &rows, err);
    stk_file_close(&f);
    return rc < 0 ? rc : stk_table_rows(&t->base, i, rows, err);
}

static int columns(plugin_table *t, stk_error *err)
{
    stk_field_type type = { 0 };
    uint32_t n = 0;

    while (n < STK_GATHER_FIRST && t->kind->column(t->state[0], n, &type))
        n++;
    STK_TRY(stk_table_columns(&t->base, n, n, err));
    for (uint32_t i = 0; i < n; i++)
        (void)t->kind->column(t->state[0], i, &t->base.column[i]);
    return 0;
}

static int same_columns(const plugin_table *t, uint64_t file)
{
    stk_field_type y = { 0 };

    for (uint32_t i = 0; i < t->base.n_columns; i++) {
        const stk_field_type *x = &t->base.column[i];

        y = (stk_field_type){ 0 };
        if (!t->kind->column(t->state[file], i, &y) || strcmp(x->name, y.name) != 0 ||
            x->dtype != y.dtype || x->ndim != y.ndim ||
            memcmp(x->shape, y.shape, sizeof x->shape) != 0)
            return 0;
    }
    return !t->kind->column(t->state[file], t->base.n_columns, &y);
}

static int open_files(plugin_table *t, const char *const *urls, size_t n, stk_error *err)
{
    STK_TRY(stk_names_expand(&t->base.names, urls, n, err));
    t->state = stk_zalloc(t->base.names.n + 1, sizeof *t->state);
    if (!t->state)
        return stk_fail_nomem(err, t->base.names.n * sizeof *t->state);
    STK_TRY(stk_table_files(&t->base, t->base.names.n, err));
    for (uint64_t i = 0; i < t->base.names.n; i++) {
        int rc = read_file(t, i, err);

        if (rc == 0 && !i)
            rc = columns(t, err);
        if (rc == 0 && !same_columns(t, i))
            rc = stk_fail(err, STK_EINVAL,
                          "it has other columns than the first file: open them apart");
        if (rc < 0) {
            stk_error_at(err, t->base.names.name[i], STK_NO_OFFSET, (stk_bytes){ 0 });
            return rc;
        }
    }
    return 0;
}

int stk_table_open(stk_dataset **out, const stk_data_kind *kind, const char *const *urls, size_t n,
                   const stk_dataset_options *o, stk_error *err)
{
    plugin_table *t = STK_NEW(plugin_table);

    *out = NULL;
    if (!t)
        return stk_fail_nomem(err, sizeof *t);
    t->kind = kind;
    t->ops = plugin_ops;
    t->ops.name = kind->name;
    t->ops.plural = kind->help ? kind->help : kind->name;
    stk_table_init(&t->base, &t->ops, 0, o);
    return stk_table_opened(&t->base, open_files(t, urls, n, err), out);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* hdf5_open.c - from names of HDF5 files to a data set: which rows there are, which data sets are
 * fields.
 *
 * A file has as many rows as most of its group's data sets; of two counts that as many have, the
 * larger.  Data sets of other lengths are left out, and `ls --schema` names them. */
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "table/hdf5_data.h"

#define PART_ROWS 4096u /* sequences whose places are read together, about */

/* ---- names: FILE.h5, FILE.h5#/group ---- */

/* Where the name of the file ends: at its end, or at the #; 0: it is not one of HDF5. */
static size_t file_end(const char *url)
{
    static const char *const ends[] = { ".h5", ".hdf5", ".hdf", ".he5" };
    size_t len = strlen(url), hash = len;

    if (strncmp(url, STK_PATH_SCHEME, strlen(STK_PATH_SCHEME))) /* such a name stands as it is */
        hash = strrchr(url, '#') ? (size_t)(strrchr(url, '#') - url) : len;
    for (size_t at = len;; at = hash) {
        for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
            size_t n = strlen(ends[k]);

            if (at > n && !strncasecmp(url + at - n, ends[k], n))
                return at;
        }
        if (at == hash)
            return 0;
    }
}

static int hdf5_meant(const char *const *urls, size_t n, const stk_dataset_options *o)
{
    (void)o;
    for (size_t i = 0; i < n; i++)
        if (file_end(urls[i]))
            return 1;
    return 0;
}

/* The files of one name, and for each the group in it. */
static int expand(stk_names *names, stk_names *groups, const char *url, stk_error *err)
{
    size_t end = file_end(url) ? file_end(url) : strlen(url);
    const char *group = url[end] ? url + end + 1 : "/";
    stk_names found = { .store = names->store };
    char *file = stk_strndup(url, end);
    int rc = file ? stk_urls_expand((const char *const[]){ file }, 1, &found, err)
                  : stk_fail_nomem(err, end);

    for (size_t i = 0; rc == 0 && i < found.n; i++) {
        char *path = NULL;

        rc = stk_path_absolute(found.name[i], &path, err);
        if (rc == 0)
            rc = stk_names_add(names, path, strlen(path), err);
        if (rc == 0)
            rc = stk_names_add(groups, group, strlen(group), err);
        stk_free(path);
    }
    stk_names_fini(&found);
    stk_free(file);
    return rc;
}

static int expand_all(stk_hdf5 *h, const char *const *urls, size_t n, stk_error *err)
{
    stk_names groups = { 0 };
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = expand(&h->base.names, &groups, urls[i], err);
    if (rc == 0 && !h->base.names.n)
        rc = stk_fail(err, STK_ENOTFOUND, "there is no HDF5 file");
    h->shard = rc == 0 ? stk_zalloc(h->base.names.n, sizeof *h->shard) : NULL;
    if (rc == 0 && !h->shard)
        rc = stk_fail_nomem(err, h->base.names.n * sizeof *h->shard);
    if (rc == 0)
        rc = stk_table_files(&h->base, h->base.names.n, err);
    for (size_t i = 0; rc == 0 && i < h->base.names.n; i++) {
        h->shard[i].group = groups.name[i]; /* moved */
        groups.name[i] = NULL;
    }
    stk_names_fini(&groups);
    return rc;
}

/* ---- one file ---- */

static int read_sets(stk_hdf5 *h, uint64_t i, stk_error *err)
{
    stk_hdf5_shard *s = &h->shard[i];
    stk_file_info info = { 0 };
    stk_file *f = NULL;
    int rc = stk_url_open(STK_URL(h->base.names.name[i], h->base.names.store), &f, err);

    if (rc == 0)
        rc = stk_file_stat(f, &info, err);
    h->base.file[i].size = info.size;
    h->base.file[i].mtime_ns = info.mtime_ns;
    h->base.file[i].id = info.id;
    if (rc == 0)
        rc = stk_h5_file_init(&s->head, f, err);
    if (rc == 0)
        rc = stk_h5_group_read(&s->sets, &s->head, s->group, err);
    s->head.file = NULL;
    stk_file_close(&f);
    return rc == 0 ? stk_hdf5_virtual_open(h, i, err) : rc;
}

/* The number of rows that most data sets have; UINT64_MAX: there is none that is read. */
static uint64_t count_rows(const stk_h5_group *g)
{
    uint64_t rows = UINT64_MAX;
    uint32_t best = 0;

    for (uint32_t i = 0; i < g->n; i++) {
        uint32_t votes = 0;

        for (uint32_t k = 0; !g->set[i].refused && k < g->n; k++)
            votes += !g->set[k].refused && g->set[k].dim[0] == g->set[i].dim[0];
        if (votes > best || (votes && votes == best && g->set[i].dim[0] > rows)) {
            best = votes;
            rows = g->set[i].dim[0];
        }
    }
    return rows;
}

static int no_rows(const stk_hdf5_shard *s, stk_error *err)
{
    const stk_h5_group *g = &s->sets;

    if (g->n)
        return stk_fail(err, STK_ENOTSUP, "the group %.60s has no data set that is read; %.60s: %s",
                        s->group, g->set[0].name, g->set[0].refused);
    if (g->groups.n)
        return stk_fail(
            err, STK_EINVAL,
            "the group %.60s has no data sets, only groups: say which, as in FILE.h5#%s%s%.60s",
            s->group, s->group, s->group[strlen(s->group) - 1] == '/' ? "" : "/",
            g->groups.name[0]);
    if (g->external.n)
        return stk_fail(
            err, STK_EINVAL,
            "the group %.60s has only links to other files, which are not followed: open those",
            s->group);
    return stk_fail(err, STK_EINVAL, "the group %.60s is empty", s->group);
}

static void set_type(stk_field_type *t, const stk_h5_set *s)
{
    *t = (stk_field_type){ .name = s->name, .refused = s->refused };
    if (s->refused)
        return;
    t->dtype = s->type.dtype;
    if (s->type.kind == STK_H5_VALUES) {
        t->ndim = s->type.dtype != 0;
        t->shape[0] = t->ndim ? -1 : 0;
        return;
    }
    if (!t->dtype)
        return;
    for (uint32_t i = 1; i < s->rank; i++)
        t->shape[t->ndim++] = (int64_t)s->dim[i];
    for (uint32_t i = 0; i < s->type.ndim; i++)
        t->shape[t->ndim++] = s->type.dim[i];
}

/* Names in the group that are no data sets, as columns from `n` on. */
static uint32_t left_out(stk_table *t, uint32_t n, const stk_names *names, const char *why)
{
    for (size_t i = 0; i < names->n; i++)
        t->column[n++] = (stk_field_type){ .name = names->name[i], .refused = why };
    return n;
}

/* Fields are those of the first file: what is not read comes last. */
static int choose_fields(stk_hdf5 *h, stk_error *err)
{
    stk_h5_group *g = &h->shard[0].sets;
    stk_hdf5_column c;
    uint32_t readable = 0, n = 0;
    uint64_t rows;

    for (uint32_t i = 0; i < g->n; i++)
        if (!g->set[i].refused)
            g->set[i].refused = stk_hdf5_column_init(&c, &g->set[i]);
    rows = count_rows(g);
    if (rows == UINT64_MAX)
        return no_rows(&h->shard[0], err);
    for (uint32_t i = 0; i < g->n; i++) {
        if (!g->set[i].refused && g->set[i].dim[0] != rows)
            g->set[i].refused = "it has another number of rows than the others";
        readable += !g->set[i].refused;
    }
    STK_TRY(stk_table_columns(
        &h->base, g->n + (uint32_t)(g->external.n + g->nowhere.n + g->groups.n), readable, err));
    for (int refused = 0; refused < 2; refused++)
        for (uint32_t i = 0; i < g->n; i++)
            if (!g->set[i].refused == !refused)
                set_type(&h->base.column[n++], &g->set[i]);
    n = left_out(&h->base, n, &g->groups, "it is a group: open it alone, as FILE.h5#GROUP");
    n = left_out(&h->base, n, &g->external, "it is a link to another file, which is not followed");
    left_out(&h->base, n, &g->nowhere, "it is a link that leads to nothing, or in a circle");
    return 0;
}

static const stk_h5_set *set_find(const stk_h5_group *g, const char *name)
{
    for (uint32_t i = 0; i < g->n; i++)
        if (!strcmp(g->set[i].name, name))
            return &g->set[i];
    return NULL;
}

static int init_sequences(stk_hdf5_column *c, const stk_h5_file *head, stk_error *err)
{
    if (c->set->type.size < 8u + head->offsets)
        return stk_fail(err, STK_ECORRUPT, "the data set %.60s has sequences of %u bytes",
                        c->set->name, c->set->type.size);
    c->part_rows = (PART_ROWS + c->slab_rows - 1) / c->slab_rows * c->slab_rows;
    c->n_parts = (c->set->dim[0] + c->part_rows - 1) / c->part_rows;
    c->sequences = stk_zalloc((size_t)c->n_parts + 1, sizeof *c->sequences);
    return c->sequences ? 0 : stk_fail_nomem(err, (size_t)c->n_parts * sizeof *c->sequences);
}

static int init_column(stk_hdf5 *h, uint64_t shard, stk_hdf5_column *c, stk_error *err)
{
    stk_hdf5_at at = { h, shard, c };
    uint64_t n = c->set->dim[0];

    if (c->set->type.kind == STK_H5_VALUES)
        return init_sequences(c, &h->shard[shard].head, err);
    if (c->set->layout != STK_H5_COMPACT)
        return 0;
    c->here = stk_alloc((size_t)(n * c->value_bytes) + 1);
    if (!c->here)
        return stk_fail_nomem(err, (size_t)(n * c->value_bytes));
    for (uint64_t k = 0; k * c->slab_rows < n; k++)
        STK_TRY(stk_hdf5_slab(&at, k, (stk_bytes){ 0 }, c->here + k * c->slab_rows * c->value_bytes,
                              err));
    return 0;
}

static int init_columns(stk_hdf5 *h, uint64_t i, uint64_t *rows, stk_error *err)
{
    stk_hdf5_shard *s = &h->shard[i];
    uint32_t n = h->base.n_readable;

    s->column = stk_zalloc(n, sizeof *s->column);
    if (!s->column)
        return stk_fail_nomem(err, n * sizeof *s->column);
    for (uint32_t k = 0; k < n; k++) {
        const char *name = h->base.column[k].name, *refused;
        const stk_h5_set *set = set_find(&s->sets, name),
                         *first = set_find(&h->shard[0].sets, name);

        if (set && set->refused)
            return stk_fail(err, STK_ENOTSUP, "the data set %.60s is not read: %.160s", name,
                            set->refused);
        if (!set || !stk_h5_same(first, set))
            return stk_fail(err, STK_EINVAL,
                            "the data set %.60s is missing, or has another type or shape than in "
                            "the files before",
                            name);
        *rows = k ? *rows : set->dim[0];
        refused = stk_hdf5_column_init(&s->column[k], set);
        if (refused)
            return stk_fail(err, STK_ENOTSUP, "the data set %.60s is not read: %s", name, refused);
        if (set->layout == STK_H5_VIRTUAL)
            stk_hdf5_virtual_init(&s->column[k], s);
        if (set->dim[0] != *rows)
            return stk_fail(err, STK_EINVAL,
                            "the data set %.60s has %" PRIu64 " rows, and %.60s has %" PRIu64, name,
                            set->dim[0], h->base.column[0].name, *rows);
        STK_TRY(stk_hdf5_claim(&s->column[k], h->base.file[i].size, err));
        STK_TRY(init_column(h, i, &s->column[k], err));
    }
    return 0;
}

static int open_files(stk_hdf5 *h, const char *const *urls, size_t n, stk_error *err)
{
    uint64_t rows = 0;
    int rc;

    STK_TRY(expand_all(h, urls, n, err));
    for (uint64_t i = 0; i < h->base.names.n; i++) {
        rc = read_sets(h, i, err);
        if (rc == 0 && !i)
            rc = choose_fields(h, err);
        if (rc == 0)
            rc = init_columns(h, i, &rows, err);
        if (rc < 0) {
            stk_error_at(err, h->base.names.name[i], err ? err->offset : STK_NO_OFFSET,
                         (stk_bytes){ 0 });
            return rc;
        }
        STK_TRY(stk_table_rows(&h->base, i, rows, err));
    }
    return 0;
}

static int hdf5_open(stk_dataset **out, const stk_data_kind *kind, const char *const *urls,
                     size_t n, const stk_dataset_options *o, stk_error *err)
{
    stk_hdf5 *h = STK_NEW(stk_hdf5);

    (void)kind;
    *out = NULL;
    if (!h)
        return stk_fail_nomem(err, sizeof *h);
    stk_table_init(&h->base, &stk_hdf5_ops, STK_DATA_BLOCKS | STK_DATA_NAMES_FILES, o);
    return stk_table_opened(&h->base, open_files(h, urls, n, err), out);
}

const stk_data_kind stk_data_hdf5 = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_data_kind),
    .name = "hdf5",
    .help = "HDF5 files",
    .meant = hdf5_meant,
    .open = hdf5_open,
    .rows = 1,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* mds_open.c - from a folder, or its index.json, to a data set.  Of a shard that is there both
 * packed and not, the plain file is read. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "table/mds_data.h"

#define LOOK 65536u                   /* bytes of index.json by which it is known */
#define INDEX_MAX ((uint64_t)1 << 30) /* bytes of one */

static const char *plain(const char *url)
{
    size_t k = strlen(STK_PATH_SCHEME);

    return strncmp(url, STK_PATH_SCHEME, k) ? url : url + k;
}

static int is_remote(const char *url)
{
    return strstr(url, "://") != NULL;
}

/* The index's name: of a folder the file in it.  1: it may be one. */
static int index_name(const char *url, char *out, size_t size)
{
    static const char file[] = "index.json";
    size_t len = strlen(plain(url));
    int named = len >= sizeof file - 1 && !strcmp(plain(url) + len - (sizeof file - 1), file);

    if (!named && is_remote(url))
        return 0;
    return (size_t)snprintf(out, size, named ? "%s" : "%s/index.json", plain(url)) < size;
}

static int looks_like(const char *path)
{
    char *head = stk_alloc(LOOK);
    FILE *f = head ? fopen(path, "rb") : NULL;
    size_t n = f ? fread(head, 1, LOOK, f) : 0;
    int yes = n &&
              ((memmem(head, n, "\"column_encodings\"", 18) && memmem(head, n, "\"shards\"", 8)) ||
               (memmem(head, n, "\"chunk_bytes\"", 13) && memmem(head, n, "\"chunks\"", 8)));

    if (f)
        fclose(f);
    stk_free(head);
    return yes;
}

static int mds_meant(const char *const *urls, size_t n, const stk_dataset_options *o)
{
    char path[4096];

    (void)o;
    return n == 1 && index_name(urls[0], path, sizeof path) &&
           (is_remote(path) || looks_like(path));
}

/* LitData's index has chunks, MosaicML's has shards. */
static int read_either(stk_mds *m, stk_bytes text, stk_error *err)
{
    stk_bytes list;
    stk_error none;

    if (stk_json_find(text, "chunks", &list, &none) < 0)
        return stk_mds_index_read(&m->index, text, err);
    m->base.data.ops = &stk_litdata_ops;
    return stk_litdata_index_read(&m->index, text, err);
}

static int read_index(stk_mds *m, const char *path, stk_error *err)
{
    stk_file *f = NULL;
    stk_file_info info = { 0 };
    uint8_t *text = NULL;
    int rc = stk_url_open(STK_URL(path, m->base.names.store), &f, err);

    if (rc == 0)
        rc = stk_file_stat(f, &info, err);
    if (rc == 0 && info.size > INDEX_MAX)
        rc = stk_fail(err, STK_ELIMIT, "index.json has %" PRIu64 " bytes", info.size);
    if (rc == 0 && !(text = stk_alloc((size_t)info.size + 1)))
        rc = stk_fail_nomem(err, (size_t)info.size);
    if (rc == 0)
        rc = stk_file_read(f, 0, text, (size_t)info.size, err);
    if (rc == 0)
        rc = read_either(m, (stk_bytes){ text, (size_t)info.size }, err);
    if (rc == 0)
        m->print = stk_crc32c(0, text, (size_t)info.size);
    stk_file_close(&f);
    stk_free(text);
    if (rc < 0)
        stk_error_at(err, path, STK_NO_OFFSET, (stk_bytes){ 0 });
    return rc;
}

/* LitData's index does not say how large a file is. */
static int file_size(const stk_mds *m, const char *path, uint64_t *out, stk_error *err)
{
    stk_file_info info = { 0 };
    stk_file *f = NULL;
    int rc = stk_url_open(STK_URL(path, m->base.names.store), &f, err);

    if (rc == 0)
        rc = stk_file_stat(f, &info, err);
    stk_file_close(&f);
    *out = info.size;
    if (rc < 0)
        stk_error_at(err, path, STK_NO_OFFSET, (stk_bytes){ 0 });
    return rc;
}

static int add_file(stk_mds *m, uint64_t i, const char *path, size_t folder, stk_error *err)
{
    const stk_mds_shard *s = &m->index.shard[i];
    char full[4096];
    struct stat st;
    int fits = (size_t)snprintf(full, sizeof full, "%.*s%s", (int)folder, path, s->raw) <
               sizeof full;

    m->base.file[i].size = s->raw_bytes;
    if (fits && m->index.litdata) {
        m->file[i].packed = s->zip != NULL;
        STK_TRY(file_size(m, full, &m->base.file[i].size, err));
    } else if (fits && s->zip && (is_remote(path) || stat(full, &st))) {
        fits = (size_t)snprintf(full, sizeof full, "%.*s%s", (int)folder, path, s->zip) <
               sizeof full;
        m->file[i].packed = 1;
        m->base.file[i].size = s->zip_bytes;
    }
    return fits ? stk_names_add(&m->base.names, full, strlen(full), err)
                : stk_fail(err, STK_ELIMIT, "the name of shard %" PRIu64 " is too long", i);
}

static int columns(stk_mds *m, stk_error *err)
{
    STK_TRY(stk_table_columns(&m->base, m->index.n_columns, m->index.n_columns, err));
    for (uint32_t i = 0; i < m->index.n_columns; i++) {
        const stk_mds_column *c = &m->index.column[i];
        stk_field_type *t = &m->base.column[i];

        *t = (stk_field_type){ .name = c->name, .dtype = c->dtype, .ndim = c->ndim };
        memcpy(t->shape, c->shape, sizeof t->shape);
    }
    return 0;
}

static int open_index(stk_mds *m, const char *url, stk_error *err)
{
    char path[4096], *absolute = NULL;
    size_t folder;
    int rc = 0;

    if (!index_name(url, path, sizeof path))
        return stk_fail(err, STK_EINVAL, "the name %.80s is too long", url);
    if (!is_remote(path))
        STK_TRY(stk_path_absolute(path, &absolute, err));
    rc = read_index(m, absolute ? absolute : path, err);
    m->file = rc == 0 ? stk_zalloc(m->index.n, sizeof *m->file) : NULL;
    if (rc == 0 && !m->file)
        rc = stk_fail_nomem(err, m->index.n * sizeof *m->file);
    if (rc == 0)
        rc = stk_table_files(&m->base, m->index.n, err);
    folder = strlen(absolute ? absolute : path) - strlen("index.json");
    for (uint64_t i = 0; rc == 0 && i < m->index.n; i++) {
        m->base.file[i].print = m->print;
        rc = add_file(m, i, absolute ? absolute : path, folder, err);
        if (rc == 0)
            rc = stk_table_rows(&m->base, i, m->index.shard[i].samples, err);
    }
    if (rc == 0)
        rc = columns(m, err);
    stk_free(absolute);
    return rc;
}

static int mds_open(stk_dataset **out, const stk_data_kind *kind, const char *const *urls, size_t n,
                    const stk_dataset_options *o, stk_error *err)
{
    stk_mds *m = STK_NEW(stk_mds);

    (void)kind;
    (void)n;
    *out = NULL;
    if (!m)
        return stk_fail_nomem(err, sizeof *m);
    stk_table_init(&m->base, &stk_mds_ops, STK_DATA_BLOCKS | STK_DATA_NAMES_FILES, o);
    m->base.list = "index.json";
    return stk_table_opened(&m->base, open_index(m, urls[0], err), out);
}

const stk_data_kind stk_data_mds = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_data_kind),
    .name = "mds",
    .help = "MDS shards and LitData chunks: a folder with index.json",
    .meant = mds_meant,
    .open = mds_open,
    .rows = 1,
};

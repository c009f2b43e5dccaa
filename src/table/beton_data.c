/* SPDX-License-Identifier: Apache-2.0 */
/* beton_data.c - see beton_data.h. */
#include "table/beton_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/hash.h"
#include "base/mem.h"

#define PPM_HEAD 24u /* bytes of the longest header */

static const stk_beton_data *of(const stk_dataset *d)
{
    return (const stk_beton_data *)d;
}

static int data_fingerprint(const stk_dataset *d, stk_fingerprint *out, stk_error *err)
{
    const stk_beton_data *b = of(d);

    (void)err;
    for (uint64_t i = 0; i < b->base.names.n; i++) {
        const stk_beton *h = &b->shard[i].head;
        /* where things are differs where the data does */
        uint64_t n = h->samples < 64 ? h->samples : 64;

        out->content = stk_hash64(out->content, &h->samples, sizeof h->samples);
        out->content = stk_hash64(out->content, b->shard[i].rows, (size_t)(n * h->row_bytes));
    }
    stk_table_print(&b->base, out);
    return 0;
}

/* ---- its bytes ---- */

static const stk_gather *gather_of(const stk_beton_data *b, uint64_t number)
{
    return number >= STK_GATHER_FIRST ? stk_gather_number(&b->base.gathers, (uint32_t)number)
                                      : NULL;
}

static int by_offset(const void *a, const void *b)
{
    uint64_t x = ((const stk_beton_alloc *)a)->offset, y = ((const stk_beton_alloc *)b)->offset;

    return x < y ? -1 : x > y;
}

static int in_table(const stk_beton_shard *s, stk_beton_value *v, stk_error *err)
{
    stk_beton_alloc key = { v->offset, 0 }, *found;

    found = s->head.n_table
                ? bsearch(&key, s->alloc, (size_t)s->head.n_table, sizeof key, by_offset)
                : NULL;
    if (!found)
        return stk_fail(err, STK_ECORRUPT,
                        "the file's table has nothing at %" PRIu64 ", where a picture should be",
                        v->offset);
    v->len = found->len;
    return 0;
}

static int data_locate(const stk_dataset *d, const stk_entry *e, const stk_field *f, int named,
                       stk_place *out, stk_error *err)
{
    const stk_beton_data *b = of(d);
    const stk_beton_shard *s = &b->shard[e->shard];
    const stk_gather *g = gather_of(b, f->offset);
    uint64_t size = b->base.file[e->shard].size;
    stk_beton_value v;

    (void)named;
    if (g) {
        *out = (stk_place){ .len = 8,
                            .unpacked = (uint64_t)g->n * g->size,
                            .row = e->row << 16 | g->number };
        return 0;
    }
    if (f->offset >= b->base.n_readable)
        return stk_fail(err, STK_ENOTSUP, "the field %.60s is not read: %s",
                        b->base.column[f->offset].name, b->base.column[f->offset].refused);
    STK_TRY(stk_beton_value_of(&s->head.field[b->field[f->offset]],
                               s->rows + e->row * s->head.row_bytes, &v, err));
    if (v.len == UINT64_MAX)
        STK_TRY(in_table(s, &v, err));
    out->here = v.here;
    if (v.here.data)
        return 0;
    if (v.offset > size || v.len > size - v.offset)
        return stk_fail(err, STK_ECORRUPT, "its bytes are said to be past the end of the file");
    if (!v.len)
        out->here = (stk_bytes){ (const uint8_t *)"", 0 };
    out->offset = v.offset;
    out->len = v.len;
    out->unpacked = v.width ? v.len + PPM_HEAD : 0;
    out->row = (uint64_t)v.width << 32 | (uint64_t)v.height << 16;
    return 0;
}

static int gather_row(const stk_beton_data *b, const stk_gather *g, stk_unpack_job *job,
                      stk_error *err)
{
    const stk_beton_shard *s = &b->shard[job->shard];
    const uint8_t *row = s->rows + (job->place->row >> 16) * s->head.row_bytes;

    for (uint32_t c = 0; c < g->n; c++)
        STK_TRY(stk_gather_put(g, c, row + s->head.field[b->field[g->column[c].field]].at, 1,
                               job->dst, err));
    job->len = (size_t)g->n * g->size;
    return 0;
}

static int data_unpack(const stk_dataset *d, stk_unpack_job *job, stk_error *err)
{
    const stk_gather *g = gather_of(of(d), job->place->row & 0xFFFF);
    uint64_t row = job->place->row;
    int n;

    if (g)
        return gather_row(of(d), g, job, err);
    n = snprintf(job->dst, PPM_HEAD, "P6\n%u %u\n255\n", (unsigned)(row >> 32),
                 (unsigned)(row >> 16 & 0xFFFF));
    memcpy((uint8_t *)job->dst + n, job->raw.data, job->raw.len);
    job->len = (size_t)n + job->raw.len;
    return 0;
}

static void data_close(stk_dataset *d)
{
    stk_beton_data *b = (stk_beton_data *)d;

    for (size_t i = 0; b->shard && i < b->base.names.n; i++) {
        stk_beton_fini(&b->shard[i].head);
        stk_free(b->shard[i].rows);
        stk_free(b->shard[i].alloc);
    }
    stk_free(b->shard);
    stk_free(b->field);
    stk_table_fini(&b->base);
    stk_free(b);
}

static const stk_data_ops ops = {
    .name = "beton",
    .plural = ".beton files",
    STK_TABLE_FILE_OPS,
};

/* ---- open ---- */

static int beton_meant(const char *const *urls, size_t n, const stk_dataset_options *o)
{
    (void)o;
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(urls[i]);

        if (len > 6 && !strcasecmp(urls[i] + len - 6, ".beton"))
            return 1;
    }
    return 0;
}

static int read_at(stk_file *f, uint64_t at, uint64_t len, uint8_t **out, stk_error *err)
{
    stk_free(*out);
    *out = len < SIZE_MAX / 2 ? stk_alloc((size_t)len + 1) : NULL;
    return *out ? stk_file_read(f, at, *out, (size_t)len, err) : stk_fail_nomem(err, (size_t)len);
}

static int read_table(stk_beton_shard *s, stk_file *f, stk_error *err)
{
    uint8_t *bytes = NULL;
    uint64_t n = s->head.n_table;
    int rc = read_at(f, s->head.table_at, n * STK_BETON_ALLOC, &bytes, err);

    s->alloc = rc == 0 ? stk_alloc((size_t)(n + 1) * sizeof *s->alloc) : NULL;
    if (rc == 0 && !s->alloc)
        rc = stk_fail_nomem(err, (size_t)n * sizeof *s->alloc);
    for (uint64_t i = 0; rc == 0 && i < n; i++)
        memcpy(&s->alloc[i], bytes + i * STK_BETON_ALLOC + 8, sizeof *s->alloc);
    if (rc == 0 && n)
        qsort(s->alloc, (size_t)n, sizeof *s->alloc, by_offset);
    stk_free(bytes);
    return rc;
}

static int read_open(stk_beton_shard *s, stk_file *f, uint64_t size, stk_error *err)
{
    uint8_t *head = NULL;
    uint32_t n = 0;
    int table = 0, rc;

    if (size < STK_BETON_HEAD)
        return stk_fail(err, STK_ECORRUPT, "the file is too short for the header of a .beton file");
    rc = read_at(f, 0, STK_BETON_HEAD, &head, err);
    if (rc == 0)
        rc = stk_beton_fields((stk_bytes){ head, STK_BETON_HEAD }, &n, err);
    if (rc == 0 && STK_BETON_HEAD + (uint64_t)n * STK_BETON_FIELD > size)
        rc = stk_fail(err, STK_ECORRUPT, "the file is too short for its %u fields", n);
    if (rc == 0)
        rc = read_at(f, 0, STK_BETON_HEAD + (uint64_t)n * STK_BETON_FIELD, &head, err);
    if (rc == 0)
        rc = stk_beton_read(
            &s->head, (stk_bytes){ head, STK_BETON_HEAD + (size_t)n * STK_BETON_FIELD }, size, err);
    if (rc == 0)
        rc = read_at(f, s->head.rows_at, s->head.samples * s->head.row_bytes, &s->rows, err);
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        table |= s->head.field[i].type == STK_BETON_RGB;
    if (rc == 0 && table)
        rc = read_table(s, f, err);
    stk_free(head);
    return rc;
}

static int read_shard(stk_beton_data *b, uint64_t i, stk_error *err)
{
    stk_file_info info = { 0 };
    stk_file *f = NULL;
    int rc = stk_url_open(STK_URL(b->base.names.name[i], b->base.names.store), &f, err);

    if (rc == 0)
        rc = stk_file_stat(f, &info, err);
    b->base.file[i].size = info.size;
    b->base.file[i].mtime_ns = info.mtime_ns;
    b->base.file[i].id = info.id;
    if (rc == 0)
        rc = read_open(&b->shard[i], f, info.size, err);
    stk_file_close(&f);
    return rc;
}

/* Fields of the first file; those that are refused last. */
static int columns(stk_beton_data *b, stk_error *err)
{
    const stk_beton *h = &b->shard[0].head;
    uint32_t readable = 0, n = 0;

    for (uint32_t i = 0; i < h->n; i++)
        readable += !h->field[i].refused;
    STK_TRY(stk_table_columns(&b->base, h->n, readable, err));
    b->field = stk_zalloc(h->n, sizeof *b->field);
    if (!b->field)
        return stk_fail_nomem(err, h->n * sizeof *b->field);
    for (int refused = 0; refused < 2; refused++)
        for (uint32_t i = 0; i < h->n; i++) {
            const stk_beton_field *f = &h->field[i];
            stk_field_type *t = &b->base.column[n];

            if ((f->refused != NULL) != refused)
                continue;
            *t = (stk_field_type){ .name = f->name, .refused = f->refused };
            if (!refused) {
                t->dtype = f->dtype;
                t->ndim = f->ndim;
                memcpy(t->shape, f->shape, sizeof f->shape);
            }
            b->field[n++] = i;
        }
    return 0;
}

static int same_fields(const stk_beton *a, const stk_beton *b)
{
    if (a->n != b->n)
        return 0;
    for (uint32_t i = 0; i < a->n; i++) {
        const stk_beton_field *x = &a->field[i], *y = &b->field[i];

        if (strcmp(x->name, y->name) != 0 || x->type != y->type || x->dtype != y->dtype ||
            x->ndim != y->ndim || !x->refused != !y->refused ||
            memcmp(x->shape, y->shape, sizeof x->shape) != 0)
            return 0;
    }
    return 1;
}

static int open_files(stk_beton_data *b, const char *const *urls, size_t n, stk_error *err)
{
    STK_TRY(stk_names_expand(&b->base.names, urls, n, err));
    b->shard = stk_zalloc(b->base.names.n + 1, sizeof *b->shard);
    if (!b->shard)
        return stk_fail_nomem(err, b->base.names.n * sizeof *b->shard);
    STK_TRY(stk_table_files(&b->base, b->base.names.n, err));
    for (uint64_t i = 0; i < b->base.names.n; i++) {
        int rc = read_shard(b, i, err);

        if (rc == 0 && !i)
            rc = columns(b, err);
        if (rc == 0 && !same_fields(&b->shard[0].head, &b->shard[i].head))
            rc = stk_fail(err, STK_EINVAL,
                          "it has other fields than the file before: open them apart");
        if (rc < 0) {
            stk_error_at(err, b->base.names.name[i], STK_NO_OFFSET, (stk_bytes){ 0 });
            return rc;
        }
        STK_TRY(stk_table_rows(&b->base, i, b->shard[i].head.samples, err));
    }
    return 0;
}

static int beton_open(stk_dataset **out, const stk_data_kind *kind, const char *const *urls,
                      size_t n, const stk_dataset_options *o, stk_error *err)
{
    stk_beton_data *b = STK_NEW(stk_beton_data);

    (void)kind;
    *out = NULL;
    if (!b)
        return stk_fail_nomem(err, sizeof *b);
    stk_table_init(&b->base, &ops, STK_DATA_BLOCKS, o);
    return stk_table_opened(&b->base, open_files(b, urls, n, err), out);
}

const stk_data_kind stk_data_beton = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_data_kind),
    .name = "beton",
    .help = "FFCV's .beton files",
    .meant = beton_meant,
    .open = beton_open,
    .rows = 1,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* where.c - which samples of a data set satisfy a condition.
 *
 * Columns of tables are decoded a row group at a time.  Those of other data sets are the index's
 * typed columns, or are read now (stk_column_open). */
#include "column/where.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/numeral.h"
#include "column/media_sizes.h"
#include "column/where_node.h"
#include "kern/half.h"
#include "table/parquet_data.h"

#define COLUMN_MAX 512                /* bytes of a column's name */
#define GROUP_MAX ((uint64_t)4 << 30) /* bytes of a column's values in one row group */

typedef struct source { /* where one column's values come from */
    stk_column *column; /* of shards */
    uint32_t field;     /* of tables */
    stk_dtype dtype;    /* of tables in memory */
    stk_pq_vector rows; /* of tables: this row group's */
    const stk_pq_table *table;
    stk_where_values *values;
    int only_nulls;          /* the condition asks for nothing but IS NULL */
    int top;                 /* ... of the outermost node of `field`: a struct, say */
    stk_pq_presence present; /* ... of this row group; row NULL: all are, or `none` */
    int none;
    int media; /* the size of a picture */
} source;

typedef struct search {
    stk_dataset *ds;
    const stk_parquet *table; /* NULL: shards, or ... */
    int plain;                /* ... a table whose values are in memory */
    stk_condition c;
    source *source;
    stk_where_type *type;
    const stk_where_values **values; /* of source[] */
    uint8_t *room;
    uint64_t *id, n, cap;
} search;

/* ---- columns of tables ---- */

static int number_of(const char *text, int64_t *out)
{
    return text && stk_number_i64((stk_bytes){ (const uint8_t *)text, strlen(text) }, out) == 1;
}

/* Of a partition column: are all its values whole numbers? */
static stk_where_type partition_type(const stk_parquet *p, int partition)
{
    int64_t v;

    for (uint64_t i = 0; i < p->base.names.n; i++)
        if (p->shard[i].constant[partition] && !number_of(p->shard[i].constant[partition], &v))
            return STK_WHERE_TEXT;
    return STK_WHERE_I64;
}

static stk_where_type number_type(stk_dtype t)
{
    return t == STK_F64                   ? STK_WHERE_F64
           : t == STK_F32 || t == STK_F16 ? STK_WHERE_F32
                                          : STK_WHERE_I64;
}

static int table_field(const stk_parquet *p, const char *name, uint32_t *out)
{
    int at = p->base.data.ops->find(&p->base.data, 0, name), same = 0;

    at = at < (int)p->n_fields ? at : -1; /* columns only */
    for (uint32_t i = 0; at < 0 && i < p->n_fields; i++)
        if (!strcasecmp(p->field[i].name, name)) {
            *out = i;
            same++;
        }
    if (at >= 0)
        *out = (uint32_t)at;
    return at >= 0 || same == 1;
}

static int no_column(const stk_parquet *p, const char *name, stk_error *err)
{
    char have[120] = "";
    size_t at = 0;

    for (uint32_t i = 0; i < p->n_fields && at < sizeof have; i++)
        at += (size_t)snprintf(have + at, sizeof have - at, "%s%s", i ? ", " : "",
                               p->field[i].name);
    return stk_fail(err, STK_EINVAL, "where: there is no column %.60s: the columns are %s", name,
                    have);
}

/* Does the condition use the column for IS NULL alone? */
static int only_nulls(const stk_condition *c, uint32_t column)
{
    for (uint32_t i = 0; i < c->n; i++) {
        const stk_where_node *x = &c->node[i], *a = &c->node[x->a], *b = &c->node[x->b];

        if ((x->kind == STK_WHERE_COMPARE || x->kind == STK_WHERE_LIKE ||
             x->kind == STK_WHERE_TRUTH) &&
            ((a->kind == STK_WHERE_COLUMN && a->column == column) ||
             (b->kind == STK_WHERE_COLUMN && b->column == column)))
            return 0;
    }
    return 1;
}

/* Of a column whose values do not matter: a struct, or one of its members.  0: there is none. */
static int null_field(const stk_parquet *p, source *s, const char *name)
{
    for (uint32_t i = 0; i < p->n_fields; i++) {
        const stk_pq_leaf *l = &p->field[i].leaf;

        if (l->refused || p->field[i].partition >= 0 || l->top_len != strlen(name) ||
            strncmp(l->name, name, l->top_len) != 0)
            continue;
        s->field = i;
        s->top = 1;
        return 1;
    }
    return table_field(p, name, &s->field) && !p->field[s->field].leaf.refused &&
           p->field[s->field].partition < 0;
}

static int table_column(const stk_parquet *p, source *s, const char *name, stk_where_type *type,
                        stk_error *err)
{
    const stk_pq_leaf *l;

    if (s->only_nulls && null_field(p, s, name)) {
        *type = STK_WHERE_I64;
        return 0;
    }
    s->only_nulls = 0;

    if (!table_field(p, name, &s->field))
        return no_column(p, name, err);
    l = &p->field[s->field].leaf;
    if (l->refused || l->max_rep)
        return stk_fail(err, STK_ENOTSUP, "where: column %.60s: not supported because %s", name,
                        l->refused ? l->refused : "it is a list");
    if (p->field[s->field].partition >= 0)
        *type = partition_type(p, p->field[s->field].partition);
    else if (!l->dtype)
        *type = STK_WHERE_TEXT;
    else
        *type = number_type(l->dtype);
    return 0;
}

/* The definition level from which on a row is not null. */
static uint8_t present_from(const stk_pq_leaf *l, int top)
{
    return top ? l->top_def : l->max_rep ? (uint8_t)(l->list_def - 1) : l->max_def;
}

/* A block's rows: their values, or whether they have one. */
static int decode_block(const search *x, source *s, uint64_t shard, uint32_t chunk, uint32_t block,
                        stk_error *err)
{
    const stk_pq_file *f = x->table->shard[shard].meta;
    const stk_pq_block *b = &s->table->block[block];
    stk_pq_decode d = { &f->leaf[chunk % f->n_leaves], f->chunk[chunk].codec,
                        s->table->dictionary.leaf ? &s->table->dictionary : NULL, GROUP_MAX };
    uint8_t *bytes = stk_alloc((size_t)b->len);
    stk_file *file;
    int rc = bytes ? stk_table_acquire(&x->table->base.data, shard, &file, err)
                   : stk_fail_nomem(err, (size_t)b->len);

    if (rc == 0)
        rc = stk_file_read(file, b->offset, bytes, (size_t)b->len, err);
    if (rc == 0 && s->present.row)
        rc = stk_pq_present(&d, (stk_bytes){ bytes, (size_t)b->len }, present_from(d.leaf, s->top),
                            &s->present, err);
    else if (rc == 0)
        rc = stk_pq_decode_pages(&d, (stk_bytes){ bytes, (size_t)b->len }, &s->rows, err);
    if (rc < 0)
        stk_error_at(err, x->table->base.names.name[shard], b->offset, (stk_bytes){ 0 });
    stk_free(bytes);
    return rc;
}

/* Which rows of a group have a value.  Most files say that all have: then nothing is read. */
static int load_nulls(const search *x, source *s, uint64_t shard, uint32_t group, stk_error *err)
{
    const stk_pq_file *f = x->table->shard[shard].meta;
    uint32_t leaf = x->table->shard[shard].leaf_of[s->field], chunk = group * f->n_leaves + leaf;
    stk_pq_table *pages = NULL;
    int rc = 0;

    stk_free(s->present.row);
    s->present = (stk_pq_presence){ .room = f->group[group].rows };
    s->none = leaf == UINT32_MAX;
    if (s->none || !present_from(&f->leaf[leaf], s->top) || !f->chunk[chunk].nulls)
        return 0;
    if (s->present.room > GROUP_MAX)
        return stk_fail(err, STK_ELIMIT, "where: a row group of %" PRIu64 " rows", s->present.room);
    s->present.row = stk_alloc((size_t)s->present.room + 1);
    if (!s->present.row)
        return stk_fail_nomem(err, (size_t)s->present.room);
    STK_TRY(stk_pq_table_pages(x->table, shard, chunk, &pages, err));
    s->table = pages;
    for (uint32_t b = 0; rc == 0 && b < s->table->n_blocks; b++)
        rc = decode_block(x, s, shard, chunk, b, err);
    s->table = NULL;
    stk_pq_table_close(&pages);
    if (rc == 0 && s->present.n != s->present.room)
        rc = stk_fail(err, STK_ECORRUPT, "where: column %.60s ends early",
                      x->table->field[s->field].name);
    return rc;
}

static void fill_nulls(source *s, uint64_t first, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        s->values->valid[i] = s->present.row ? s->present.row[first + i] : !s->none;
        s->values->v.i[i] = 0;
    }
}

/* All values of a column in one row group. */
static int load_group(const search *x, source *s, uint64_t shard, uint32_t group, stk_error *err)
{
    const stk_pq_shard *file = &x->table->shard[shard];
    uint32_t leaf = file->leaf_of[s->field], chunk = group * file->meta->n_leaves + leaf;
    int rc = 0;

    if (s->only_nulls)
        return load_nulls(x, s, shard, group, err);
    stk_pq_vector_fini(&s->rows);
    s->table = NULL;
    if (leaf == UINT32_MAX)
        return 0;
    STK_TRY(stk_pq_table_get(x->table, shard, chunk, &s->table, err));
    if (s->table->points.n_spans)
        return stk_fail(err, STK_ENOTSUP, "where: column %.60s has large values, as pictures are",
                        x->table->field[s->field].name);
    for (uint32_t b = 0; rc == 0 && b < s->table->n_blocks; b++)
        rc = decode_block(x, s, shard, chunk, b, err);
    if (rc == 0 && s->rows.rows != file->meta->group[group].rows)
        rc = stk_fail(err, STK_ECORRUPT, "where: column %.60s ends early",
                      x->table->field[s->field].name);
    return rc;
}

static int64_t integer_at(const uint8_t *p, stk_dtype t)
{
    int64_t i = 0;
    uint32_t u = 0;
    int32_t k;
    int16_t h;

    switch (t) {
    case STK_I64: memcpy(&i, p, 8); return i;
    case STK_I32: memcpy(&k, p, 4); return k;
    case STK_U32: memcpy(&u, p, 4); return u;
    case STK_I16: memcpy(&h, p, 2); return h;
    case STK_U16: memcpy(&u, p, 2); return u;
    case STK_I8: return (int8_t)*p;
    default: return *p;
    }
}

static double float_at(const uint8_t *p, stk_dtype t)
{
    uint16_t h;
    double d;
    float f;

    if (t == STK_F64) {
        memcpy(&d, p, 8);
        return d;
    }
    if (t == STK_F16) {
        memcpy(&h, p, 2);
        return (double)stk_f16_to(h);
    }
    memcpy(&f, p, 4);
    return (double)f;
}

static void fill_constant(source *s, const char *text, uint32_t n)
{
    stk_where_values *v = s->values;
    int64_t number = 0;

    if (text && v->type == STK_WHERE_I64)
        number_of(text, &number);
    for (uint32_t i = 0; i < n; i++) {
        v->valid[i] = text != NULL;
        if (v->type == STK_WHERE_I64)
            v->v.i[i] = number;
        else
            v->v.text[i] = (stk_bytes){ (const uint8_t *)text, text ? strlen(text) : 0 };
    }
}

/* Rows [first, first + n) of the group. */
static int fill_rows(source *s, uint64_t first, uint32_t n, stk_error *err)
{
    stk_where_values *v = s->values;

    for (uint32_t i = 0; i < n; i++) {
        stk_bytes x;
        uint64_t one;
        int rc = s->table ? stk_pq_row(&s->rows, &s->table->dictionary, first + i, &x, &one, err)
                          : STK_ENOTFOUND;

        v->valid[i] = rc == 0;
        if (rc == STK_ENOTFOUND)
            continue;
        STK_TRY(rc);
        if (v->type == STK_WHERE_TEXT)
            v->v.text[i] = x;
        else if (v->type == STK_WHERE_I64)
            v->v.i[i] = integer_at(x.data, s->rows.leaf->dtype);
        else
            v->v.f[i] = float_at(x.data, s->rows.leaf->dtype);
    }
    return 0;
}

/* ---- columns of tables in memory ---- */

static int plain_column(const search *x, source *s, const char *name, stk_where_type *type,
                        stk_error *err)
{
    int at = x->ds->ops->find(x->ds, 0, name);
    stk_field_type t;

    for (uint32_t i = 0; at < 0 && x->ds->ops->type(x->ds, i, &t); i++)
        if (!strcasecmp(t.name, name))
            at = (int)i;
    if (at < 0 || !x->ds->ops->type(x->ds, (uint32_t)at, &t))
        return stk_fail(err, STK_EINVAL,
                        "where: there is no column %.60s: `stoker ls --schema` lists them", name);
    if (t.ndim && !s->only_nulls)
        return stk_fail(err, STK_ENOTSUP, "where: column %.60s: not supported because it is a list",
                        name);
    s->field = (uint32_t)at;
    s->dtype = t.dtype;
    *type = t.dtype && !s->only_nulls ? number_type(t.dtype) : STK_WHERE_TEXT;
    return 0;
}

/* A number that is made for its row, of a decimal. */
static int make_number(const stk_dataset *ds, uint64_t shard, stk_place *place, uint64_t *out,
                       stk_error *err)
{
    stk_unpack_job job = { .shard = shard, .place = place, .dst = out, .len = sizeof *out };

    if (place->unpacked > sizeof *out || place->len || place->shared)
        return stk_fail(err, STK_ENOTSUP, "where: a column is not in memory");
    STK_TRY(ds->ops->unpack(ds, &job, err));
    place->here = (stk_bytes){ (const uint8_t *)out, job.len };
    return 0;
}

static int fill_plain(const search *x, source *s, uint64_t first, uint32_t n, stk_error *err)
{
    const stk_data_ops *ops = x->ds->ops;
    stk_where_values *v = s->values;

    for (uint32_t i = 0; i < n; i++) {
        stk_place place = { 0 };
        stk_entry e;
        stk_field f;
        uint64_t made;

        STK_TRY(ops->entry(x->ds, first + i, &e, err));
        STK_TRY(ops->field(x->ds, &e, s->field, &f, err));
        STK_TRY(ops->locate(x->ds, &e, &f, 0, &place, err));
        v->valid[i] = !place.absent;
        if (place.absent || s->only_nulls)
            continue;
        if (!place.here.data)
            STK_TRY(make_number(x->ds, e.shard, &place, &made, err));
        if (v->type == STK_WHERE_TEXT)
            v->v.text[i] = place.here;
        else if (v->type == STK_WHERE_I64)
            v->v.i[i] = integer_at(place.here.data, s->dtype);
        else
            v->v.f[i] = float_at(place.here.data, s->dtype);
    }
    return 0;
}

/* ---- columns of shards ---- */

/* Is `name`, or what it has before its first dot, a field? */
static int is_field(const stk_dataset *ds, const char *name, size_t len)
{
    const char *f;

    for (uint32_t i = 0; (f = stk_dataset_field(ds, i)); i++)
        if (strlen(f) == len && !strncmp(f, name, len))
            return 1;
    return 0;
}

/* Shards as most tools write them say what a sample is in its field `json`: a name that is not a
 * field's is one of its members. */
static const char *full_name(const stk_dataset *ds, const char *name, char *room, size_t size)
{
    if (is_field(ds, name, strlen(name)) || is_field(ds, name, strcspn(name, ".")) ||
        !is_field(ds, "json", 4))
        return name;
    snprintf(room, size, "json.%s", name);
    return room;
}

/* Of a table that is not in memory: has the column floats of 32 bits? */
static int is_narrow(const stk_dataset *ds, const char *name)
{
    stk_field_type t;

    for (uint32_t i = 0; ds->ops->type(ds, i, &t); i++)
        if (!strcmp(t.name, name))
            return number_type(t.dtype) == STK_WHERE_F32;
    return 0;
}

static int shard_column(search *x, source *s, const char *name, stk_where_type *type,
                        stk_error *err)
{
    stk_column_options o = { .size = sizeof o, .read = STK_YES };
    char room[COLUMN_MAX];
    int rc = !(x->ds->can & STK_DATA_IMMEDIATE)
                 ? stk_column_open(&s->column, x->ds,
                                   s->media ? name : full_name(x->ds, name, room, sizeof room), &o,
                                   err)
                 : stk_fail(err, STK_ENOTSUP, "tables and indexed shards have columns, %s don't",
                            x->ds->ops->plural);

    if (rc < 0 && err) {
        char text[sizeof err->message];

        memcpy(text, err->message, sizeof text);
        return stk_fail(err, rc, "where: column %.60s: %.160s", name, text);
    }
    STK_TRY(rc);
    *type = stk_column_kind(s->column) == STK_COLUMN_I64   ? STK_WHERE_I64
            : stk_column_kind(s->column) == STK_COLUMN_F64 ? STK_WHERE_F64
                                                           : STK_WHERE_TEXT;
    if (*type == STK_WHERE_F64 && is_narrow(x->ds, name))
        *type = STK_WHERE_F32;
    return 0;
}

static int fill_column(source *s, uint64_t first, uint32_t n, stk_error *err)
{
    const char *text[STK_WHERE_ROWS];
    size_t len[STK_WHERE_ROWS];

    STK_TRY(stk_column_valid(s->column, first, n, s->values->valid, err));
    if (s->values->type == STK_WHERE_I64)
        return stk_column_i64(s->column, first, n, s->values->v.i, err);
    if (s->values->type == STK_WHERE_F64)
        return stk_column_f64(s->column, first, n, s->values->v.f, err);
    STK_TRY(stk_column_text(s->column, first, n, text, len, err));
    for (uint32_t i = 0; i < n; i++)
        s->values->v.text[i] = (stk_bytes){ (const uint8_t *)text[i], len[i] };
    return 0;
}

/* ---- the search ---- */

static int take(search *x, uint64_t first, uint32_t n, stk_error *err)
{
    uint8_t yes[STK_WHERE_ROWS];

    stk_condition_eval(&x->c, x->values, n, x->room, yes);
    if (x->n + n > x->cap) {
        uint64_t cap = x->cap ? 2 * x->cap : 4096;
        uint64_t *grown = stk_grow(x->id, x->n * sizeof *grown, cap * sizeof *grown);

        if (!grown)
            return stk_fail_nomem(err, cap * sizeof *grown);
        x->id = grown;
        x->cap = cap;
    }
    for (uint32_t i = 0; i < n; i++)
        if (yes[i])
            x->id[x->n++] = first + i;
    return 0;
}

static int search_group(search *x, uint64_t shard, uint32_t group, stk_error *err)
{
    const stk_pq_shard *s = &x->table->shard[shard];
    stk_pq_group g = s->meta->group[group];
    uint64_t first = x->table->base.file[shard].first + g.first;

    for (uint32_t c = 0; c < x->c.n_columns; c++)
        if (!x->source[c].column && x->table->field[x->source[c].field].partition < 0)
            STK_TRY(load_group(x, &x->source[c], shard, group, err));
    for (uint64_t at = 0; at < g.rows; at += STK_WHERE_ROWS) {
        uint32_t n = g.rows - at < STK_WHERE_ROWS ? (uint32_t)(g.rows - at) : STK_WHERE_ROWS;

        for (uint32_t c = 0; c < x->c.n_columns; c++) {
            int partition = x->table->field[x->source[c].field].partition;

            if (x->source[c].column)
                STK_TRY(fill_column(&x->source[c], first + at, n, err));
            else if (x->source[c].only_nulls)
                fill_nulls(&x->source[c], at, n);
            else if (partition >= 0)
                fill_constant(&x->source[c], s->constant[partition], n);
            else
                STK_TRY(fill_rows(&x->source[c], at, n, err));
        }
        STK_TRY(take(x, first + at, n, err));
    }
    return 0;
}

static int search_all(search *x, stk_error *err)
{
    uint64_t len = stk_dataset_len(x->ds);

    for (uint64_t i = 0; x->table && i < x->table->base.names.n; i++)
        for (uint32_t g = 0; g < x->table->shard[i].meta->n_groups; g++)
            STK_TRY(search_group(x, i, g, err));
    for (uint64_t at = 0; !x->table && at < len; at += STK_WHERE_ROWS) {
        uint32_t n = len - at < STK_WHERE_ROWS ? (uint32_t)(len - at) : STK_WHERE_ROWS;

        for (uint32_t c = 0; c < x->c.n_columns; c++)
            STK_TRY(x->source[c].column ? fill_column(&x->source[c], at, n, err)
                                        : fill_plain(x, &x->source[c], at, n, err));
        STK_TRY(take(x, at, n, err));
    }
    return 0;
}

/* The text of a decimal, which no list of the columns has. */
static int is_derived(const search *x, const char *name)
{
    int at = x->table || x->plain ? x->ds->ops->find(x->ds, 0, name) : -1;
    stk_field_type t;

    return at >= 0 && !x->ds->ops->type(x->ds, (uint32_t)at, &t);
}

static int open_columns(search *x, stk_error *err)
{
    uint32_t n = x->c.n_columns;
    stk_media_what what;

    x->source = stk_zalloc(n + 1u, sizeof *x->source);
    x->type = stk_zalloc(n + 1u, sizeof *x->type);
    x->values = stk_zalloc(n + 1u, sizeof *x->values);
    x->room = stk_alloc((size_t)x->c.n * STK_WHERE_ROWS);
    if (!x->source || !x->type || !x->values || !x->room)
        return stk_fail_nomem(err, (size_t)x->c.n * STK_WHERE_ROWS);
    for (uint32_t i = 0; i < n; i++) {
        source *s = &x->source[i];

        s->only_nulls = only_nulls(&x->c, i);
        s->media = stk_media_is_column(x->ds, x->c.column[i], &what, err);
        if (s->media < 0)
            return s->media;
        STK_TRY(s->media || is_derived(x, x->c.column[i])
                    ? shard_column(x, s, x->c.column[i], &x->type[i], err)
                : x->table ? table_column(x->table, s, x->c.column[i], &x->type[i], err)
                : x->plain ? plain_column(x, s, x->c.column[i], &x->type[i], err)
                           : shard_column(x, s, x->c.column[i], &x->type[i], err));
        s->values = STK_NEW(stk_where_values);
        if (!s->values)
            return stk_fail_nomem(err, sizeof *s->values);
        s->values->type = x->type[i] == STK_WHERE_F32 ? STK_WHERE_F64 : x->type[i];
        x->values[i] = s->values;
    }
    return stk_condition_settle(&x->c, x->type, err);
}

int stk_dataset_where(stk_dataset *ds, const char *where, uint64_t **ids, uint64_t *n,
                      stk_error *err)
{
    search x = { .ds = ds, .table = stk_parquet_of(ds) };
    uint64_t tears = stk_guarded_tears();
    int rc;

    x.plain = (ds->can & STK_DATA_MEMORY) != 0;
    rc = stk_condition_parse(&x.c, where, err);
    *ids = NULL;
    *n = 0;
    if (rc == 0)
        rc = open_columns(&x, err);
    if (rc == 0)
        rc = search_all(&x, err);
    if (rc == 0)
        rc = stk_dataset_whole(ds, tears, err);
    for (uint32_t i = 0; x.source && i < x.c.n_columns; i++) {
        stk_column_close(&x.source[i].column);
        stk_pq_vector_fini(&x.source[i].rows);
        stk_free(x.source[i].present.row);
        stk_free(x.source[i].values);
    }
    stk_free(x.source);
    stk_free(x.type);
    stk_free(x.values);
    stk_free(x.room);
    stk_condition_fini(&x.c);
    if (rc == 0) {
        *ids = x.id;
        *n = x.n;
    } else
        stk_free(x.id);
    return rc;
}

void stk_dataset_where_free(uint64_t **ids)
{
    stk_free(*ids);
    *ids = NULL;
}

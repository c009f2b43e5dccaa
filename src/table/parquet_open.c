/* SPDX-License-Identifier: Apache-2.0 */
/* parquet_open.c - from names of files to a data set: footers, one schema, columns in folders'
 * names.
 *
 * The fields are the columns of the first file, then what later files have besides, then partition
 * columns (year=2024/ in the path, as Hive writes it).  A file without a column has nulls there; a
 * column that has another type in another file is an error with both names. */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/numeral.h"
#include "table/parquet_data.h"
#include "table/table_files.h"

#define MAX_FIELDS 20000u
#define MAX_PARTITIONS 16u

/* ---- one file ---- */

static int read_footer(stk_parquet *p, uint64_t i, stk_file *f, stk_error *err)
{
    stk_table_file *t = &p->base.file[i];
    uint8_t tail[STK_PQ_TAIL], *bytes;
    stk_file_info info;
    uint32_t n = 0;
    int rc;

    STK_TRY(stk_file_stat(f, &info, err));
    t->size = info.size;
    t->mtime_ns = info.mtime_ns;
    t->id = info.id;
    memcpy(t->etag, info.etag, sizeof t->etag);
    if (t->size < 12)
        return stk_fail(err, STK_ECORRUPT, "not a Parquet file: it has %" PRIu64 " bytes", t->size);
    STK_TRY(stk_file_read(f, t->size - STK_PQ_TAIL, tail, sizeof tail, err));
    STK_TRY(stk_pq_tail(tail, t->size, &n, err));
    bytes = stk_alloc(n ? n : 1);
    if (!bytes)
        return stk_fail_nomem(err, n);
    rc = stk_file_read(f, t->size - STK_PQ_TAIL - n, bytes, n, err);
    if (rc == 0)
        rc = stk_pq_file_open(&p->shard[i].meta, (stk_bytes){ bytes, n }, t->size, err);
    t->print = stk_crc32c(0, bytes, n);
    stk_free(bytes);
    return rc;
}

static int is_decimal(const stk_pq_leaf *l)
{
    return l->meaning == STK_PQ_DECIMAL && !l->max_rep;
}

/* Columns of decimals once more, as text. */
static int decimal_texts(stk_pq_shard *s, stk_error *err)
{
    uint32_t n = s->meta->n_leaves, i = 0;

    while (i < n && !is_decimal(&s->meta->leaf[i]))
        i++;
    if (i == n)
        return 0;
    if ((uint64_t)s->meta->n_groups * n > UINT32_MAX / 2)
        return stk_fail(err, STK_ELIMIT, "%u row groups of %u columns are too many",
                        s->meta->n_groups, n);
    s->text = stk_zalloc(n, sizeof *s->text);
    for (; s->text && i < n; i++)
        if (is_decimal(&s->meta->leaf[i]))
            s->text[i] = stk_pq_decimal_text(&s->meta->leaf[i]);
    return s->text ? 0 : stk_fail_nomem(err, n * sizeof *s->text);
}

static int open_file(stk_parquet *p, uint64_t i, const stk_dataset_options *o, stk_error *err)
{
    stk_pq_shard *s = &p->shard[i];
    stk_file *f = NULL;
    int rc = stk_url_open(STK_URL(p->base.names.name[i], p->base.names.store), &f, err);

    if (rc == 0)
        rc = read_footer(p, i, f, err);
    if (rc == 0 && o->list_null)
        rc = stk_pq_fill_lists(s->meta, *o->list_null, err);
    stk_file_close(&f);
    if (rc == 0)
        rc = decimal_texts(s, err);
    if (rc == 0) {
        size_t n = (size_t)stk_pq_chunks(s->meta) * (s->text ? 2 : 1);

        s->table = stk_zalloc(n ? n : 1, sizeof *s->table);
        rc = s->table ? 0 : stk_fail_nomem(err, n * sizeof *s->table);
    }
    if (rc < 0)
        stk_error_at(err, p->base.names.name[i], STK_NO_OFFSET, (stk_bytes){ 0 });
    return rc;
}

/* ---- the schema ---- */

static int find_field(const stk_parquet *p, const char *name)
{
    for (uint32_t i = 0; i < p->n_fields; i++)
        if (!strcmp(p->field[i].name, name))
            return (int)i;
    return -1;
}

static int add_field(stk_parquet *p, const char *name, const stk_pq_leaf *leaf, int partition,
                     stk_error *err)
{
    stk_pq_field *grown;

    if (p->n_fields == MAX_FIELDS)
        return stk_fail(err, STK_ELIMIT, "more than %u columns", MAX_FIELDS);
    if (!(p->n_fields & (p->n_fields - 1))) { /* a power of two: full */
        grown = stk_grow(p->field, p->n_fields * sizeof *grown,
                         (p->n_fields ? 2 * (size_t)p->n_fields : 1) * sizeof *grown);
        if (!grown)
            return stk_fail_nomem(err, p->n_fields * sizeof *grown);
        p->field = grown;
    }
    p->field[p->n_fields] = (stk_pq_field){ stk_strdup(name), *leaf, partition };
    if (!p->field[p->n_fields].name)
        return stk_fail_nomem(err, strlen(name));
    p->n_fields++;
    return 0;
}

static int same_type(const stk_pq_leaf *a, const stk_pq_leaf *b)
{
    return a->dtype == b->dtype && a->width == b->width && a->max_rep == b->max_rep &&
           !a->refused == !b->refused && a->blobs == b->blobs;
}

static int is_nothing(const stk_pq_leaf *l)
{
    return l->meaning == STK_PQ_NOTHING;
}

/* The type, for people: "list of i64", "text", "bytes", "timestamp[us]". */
static const char *type_name(const stk_pq_leaf *l, char buf[40])
{
    const char *value = l->meaning == STK_PQ_TEXT                 ? "text"
                        : l->unit && *l->unit                     ? l->unit
                        : l->dtype                                ? stk_dtype_name(l->dtype)
                        : l->width && l->physical == STK_PQ_FIXED ? "bytes of one length"
                                                                  : "bytes";

    snprintf(buf, 40, "%s%s", l->max_rep ? "list of " : "", value);
    return buf;
}

/* A time's unit; "": it is not one. */
static const char *time_unit(const stk_pq_leaf *l)
{
    return l->meaning == STK_PQ_TIME || l->meaning == STK_PQ_TIMESTAMP || l->meaning == STK_PQ_DATE
               ? l->unit
               : "";
}

/* File i has a column that does not go with those of the files before. */
static int differs(const stk_parquet *p, uint64_t i, const stk_pq_leaf *was, const stk_pq_leaf *l,
                   stk_error *err)
{
    const char *a = time_unit(was), *b = time_unit(l);
    char here[40], before[40];

    if (!was->refused != !l->refused)
        stk_fail(
            err, STK_ENOTSUP,
            "column %.60s can be read in some files and not in others, because %s: open them apart",
            l->name, l->refused ? l->refused : was->refused);
    else if (same_type(was, l))
        stk_fail(err, STK_EINVAL,
                 "column %.60s is %s here and %s in the files before: open them apart, or cast it",
                 l->name, *b ? b : "a plain number", *a ? a : "a plain number");
    else
        stk_fail(err, STK_EINVAL,
                 "column %.60s is %s here and %s in the files before: open them apart, or cast it",
                 l->name, type_name(l, here), type_name(was, before));
    stk_error_at(err, p->base.names.name[i], STK_NO_OFFSET, (stk_bytes){ 0 });
    return !was->refused != !l->refused ? STK_ENOTSUP : STK_EINVAL;
}

/* Columns of file i that are new, or have another type than elsewhere. */
static int join_schema(stk_parquet *p, uint64_t i, stk_error *err)
{
    const stk_pq_file *m = p->shard[i].meta;

    for (uint32_t k = 0; k < m->n_leaves; k++) {
        const stk_pq_leaf *l = &m->leaf[k];
        /* files mostly have their columns in the same order */
        int at = k < p->n_fields && !strcmp(p->field[k].name, l->name) ? (int)k
                                                                       : find_field(p, l->name);

        if (at < 0)
            STK_TRY(add_field(p, l->name, l, -1, err));
        else if (is_nothing(l) || is_nothing(&p->field[at].leaf)) {
            if (!is_nothing(l))
                p->field[at].leaf = *l;
            if (!p->field[at].leaf.max_def)
                p->field[at].leaf.max_def = 1;
        } else if (!same_type(&p->field[at].leaf, l) ||
                   strcmp(time_unit(&p->field[at].leaf), time_unit(l)))
            return differs(p, i, &p->field[at].leaf, l, err);
        else {
            uint8_t was = p->field[at].leaf.meaning;

            /* bytes or plain numbers, since not all files say that it is text, or decimals */
            if (was == STK_PQ_TEXT || was == STK_PQ_DECIMAL)
                p->field[at].leaf.meaning = l->meaning;
            if (l->max_def > p->field[at].leaf.max_def)
                p->field[at].leaf.max_def = l->max_def;
            if (l->fixed != p->field[at].leaf.fixed)
                p->field[at].leaf.fixed = 0;
        }
    }
    return 0;
}

static int map_leaves(stk_parquet *p, uint64_t i, stk_error *err)
{
    stk_pq_shard *s = &p->shard[i];

    s->leaf_of = stk_alloc(p->n_fields * sizeof *s->leaf_of);
    if (!s->leaf_of)
        return stk_fail_nomem(err, p->n_fields * sizeof *s->leaf_of);
    memset(s->leaf_of, 0xFF, p->n_fields * sizeof *s->leaf_of);
    for (uint32_t k = 0; k < s->meta->n_leaves; k++) {
        int at = k < p->n_fields && !strcmp(p->field[k].name, s->meta->leaf[k].name)
                     ? (int)k
                     : find_field(p, s->meta->leaf[k].name);

        /* a column of nulls only, of no type, is as one that is not there */
        if (at >= 0 && p->field[at].partition < 0 &&
            (!is_nothing(&s->meta->leaf[k]) || is_nothing(&p->field[at].leaf)))
            s->leaf_of[at] = k;
    }
    for (uint32_t f = 0; f < p->n_fields; f++)
        if (s->leaf_of[f] == UINT32_MAX && p->field[f].partition < 0 && !p->field[f].leaf.max_def)
            p->field[f].leaf.max_def = 1; /* nulls for its rows */
    return 0;
}

/* ---- partition columns ---- */

/* name=value in one part of a path. */
static int split(const char *part, size_t len, size_t *name)
{
    const char *eq = memchr(part, '=', len);

    *name = eq ? (size_t)(eq - part) : 0;
    return eq && *name > 0;
}

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* %2F and its like, which writers put for characters that a path can't have. */
static void decode(char *text)
{
    char *to = text;

    for (; *text; to++) {
        int code = *text == '%' && hex(text[1]) >= 0 && hex(text[2]) >= 0
                       ? hex(text[1]) << 4 | hex(text[2])
                       : 0;

        *to = code ? (char)code : *text;
        text += code ? 3 : 1;
    }
    *to = 0;
}

/* A file's value of a partition column; Hive's word for null stays none. */
static int set_constant(char **to, const char *text, size_t len, stk_error *err)
{
    static const char null[] = "__HIVE_DEFAULT_PARTITION__";

    stk_free(*to);
    *to = NULL;
    if (len == sizeof null - 1 && !memcmp(text, null, len))
        return 0;
    *to = stk_strndup(text, len);
    if (!*to)
        return stk_fail_nomem(err, len);
    decode(*to);
    return 0;
}

/* File i has `seen` of the partition columns in its path.  The others must not be columns of its
 * own: their values would be lost. */
static int check_partitions(const stk_parquet *p, uint64_t i, uint32_t seen, stk_error *err)
{
    const stk_pq_file *m = p->shard[i].meta;

    for (uint32_t k = 0; k < m->n_leaves; k++) {
        int f = find_field(p, m->leaf[k].name);

        if (f < 0 || p->field[f].partition < 0 || seen >> p->field[f].partition & 1)
            continue;
        stk_fail(err, STK_EINVAL,
                 "column %.60s is in this file, and in the names of other files' folders: open "
                 "them apart",
                 m->leaf[k].name);
        stk_error_at(err, p->base.names.name[i], STK_NO_OFFSET, (stk_bytes){ 0 });
        return STK_EINVAL;
    }
    return 0;
}

static int note_partitions(stk_parquet *p, uint64_t i, size_t root, int collect, stk_error *err)
{
    static const stk_pq_leaf text = { .physical = STK_PQ_BYTES,
                                      .meaning = STK_PQ_TEXT,
                                      .unit = "utf8" };
    const char *at = p->base.names.name[i] + root;
    uint32_t seen = 0;

    while (*at) {
        size_t len = strcspn(at, "/"), n;

        if (at[len] == '/' && split(at, len, &n) && n < 100) {
            char name[100];
            int f;

            memcpy(name, at, n);
            name[n] = 0;
            decode(name);
            f = find_field(p, name);
            if (collect && f >= 0 && p->field[f].partition < 0 &&
                p->n_partitions < MAX_PARTITIONS) {
                p->field[f].leaf = text; /* the folder's value counts, as for DuckDB and Spark */
                p->field[f].partition = (int)p->n_partitions++;
            } else if (collect && f < 0 && p->n_partitions < MAX_PARTITIONS)
                STK_TRY(add_field(p, name, &text, (int)p->n_partitions++, err));
            else if (!collect && f >= 0 && p->field[f].partition >= 0) {
                STK_TRY(set_constant(&p->shard[i].constant[p->field[f].partition], at + n + 1,
                                     len - n - 1, err));
                seen |= 1u << p->field[f].partition;
            }
        }
        at += len;
        at += *at == '/';
    }
    return collect ? 0 : check_partitions(p, i, seen, err);
}

/* The part of the paths that all have in common is not a partition. */
static size_t common_root(const stk_names *names)
{
    const char *a = names->name[0];
    size_t len = strlen(a), cut = 0;

    for (size_t i = 1; i < names->n; i++) {
        size_t k = 0;

        while (k < len && names->name[i][k] == a[k])
            k++;
        len = k;
    }
    for (size_t k = 0; k < len; k++)
        if (a[k] == '/')
            cut = k + 1;
    /* one=1/ that all files are in is a partition all the same */
    while (cut > 1) {
        size_t from = cut - 1;

        while (from && a[from - 1] != '/')
            from--;
        if (!memchr(a + from, '=', cut - 1 - from))
            break;
        cut = from;
    }
    return cut;
}

static int partitions(stk_parquet *p, stk_error *err)
{
    size_t root = common_root(&p->base.names);

    for (uint64_t i = 0; i < p->base.names.n; i++)
        STK_TRY(note_partitions(p, i, root, 1, err));
    for (uint64_t i = 0; i < p->base.names.n && p->n_partitions; i++) {
        p->shard[i].constant = stk_zalloc(p->n_partitions, sizeof *p->shard[i].constant);
        if (!p->shard[i].constant)
            return stk_fail_nomem(err, 64);
        STK_TRY(note_partitions(p, i, root, 0, err));
    }
    return 0;
}

/* ---- open ---- */

/* Fields that cannot be read go last, the others keep their order. */
static int refused_last(stk_parquet *p, uint32_t *readable, stk_error *err)
{
    stk_pq_field *sorted = stk_alloc((p->n_fields + 1u) * 2 * sizeof *sorted);
    uint32_t n = 0;

    if (!sorted)
        return stk_fail_nomem(err, p->n_fields * sizeof *sorted);
    for (int refused = 0; refused < 2; refused++) {
        for (uint32_t i = 0; i < p->n_fields; i++)
            if (!p->field[i].leaf.refused == !refused)
                sorted[n++] = p->field[i];
        *readable = refused ? *readable : n;
    }
    stk_free(p->field);
    p->field = sorted;
    return 0;
}

static int columns(stk_parquet *p, uint32_t readable, stk_error *err)
{
    STK_TRY(stk_table_columns(&p->base, p->n_fields, readable, err));
    for (uint32_t i = 0; i < p->n_fields; i++) {
        const stk_pq_leaf *l = &p->field[i].leaf;
        stk_field_type *t = &p->base.column[i];

        *t = (stk_field_type){ .name = p->field[i].name,
                               .nullable = l->max_def > 0,
                               .refused = l->refused,
                               .ndim = l->blobs != 0,
                               .shape = { -1 } };
        if (l->refused)
            continue;
        t->dtype = l->dtype;
        t->text = l->meaning == STK_PQ_TEXT;
        if (is_decimal(l))
            stk_table_decimal(&p->base, i);
        if (l->max_rep) {
            t->ndim = 1;
            t->shape[0] = l->fixed ? (int64_t)l->fixed : -1;
        }
    }
    return 0;
}

static int open_all(stk_parquet *p, const stk_dataset_options *o, stk_error *err)
{
    uint32_t readable = 0;

    p->shard = stk_zalloc(p->base.names.n, sizeof *p->shard);
    if (!p->shard)
        return stk_fail_nomem(err, p->base.names.n * sizeof *p->shard);
    STK_TRY(stk_table_files(&p->base, p->base.names.n, err));
    for (uint64_t i = 0; i < p->base.names.n; i++) {
        STK_TRY(open_file(p, i, o, err));
        STK_TRY(join_schema(p, i, err));
        STK_TRY(stk_table_rows(&p->base, i, p->shard[i].meta->rows, err));
    }
    STK_TRY(partitions(p, err));
    STK_TRY(refused_last(p, &readable, err));
    for (uint64_t i = 0; i < p->base.names.n; i++)
        STK_TRY(map_leaves(p, i, err));
    STK_TRY(columns(p, readable, err));
    return stk_parquet_points(p, o, err);
}

static const stk_table_files_of parquet_files = {
    .ends = (const char *const[]){ ".parquet", ".parq", ".pq", NULL },
    .below = 1, /* folders by the values of columns */
    .magic = "PAR1",
};

static int parquet_meant(const char *const *urls, size_t n, const stk_dataset_options *o)
{
    (void)o;
    return stk_table_files_meant(&parquet_files, urls, n);
}

static int parquet_open(stk_dataset **out, const stk_data_kind *kind, const char *const *urls,
                        size_t n, const stk_dataset_options *o, stk_error *err)
{
    stk_parquet *p = STK_NEW(stk_parquet);
    int rc;

    (void)kind;
    *out = NULL;
    if (!p)
        return stk_fail_nomem(err, sizeof *p);
    stk_table_init(&p->base, &stk_parquet_ops, STK_DATA_BLOCKS | STK_DATA_NAMES_FILES, o);
    rc = stk_table_files_names(&parquet_files, &p->base.names, urls, n, err);
    if (rc == 0)
        rc = open_all(p, o, err);
    return stk_table_opened(&p->base, rc, out);
}

const stk_data_kind stk_data_parquet = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_data_kind),
    .name = "parquet",
    .help = "Parquet files, and folders of them",
    .meant = parquet_meant,
    .open = parquet_open,
    .rows = 1,
};

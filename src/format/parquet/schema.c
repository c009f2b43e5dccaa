/* SPDX-License-Identifier: Apache-2.0 */
/* schema.c - a tree of nodes, written depth first, to a list of leaves.
 *
 * A leaf's levels follow from its ancestors: each optional or repeated one adds a definition level,
 * each repeated one a repetition level.  Names are joined by dots; of a list's two or three nodes
 * only the outermost gives its name, so that `a.list.element` is called `a`.  A list is recognised
 * by its repeated node, also where the annotation is missing (old writers). */
#include "format/parquet/schema.h"

#include <string.h>

#include "base/mem.h"
#include "base/text.h"

#define DEPTH 16

/* Fields of structs in parquet.thrift, and of the union LogicalType. */
enum { NODE_TYPE = 1, NODE_LEN, NODE_REPETITION, NODE_NAME, NODE_CHILDREN, NODE_CONVERTED };
enum { NODE_SCALE = 7, NODE_LOGICAL = 10 };
enum { INTEGER_BITS = 1, INTEGER_SIGNED };
enum { DECIMAL_SCALE = 1 };
enum { CONVERTED_MAP = 1, CONVERTED_MAP_KEY_VALUE, CONVERTED_LIST };
enum { TIME_UNIT = 2 };
enum { LOGICAL_STRING = 1, LOGICAL_MAP, LOGICAL_LIST, LOGICAL_ENUM, LOGICAL_DECIMAL };
enum { LOGICAL_DATE = 6, LOGICAL_TIME, LOGICAL_TIMESTAMP };
enum { LOGICAL_INTEGER = 10, LOGICAL_UNKNOWN, LOGICAL_JSON, LOGICAL_BSON, LOGICAL_FLOAT16 = 15 };

typedef struct node { /* a SchemaElement */
    stk_bytes name;
    int64_t type, len, repetition, children, converted, scale;
    int logical;         /* number of the union's member; 0: none */
    int bits, is_signed; /* INTEGER */
    int unit;            /* TIME, TIMESTAMP: 1 ms, 2 us, 3 ns */
} node;

enum { REQUIRED, OPTIONAL, REPEATED };

/* ---- one element ---- */

static void read_unit(stk_thrift *t, node *n)
{
    stk_thrift_field f = { 0 };

    while (stk_thrift_next(t, &f)) {
        n->unit = f.id;
        stk_thrift_skip(t, &f);
    }
}

static void read_logical_body(stk_thrift *t, node *n)
{
    stk_thrift_field f = { 0 };

    while (stk_thrift_next(t, &f))
        if (n->logical == LOGICAL_INTEGER && f.id == INTEGER_BITS)
            n->bits = (int)stk_thrift_int(t, &f);
        else if (n->logical == LOGICAL_INTEGER && f.id == INTEGER_SIGNED)
            n->is_signed = stk_thrift_bool(t, &f);
        else if (n->logical == LOGICAL_DECIMAL && f.id == DECIMAL_SCALE)
            n->scale = stk_thrift_int(t, &f);
        else if ((n->logical == LOGICAL_TIME || n->logical == LOGICAL_TIMESTAMP) &&
                 f.id == TIME_UNIT && stk_thrift_struct(t, &f))
            read_unit(t, n);
        else
            stk_thrift_skip(t, &f);
}

static void read_logical(stk_thrift *t, node *n)
{
    stk_thrift_field f = { 0 };

    while (stk_thrift_next(t, &f)) {
        n->logical = f.id;
        if (f.type == STK_THRIFT_STRUCT)
            read_logical_body(t, n);
        else
            stk_thrift_skip(t, &f);
    }
}

static void read_node(stk_thrift *t, node *n)
{
    stk_thrift_field f = { 0 };

    *n = (node){ .type = -1, .converted = -1 };
    while (stk_thrift_next(t, &f))
        switch (f.id) {
        case NODE_TYPE: n->type = stk_thrift_int(t, &f); break;
        case NODE_LEN: n->len = stk_thrift_int(t, &f); break;
        case NODE_REPETITION: n->repetition = stk_thrift_int(t, &f); break;
        case NODE_NAME: n->name = stk_thrift_binary(t, &f); break;
        case NODE_CHILDREN: n->children = stk_thrift_int(t, &f); break;
        case NODE_CONVERTED: n->converted = stk_thrift_int(t, &f); break;
        case NODE_SCALE: n->scale = stk_thrift_int(t, &f); break;
        case NODE_LOGICAL:
            if (stk_thrift_struct(t, &f))
                read_logical(t, n);
            break;
        default: stk_thrift_skip(t, &f);
        }
}

/* ---- what a leaf's values are ---- */

/* Old annotations to new ones. */
static void modernise(node *n)
{
    static const struct {
        int8_t logical, bits, is_signed, unit;
    } as[] = {
        [0] = { LOGICAL_STRING },
        [1] = { LOGICAL_MAP },
        [2] = { LOGICAL_MAP },
        [3] = { LOGICAL_LIST },
        [4] = { LOGICAL_ENUM },
        [5] = { LOGICAL_DECIMAL },
        [6] = { LOGICAL_DATE },
        [7] = { LOGICAL_TIME, 0, 0, 1 },
        [8] = { LOGICAL_TIME, 0, 0, 2 },
        [9] = { LOGICAL_TIMESTAMP, 0, 0, 1 },
        [10] = { LOGICAL_TIMESTAMP, 0, 0, 2 },
        [11] = { LOGICAL_INTEGER, 8, 0 },
        [12] = { LOGICAL_INTEGER, 16, 0 },
        [13] = { LOGICAL_INTEGER, 32, 0 },
        [14] = { LOGICAL_INTEGER, 64, 0 },
        [15] = { LOGICAL_INTEGER, 8, 1 },
        [16] = { LOGICAL_INTEGER, 16, 1 },
        [17] = { LOGICAL_INTEGER, 32, 1 },
        [18] = { LOGICAL_INTEGER, 64, 1 },
        [19] = { LOGICAL_JSON },
        [20] = { LOGICAL_BSON },
        [21] = { 0 },
    };

    if (n->logical || n->converted < 0 || n->converted >= (int64_t)(sizeof as / sizeof *as))
        return;
    n->logical = as[n->converted].logical;
    n->bits = as[n->converted].bits;
    n->is_signed = as[n->converted].is_signed;
    n->unit = as[n->converted].unit;
}

static void leaf_integer(stk_pq_leaf *l, const node *n)
{
    static const stk_dtype narrow[2][4] = { { STK_U8, STK_U16, STK_U32, STK_I64 },
                                            { STK_I8, STK_I16, STK_I32, STK_I64 } };
    int k = n->bits == 8 ? 0 : n->bits == 16 ? 1 : n->bits == 32 ? 2 : 3;

    if (l->physical == STK_PQ_INT32 && k < 3)
        l->dtype = narrow[n->is_signed][k];
    else if (l->physical == STK_PQ_INT64 && !n->is_signed)
        l->meaning = STK_PQ_UNSIGNED;
}

static void leaf_time(stk_pq_leaf *l, const node *n)
{
    static const char *const times[] = { "time", "time[ms]", "time[us]", "time[ns]" };
    static const char *const stamps[] = { "timestamp", "timestamp[ms]", "timestamp[us]",
                                          "timestamp[ns]" };
    int unit = n->unit >= 1 && n->unit <= 3 ? n->unit : 0;

    l->meaning = n->logical == LOGICAL_TIME ? STK_PQ_TIME : STK_PQ_TIMESTAMP;
    l->unit = n->logical == LOGICAL_TIME ? times[unit] : stamps[unit];
}

static void leaf_meaning(stk_pq_leaf *l, const node *n)
{
    int is_int = l->physical == STK_PQ_INT32 || l->physical == STK_PQ_INT64;

    if (l->physical == STK_PQ_INT96) {
        l->meaning = STK_PQ_TIMESTAMP;
        l->unit = "timestamp[ns]";
    } else if (l->physical == STK_PQ_BYTES &&
               (n->logical == LOGICAL_STRING || n->logical == LOGICAL_ENUM ||
                n->logical == LOGICAL_JSON)) {
        l->meaning = STK_PQ_TEXT;
        l->unit = n->logical == LOGICAL_JSON ? "json" : "utf8";
    } else if (n->logical == LOGICAL_DECIMAL && l->physical != STK_PQ_BOOLEAN &&
               l->physical != STK_PQ_FLOAT && l->physical != STK_PQ_DOUBLE && n->scale >= 0 &&
               n->scale <= 76) {
        l->meaning = STK_PQ_DECIMAL;
        l->scale = (int32_t)n->scale;
        l->dtype = STK_F64;
        l->unit = "decimal";
    } else if (n->logical == LOGICAL_DATE && l->physical == STK_PQ_INT32) {
        l->meaning = STK_PQ_DATE;
        l->unit = "date";
    } else if ((n->logical == LOGICAL_TIME || n->logical == LOGICAL_TIMESTAMP) && is_int)
        leaf_time(l, n);
    else if (n->logical == LOGICAL_INTEGER && is_int)
        leaf_integer(l, n);
    else if (n->logical == LOGICAL_UNKNOWN) {
        l->meaning = STK_PQ_NOTHING;
        l->unit = "null";
    } else if (n->logical == LOGICAL_FLOAT16 && l->physical == STK_PQ_FIXED && l->len == 2)
        l->dtype = STK_F16;
}

static int leaf_type(stk_pq_leaf *l, node *n, stk_error *err)
{
    static const stk_dtype usual[] = { STK_U8, STK_I32, STK_I64, STK_I64, STK_F32, STK_F64, 0, 0 };

    if (n->type < 0 || n->type > STK_PQ_FIXED)
        return stk_fail(err, STK_ECORRUPT, "column %s has the unknown type %" PRId64, l->name,
                        n->type);
    l->physical = (uint8_t)n->type;
    l->dtype = usual[n->type];
    l->unit = "";
    if (l->physical == STK_PQ_FIXED) {
        if (n->len <= 0 || n->len > (1 << 30))
            return stk_fail(err, STK_ECORRUPT, "column %s: values of %" PRId64 " bytes", l->name,
                            n->len);
        l->len = (int32_t)n->len;
    }
    modernise(n);
    leaf_meaning(l, n);
    l->width = l->dtype ? (uint32_t)stk_dtype_size(l->dtype) : (uint32_t)l->len;
    if (l->physical == STK_PQ_BYTES && !l->dtype)
        l->width = 0;
    return 0;
}

/* ---- the tree ---- */

typedef struct level { /* a node that is being read */
    size_t name_len;   /* of the path up to it */
    uint32_t left;     /* children that are still to come */
    uint8_t def, rep, list_def;
    int list; /* nodes right below that are part of the list give no name */
} level;

typedef struct tree {
    level up[DEPTH];
    uint32_t depth;
    stk_text path;
    stk_pq_file *file;
    uint32_t cap;
} tree;

static int add_leaf(tree *t, const level *at, node *n, stk_error *err)
{
    stk_pq_file *f = t->file;
    stk_pq_leaf *l;

    if (f->n_leaves == t->cap) {
        uint32_t cap = t->cap ? 2 * t->cap : 16;
        stk_pq_leaf *grown = stk_grow(f->leaf, f->n_leaves * sizeof *l, cap * sizeof *l);

        if (!grown)
            return stk_fail_nomem(err, cap * sizeof *l);
        f->leaf = grown;
        t->cap = cap;
    }
    l = &f->leaf[f->n_leaves];
    *l = (stk_pq_leaf){ .max_def = at->def, .max_rep = at->rep, .list_def = at->list_def };
    l->name = stk_strndup(t->path.s, at->name_len);
    if (!l->name)
        return stk_fail_nomem(err, at->name_len);
    f->n_leaves++;
    l->top_len = (uint32_t)(t->depth > 1 ? t->up[1].name_len : at->name_len);
    l->top_def = t->depth > 1 ? t->up[1].def : at->def;
    if (at->rep > 1)
        l->refused = "it is a list of lists; lists of one level are read";
    STK_TRY(leaf_type(l, n, err));
    if (at->rep == 1 && !l->dtype && l->meaning != STK_PQ_TEXT)
        l->refused = "it is a list of bytes, which `pictures` reads; other lists are of numbers "
                     "and texts";
    l->blobs = at->rep == 1 && l->physical == STK_PQ_BYTES && l->refused;
    return 0;
}

/* Does this node add its name?  The repeated node of a list does not, nor does what it repeats
 * where that is one node. */
static int named(const level *up, const node *n)
{
    if (up->list == 1 && n->repetition == REPEATED)
        return 0;
    return up->list != 2;
}

/* The place of node n below `up`. */
static int enter(tree *t, const level *up, const node *n, level *out, stk_error *err)
{
    int named_here = named(up, n);

    *out = *up;
    out->left = (uint32_t)n->children;
    t->path.len = up->name_len;
    if (named_here) {
        if (up->name_len)
            STK_TRY(stk_text_put(&t->path, ".", 1, err));
        if (n->name.len)
            STK_TRY(stk_text_put(&t->path, n->name.data, n->name.len, err));
    }
    out->name_len = t->path.len;
    out->def = (uint8_t)(up->def + (n->repetition != REQUIRED));
    if (n->repetition == REPEATED) {
        out->rep++;
        out->list_def = out->def;
    }
    out->list = 0;
    if (n->logical == LOGICAL_LIST || n->logical == LOGICAL_MAP || n->converted == CONVERTED_LIST ||
        n->converted == CONVERTED_MAP || n->converted == CONVERTED_MAP_KEY_VALUE)
        out->list = 1;
    else if (up->list == 1 && n->repetition == REPEATED && n->children == 1)
        out->list = 2;
    return 0;
}

static int take_node(tree *t, node *n, stk_error *err)
{
    level *up = &t->up[t->depth - 1], at;

    if (n->repetition < REQUIRED || n->repetition > REPEATED || n->children < 0 ||
        n->children > 1 << 24 || (n->name.len && memchr(n->name.data, 0, n->name.len)))
        return stk_fail(err, STK_ECORRUPT, "a node of the schema makes no sense");
    up->left--;
    STK_TRY(enter(t, up, n, &at, err));
    if (!n->children)
        STK_TRY(add_leaf(t, &at, n, err));
    else if (t->depth == DEPTH)
        return stk_fail(err, STK_ENOTSUP, "the schema is nested more than %d levels deep", DEPTH);
    else
        t->up[t->depth++] = at;
    while (t->depth > 1 && !t->up[t->depth - 1].left)
        t->depth--;
    return 0;
}

static int read_tree(stk_thrift *t, uint32_t n, tree *out, stk_error *err)
{
    node x;

    read_node(t, &x);
    if (x.children < 0 || x.children > 1 << 24)
        return stk_fail(err, STK_ECORRUPT, "the schema's root makes no sense");
    out->up[0] = (level){ .left = (uint32_t)x.children };
    out->depth = 1;
    for (uint32_t i = 1; i < n && !t->bad; i++) {
        read_node(t, &x);
        if (t->bad)
            break;
        if (!out->up[0].left && out->depth == 1)
            return stk_fail(err, STK_ECORRUPT, "the schema has nodes that belong to no parent");
        STK_TRY(take_node(out, &x, err));
    }
    if (!t->bad && (out->depth != 1 || out->up[0].left))
        return stk_fail(err, STK_ECORRUPT, "the schema ends too early");
    return 0;
}

int stk_pq_schema_read(stk_thrift *t, const stk_thrift_field *field, stk_pq_file *f, stk_error *err)
{
    uint32_t n = stk_thrift_list(t, field, STK_THRIFT_STRUCT);
    tree x = { .file = f };
    int rc;

    if (t->bad)
        return 0;
    if (!n || f->leaf)
        return stk_fail(err, STK_ECORRUPT, "the footer has no schema, or several");
    rc = stk_text_put(&x.path, "", 0, err);
    if (rc == 0)
        rc = read_tree(t, n, &x, err);
    stk_free(x.path.s);
    if (rc == 0 && !f->leaf && !t->bad)
        rc = stk_fail(err, STK_ENOTSUP, "the file has no columns");
    return rc;
}

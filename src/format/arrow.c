/* SPDX-License-Identifier: Apache-2.0 */
/* arrow.c - schemas as columns that are read, and values of rows; see arrow.h. */
#include "format/arrow.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "base/mem.h"
#include "format/column_names.h"
#include "format/list_null.h"
#include "format/text_list.h"
#include "base/text.h"

#define MAX_FIELDS 20000u

/* ---- the schema ---- */

typedef struct numbering {
    uint32_t node, buffer, views, fields;
} numbering;

static int number(stk_arrow_field *f, numbering *n, uint32_t depth, stk_error *err)
{
    if (depth >= STK_ARROW_DEPTH || ++n->fields > MAX_FIELDS)
        return stk_fail(err, STK_ELIMIT, "a schema of more than %u fields, or more than %d deep",
                        MAX_FIELDS, STK_ARROW_DEPTH);
    f->node = n->node++;
    f->buffer = n->buffer;
    f->views = n->views;
    n->buffer += f->encoded ? 2 : f->n_buffers;
    n->views += !f->encoded && f->type == STK_ARROW_VIEW;
    for (uint32_t i = 0; i < f->n && !f->encoded; i++)
        STK_TRY(number(&f->child[i], n, depth + 1, err));
    return 0;
}

/* Why lists of it are not read; NULL: they are. */
static const char *list_refused(const stk_arrow_field *of)
{
    if (of->refused)
        return of->refused;
    if (of->text)
        return NULL;
    if (of->encoded)
        return "it is a list of values in a dictionary: cast it to lists of numbers";
    switch (of->type) {
    case STK_ARROW_NUMBER:
    case STK_ARROW_BOOL:
    case STK_ARROW_DECIMAL: return NULL;
    case STK_ARROW_LIST:
    case STK_ARROW_FIXED_LIST: return "it is a list of lists; lists of one level are read";
    case STK_ARROW_NULL: return "it is a list of nulls, which has no type: cast it";
    case STK_ARROW_STRUCT: return "it is a list of structs without members";
    default:
        return "it is a list of bytes, which `pictures` reads; other lists are of numbers and "
               "texts";
    }
}

static void settle_list(stk_arrow_leaf *l, const stk_arrow_field *f)
{
    const stk_arrow_field *of = l->path[l->item - 1];

    l->list = 1;
    l->dtype = of->dtype;
    l->fixed = f->type == STK_ARROW_FIXED_LIST && !of->text ? (int64_t)f->width : -1;
    l->refused = list_refused(of);
    l->blobs = l->refused && !of->refused && !of->encoded &&
               (of->type == STK_ARROW_BYTES || of->type == STK_ARROW_VIEW);
    l->texts = l->blobs || (of->text && !l->refused);
}

static int add_leaf(stk_arrow_schema *s, const stk_arrow_leaf *up, const char *name, stk_error *err)
{
    const stk_arrow_field *f = up->path[up->depth - 1];
    stk_arrow_leaf *l;

    if (!(s->n & (s->n - 1))) { /* a power of two: full */
        size_t room = (s->n ? 2 * (size_t)s->n : 1) * sizeof *l;

        l = stk_grow(s->leaf, s->n * sizeof *l, room);
        if (!l)
            return stk_fail_nomem(err, room);
        s->leaf = l;
    }
    l = &s->leaf[s->n];
    *l = *up;
    l->name = stk_strdup(name);
    if (!l->name)
        return stk_fail_nomem(err, strlen(name));
    s->n++;
    l->refused = f->refused;
    if (!l->refused && !l->item && (f->type == STK_ARROW_LIST || f->type == STK_ARROW_FIXED_LIST))
        l->refused = "it is a list that does not say of what";
    if (!l->refused && !l->item && f->type == STK_ARROW_STRUCT)
        l->refused = "it is a struct without members";
    l->dtype = f->dtype;
    l->fixed = -1;
    l->decimal = f->type == STK_ARROW_DECIMAL;
    if (l->item)
        settle_list(l, f);
    return 0;
}

static int add_leaves(stk_arrow_schema *s, const stk_arrow_leaf *up, const char *prefix,
                      stk_error *err);

/* Member i of a struct, which is a column or what lists have. */
static int add_member(stk_arrow_schema *s, const stk_arrow_leaf *up, uint32_t i, const char *prefix,
                      stk_error *err)
{
    static const char *const of_map[2] = { "key", "value" };
    stk_arrow_leaf l = *up;
    uint32_t *depth = l.item ? &l.item : &l.depth;
    const stk_arrow_field *f = &l.path[*depth - 1]->child[i];
    int map = l.item == l.depth + 1 && l.path[l.depth - 1]->map && i < 2;
    const char *own = map ? of_map[i] : f->name;
    stk_text name = { 0 };
    int rc;

    l.path[*depth] = f;
    l.at[(*depth)++] = i;
    l.nullable |= !l.item && f->nullable;
    rc = stk_text_put(&name, prefix, strlen(prefix), err);
    if (rc == 0 && *prefix)
        rc = stk_text_put(&name, ".", 1, err);
    if (rc == 0)
        rc = stk_text_put(&name, own, strlen(own), err);
    if (rc == 0)
        rc = add_leaves(s, &l, name.s, err);
    stk_free(name.s);
    return rc;
}

/* Lists of structs are a list of each member; a map is two lists, of keys and of values.  A schema
 * that is too deep for `path` was refused when it was numbered. */
static int add_leaves(stk_arrow_schema *s, const stk_arrow_leaf *up, const char *prefix,
                      stk_error *err)
{
    const stk_arrow_field *f = up->path[(up->item ? up->item : up->depth) - 1];
    int plain = !f->encoded && !f->refused, rc = 0;

    if (plain && !up->item && f->n == 1 &&
        (f->type == STK_ARROW_LIST || f->type == STK_ARROW_FIXED_LIST)) {
        stk_arrow_leaf l = *up;

        l.path[l.depth] = &f->child[0];
        l.at[l.depth] = 0;
        l.item = l.depth + 1;
        return add_leaves(s, &l, prefix, err);
    }
    if (f->type != STK_ARROW_STRUCT || !plain || (up->depth > 1 && !f->n))
        return add_leaf(s, up, prefix, err);
    for (uint32_t i = 0; rc == 0 && i < f->n; i++)
        rc = add_member(s, up, i, prefix, err);
    return rc;
}

static int refused_last(stk_arrow_schema *s, stk_error *err)
{
    stk_arrow_leaf *sorted = stk_alloc((s->n + 1u) * sizeof *sorted);
    uint32_t n = 0;

    if (!sorted)
        return stk_fail_nomem(err, s->n * sizeof *sorted);
    for (int refused = 0; refused < 2; refused++) {
        for (uint32_t i = 0; i < s->n; i++)
            if (!s->leaf[i].refused == !refused)
                sorted[n++] = s->leaf[i];
        s->n_readable = refused ? s->n_readable : n;
    }
    stk_free(s->leaf);
    s->leaf = sorted;
    return 0;
}

static int number_names(const stk_arrow_schema *s, stk_error *err)
{
    char ***name = stk_alloc((s->n + 1u) * sizeof *name);
    int rc;

    if (!name)
        return stk_fail_nomem(err, s->n * sizeof *name);
    for (uint32_t i = 0; i < s->n; i++)
        name[i] = &s->leaf[i].name;
    rc = stk_column_names(name, s->n, err);
    stk_free(name);
    return rc;
}

int stk_arrow_settle(stk_arrow_schema *s, stk_error *err)
{
    stk_arrow_leaf top = { .path = { &s->root }, .depth = 1 };
    numbering n = { 0 };

    s->root.type = STK_ARROW_STRUCT;
    for (uint32_t i = 0; i < s->root.n; i++)
        STK_TRY(number(&s->root.child[i], &n, 1, err));
    STK_TRY(add_leaves(s, &top, "", err));
    STK_TRY(number_names(s, err));
    return refused_last(s, err);
}

int stk_arrow_fill_lists(stk_arrow_schema *s, int64_t value, stk_error *err)
{
    for (uint32_t i = 0; i < s->n_readable; i++) {
        stk_arrow_leaf *l = &s->leaf[i];

        if (!l->list || !stk_list_null_is_whole(l->dtype))
            continue;
        STK_TRY(stk_list_null_check(value, l->dtype, l->name, err));
        l->fills = 1;
        l->fill = value;
    }
    return 0;
}

static void field_fini(stk_arrow_field *f)
{
    for (uint32_t i = 0; i < f->n; i++)
        field_fini(&f->child[i]);
    stk_free(f->child);
    stk_free(f->name);
}

void stk_arrow_schema_fini(stk_arrow_schema *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        stk_free(s->leaf[i].name);
    stk_free(s->leaf);
    field_fini(&s->root);
    *s = (stk_arrow_schema){ 0 };
}

/* ---- values ---- */

static int outside(const char *what, uint64_t row, stk_error *err)
{
    return stk_fail(err, STK_ECORRUPT, "row %" PRIu64 " of its batch: %s outside its buffer", row,
                    what);
}

/* n values of `width` bytes from `at` on. */
static int range(const uint8_t *p, uint64_t len, uint64_t at, uint64_t n, uint64_t width,
                 stk_bytes *out)
{
    uint64_t from, bytes;

    if (__builtin_mul_overflow(at, width, &from) || __builtin_mul_overflow(n, width, &bytes) ||
        from > len || bytes > len - from || (bytes && !p) || bytes > PTRDIFF_MAX)
        return -1;
    *out = (stk_bytes){ bytes ? p + from : (const uint8_t *)"", (size_t)bytes };
    return 0;
}

/* 1: it has a value; 0: null; -1: outside. */
static int is_valid(const stk_arrow_column *c, uint64_t i)
{
    if (!c->valid)
        return 1;
    if (i / 8 >= c->n_valid)
        return -1;
    return c->valid[i / 8] >> (i % 8) & 1;
}

static uint64_t unsigned_at(const uint8_t *p, int wide)
{
    uint64_t v = 0;
    uint32_t narrow;

    if (wide) {
        memcpy(&v, p, sizeof v);
        return v;
    }
    memcpy(&narrow, p, sizeof narrow);
    return narrow;
}

/* Of a list view: lists may share values, and stand in any order. */
static int view_offsets(const stk_arrow_field *f, const stk_arrow_column *c, uint64_t i,
                        uint64_t *from, uint64_t *to)
{
    const uint64_t most = f->wide ? INT64_MAX : INT32_MAX;
    stk_bytes at, n;

    if (range(c->a, c->n_a, i, 1, f->wide ? 8 : 4, &at) < 0 ||
        range(c->b, c->n_b, i, 1, f->wide ? 8 : 4, &n) < 0)
        return -1;
    *from = unsigned_at(at.data, f->wide);
    *to = unsigned_at(n.data, f->wide);
    if (*from > most || *to > most)
        return -1;
    *to += *from;
    return 0;
}

static int offsets(const stk_arrow_field *f, const stk_arrow_column *c, uint64_t i, uint64_t *from,
                   uint64_t *to)
{
    stk_bytes two;

    if (f->apart)
        return view_offsets(f, c, i, from, to);
    if (range(c->a, c->n_a, i, 2, f->wide ? 8 : 4, &two) < 0)
        return -1;
    if (f->wide) {
        memcpy(from, two.data, 8);
        memcpy(to, two.data + 8, 8);
    } else {
        int32_t a, b;

        memcpy(&a, two.data, 4);
        memcpy(&b, two.data + 4, 4);
        if (a < 0 || b < 0)
            return -1;
        *from = (uint64_t)a;
        *to = (uint64_t)b;
    }
    return *from <= *to ? 0 : -1;
}

static int view_value(const stk_arrow_batch *b, const stk_arrow_column *c, uint64_t i,
                      stk_bytes *out)
{
    stk_bytes one, buffer;
    int32_t head[4];

    if (range(c->a, c->n_a, i, 1, 16, &one) < 0)
        return -1;
    memcpy(head, one.data, sizeof head);
    if (head[0] < 0)
        return -1;
    if (head[0] <= 12) {
        *out = (stk_bytes){ one.data + 4, (size_t)head[0] };
        return 0;
    }
    if (head[2] < 0 || head[3] < 0 || b->reach->view(c, (uint32_t)head[2], &buffer) < 0 ||
        (uint64_t)head[3] > buffer.len || (uint64_t)head[0] > buffer.len - (uint64_t)head[3])
        return -1;
    *out = (stk_bytes){ buffer.data + head[3], (size_t)head[0] };
    return 0;
}

/* Two's complement, the low byte first; its scale and width were checked. */
static double decimal_of(const stk_arrow_field *f, stk_bytes value)
{
    stk_scaled d = { value.data, value.len, 0, f->scale };
    double v = 0;
    int rc = stk_scaled_f64(&d, &v);

    assert(rc == 0);
    (void)rc;
    return v;
}

double stk_arrow_decimal(const stk_arrow_leaf *l, stk_bytes value)
{
    return decimal_of(l->path[l->depth - 1], value);
}

size_t stk_arrow_decimal_room(const stk_arrow_leaf *l)
{
    const stk_arrow_field *f = l->path[l->depth - 1];

    return stk_scaled_room(f->width, f->scale);
}

void stk_arrow_decimal_text(const stk_arrow_leaf *l, stk_bytes value, uint8_t *out, size_t room)
{
    stk_scaled d = { value.data, value.len, 0, l->path[l->depth - 1]->scale };
    int rc = stk_scaled_put(&d, out, room);

    assert(rc >= 0);
    (void)rc;
}

/* Buffers of what the lists have, and of the structs that it is in: out[0] is its own. */
static int items_of(const stk_arrow_batch *b, const stk_arrow_leaf *l,
                    stk_arrow_column out[STK_ARROW_DEPTH], uint32_t *n, stk_error *err)
{
    *n = 0;
    for (uint32_t d = l->item; d > l->depth; d--)
        STK_TRY(b->reach->column(b, l, d, l->path[d - 1], &out[(*n)++], err));
    return 0;
}

/* As is_valid(), of value k of all lists: neither it nor a struct that it is in is null. */
static int is_item(const stk_arrow_column *c, uint32_t n, uint64_t k)
{
    int ok = 1;

    for (uint32_t i = 0; i < n && ok == 1; i++)
        ok = is_valid(&c[i], k + c[i].offset);
    return ok;
}

typedef struct list_place { /* values [from, from + n) of a column */
    stk_arrow_column values;
    uint64_t from, n;
} list_place;

/* The list at place i: its values, whether it has nulls.  What nothing stands for is an error. */
static int list_at(const stk_arrow_batch *b, const stk_arrow_leaf *l, const stk_arrow_column *c,
                   uint64_t i, list_place *out, stk_error *err)
{
    const stk_arrow_field *f = l->path[l->depth - 1], *of = l->path[l->item - 1];
    stk_arrow_column up[STK_ARROW_DEPTH];
    uint64_t from = i * f->width, to = from + f->width;
    int nulls = 0, look = of->unsigned64;
    uint32_t n;

    if (f->type == STK_ARROW_LIST && offsets(f, c, i, &from, &to) < 0)
        return outside("offsets are", i, err);
    STK_TRY(items_of(b, l, up, &n, err));
    for (uint32_t d = 0; d < n; d++)
        look |= up[d].valid != NULL;
    for (uint64_t k = from; look && k < to; k++) {
        int ok = is_item(up, n, k);
        stk_bytes one;

        if (ok < 0 || range(up[0].a, up[0].n_a, k + up[0].offset, of->type != STK_ARROW_BOOL,
                            of->width, &one) < 0)
            return outside("values are", i, err);
        if (!ok && !l->fills && stk_list_null_is_whole(l->dtype))
            return stk_fail(err, STK_ECORRUPT, "column %.60s: " STK_LIST_NULL, l->name);
        if (ok && of->unsigned64 && one.data[7] >> 7)
            return stk_fail(err, STK_ECORRUPT, "a value of 2^63 or more is not an i64");
        nulls |= !ok;
    }
    *out = (list_place){ up[0], from, to - from };
    return nulls;
}

static int texts_at(const stk_arrow_batch *b, const stk_arrow_leaf *l, const stk_arrow_column *c,
                    uint64_t i, stk_text_list *t, stk_error *err);

static int list_value(const stk_arrow_batch *b, const stk_arrow_leaf *l, const stk_arrow_column *c,
                      uint64_t i, stk_bytes *out, stk_error *err)
{
    const stk_arrow_field *of = l->path[l->item - 1];
    stk_text_list text = { 0 };
    list_place at;
    int nulls;

    if (l->texts) {
        STK_TRY(texts_at(b, l, c, i, &text, err));
        *out = (stk_bytes){ (const uint8_t *)"", (size_t)text.len };
        return STK_ARROW_MADE;
    }
    nulls = list_at(b, l, c, i, &at, err);
    STK_TRY(nulls < 0 ? nulls : 0);
    if (nulls || of->type != STK_ARROW_NUMBER) {
        if (at.n > PTRDIFF_MAX / 8)
            return outside("values are", i, err);
        *out = (stk_bytes){ (const uint8_t *)"", (size_t)(at.n * stk_dtype_size(l->dtype)) };
        return STK_ARROW_MADE;
    }
    if (range(at.values.a, at.values.n_a, at.from + at.values.offset, at.n, of->width, out) < 0)
        return outside("values are", i, err);
    return 0;
}

int stk_arrow_has_made(const stk_arrow_batch *b, const stk_arrow_leaf *l)
{
    stk_arrow_column up[STK_ARROW_DEPTH];
    uint32_t n;

    if (!l->list || (l->refused && !l->blobs))
        return 0;
    if (l->path[l->item - 1]->type != STK_ARROW_NUMBER)
        return 1;
    if (items_of(b, l, up, &n, NULL) < 0)
        return 1; /* stk_arrow_list_make() says what is wrong */
    while (n && !up[n - 1].valid)
        n--;
    return n > 0;
}

int stk_arrow_items(const stk_arrow_batch *b, const stk_arrow_leaf *l, uint64_t *n, uint64_t *bytes,
                    stk_error *err)
{
    const stk_arrow_field *of = l->path[l->item - 1];
    stk_arrow_column values;

    STK_TRY(b->reach->column(b, l, l->item, of, &values, err));
    *n = values.rows;
    *bytes = *n / 8 + (*n % 8 != 0);
    if (of->type != STK_ARROW_BOOL && __builtin_mul_overflow(*n, of->width, bytes))
        return stk_fail(err, STK_ECORRUPT, "lists of %" PRIu64 " values", *n);
    return 0;
}

static void put_item(const stk_arrow_field *of, const stk_arrow_column *c, uint64_t at,
                     uint8_t *dst)
{
    double v = 0;

    switch (of->type) {
    case STK_ARROW_BOOL: *dst = c->a[at / 8] >> (at % 8) & 1; return;
    case STK_ARROW_DECIMAL:
        v = decimal_of(of, (stk_bytes){ c->a + at * of->width, of->width });
        memcpy(dst, &v, sizeof v);
        return;
    default: memcpy(dst, c->a + at * of->width, of->width);
    }
}

int stk_arrow_list_make(const stk_arrow_batch *b, const stk_arrow_leaf *l, uint64_t from,
                        uint64_t n, uint8_t *dst, stk_error *err)
{
    const stk_arrow_field *of = l->path[l->item - 1];
    size_t width = stk_dtype_size(l->dtype);
    stk_arrow_column up[STK_ARROW_DEPTH];
    uint64_t first, end;
    uint32_t n_up;
    stk_bytes all;

    STK_TRY(items_of(b, l, up, &n_up, err));
    first = from + up[0].offset;
    if (__builtin_add_overflow(first, n, &end) ||
        (of->type == STK_ARROW_BOOL
             ? range(up[0].a, up[0].n_a, 0, end / 8 + (end % 8 != 0), 1, &all)
             : range(up[0].a, up[0].n_a, first, n, of->width, &all)) < 0)
        return outside("values are", from, err);
    for (uint64_t k = 0; k < n; k++) {
        int ok = is_item(up, n_up, from + k);

        if (ok < 0)
            return outside("values are", from, err);
        if (ok)
            put_item(of, &up[0], first + k, dst + k * width);
        else
            (void)stk_list_null_put(l->dtype, l->fills ? &l->fill : NULL, dst + k * width);
    }
    return 0;
}

typedef struct valued { /* whose values are asked for: a leaf's, or those in its lists */
    const stk_arrow_batch *b;
    const stk_arrow_leaf *l;
    const stk_arrow_field *f;
} valued;

/* The value at place i of the buffers of v->f, which has one. */
static int plain_value(const valued *v, const stk_arrow_column *c, uint64_t i, stk_bytes *out,
                       stk_error *err)
{
    const stk_arrow_field *f = v->f;
    static const uint8_t bits[2] = { 0, 1 };
    uint64_t from = 0, to = 0;

    switch (f->type) {
    case STK_ARROW_BOOL:
        if (i / 8 >= c->n_a)
            return outside("it is", i, err);
        *out = (stk_bytes){ &bits[c->a[i / 8] >> (i % 8) & 1], 1 };
        return 0;
    case STK_ARROW_NUMBER:
    case STK_ARROW_DECIMAL:
    case STK_ARROW_FIXED:
        if (range(c->a, c->n_a, i, 1, f->width, out) < 0)
            return outside("it is", i, err);
        if (f->unsigned64 && out->data[7] >> 7)
            return stk_fail(err, STK_ECORRUPT, "a value of 2^63 or more is not an i64");
        return 0;
    case STK_ARROW_BYTES:
        if (offsets(f, c, i, &from, &to) < 0 || range(c->b, c->n_b, from, to - from, 1, out) < 0)
            return outside("offsets are", i, err);
        return 0;
    case STK_ARROW_VIEW: return view_value(v->b, c, i, out) < 0 ? outside("a view is", i, err) : 0;
    default: return list_value(v->b, v->l, c, i, out, err);
    }
}

static int index_of(stk_dtype t, stk_bytes in, uint64_t *out)
{
    int64_t v = 0;

    switch (t) {
    case STK_I8: v = (int8_t)in.data[0]; break;
    case STK_U8: v = in.data[0]; break;
    case STK_I16: v = (int16_t)(in.data[0] | in.data[1] << 8); break;
    case STK_U16: v = in.data[0] | in.data[1] << 8; break;
    case STK_I32: {
        int32_t x;

        memcpy(&x, in.data, 4);
        v = x;
        break;
    }
    case STK_U32: {
        uint32_t x;

        memcpy(&x, in.data, 4);
        v = x;
        break;
    }
    default: memcpy(&v, in.data, 8);
    }
    *out = (uint64_t)v;
    return v < 0 ? -1 : 0;
}

static int encoded_value(const valued *v, const stk_arrow_column *c, uint64_t i, stk_bytes *out,
                         stk_error *err)
{
    const stk_arrow_field *f = v->f;
    stk_arrow_column values;
    stk_bytes number;
    uint64_t at;
    int ok;

    if (range(c->a, c->n_a, i, 1, stk_dtype_size(f->index), &number) < 0 ||
        index_of(f->index, number, &at) < 0)
        return outside("it is", i, err);
    STK_TRY(v->b->reach->dictionary(v->b, v->l, f, &at, &values, err));
    if (at >= values.rows)
        return stk_fail(err, STK_ECORRUPT, "entry %" PRIu64 " of a dictionary of %" PRIu64, at,
                        values.rows);
    ok = is_valid(&values, at + values.offset);
    if (ok != 1)
        return ok ? outside("a null is", i, err) : STK_ENOTFOUND;
    return plain_value(v, &values, at + values.offset, out, err);
}

/* An element, NULL: a null; of bytes that is an empty one. */
static void put_text(stk_text_list *t, const stk_arrow_leaf *l, const stk_bytes *text)
{
    if (l->blobs)
        stk_text_list_blob(t, text ? *text : (stk_bytes){ 0 });
    else if (text)
        stk_text_list_put(t, *text);
    else
        stk_text_list_null(t);
}

/* Texts of the list at place i, with the nulls among them. */
static int texts_at(const stk_arrow_batch *b, const stk_arrow_leaf *l, const stk_arrow_column *c,
                    uint64_t i, stk_text_list *t, stk_error *err)
{
    const stk_arrow_field *f = l->path[l->depth - 1], *of = l->path[l->item - 1];
    stk_arrow_column up[STK_ARROW_DEPTH];
    uint64_t from = i * f->width, to = from + f->width, begin = t->len;
    uint32_t n;

    if (f->type == STK_ARROW_LIST && offsets(f, c, i, &from, &to) < 0)
        return outside("offsets are", i, err);
    STK_TRY(items_of(b, l, up, &n, err));
    if (!l->blobs)
        stk_text_list_begin(t);
    for (uint64_t k = from; k < to; k++) {
        int ok = is_item(up, n, k), rc = ok == 1 ? 0 : STK_ENOTFOUND;
        uint64_t at = k + up[0].offset;
        stk_bytes text;

        if (ok < 0)
            return outside("values are", i, err);
        if (ok)
            rc = (of->encoded ? encoded_value : plain_value)(&(valued){ b, l, of }, &up[0], at,
                                                             &text, err);
        if (rc < 0 && rc != STK_ENOTFOUND)
            return rc;
        put_text(t, l, rc == 0 ? &text : NULL);
        if (t->len - begin > STK_TEXT_LIST_MAX)
            return stk_fail(err, STK_ELIMIT,
                            "column %.60s: a list of texts of over %" PRIu64 " bytes", l->name,
                            STK_TEXT_LIST_MAX);
    }
    if (!l->blobs)
        stk_text_list_end(t);
    return 0;
}

/* The buffers of the column, and where the row is in them; STK_ENOTFOUND: null. */
static int find(const stk_arrow_batch *b, const stk_arrow_leaf *l, uint64_t row,
                stk_arrow_column *c, uint64_t *at, stk_error *err)
{
    if (b->refused || (l->refused && !l->blobs))
        return stk_fail(err, STK_ENOTSUP, "column %.60s: not supported because %s", l->name,
                        l->refused && !l->blobs ? l->refused : b->refused);
    assert(!b->packed);                       /* stk_arrow_column_open() comes first */
    for (uint32_t d = 1; d < l->depth; d++) { /* structs have the rows of their batch */
        const stk_arrow_field *f = l->path[d];
        int ok;

        if (f->type == STK_ARROW_NULL)
            return STK_ENOTFOUND;
        STK_TRY(b->reach->column(b, l, d + 1, f, c, err));
        *at = row + c->offset;
        if (row >= c->rows)
            return outside("it is", row, err);
        ok = is_valid(c, *at);
        if (ok != 1)
            return ok ? outside("a null is", row, err) : STK_ENOTFOUND;
    }
    return l->depth > 1 ? 0 : stk_fail(err, STK_ECORRUPT, "a schema without columns");
}

int stk_arrow_value(const stk_arrow_batch *b, const stk_arrow_leaf *l, uint64_t row, stk_bytes *out,
                    stk_error *err)
{
    const stk_arrow_field *f = l->path[l->depth - 1];
    stk_arrow_column c;
    uint64_t at = 0;

    STK_TRY(find(b, l, row, &c, &at, err));
    return (f->encoded ? encoded_value : plain_value)(&(valued){ b, l, f }, &c, at, out, err);
}

int stk_arrow_texts(const stk_arrow_batch *b, const stk_arrow_leaf *l, uint64_t row,
                    stk_text_list *t, stk_error *err)
{
    stk_arrow_column c;
    uint64_t at = 0;

    STK_TRY(find(b, l, row, &c, &at, err));
    return texts_at(b, l, &c, at, t, err);
}

int stk_arrow_list(const stk_arrow_batch *b, const stk_arrow_leaf *l, uint64_t row, uint64_t *from,
                   uint64_t *n, stk_error *err)
{
    stk_arrow_column c;
    list_place list;
    uint64_t at = 0;
    int rc = find(b, l, row, &c, &at, err);

    if (rc == 0)
        rc = list_at(b, l, &c, at, &list, err);
    if (rc < 0)
        return rc;
    *from = list.from;
    *n = list.n;
    return 0;
}

/* Fields of one number, or of so many, that need no look at each. */
static int is_plain(const stk_arrow_field *f)
{
    return f->type == STK_ARROW_NUMBER && !f->unsigned64 && !f->encoded;
}

/* Lists of one length: how many, at most n, from place `at` on.  Each offset is read once, since a
 * file's map may change: what follows is checked against the buffer and needs no offset again. */
static uint64_t even_lists(const stk_arrow_field *f, const stk_arrow_column *c, uint64_t at,
                           uint64_t n, uint64_t *from, uint64_t *each)
{
    uint64_t begin, end, last, k = 0;

    for (last = 0; k < n; k++, last = end) {
        if (offsets(f, c, at + k, &begin, &end) < 0 ||
            (k && (begin != last || end - begin != *each)))
            break;
        if (!k) {
            *from = begin;
            *each = end - begin;
        }
    }
    return k;
}

uint64_t stk_arrow_rows(const stk_arrow_batch *b, const stk_arrow_leaf *l, uint64_t row, uint64_t n,
                        stk_bytes *out)
{
    const stk_arrow_field *f = l->depth == 2 ? l->path[1] : NULL, *of = f;
    stk_arrow_column c, values;
    uint64_t at, from, each = 1, k = 0;

    if (!f || f->type == STK_ARROW_NULL || b->refused || l->refused || f->encoded ||
        b->reach->column(b, l, 2, f, &c, NULL) < 0 || row >= c.rows)
        return 0;
    values = c;
    at = row + c.offset;
    if (f->type == STK_ARROW_FIXED_LIST || f->type == STK_ARROW_LIST) {
        of = l->path[l->item - 1];
        if (b->reach->column(b, l, l->item, of, &values, NULL) < 0 || stk_arrow_has_made(b, l))
            return 0;
        each = f->width;
    }
    if (!is_plain(of))
        return 0;
    n = n < c.rows - row ? n : c.rows - row;
    n = row >= b->rows ? 0 : n < b->rows - row ? n : b->rows - row;
    while (k < n && (!c.valid || is_valid(&c, at + k) == 1))
        k = c.valid ? k + 1 : n;
    from = at * each;
    if (f->type == STK_ARROW_LIST)
        k = even_lists(f, &c, at, k, &from, &each);
    if (!k || range(values.a, values.n_a, from + (f == of ? 0 : values.offset), k * each, of->width,
                    out) < 0)
        return 0;
    return k;
}

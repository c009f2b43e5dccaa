/* SPDX-License-Identifier: Apache-2.0 */
/* where_eval.c - a condition over batches of rows.
 *
 * A node's truth is a byte per row: no, yes or unknown (NULL).  Numbers compare as in DuckDB:
 * beside a column of floats both are floats of its width, so that x = 0.1 finds 0.1 in 32 bits too,
 * else exactly; NaN equals itself and is larger than all others.  Texts compare byte by byte. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "base/mem.h"
#include "column/where_node.h"

enum { NO, YES, UNKNOWN };

/* ---- types ---- */

static const char *name_of(const stk_condition *c, const stk_where_node *n)
{
    return n->kind == STK_WHERE_COLUMN ? c->column[n->column] : "the value";
}

/* A text beside a number must be one. */
static int text_to_number(stk_where_node *n, const char *column, stk_error *err)
{
    char *end, *end_f;

    errno = 0;
    n->i = strtoll(n->text, &end, 10);
    n->huge = errno != ERANGE ? 0 : n->i > 0 ? 1 : -1;
    n->f = stk_decimal(n->text, &end_f);
    if (!n->len || (end != n->text + n->len && end_f != n->text + n->len))
        return stk_fail(err, STK_EINVAL, "where: column %s has numbers, and '%.60s' is none",
                        column, n->text);
    n->type = end == n->text + n->len && !n->huge ? STK_WHERE_I64 : STK_WHERE_F64;
    n->huge = end == n->text + n->len ? n->huge : 0;
    return 0;
}

/* A column of doubles, or a number that is one. */
static int is_double(const stk_where_node *n)
{
    return n->kind == STK_WHERE_COLUMN ? n->type == STK_WHERE_F64 && !n->narrow : n->is_double;
}

/* How two numbers compare; a whole number that no column holds is then beyond all that it holds. */
static void settle_numbers(stk_where_node *x, stk_where_node *a, stk_where_node *b)
{
    if (is_double(a) || is_double(b))
        x->as = STK_WHERE_AS_F64;
    else
        x->as = a->narrow || b->narrow ? STK_WHERE_AS_F32 : STK_WHERE_EXACT;
    if (x->as == STK_WHERE_EXACT && a->huge)
        a->f = a->huge * 1e300;
    if (x->as == STK_WHERE_EXACT && b->huge)
        b->f = b->huge * 1e300;
}

static int settle_types(stk_condition *c, const stk_where_node *x, stk_error *err)
{
    stk_where_node *a = &c->node[x->a], *b = &c->node[x->b];
    int text_a = a->type == STK_WHERE_TEXT, text_b = b->type == STK_WHERE_TEXT;

    if (!a->type || !b->type || text_a == text_b)
        return 0;
    if (text_b && b->kind == STK_WHERE_LITERAL)
        return text_to_number(b, name_of(c, a), err);
    if (text_a && a->kind == STK_WHERE_LITERAL)
        return text_to_number(a, name_of(c, b), err);
    return stk_fail(err, STK_EINVAL,
                    "where: column %s has texts: compare it with a text in quotes, 'like this'",
                    text_a ? name_of(c, a) : name_of(c, b));
}

static int settle_compare(stk_condition *c, stk_where_node *x, stk_error *err)
{
    STK_TRY(settle_types(c, x, err));
    settle_numbers(x, &c->node[x->a], &c->node[x->b]);
    return 0;
}

int stk_condition_settle(stk_condition *c, const stk_where_type *types, stk_error *err)
{
    for (uint32_t i = 0; i < c->n; i++) {
        stk_where_node *x = &c->node[i];

        if (x->kind == STK_WHERE_COLUMN) {
            x->narrow = types[x->column] == STK_WHERE_F32;
            x->type = x->narrow ? STK_WHERE_F64 : types[x->column];
        } else if (x->kind == STK_WHERE_COMPARE)
            STK_TRY(settle_compare(c, x, err));
        else if (x->kind == STK_WHERE_TRUTH && c->node[x->a].type == STK_WHERE_TEXT)
            return stk_fail(err, STK_EINVAL, "where: %s is a text, not a condition",
                            name_of(c, &c->node[x->a]));
        else if (x->kind == STK_WHERE_LIKE && c->node[x->a].type != STK_WHERE_TEXT &&
                 c->node[x->a].type)
            return stk_fail(err, STK_EINVAL, "where: LIKE is for texts, and column %s has numbers",
                            name_of(c, &c->node[x->a]));
    }
    return 0;
}

/* ---- values ---- */

typedef struct value {
    stk_where_type type; /* 0: NULL */
    int64_t i;
    double f;
    stk_bytes text;
} value;

static value value_at(const stk_where_node *n, const stk_where_values *const *columns, uint32_t r)
{
    const stk_where_values *v;

    if (n->kind == STK_WHERE_LITERAL)
        return (value){ n->type, n->i, n->f, { (const uint8_t *)n->text, n->len } };
    v = columns[n->column];
    if (!v->valid[r])
        return (value){ 0 };
    switch (v->type) {
    case STK_WHERE_I64: return (value){ .type = STK_WHERE_I64, .i = v->v.i[r] };
    case STK_WHERE_F64: return (value){ .type = STK_WHERE_F64, .f = v->v.f[r] };
    default: return (value){ .type = STK_WHERE_TEXT, .text = v->v.text[r] };
    }
}

static int order_text(stk_bytes a, stk_bytes b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int c = n ? memcmp(a.data, b.data, n) : 0;

    return c ? c : a.len < b.len ? -1 : a.len > b.len;
}

static int order_float(long double a, long double b)
{
    if (isnan(a) || isnan(b))
        return isnan(a) ? !isnan(b) : -1;
    return a < b ? -1 : a > b;
}

/* long double holds every i64 and every double. */
static long double number_as(const value *v, int as)
{
    if (as == STK_WHERE_AS_F32)
        return v->type == STK_WHERE_I64 ? (float)v->i : (float)v->f;
    if (as == STK_WHERE_AS_F64)
        return v->type == STK_WHERE_I64 ? (double)v->i : v->f;
    return v->type == STK_WHERE_I64 ? (long double)v->i : (long double)v->f;
}

/* -1, 0, 1. */
static int order(const value *a, const value *b, int as)
{
    if (a->type == STK_WHERE_TEXT)
        return order_text(a->text, b->text);
    if (a->type == STK_WHERE_I64 && b->type == STK_WHERE_I64)
        return a->i < b->i ? -1 : a->i > b->i;
    return order_float(number_as(a, as), number_as(b, as));
}

static uint8_t holds(int op, int c)
{
    switch (op) {
    case STK_WHERE_EQ: return c == 0;
    case STK_WHERE_NE: return c != 0;
    case STK_WHERE_LT: return c < 0;
    case STK_WHERE_LE: return c <= 0;
    case STK_WHERE_GT: return c > 0;
    default: return c >= 0;
    }
}

static size_t step(stk_bytes s, size_t at)
{
    for (at++; at < s.len && (s.data[at] & 0xC0) == 0x80;)
        at++;
    return at;
}

/* % is any number of characters, _ one; the last % is tried again with one more. */
static uint8_t like(stk_bytes s, stk_bytes p)
{
    size_t i = 0, k = 0, again_i = 0, again_k = SIZE_MAX;

    while (i < s.len || k < p.len) {
        if (k < p.len && p.data[k] == '%') {
            again_i = i;
            again_k = ++k;
        } else if (i < s.len && k < p.len && p.data[k] == '_') {
            i = step(s, i);
            k++;
        } else if (i < s.len && k < p.len && p.data[k] == s.data[i]) {
            i++;
            k++;
        } else if (again_k != SIZE_MAX && again_i < s.len) {
            again_i = step(s, again_i);
            i = again_i;
            k = again_k;
        } else
            return NO;
    }
    return YES;
}

/* ---- truths ---- */

static uint8_t both(uint8_t a, uint8_t b)
{
    return a == NO || b == NO ? NO : a == YES && b == YES ? YES : UNKNOWN;
}

static uint8_t either(uint8_t a, uint8_t b)
{
    return a == YES || b == YES ? YES : a == NO && b == NO ? NO : UNKNOWN;
}

static uint8_t leaf_truth(const stk_where_node *x, const value *a, const value *b)
{
    if (x->kind == STK_WHERE_IS_NULL)
        return a->type ? NO : YES;
    if (!a->type || (x->kind != STK_WHERE_TRUTH && !b->type))
        return UNKNOWN;
    if (x->kind == STK_WHERE_LIKE)
        return like(a->text, b->text);
    if (x->kind == STK_WHERE_TRUTH)
        return a->type == STK_WHERE_I64 ? a->i != 0 : a->f != 0;
    return holds(x->op, order(a, b, x->as));
}

static void eval_node(const stk_condition *c, const stk_where_node *x,
                      const stk_where_values *const *columns, uint32_t n, uint8_t *room,
                      uint8_t *out)
{
    const uint8_t *a = room + (size_t)x->a * STK_WHERE_ROWS,
                  *b = room + (size_t)x->b * STK_WHERE_ROWS;

    for (uint32_t r = 0; r < n; r++) {
        if (x->kind == STK_WHERE_OR)
            out[r] = either(a[r], b[r]);
        else if (x->kind == STK_WHERE_AND)
            out[r] = both(a[r], b[r]);
        else if (x->kind == STK_WHERE_NOT)
            out[r] = a[r] == UNKNOWN ? UNKNOWN : !a[r];
        else {
            value va = value_at(&c->node[x->a], columns, r),
                  vb = value_at(&c->node[x->b], columns, r);

            out[r] = leaf_truth(x, &va, &vb);
        }
    }
}

void stk_condition_eval(const stk_condition *c, const stk_where_values *const *columns, uint32_t n,
                        uint8_t *room, uint8_t *take)
{
    for (uint32_t i = 0; i < c->n; i++) /* children come before their parents */
        if (c->node[i].kind < STK_WHERE_COLUMN)
            eval_node(c, &c->node[i], columns, n, room, room + (size_t)i * STK_WHERE_ROWS);
    for (uint32_t r = 0; r < n; r++)
        take[r] = room[(size_t)c->root * STK_WHERE_ROWS + r] == YES;
}

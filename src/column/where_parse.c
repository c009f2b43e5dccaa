/* SPDX-License-Identifier: Apache-2.0 */
/* where_parse.c - the text of a condition to its tree, by recursive descent.
 *
 *     or       and (OR and)*
 *     and      not (AND not)*
 *     not      NOT not | test
 *     test     operand [= != <> < <= > >= operand | IS [NOT] NULL | [NOT] IN (literals)
 *              | [NOT] BETWEEN operand AND operand | [NOT] LIKE 'pattern']
 *     operand  literal | column | ( or )
 *
 * Keywords in any case; 'it''s' is a text; names with other characters in "double quotes". */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/decimal.h"
#include "base/mem.h"
#include "column/where_node.h"

#define DEPTH 64
#define NODES_MAX 4096u

typedef struct parser {
    const char *text, *p;
    stk_condition *c;
    uint32_t depth;
    stk_error *err;
} parser;

static int fail(parser *x, const char *what)
{
    return stk_fail(x->err, STK_EINVAL, "where: %s at character %zu: %.60s", what,
                    (size_t)(x->p - x->text) + 1, *x->p ? x->p : "(the end)");
}

static void skip_space(parser *x)
{
    while (*x->p == ' ' || *x->p == '\t' || *x->p == '\n' || *x->p == '\r')
        x->p++;
}

static int is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || (unsigned char)c >= 128;
}

/* The keyword, if it comes next. */
static int keyword(parser *x, const char *word)
{
    size_t n = strlen(word);

    skip_space(x);
    if (strncasecmp(x->p, word, n) != 0 || is_word(x->p[n]))
        return 0;
    x->p += n;
    return 1;
}

static int symbol(parser *x, const char *s)
{
    skip_space(x);
    if (strncmp(x->p, s, strlen(s)) != 0)
        return 0;
    x->p += strlen(s);
    return 1;
}

/* ---- nodes ---- */

static int add(parser *x, const stk_where_node *n, uint32_t *out)
{
    stk_condition *c = x->c;

    if (c->n == NODES_MAX)
        return stk_fail(x->err, STK_ELIMIT, "where: a condition of more than %u parts", NODES_MAX);
    if (c->n == c->cap) {
        uint32_t cap = c->cap ? 2 * c->cap : 16;
        stk_where_node *grown = stk_grow(c->node, c->n * sizeof *grown, cap * sizeof *grown);

        if (!grown)
            return stk_fail_nomem(x->err, cap * sizeof *grown);
        c->node = grown;
        c->cap = cap;
    }
    *out = c->n;
    c->node[c->n++] = *n;
    return 0;
}

static int add_two(parser *x, stk_where_kind kind, int op, uint32_t a, uint32_t b, uint32_t *out)
{
    return add(x, &(stk_where_node){ .kind = kind, .op = op, .a = a, .b = b }, out);
}

static int add_column(parser *x, const char *name, size_t len, uint32_t *out)
{
    stk_condition *c = x->c;
    stk_where_node n = { .kind = STK_WHERE_COLUMN };
    char **grown;

    for (; n.column < c->n_columns; n.column++)
        if (strlen(c->column[n.column]) == len && !memcmp(c->column[n.column], name, len))
            return add(x, &n, out);
    grown = stk_grow(c->column, c->n_columns * sizeof *grown, (c->n_columns + 1) * sizeof *grown);
    if (!grown)
        return stk_fail_nomem(x->err, sizeof *grown);
    c->column = grown;
    c->column[c->n_columns] = stk_strndup(name, len);
    if (!c->column[c->n_columns])
        return stk_fail_nomem(x->err, len);
    c->n_columns++;
    return add(x, &n, out);
}

/* ---- leaves ---- */

/* Up to the closing quote; a doubled one stands for itself.  *out: owned. */
static int quoted(parser *x, char q, char **out, size_t *len)
{
    char *to = stk_alloc(strlen(x->p) + 1);

    *out = to;
    if (!to)
        return stk_fail_nomem(x->err, strlen(x->p));
    for (x->p++; *x->p && (*x->p != q || x->p[1] == q); x->p++) {
        x->p += *x->p == q;
        *to++ = *x->p;
    }
    *len = (size_t)(to - *out);
    *to = 0;
    if (*x->p != q)
        return fail(x, "a quote that is not closed");
    x->p++;
    return 0;
}

static int number(parser *x, uint32_t *out)
{
    stk_where_node n = { .kind = STK_WHERE_LITERAL, .type = STK_WHERE_I64 };
    char *end, *end_f;

    errno = 0;
    n.i = strtoll(x->p, &end, 10);
    if (errno == ERANGE) {
        n.type = STK_WHERE_F64;
        n.huge = n.i > 0 ? 1 : -1;
    }
    n.f = stk_decimal(x->p, &end_f);
    if (end_f > end) {
        n.type = STK_WHERE_F64;
        n.huge = 0;
        n.is_double = memchr(x->p, 'e', (size_t)(end_f - x->p)) ||
                      memchr(x->p, 'E', (size_t)(end_f - x->p));
    }
    end = end_f > end ? end_f : end;
    if (end == x->p || is_word(*end))
        return fail(x, "a number was expected");
    x->p = end;
    return add(x, &n, out);
}

static int literal(parser *x, uint32_t *out)
{
    stk_where_node n = { .kind = STK_WHERE_LITERAL };
    int rc;

    skip_space(x);
    if (*x->p == '\'') {
        n.type = STK_WHERE_TEXT;
        rc = quoted(x, '\'', &n.text, &n.len);
        if (rc == 0)
            rc = add(x, &n, out);
        if (rc < 0)
            stk_free(n.text);
        return rc;
    }
    if (keyword(x, "NULL"))
        return add(x, &n, out);
    n.type = STK_WHERE_I64;
    n.i = keyword(x, "TRUE");
    n.f = (double)n.i;
    if (n.i || keyword(x, "FALSE"))
        return add(x, &n, out);
    return number(x, out);
}

static int is_reserved(const char *p, size_t n)
{
    static const char *const words[] = { "AND",  "OR",   "NOT",  "IN",    "IS",
                                         "NULL", "LIKE", "TRUE", "FALSE", "BETWEEN" };

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == n && !strncasecmp(p, words[i], n))
            return 1;
    return 0;
}

static int parse_or(parser *x, uint32_t *out);

static int operand(parser *x, uint32_t *out)
{
    size_t n = 0, len;
    char *name;
    int rc;

    skip_space(x);
    if (symbol(x, "(")) {
        if (++x->depth > DEPTH)
            return fail(x, "brackets are nested too deep");
        STK_TRY(parse_or(x, out));
        x->depth--;
        return symbol(x, ")") ? 0 : fail(x, "a closing bracket was expected");
    }
    if (*x->p == '"') {
        rc = quoted(x, '"', &name, &len);
        if (rc == 0)
            rc = add_column(x, name, len, out);
        stk_free(name);
        return rc;
    }
    while (is_word(x->p[n]))
        n++;
    if (!n || (*x->p >= '0' && *x->p <= '9') || *x->p == '.' || is_reserved(x->p, n))
        return literal(x, out);
    STK_TRY(add_column(x, x->p, n, out));
    x->p += n;
    return 0;
}

/* ---- tests ---- */

static int is_leaf(const parser *x, uint32_t n)
{
    return x->c->node[n].kind >= STK_WHERE_COLUMN;
}

static int compare(parser *x, int op, uint32_t a, uint32_t b, uint32_t *out)
{
    if (!is_leaf(x, a) || !is_leaf(x, b))
        return fail(x, "columns and values are compared, not conditions");
    return add_two(x, STK_WHERE_COMPARE, op, a, b, out);
}

static int parse_in(parser *x, uint32_t a, uint32_t *out)
{
    uint32_t b, one;

    if (!symbol(x, "("))
        return fail(x, "IN wants a list in brackets");
    STK_TRY(literal(x, &b));
    STK_TRY(compare(x, STK_WHERE_EQ, a, b, out));
    while (symbol(x, ",")) {
        STK_TRY(literal(x, &b));
        STK_TRY(compare(x, STK_WHERE_EQ, a, b, &one));
        STK_TRY(add_two(x, STK_WHERE_OR, 0, *out, one, out));
    }
    return symbol(x, ")") ? 0 : fail(x, "a closing bracket was expected");
}

static int parse_between(parser *x, uint32_t a, uint32_t *out)
{
    uint32_t low, high;

    STK_TRY(operand(x, &low));
    if (!keyword(x, "AND"))
        return fail(x, "BETWEEN wants AND");
    STK_TRY(operand(x, &high));
    STK_TRY(compare(x, STK_WHERE_GE, a, low, &low));
    STK_TRY(compare(x, STK_WHERE_LE, a, high, &high));
    return add_two(x, STK_WHERE_AND, 0, low, high, out);
}

static int parse_like(parser *x, uint32_t a, uint32_t *out)
{
    uint32_t b;

    STK_TRY(literal(x, &b));
    if (x->c->node[b].type != STK_WHERE_TEXT || !is_leaf(x, a))
        return fail(x, "LIKE compares a column with a text in quotes");
    return add_two(x, STK_WHERE_LIKE, 0, a, b, out);
}

static int word_test(parser *x, uint32_t a, uint32_t *out, int *found)
{
    int no, rc = 0;

    *found = 1;
    if (keyword(x, "IS")) {
        no = keyword(x, "NOT");
        if (!keyword(x, "NULL") || !is_leaf(x, a))
            return fail(x, "IS wants [NOT] NULL after a column");
        rc = add_two(x, STK_WHERE_IS_NULL, 0, a, a, out);
    } else {
        const char *before = x->p;

        no = keyword(x, "NOT");
        if (keyword(x, "IN"))
            rc = parse_in(x, a, out);
        else if (keyword(x, "BETWEEN"))
            rc = parse_between(x, a, out);
        else if (keyword(x, "LIKE"))
            rc = parse_like(x, a, out);
        else {
            x->p = before;
            *found = no = 0;
        }
    }
    return rc == 0 && no ? add_two(x, STK_WHERE_NOT, 0, *out, *out, out) : rc;
}

static int test(parser *x, uint32_t *out)
{
    static const struct {
        const char *s;
        int op;
    } ops[] = { { "==", STK_WHERE_EQ }, { "=", STK_WHERE_EQ },  { "!=", STK_WHERE_NE },
                { "<>", STK_WHERE_NE }, { "<=", STK_WHERE_LE }, { ">=", STK_WHERE_GE },
                { "<", STK_WHERE_LT },  { ">", STK_WHERE_GT } };
    uint32_t a, b;
    int found = 0;

    STK_TRY(operand(x, &a));
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (symbol(x, ops[i].s)) {
            STK_TRY(operand(x, &b));
            return compare(x, ops[i].op, a, b, out);
        }
    STK_TRY(word_test(x, a, out, &found));
    if (found)
        return 0;
    *out = a;
    return is_leaf(x, a) ? add_two(x, STK_WHERE_TRUTH, 0, a, a, out) : 0;
}

static int parse_not(parser *x, uint32_t *out)
{
    int no = 0;

    while (keyword(x, "NOT"))
        no = !no;
    STK_TRY(test(x, out));
    return no ? add_two(x, STK_WHERE_NOT, 0, *out, *out, out) : 0;
}

static int parse_and(parser *x, uint32_t *out)
{
    uint32_t b;

    STK_TRY(parse_not(x, out));
    while (keyword(x, "AND")) {
        STK_TRY(parse_not(x, &b));
        STK_TRY(add_two(x, STK_WHERE_AND, 0, *out, b, out));
    }
    return 0;
}

static int parse_or(parser *x, uint32_t *out)
{
    uint32_t b;

    STK_TRY(parse_and(x, out));
    while (keyword(x, "OR")) {
        STK_TRY(parse_and(x, &b));
        STK_TRY(add_two(x, STK_WHERE_OR, 0, *out, b, out));
    }
    return 0;
}

int stk_condition_parse(stk_condition *out, const char *text, stk_error *err)
{
    parser x = { text, text, out, 0, err };
    int rc;

    *out = (stk_condition){ 0 };
    rc = parse_or(&x, &out->root);
    skip_space(&x);
    if (rc == 0 && *x.p)
        rc = fail(&x, "something follows the condition");
    if (rc < 0)
        stk_condition_fini(out);
    return rc;
}

void stk_condition_fini(stk_condition *c)
{
    for (uint32_t i = 0; i < c->n; i++)
        stk_free(c->node[i].text);
    for (uint32_t i = 0; i < c->n_columns; i++)
        stk_free(c->column[i]);
    stk_free(c->node);
    stk_free(c->column);
    *c = (stk_condition){ 0 };
}

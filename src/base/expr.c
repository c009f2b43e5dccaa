/* SPDX-License-Identifier: Apache-2.0 */
/* expr.c - a chain's text -> calls with arguments, by recursive descent.
 *
 * Sizes are bounded (text, calls, tuple items; arguments by the commas in the text), so that
 * everything is allocated before the first byte is parsed and hostile text costs linear time. */
#include "base/expr.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "base/mem.h"

typedef struct parser {
    const char *text, *p; /* text ends with a zero byte */
    stk_expr *e;
    stk_error *err;
} parser;

static int complain(parser *s, const char *what)
{
    return stk_fail(s->err, STK_EINVAL, "chain `%.120s`: column %d: %s", s->text,
                    (int)(s->p - s->text) + 1, what);
}

static char look(parser *s)
{
    while (isspace((unsigned char)*s->p))
        s->p++;
    return *s->p;
}

static int accept(parser *s, char c)
{
    if (!c || look(s) != c)
        return 0;
    s->p++;
    return 1;
}

static int name_start(char c)
{
    return isalpha((unsigned char)c) || c == '_';
}

static int name_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '-';
}

static const char *keep(parser *s, const char *from, const char *to)
{
    char *dst = s->e->text + s->e->used;

    memcpy(dst, from, (size_t)(to - from));
    dst[to - from] = 0;
    s->e->used += (size_t)(to - from) + 1;
    return dst;
}

static int parse_name(parser *s, const char **out, const char *what)
{
    const char *from;

    if (!name_start(look(s)))
        return complain(s, what);
    for (from = s->p; name_char(*s->p); s->p++) {}
    *out = keep(s, from, s->p);
    return 0;
}

static int parse_string(parser *s, stk_value *v)
{
    char quote = *s->p++;
    const char *from = s->p;

    while (*s->p && *s->p != quote)
        s->p++;
    if (!*s->p)
        return complain(s, "this string is not closed");
    v->type = STK_V_NAME;
    v->text = keep(s, from, s->p++);
    return 0;
}

static int parse_number(parser *s, stk_value *v)
{
    size_t len = strspn(s->p, "+-0123456789.eE");
    char digits[64], *end;

    if (!len || len >= sizeof digits || name_char(s->p[len]))
        return complain(s, "this is no number");
    memcpy(digits, s->p, len);
    digits[len] = 0;
    v->number = stk_decimal(digits, &end);
    if (end != digits + len)
        return complain(s, "this is no number");
    v->type = STK_V_NUMBER;
    v->integral = !strpbrk(digits, ".eE");
    s->p += len;
    return 0;
}

static int parse_value(parser *s, stk_value *v)
{
    char c = look(s);

    if (c == '"' || c == '\'')
        return parse_string(s, v);
    if (c && strchr("+-.0123456789", c))
        return parse_number(s, v);
    STK_TRY(parse_name(s, &v->text, "a number, a name or a string is missing here"));
    v->type = STK_V_NAME;
    if (!strcasecmp(v->text, "true") || !strcasecmp(v->text, "false")) {
        v->type = STK_V_BOOL;
        v->number = tolower((unsigned char)v->text[0]) == 't';
    }
    return 0;
}

static int parse_tuple(parser *s, stk_expr_arg *a, char close)
{
    a->tuple = 1;
    while (!accept(s, close)) {
        if (a->n == STK_EXPR_ITEMS)
            return complain(s, "a tuple has at most 8 values");
        STK_TRY(parse_value(s, &a->value[a->n++]));
        if (look(s) != close && !accept(s, ','))
            return complain(s, "`,` or the end of the tuple is missing here");
    }
    return 0;
}

static int parse_arg(parser *s, stk_expr_arg *a)
{
    const char *start;

    look(s);
    start = s->p;
    a->at = (uint32_t)(s->p - s->text) + 1;
    if (name_start(*s->p)) {
        for (; name_char(*s->p); s->p++) {}
        if (look(s) == '=') {
            const char *end = start;

            while (name_char(*end))
                end++;
            a->name = keep(s, start, end);
            s->p++;
        } else {
            s->p = start;
        }
    }
    if (accept(s, '('))
        return parse_tuple(s, a, ')');
    if (accept(s, '['))
        return parse_tuple(s, a, ']');
    a->n = 1;
    return parse_value(s, &a->value[0]);
}

static int parse_call(parser *s)
{
    stk_call *c;

    if (s->e->n_calls == STK_EXPR_CALLS)
        return complain(s, "a chain has at most 32 steps");
    c = &s->e->call[s->e->n_calls++];
    look(s);
    c->at = (uint32_t)(s->p - s->text) + 1;
    c->arg = s->e->args + s->e->n_args;
    STK_TRY(parse_name(s, &c->name, "the name of a step is missing here"));
    if (!accept(s, '('))
        return 0;
    while (!accept(s, ')')) {
        STK_TRY(parse_arg(s, &c->arg[c->n_args]));
        c->n_args++;
        s->e->n_args++;
        if (look(s) != ')' && !accept(s, ','))
            return complain(s, "`,` or `)` is missing here");
    }
    return 0;
}

static int parse_chain(parser *s)
{
    if (!look(s))
        return complain(s, "the chain is empty");
    do
        STK_TRY(parse_call(s));
    while (accept(s, '|'));
    return look(s) ? complain(s, "`|` or the end is missing here") : 0;
}

int stk_expr_parse(stk_expr **out, const char *text, stk_error *err)
{
    size_t len = strlen(text), args = 1;
    parser s = { text, text, NULL, err };
    int rc = STK_ENOMEM;

    *out = NULL;
    if (len > STK_EXPR_TEXT)
        return stk_fail(err, STK_EINVAL, "a chain has at most %d characters, this one has %zu",
                        STK_EXPR_TEXT, len);
    for (size_t i = 0; i < len; i++)
        args += text[i] == ',' || text[i] == '(';
    s.e = STK_NEW(stk_expr);
    if (!s.e)
        goto done;
    s.e->text = stk_alloc(2 * len + 2); /* every name costs one byte more than it has */
    s.e->args = stk_zalloc(args, sizeof *s.e->args);
    if (s.e->text && s.e->args)
        rc = parse_chain(&s);
done:
    if (rc == STK_ENOMEM)
        stk_fail_nomem(err, len);
    if (rc < 0)
        stk_expr_close(&s.e);
    *out = s.e;
    return rc;
}

void stk_expr_close(stk_expr **e)
{
    if (!*e)
        return;
    stk_free((*e)->text);
    stk_free((*e)->args);
    stk_free(*e);
    *e = NULL;
}

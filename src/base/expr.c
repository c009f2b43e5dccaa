/* SPDX-License-Identifier: Apache-2.0 */
/* expr.c - a chain's text -> calls with arguments, by recursive descent.
 *
 * Sizes are bounded (text, calls, tuple items, depth; arguments by the commas in the text), so that
 * all that a chain takes is allocated before its first byte is parsed.  A chain inside a chain is
 * looked over to its end, then parsed in the same way: hostile text costs its length times the
 * depth. */
#include "base/expr.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "base/mem.h"

typedef struct parser {
    const char *text, *p; /* text ends with a zero byte */
    stk_expr *e;
    stk_error *err;
    int depth; /* chains around this one */
} parser;

static int parse_inside(parser *s, stk_value *v);

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
        return complain(s, "this is not a number");
    memcpy(digits, s->p, len);
    digits[len] = 0;
    v->number = stk_decimal(digits, &end);
    if (end != digits + len)
        return complain(s, "this is not a number");
    v->type = STK_V_NUMBER;
    v->integral = !strpbrk(digits, ".eE");
    s->p += len;
    return 0;
}

static int parse_value(parser *s, stk_value *v)
{
    char c = look(s);
    const char *from = s->p;
    size_t used = s->e->used;

    if (c == '"' || c == '\'')
        return parse_string(s, v);
    if (c && strchr("+-.0123456789", c))
        return parse_number(s, v);
    STK_TRY(parse_name(s, &v->text, "a number, a name or a string is missing here"));
    v->type = STK_V_NAME;
    if (look(s) == '(' || look(s) == '|') {
        s->p = from;
        s->e->used = used;
        return parse_inside(s, v);
    }
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
            return complain(s, "a tuple has at most 16 values");
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

/* One chain; at the end of the text, or at what ends an argument, if it is one. */
static int parse_chain(parser *s)
{
    if (!look(s))
        return complain(s, "the chain is empty");
    do
        STK_TRY(parse_call(s));
    while (accept(s, '|'));
    if (!look(s) || (s->depth && strchr(",)]", look(s))))
        return 0;
    return complain(s, "`|` or the end is missing here");
}

/* Where the argument that begins here ends: at a comma or a bracket that is not its own. */
static const char *end_of_arg(const char *p)
{
    for (int open = 0; *p; p++) {
        if (*p == '"' || *p == '\'') {
            const char *close = strchr(p + 1, *p);

            if (!close)
                return p + strlen(p);
            p = close;
        } else if (*p == '(' || *p == '[') {
            open++;
        } else if (!open && strchr(",)]", *p)) {
            break;
        } else if (*p == ')' || *p == ']') {
            open--;
        }
    }
    return p;
}

static int open_expr(stk_expr **out, const char *text, size_t len)
{
    stk_expr *e = STK_NEW(stk_expr);
    size_t args = 1;

    for (size_t i = 0; i < len; i++)
        args += text[i] == ',' || text[i] == '(';
    *out = e;
    if (!e)
        return STK_ENOMEM;
    e->room = (uint32_t)args;
    e->text = stk_alloc(2 * len + 2); /* every name costs one byte more than it has */
    e->args = stk_zalloc(args, sizeof *e->args);
    return e->text && e->args ? 0 : STK_ENOMEM;
}

static int parse_inside(parser *s, stk_value *v)
{
    parser inside = { s->text, s->p, NULL, s->err, s->depth + 1 };
    size_t len = (size_t)(end_of_arg(s->p) - s->p);

    if (inside.depth > STK_EXPR_DEPTH)
        return complain(s, "more than 7 chains stand inside each other: write fewer levels");
    v->type = STK_V_CHAIN;
    v->text = NULL;
    if (open_expr(&v->chain, s->p, len) < 0)
        return stk_fail_nomem(s->err, len);
    inside.e = v->chain;
    STK_TRY(parse_chain(&inside));
    s->p = inside.p;
    return 0;
}

int stk_expr_parse(stk_expr **out, const char *text, stk_error *err)
{
    size_t len = strlen(text);
    parser s = { text, text, NULL, err, 0 };
    int rc;

    *out = NULL;
    if (len > STK_EXPR_TEXT)
        return stk_fail(err, STK_EINVAL, "a chain has at most %d characters, this one has %zu",
                        STK_EXPR_TEXT, len);
    rc = open_expr(&s.e, text, len);
    rc = rc < 0 ? stk_fail_nomem(err, len) : parse_chain(&s);
    if (rc < 0)
        stk_expr_close(&s.e);
    *out = s.e;
    return rc;
}

static void close_values(const stk_expr *e)
{
    for (uint32_t i = 0; e->args && i < e->room; i++) /* one that is half parsed is not counted */
        for (uint32_t k = 0; k < STK_EXPR_ITEMS; k++)
            stk_expr_close(&e->args[i].value[k].chain);
}

void stk_expr_close(stk_expr **e)
{
    if (!*e)
        return;
    close_values(*e);
    stk_free((*e)->text);
    stk_free((*e)->args);
    stk_free(*e);
    *e = NULL;
}

/* ---- back to text ---- */

typedef struct writer {
    char *buf;
    size_t size, n; /* room; written, or what would have been */
    int inside;     /* an argument: a step alone has brackets, so that it is no name */
} writer;

static void put(writer *w, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++, w->n++)
        if (w->n + 1 < w->size)
            w->buf[w->n] = text[i];
}

static void puts_text(writer *w, const char *text)
{
    put(w, text, strlen(text));
}

static void write_chain(writer *w, const stk_expr *e);

/* A word stands as it is; what would read as something else is quoted. */
static void write_name(writer *w, const char *text)
{
    size_t n = 0;

    while (name_char(text[n]))
        n++;
    if (name_start(text[0]) && !text[n] && strcasecmp(text, "true") && strcasecmp(text, "false")) {
        puts_text(w, text);
    } else {
        const char *quote = strchr(text, '"') ? "'" : "\"";

        puts_text(w, quote);
        puts_text(w, text);
        puts_text(w, quote);
    }
}

static void write_value(writer *w, const stk_value *v)
{
    char number[80]; /* a number in text has at most 63 characters */

    switch (v->type) {
    case STK_V_NAME: write_name(w, v->text); return;
    case STK_V_BOOL: puts_text(w, v->number ? "true" : "false"); return;
    case STK_V_CHAIN:
        w->inside++;
        write_chain(w, v->chain);
        w->inside--;
        return;
    case STK_V_NUMBER:
        snprintf(number, sizeof number, v->integral ? "%.0f" : "%.17g", v->number);
        if (isinf(v->number))
            strcpy(number, v->number < 0 ? "-1e999" : "1e999");
        puts_text(w, number);
        if (!v->integral && !strpbrk(number, ".eEni"))
            puts_text(w, ".0"); /* it stays a number that is not whole */
        return;
    }
}

static void write_arg(writer *w, const stk_expr_arg *a)
{
    if (a->name) {
        puts_text(w, a->name);
        puts_text(w, "=");
    }
    if (a->tuple)
        puts_text(w, "(");
    for (uint32_t i = 0; i < a->n; i++) {
        if (i)
            puts_text(w, ", ");
        write_value(w, &a->value[i]);
    }
    if (a->tuple)
        puts_text(w, ")");
}

static void write_chain(writer *w, const stk_expr *e)
{
    for (uint32_t i = 0; i < e->n_calls; i++) {
        const stk_call *c = &e->call[i];

        if (i)
            puts_text(w, " | ");
        puts_text(w, c->name);
        if (!c->n_args && (e->n_calls > 1 || !w->inside))
            continue;
        puts_text(w, "(");
        for (uint32_t k = 0; k < c->n_args; k++) {
            if (k)
                puts_text(w, ", ");
            write_arg(w, &c->arg[k]);
        }
        puts_text(w, ")");
    }
}

size_t stk_expr_text(const stk_expr *e, char *buf, size_t size)
{
    writer w = { buf, size, 0, 0 };

    write_chain(&w, e);
    if (size)
        buf[w.n < size ? w.n : size - 1] = 0;
    return w.n;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* args.c - a call's arguments against its table: names, positions, types, fallbacks.
 *
 * Fallbacks are text in the table, parsed by the same grammar, so that what `stoker ops` prints
 * is what happens. */
#include <stdio.h>
#include <string.h>

#include "base/expr.h"
#include "base/hash.h"
#include "base/mem.h"

#define MAX_ROWS 16

struct stk_args {
    const stk_arg *table;
    uint32_t rows;
    const stk_expr_arg *row[MAX_ROWS]; /* NULL: absent */
    const stk_expr_arg *names;         /* the run of positional names of a NAMES row */
    uint32_t n_names;
    stk_expr *fallback[MAX_ROWS];
    stk_expr **step; /* chains that were written as a name alone */
    const char **step_of;
    uint32_t n_steps;
};

/* Arguments side by side make one row. */
static int is_run(stk_arg_type type)
{
    return type == STK_ARG_NAMES || type == STK_ARG_CHAINS;
}

static int is_chain(stk_arg_type type)
{
    return type == STK_ARG_CHAIN || type == STK_ARG_CHAINS;
}

static int type_fits(stk_arg_type type, const stk_expr_arg *a)
{
    uint32_t i;

    if (!a->n)
        return 0;
    for (i = 0; i < a->n; i++)
        if (is_chain(type) ? a->value[i].type != STK_V_CHAIN && a->value[i].type != STK_V_NAME
                           : a->value[i].type == STK_V_CHAIN)
            return 0;
    switch (type) {
    case STK_ARG_INT: return !a->tuple && a->value[0].type == STK_V_NUMBER && a->value[0].integral;
    case STK_ARG_FLOAT: return !a->tuple && a->value[0].type == STK_V_NUMBER;
    case STK_ARG_BOOL: return !a->tuple && a->value[0].type == STK_V_BOOL;
    case STK_ARG_NAME:
    case STK_ARG_NAMES: return !a->tuple && a->value[0].type == STK_V_NAME;
    case STK_ARG_CHAIN:
    case STK_ARG_ANY: return 1;
    case STK_ARG_CHAINS: return !a->tuple;
    case STK_ARG_INTS:
    case STK_ARG_FLOATS:
        for (i = 0; i < a->n; i++)
            if (a->value[i].type != STK_V_NUMBER || (type == STK_ARG_INTS && !a->value[i].integral))
                return 0;
        return 1;
    }
    return 0;
}

static const char *type_wants(stk_arg_type type)
{
    switch (type) {
    case STK_ARG_INT: return "a whole number";
    case STK_ARG_FLOAT: return "a number";
    case STK_ARG_BOOL: return "true or false";
    case STK_ARG_NAME: return "a name";
    case STK_ARG_NAMES: return "names";
    case STK_ARG_INTS: return "a whole number or a tuple of them";
    case STK_ARG_FLOATS: return "a number or a tuple of them";
    case STK_ARG_CHAIN: return "a chain of steps, as hflip | resize(8)";
    case STK_ARG_CHAINS: return "chains of steps, as hflip, resize(8)";
    case STK_ARG_ANY: break;
    }
    return "a value: a name or numbers";
}

static int row_of(stk_args *a, const stk_call *call, const stk_expr_arg *x, uint32_t *row,
                  stk_error *err)
{
    const char *names[MAX_ROWS], *near;
    uint32_t i;

    for (i = 0; i < a->rows; i++) {
        names[i] = a->table[i].name;
        if (!strcmp(x->name, names[i])) {
            *row = i;
            return 0;
        }
    }
    near = stk_nearest(x->name, names, a->rows);
    if (near)
        return stk_fail(err, STK_EINVAL, "%s: no argument is called `%s`: did you mean `%s`?",
                        call->name, x->name, near);
    return stk_fail(err, STK_EINVAL, "%s: no argument is called `%s`: see `stoker ops`", call->name,
                    x->name);
}

/* A chain that is a name alone: parsed here, where it is known to be one. */
static int keep_steps(stk_args *a, const stk_call *call, const stk_expr_arg *x, stk_error *err)
{
    for (uint32_t i = 0; i < x->n; i++) {
        uint32_t n = a->n_steps;
        stk_expr **step;
        const char **of;

        if (x->value[i].type != STK_V_NAME)
            continue;
        step = stk_grow(a->step, n * sizeof *step, (n + 1) * sizeof *step);
        a->step = step ? step : a->step;
        of = stk_grow(a->step_of, n * sizeof *of, (n + 1) * sizeof *of);
        a->step_of = of ? of : a->step_of;
        if (!step || !of)
            return stk_fail_nomem(err, (n + 1) * sizeof *of);
        STK_TRY(stk_expr_parse(&step[n], x->value[i].text, err));
        of[n] = x->value[i].text;
        a->n_steps++;
        if (step[n]->n_calls > 1 || step[n]->call[0].n_args)
            return stk_fail(err, STK_EINVAL, "%s: '%s' is a string: write the chain without quotes",
                            call->name, x->value[i].text);
    }
    return 0;
}

static int place(stk_args *a, const stk_call *call, const stk_expr_arg *x, uint32_t *next,
                 stk_error *err)
{
    uint32_t row = *next;

    if (x->name)
        STK_TRY(row_of(a, call, x, &row, err));
    else if (row < a->rows && !is_run(a->table[row].type))
        *next = row + 1;
    if (row >= a->rows)
        return stk_fail(err, STK_EINVAL, "%s takes %s argument%s: see `stoker ops`", call->name,
                        a->rows ? "fewer" : "no", a->rows ? "s" : "");
    if (a->row[row] && !is_run(a->table[row].type))
        return stk_fail(err, STK_EINVAL, "%s: `%s` is given twice", call->name, a->table[row].name);
    if (!type_fits(a->table[row].type, x))
        return stk_fail(err, STK_EINVAL, "%s: `%s` must be %s", call->name, a->table[row].name,
                        type_wants(a->table[row].type));
    if (is_chain(a->table[row].type))
        STK_TRY(keep_steps(a, call, x, err));
    if (is_run(a->table[row].type)) {
        if (a->n_names && x != a->names + a->n_names)
            return stk_fail(err, STK_EINVAL, "%s: `%s` must stand side by side", call->name,
                            a->table[row].name);
        a->names = a->n_names ? a->names : x;
        a->n_names++;
    }
    a->row[row] = x;
    return 0;
}

static int fill_fallbacks(stk_args *a, const stk_call *call, stk_error *err)
{
    char text[256];
    uint32_t i;

    for (i = 0; i < a->rows; i++) {
        const stk_arg *t = &a->table[i];

        if (a->row[i] || (t->fallback && !t->fallback[0]))
            continue;
        if (!t->fallback)
            return stk_fail(err, STK_EINVAL, "%s: `%s` must be given (%s)", call->name, t->name,
                            t->help);
        snprintf(text, sizeof text, "x(%s)", t->fallback);
        STK_TRY(stk_expr_parse(&a->fallback[i], text, err));
        a->row[i] = &a->fallback[i]->call[0].arg[0];
    }
    return 0;
}

int stk_args_check(stk_args **out, const stk_call *call, const stk_arg *table, stk_error *err)
{
    stk_args *a = STK_NEW(stk_args);
    uint32_t next = 0, i;
    int rc = 0;

    *out = NULL;
    if (!a)
        return stk_fail_nomem(err, sizeof *a);
    a->table = table;
    while (table && table[a->rows].name && a->rows < MAX_ROWS)
        a->rows++;
    for (i = 0; i < call->n_args && rc == 0; i++)
        rc = place(a, call, &call->arg[i], &next, err);
    if (rc == 0)
        rc = fill_fallbacks(a, call, err);
    if (rc < 0)
        stk_args_close(&a);
    *out = a;
    return rc;
}

void stk_args_close(stk_args **a)
{
    if (!*a)
        return;
    for (uint32_t i = 0; i < MAX_ROWS; i++)
        stk_expr_close(&(*a)->fallback[i]);
    for (uint32_t i = 0; i < (*a)->n_steps; i++)
        stk_expr_close(&(*a)->step[i]);
    stk_free((*a)->step);
    stk_free((void *)(*a)->step_of);
    stk_free(*a);
    *a = NULL;
}

static uint64_t hash_chain(const stk_expr *e, uint64_t h);

static uint64_t hash_value(const stk_value *v, uint64_t h)
{
    const char *text = v->type == STK_V_NAME ? v->text : NULL,
               *slash = text ? strrchr(text, '/') : NULL;

    if (v->type == STK_V_CHAIN)
        return hash_chain(v->chain, h);
    if (!text)
        return stk_hash64(h, &v->number, sizeof v->number);
    text = slash ? slash + 1 : text;
    return stk_hash64(h, text, strlen(text));
}

/* Lengths are hashed too, so that a(b | c) and a(b, c) differ. */
static uint64_t hash_chain(const stk_expr *e, uint64_t h)
{
    h = stk_hash64(h, &e->n_calls, sizeof e->n_calls);
    for (uint32_t i = 0; i < e->n_calls; i++) {
        const stk_call *c = &e->call[i];

        h = stk_hash64(h, c->name, strlen(c->name));
        h = stk_hash64(h, &c->n_args, sizeof c->n_args);
        for (uint32_t k = 0; k < c->n_args; k++) {
            const stk_expr_arg *x = &c->arg[k];

            if (x->name)
                h = stk_hash64(h, x->name, strlen(x->name));
            h = stk_hash64(h, &x->n, sizeof x->n);
            for (uint32_t j = 0; j < x->n; j++)
                h = hash_value(&x->value[j], h);
        }
    }
    return h;
}

/* A name where a chain may stand is a chain of one step. */
static uint64_t hash_arg_value(const stk_args *a, uint32_t row, const stk_value *v, uint64_t h)
{
    if (is_chain(a->table[row].type) && v->type == STK_V_NAME)
        for (uint32_t i = 0; i < a->n_steps; i++)
            if (a->step_of[i] == v->text)
                return hash_chain(a->step[i], h);
    return hash_value(v, h);
}

/* By the call, and not by the table. */
static int is_given(const stk_args *a, uint32_t i)
{
    return is_run(a->table[i].type) ? a->n_names > 0 : a->row[i] && !a->fallback[i];
}

static uint64_t hash_row(const stk_args *a, uint32_t i, uint64_t h)
{
    int names = is_run(a->table[i].type);

    for (uint32_t k = 0; names && k < a->n_names; k++)
        h = hash_arg_value(a, i, &a->names[k].value[0], h);
    for (uint32_t k = 0; !names && a->row[i] && k < a->row[i]->n; k++)
        h = hash_arg_value(a, i, &a->row[i]->value[k], h);
    return h;
}

uint64_t stk_args_hash_as(const stk_args *a, uint64_t h, const char *name, double number)
{
    for (uint32_t i = 0; i < a->rows; i++) {
        if (a->table[i].later && !is_given(a, i))
            continue;
        h = stk_hash64(h, a->table[i].name, strlen(a->table[i].name));
        if (name && !strcmp(a->table[i].name, name))
            h = stk_hash64(h, &number, sizeof number);
        else
            h = hash_row(a, i, h);
    }
    return h;
}

uint64_t stk_args_hash(const stk_args *a, uint64_t h)
{
    return stk_args_hash_as(a, h, NULL, 0);
}

int stk_args_given(const stk_args *a, const char *name)
{
    for (uint32_t i = 0; i < a->rows; i++)
        if (!strcmp(a->table[i].name, name))
            return is_given(a, i);
    return 0;
}

static const stk_expr_arg *get(const stk_args *a, const char *name)
{
    for (uint32_t i = 0; i < a->rows; i++)
        if (!strcmp(a->table[i].name, name))
            return a->row[i];
    return NULL;
}

static int is_names(const stk_args *a, const char *name)
{
    for (uint32_t i = 0; i < a->rows; i++)
        if (!strcmp(a->table[i].name, name))
            return is_run(a->table[i].type);
    return 0;
}

int stk_args_has(const stk_args *a, const char *name)
{
    return get(a, name) != NULL;
}

uint32_t stk_args_count(const stk_args *a, const char *name)
{
    const stk_expr_arg *x = get(a, name);

    if (is_names(a, name))
        return a->n_names;
    return x ? x->n : 0;
}

const char *stk_args_str_at(const stk_args *a, const char *name, uint32_t i)
{
    const stk_expr_arg *x = get(a, name);

    if (is_names(a, name))
        return i < a->n_names ? a->names[i].value[0].text : NULL;
    return x && i < x->n && x->value[i].type == STK_V_NAME ? x->value[i].text : NULL;
}

const stk_expr *stk_args_chain(const stk_args *a, const char *name, uint32_t i)
{
    const stk_expr_arg *x = get(a, name);
    const stk_value *v;

    if (i >= stk_args_count(a, name))
        return NULL;
    v = is_names(a, name) ? &a->names[i].value[0] : &x->value[i];
    for (uint32_t k = 0; v->type == STK_V_NAME && k < a->n_steps; k++)
        if (a->step_of[k] == v->text)
            return a->step[k];
    return v->chain;
}

double stk_args_f64_at(const stk_args *a, const char *name, uint32_t i)
{
    const stk_expr_arg *x = get(a, name);

    return x && i < x->n ? x->value[i].number : 0;
}

const char *stk_args_str(const stk_args *a, const char *name)
{
    return stk_args_str_at(a, name, 0);
}

double stk_args_f64(const stk_args *a, const char *name)
{
    return stk_args_f64_at(a, name, 0);
}

int64_t stk_args_i64(const stk_args *a, const char *name)
{
    double v = stk_args_f64(a, name);

    return v >= 0x1p63 ? INT64_MAX : v < -0x1p63 ? INT64_MIN : (int64_t)v;
}

int stk_args_bool(const stk_args *a, const char *name)
{
    return stk_args_f64(a, name) != 0;
}

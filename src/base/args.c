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
};

static int type_fits(stk_arg_type type, const stk_expr_arg *a)
{
    uint32_t i;

    if (!a->n)
        return 0;
    switch (type) {
    case STK_ARG_INT: return !a->tuple && a->value[0].type == STK_V_NUMBER && a->value[0].integral;
    case STK_ARG_FLOAT: return !a->tuple && a->value[0].type == STK_V_NUMBER;
    case STK_ARG_BOOL: return !a->tuple && a->value[0].type == STK_V_BOOL;
    case STK_ARG_NAME:
    case STK_ARG_NAMES: return !a->tuple && a->value[0].type == STK_V_NAME;
    case STK_ARG_ANY: return 1;
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
    case STK_ARG_ANY: break;
    }
    return "a value";
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

static int place(stk_args *a, const stk_call *call, const stk_expr_arg *x, uint32_t *next,
                 stk_error *err)
{
    uint32_t row = *next;

    if (x->name)
        STK_TRY(row_of(a, call, x, &row, err));
    else if (row < a->rows && a->table[row].type != STK_ARG_NAMES)
        *next = row + 1;
    if (row >= a->rows)
        return stk_fail(err, STK_EINVAL, "%s takes %s argument%s: see `stoker ops`", call->name,
                        a->rows ? "fewer" : "no", a->rows ? "s" : "");
    if (a->row[row] && a->table[row].type != STK_ARG_NAMES)
        return stk_fail(err, STK_EINVAL, "%s: `%s` is given twice", call->name, a->table[row].name);
    if (!type_fits(a->table[row].type, x))
        return stk_fail(err, STK_EINVAL, "%s: `%s` must be %s", call->name, a->table[row].name,
                        type_wants(a->table[row].type));
    if (a->table[row].type == STK_ARG_NAMES) {
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
    stk_free(*a);
    *a = NULL;
}

static uint64_t hash_value(const stk_value *v, uint64_t h)
{
    const char *text = v->type == STK_V_NAME ? v->text : NULL,
               *slash = text ? strrchr(text, '/') : NULL;

    if (!text)
        return stk_hash64(h, &v->number, sizeof v->number);
    text = slash ? slash + 1 : text;
    return stk_hash64(h, text, strlen(text));
}

uint64_t stk_args_hash(const stk_args *a, uint64_t h)
{
    for (uint32_t i = 0; i < a->rows; i++) {
        int names = a->table[i].type == STK_ARG_NAMES;

        h = stk_hash64(h, a->table[i].name, strlen(a->table[i].name));
        for (uint32_t k = 0; names && k < a->n_names; k++)
            h = hash_value(&a->names[k].value[0], h);
        for (uint32_t k = 0; !names && a->row[i] && k < a->row[i]->n; k++)
            h = hash_value(&a->row[i]->value[k], h);
    }
    return h;
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
            return a->table[i].type == STK_ARG_NAMES;
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

/* SPDX-License-Identifier: Apache-2.0 */
/* plan_field.c - what an output's field is before its chain: values of a type that all data sets
 * agree in, or bytes, which it is where one data set has bytes; and what stands in where a sample
 * has none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/plan_field.h"

/* The first of the chain's names that the data set has. */
static int find(const stk_dataset *ds, const stk_chain *c, stk_field_type *out)
{
    const uint32_t others = STK_DATA_INDEXED | STK_DATA_IMMEDIATE | STK_DATA_STREAM;

    for (uint32_t i = 0; i < c->field.n_names; i++)
        for (uint32_t k = 0; ds->ops->type(ds, k, out); k++)
            if (!strcmp(out->name, c->field.name[i]))
                return 1;
    for (uint32_t i = 0; i < c->field.n_names; i++) {
        int at = ds->can & others ? -1 : ds->ops->find(ds, 0, c->field.name[i]);

        if (at < 0 || ds->ops->type(ds, (uint32_t)at, out))
            continue;
        *out = (stk_field_type){ .name = c->field.name[i], .text = 1 }; /* of a decimal */
        return 1;
    }
    return !c->field.given && ds->can & STK_DATA_ONE_FIELD && ds->ops->type(ds, 0, out);
}

static int same(const stk_field_type *a, const stk_field_type *b)
{
    if (!a->dtype || !b->dtype) /* what has a type becomes bytes: codec/written.h */
        return 1;
    return a->dtype == b->dtype && a->ndim == b->ndim &&
           !memcmp(a->shape, b->shape, a->ndim * sizeof *a->shape);
}

/* columns(): in every data set. */
static int gather(const stk_dataset *ds, const stk_chain *c, stk_field_type *out, stk_error *err)
{
    uint32_t n = stk_args_count(c->field.columns, "names");
    const char **names = stk_alloc((n + 1) * sizeof *names);
    stk_gather_ask ask = { .names = names, .n = n };
    char fill[40];
    int rc = 0;

    if (!names)
        return stk_fail_nomem(err, (n + 1) * sizeof *names);
    for (uint32_t i = 0; i < n; i++)
        names[i] = stk_args_str_at(c->field.columns, "names", i);
    if (stk_args_has(c->field.columns, "default")) {
        ask.fill = stk_args_f64(c->field.columns, "default");
        snprintf(fill, sizeof fill, "%.17g", ask.fill);
        ask.fill_text = fill;
    }
    if (!ds->ops->gather)
        rc = stk_fail(err, STK_ENOTSUP,
                      "columns() takes columns of tables and of lines (CSV, JSON) together, not %s",
                      ds->ops->plural);
    else if (!n)
        rc = stk_fail(err, STK_EINVAL, "columns() names at least one column: columns('x*')");
    else
        rc = ds->ops->gather(ds, &ask, out, err);
    stk_free(names);
    return rc;
}

int stk_plan_field_type(void *cookie, const stk_chain *c, stk_field_type *out, stk_error *err)
{
    const stk_plan_data *data = cookie;
    stk_field_type t;
    int known = 0, text = 1, decimal = 0, other = 0;

    *out = (stk_field_type){ 0 };
    for (uint32_t d = 0; d < data->n; d++) {
        if (c->field.columns)
            STK_TRY(gather(data->set[d], c, &t, err));
        else if (!find(data->set[d], c, &t))
            continue;
        if (t.refused && !(c->many.takes_lists && t.ndim && !t.dtype))
            return stk_fail(err, STK_ENOTSUP, "column %.60s: not supported because %s", t.name,
                            t.refused);
        if (known && !same(out, &t))
            return stk_fail(
                err, STK_EINVAL,
                "the field %.60s has another type or shape in data set %u than in those "
                "before it: a loader takes one type for an output",
                t.name, d);
        /* texts here and lists of texts there are bytes */
        text &= t.text && (!known || t.ndim == out->ndim);
        if (!known || !t.dtype)
            *out = t;
        decimal |= t.decimal;
        other |= t.dtype && !t.decimal;
        known = 1;
    }
    out->text = known && text;
    out->decimal = decimal && !other;
    return 0;
}

int stk_plan_field_default(stk_chain *c, stk_bytes *out, stk_error *err)
{
    const stk_stored *s = c->field.stored;
    size_t n = s->ragged ? 1 : s->count, size = stk_dtype_size(s->type.dtype);
    uint8_t value[8];
    char *end;
    double v = strtod(c->field.fallback, &end);
    stk_error why;

    if (end == c->field.fallback || *end)
        return stk_fail(err, STK_EINVAL, "from(): the default of a field of numbers is one number");
    if (stk_pad_value(v, s->type.dtype, value, &why) < 0)
        return stk_fail(err, STK_EINVAL,
                        "from(): the default %g is not a %s, which the field %s is", v,
                        stk_dtype_name(s->type.dtype), s->type.name);
    c->field.fallback_row = stk_alloc(n * size);
    if (!c->field.fallback_row)
        return stk_fail_nomem(err, n * size);
    for (size_t i = 0; i < n; i++)
        memcpy((uint8_t *)c->field.fallback_row + i * size, value, size);
    *out = (stk_bytes){ c->field.fallback_row, n * size };
    return 0;
}

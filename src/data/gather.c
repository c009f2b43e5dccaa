/* SPDX-License-Identifier: Apache-2.0 */
/* gather.c - see gather.h. */
#include "data/gather.h"

#include <fnmatch.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "kern/half.h"

#define PART 1024u /* values that are converted at a time */

static int is_float(stk_dtype t)
{
    return t == STK_F16 || t == STK_F32 || t == STK_F64;
}

/* The type that holds the values of both, as NumPy has it but for whole numbers: those become
 * i64. */
static stk_dtype wider(stk_dtype a, stk_dtype b)
{
    if (!a || a == b)
        return b;
    if (!is_float(a) && !is_float(b))
        return STK_I64;
    if (is_float(a) && is_float(b) && a != STK_F64 && b != STK_F64)
        return STK_F32;
    return STK_F64;
}

static int add_column(stk_gather *g, uint32_t field, const stk_field_type *t, stk_error *err)
{
    if (!t->dtype || t->ndim)
        return stk_fail(err, STK_EINVAL, "columns(): %.60s is not a column of numbers", t->name);
    if (!(g->n & (g->n - 1))) { /* a power of two: full */
        size_t had = g->n * sizeof *g->column,
               room = (g->n ? 2 * (size_t)g->n : 1) * sizeof *g->column;
        stk_gather_column *grown = stk_grow(g->column, had, room);

        if (!grown)
            return stk_fail_nomem(err, room);
        g->column = grown;
    }
    g->column[g->n++] = (stk_gather_column){ .field = field, .dtype = t->dtype };
    g->dtype = wider(g->dtype, t->dtype);
    return 0;
}

static int type_of(const stk_dataset *d, uint32_t field, int wild, stk_field_type *out)
{
    (void)wild;
    return d->ops->type(d, field, out);
}

/* Columns that one name or pattern means.  A pattern passes over columns that are not numbers. */
static int add_pattern(stk_gather *g, const stk_dataset *d, stk_gather_type_fn type,
                       const char *pattern, stk_error *err)
{
    int wild = strpbrk(pattern, "*?[") != NULL;
    uint32_t had = g->n;
    stk_field_type t;

    for (uint32_t i = 0; type(d, i, wild, &t); i++) {
        if (wild ? fnmatch(pattern, t.name, 0) != 0 || !t.dtype || t.ndim
                 : strcmp(pattern, t.name) != 0)
            continue;
        STK_TRY(add_column(g, i, &t, err));
    }
    return g->n > had ? 0
                      : stk_fail(err, STK_EINVAL,
                                 "columns(): no column%s is called %.80s: `stoker ls "
                                 "--schema` lists them",
                                 wild ? " of numbers" : "", pattern);
}

static int name_it(stk_gather *g, const stk_gather_ask *ask, stk_error *err)
{
    stk_text text = { 0 };
    int rc = stk_text_put(&text, "columns(", 8, err);

    for (uint32_t i = 0; rc == 0 && i < ask->n; i++) {
        rc = stk_text_put(&text, i ? ", '" : "'", i ? 3 : 1, err);
        if (rc == 0)
            rc = stk_text_put(&text, ask->names[i], strlen(ask->names[i]), err);
        if (rc == 0)
            rc = stk_text_put(&text, "'", 1, err);
    }
    if (rc == 0 && ask->fill_text) {
        rc = stk_text_put(&text, ", default=", 10, err);
        if (rc == 0)
            rc = stk_text_put(&text, ask->fill_text, strlen(ask->fill_text), err);
    }
    if (rc == 0)
        rc = stk_text_put(&text, ")", 1, err);
    g->name = text.s;
    return rc;
}

/* What a null becomes. */
static int settle_empty(stk_gather *g, const stk_gather_ask *ask, stk_error *err)
{
    double v = ask->fill_text ? ask->fill : (double)NAN;
    stk_convert_fn f = g->dtype == STK_F64 ? NULL : stk_convert_c(STK_F64, g->dtype);
    int64_t whole;

    g->strict = !ask->fill_text && !is_float(g->dtype);
    if (g->strict)
        return 0;
    if (is_float(g->dtype)) {
        if (f)
            f(g->empty, &v, 1);
        else
            memcpy(g->empty, &v, sizeof v);
        return 0;
    }
    whole = v >= -9.2e18 && v <= 9.2e18 ? (int64_t)v : 0;
    f = g->dtype == STK_I64 ? NULL : stk_convert_c(STK_I64, g->dtype);
    memcpy(g->empty, &whole, g->dtype == STK_I64 ? sizeof whole : 0);
    if ((double)whole != v || (f && f(g->empty, &whole, 1)))
        return stk_fail(err, STK_EINVAL,
                        "columns(): the default %s is not a %s, which the columns are",
                        ask->fill_text, stk_dtype_name(g->dtype));
    return 0;
}

static int settle(stk_gather *g, const stk_gather_ask *ask, stk_error *err)
{
    g->size = (uint32_t)stk_dtype_size(g->dtype);
    for (uint32_t i = 0; i < g->n; i++) {
        stk_gather_column *c = &g->column[i];

        c->convert = c->dtype == g->dtype ? NULL
                                          : stk_convert_find(stk_cpu_level(), c->dtype, g->dtype);
        if (c->dtype != g->dtype && !c->convert)
            return stk_fail(err, STK_ENOTSUP, "columns(): %s is not made of %s",
                            stk_dtype_name(g->dtype), stk_dtype_name(c->dtype));
    }
    return settle_empty(g, ask, err);
}

static void gather_close(stk_gather *g)
{
    if (!g)
        return;
    stk_free(g->name);
    stk_free(g->column);
    for (uint32_t i = 0; i < g->n_schemas; i++)
        stk_free(atomic_load_explicit(&g->by_schema[i], memory_order_relaxed));
    stk_free((void *)g->by_schema);
    stk_free(g);
}

/* The same name means the same columns: the first that was published is taken. */
static const stk_gather *publish(stk_gathers *all, stk_gather *g)
{
    stk_gather *head = atomic_load_explicit(all, memory_order_acquire);

    do {
        for (const stk_gather *o = head; o; o = o->next)
            if (!strcmp(o->name, g->name)) {
                gather_close(g);
                return o;
            }
        g->next = head;
        g->number = head ? head->number + 1 : STK_GATHER_FIRST;
    } while (!atomic_compare_exchange_weak_explicit(all, &head, g, memory_order_acq_rel,
                                                    memory_order_acquire));
    return g;
}

static int add_schemas(stk_gather *g, const stk_dataset *d, stk_error *err)
{
    uint32_t n = d->ops->schemas(d);

    g->by_schema = stk_zalloc(n + 1, sizeof *g->by_schema);
    g->n_schemas = g->by_schema ? n : 0;
    return g->by_schema ? 0 : stk_fail_nomem(err, n * sizeof *g->by_schema);
}

int stk_gather_add(stk_gathers *all, const stk_dataset *d, stk_gather_type_fn type,
                   const stk_gather_ask *ask, stk_field_type *out, stk_error *err)
{
    stk_gather *g = STK_NEW(stk_gather), *head = atomic_load_explicit(all, memory_order_acquire);
    int rc = !g ? stk_fail_nomem(err, sizeof *g) : 0;

    if (rc == 0 && head && head->number >= UINT16_MAX - 1)
        rc = stk_fail(err, STK_ELIMIT,
                      "columns(): this data set has too many of them: open it again");
    for (uint32_t i = 0; rc == 0 && i < ask->n; i++)
        rc = add_pattern(g, d, type ? type : type_of, ask->names[i], err);
    if (rc == 0)
        rc = name_it(g, ask, err);
    if (rc == 0)
        rc = settle(g, ask, err);
    if (rc == 0 && type)
        rc = add_schemas(g, d, err);
    if (rc < 0) {
        gather_close(g);
        return rc;
    }
    stk_gather_type(publish(all, g), out);
    return 0;
}

const stk_gather *stk_gather_find(const stk_gathers *all, const char *name)
{
    const stk_gather *g = atomic_load_explicit(all, memory_order_acquire);

    while (g && strcmp(g->name, name))
        g = g->next;
    return g;
}

const stk_gather *stk_gather_number(const stk_gathers *all, uint32_t number)
{
    const stk_gather *g = atomic_load_explicit(all, memory_order_acquire);

    while (g && g->number != number)
        g = g->next;
    return g;
}

void stk_gather_type(const stk_gather *g, stk_field_type *out)
{
    *out = (stk_field_type){ .name = g->name, .dtype = g->dtype, .ndim = 1, .shape = { g->n } };
}

void stk_gathers_fini(stk_gathers *all)
{
    stk_gather *g = atomic_load_explicit(all, memory_order_relaxed);

    while (g) {
        stk_gather *next = g->next;

        gather_close(g);
        g = next;
    }
    atomic_store_explicit(all, NULL, memory_order_relaxed);
}

static void scatter(const stk_gather *g, const uint8_t *src, uint64_t n, uint8_t *dst)
{
    size_t step = (size_t)g->n * g->size;

    if (g->size == 4) /* the usual size, as stores of one word */
        for (uint64_t i = 0; i < n; i++)
            memcpy(dst + i * step, src + i * 4, 4);
    else if (g->size == 8)
        for (uint64_t i = 0; i < n; i++)
            memcpy(dst + i * step, src + i * 8, 8);
    else
        for (uint64_t i = 0; i < n; i++)
            memcpy(dst + i * step, src + i * g->size, g->size);
}

int stk_gather_put(const stk_gather *g, uint32_t c, const uint8_t *src, uint64_t n, uint8_t *dst,
                   stk_error *err)
{
    const stk_gather_column *col = &g->column[c];
    size_t step = (size_t)g->n * g->size, from = stk_dtype_size(col->dtype);
    uint64_t part[PART];

    dst += (size_t)c * g->size;
    if (!col->convert) {
        scatter(g, src, n, dst);
        return 0;
    }
    for (uint64_t at = 0; at < n; at += PART) {
        uint64_t k = n - at < PART ? n - at : PART;

        if (col->convert(part, src + at * from, k))
            return stk_fail(err, STK_ECORRUPT, "%.60s: a value is not a %s", g->name,
                            stk_dtype_name(g->dtype));
        scatter(g, (const uint8_t *)part, k, dst + at * step);
    }
    return 0;
}

int stk_gather_null(const stk_gather *g, const stk_dataset *d, uint32_t c, stk_error *err)
{
    stk_field_type t = { .name = "?" };

    d->ops->type(d, g->column[c].field, &t);
    return stk_fail(err, STK_ECORRUPT,
                    "it has no value in column %.60s: say what stands in, as in columns(..., "
                    "default=0), or leave such rows out by where=",
                    t.name);
}

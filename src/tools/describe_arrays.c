/* SPDX-License-Identifier: Apache-2.0 */
/* describe_arrays.c - what is in token files and arrays, in figures that can be compared.
 *
 * Of token files: how often each token occurs, and the lengths of documents where they are known.
 * Of an array of numbers: each row's value, as a category where there are few, or its mean, least
 * and most.  Of very many rows every k-th run is read. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array/arrays.h"
#include "base/err.h"
#include "base/mem.h"
#include "kern/half.h"
#include "tools/description.h"

#define MOST_ROWS 1000000u
#define RUN_BYTES ((size_t)1 << 20)
/* tokens that are counted one by one; larger ones are `rest` */
#define VOCABULARY ((size_t)1 << 20)
#define TOKENS_OF_A_ROW 64 /* so many more of them are looked at */

typedef struct walk {
    const stk_array *a;
    const stk_describe_options *o;
    uint8_t *buf;
    uint64_t run;   /* rows that are read at a time */
    uint64_t every; /* run in so many */
} walk;

static double number_of(const uint8_t *at, stk_dtype dtype)
{
    union {
        uint16_t u16;
        int16_t i16;
        uint32_t u32;
        int32_t i32;
        int64_t i64;
        float f32;
        double f64;
    } v;

    memcpy(&v, at, stk_dtype_size(dtype));
    switch (dtype) {
    case STK_U8: return *at;
    case STK_I8: return *(const int8_t *)at;
    case STK_U16: return v.u16;
    case STK_I16: return v.i16;
    case STK_U32: return v.u32;
    case STK_I32: return v.i32;
    case STK_I64: return (double)v.i64;
    case STK_F16: return stk_f16_to(v.u16);
    case STK_BF16: return stk_bf16_to(v.u16);
    case STK_F32: return v.f32;
    case STK_F64: return v.f64;
    default: return NAN;
    }
}

static int begin(walk *w, uint64_t most, stk_error *err)
{
    size_t row = w->a->row_bytes ? w->a->row_bytes : 1;

    w->run = row < RUN_BYTES ? RUN_BYTES / row : 1;
    w->every = w->a->rows > most ? (w->a->rows + most - 1) / most : 1;
    w->buf = stk_alloc(w->run * row + 8);
    return w->buf ? 0 : stk_fail_nomem(err, w->run * row);
}

/* The run from row *at on; *n rows of it.  STK_END: that was all. */
static int next_run(walk *w, uint64_t *at, uint64_t *n, stk_error *err)
{
    uint64_t want = w->a->rows - *at < w->run ? w->a->rows - *at : w->run;

    if (*at >= w->a->rows)
        return STK_END;
    if (w->o->progress && w->o->progress(w->o->progress_cookie, *at, w->a->rows))
        return stk_fail(err, STK_ECLOSED, "stopped by the caller");
    return stk_array_read(w->a, *at, want, w->buf, n, err);
}

/* ---- tokens ---- */

typedef struct kind {
    uint64_t token, count;
} kind;

static int by_count(const void *a, const void *b)
{
    const kind *x = a, *y = b;

    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return x->token < y->token ? -1 : x->token > y->token;
}

static int count_tokens(walk *w, uint64_t *count, uint64_t *rest, uint64_t *all, stk_error *err)
{
    size_t size = stk_dtype_size(w->a->dtype);
    uint64_t n = 0;
    int rc;

    for (uint64_t at = 0; (rc = next_run(w, &at, &n, err)) == 0; at += n * w->every) {
        for (uint64_t i = 0; i < n; i++) {
            double t = number_of(w->buf + i * size, w->a->dtype);

            if (t >= 0 && t < (double)VOCABULARY)
                count[(size_t)t]++;
            else
                ++*rest;
        }
        *all += n;
    }
    return rc == STK_END ? 0 : rc;
}

static int add_tokens(stk_description *d, const char *name, const uint64_t *count, uint64_t rest,
                      stk_error *err)
{
    stk_feature *f = stk_description_add(d, name, strlen(name));
    kind *list = stk_zalloc(VOCABULARY, sizeof *list);
    size_t kinds = 0;

    if (f)
        f->value = stk_zalloc(STK_MAX_VALUES, sizeof *f->value);
    if (!f || !list || !f->value) {
        stk_free(list);
        return stk_fail_nomem(err, VOCABULARY * sizeof *list);
    }
    f->category = 1;
    f->rest = f->count = rest;
    for (size_t t = 0; t < VOCABULARY; t++)
        if (count[t])
            list[kinds++] = (kind){ t, count[t] };
    qsort(list, kinds, sizeof *list, by_count);
    for (size_t i = 0; i < kinds; i++) {
        f->count += list[i].count;
        if (i >= STK_MAX_VALUES) {
            f->rest += list[i].count;
            continue;
        }
        snprintf(f->value[i].text, sizeof f->value[i].text, "%llu",
                 (unsigned long long)list[i].token);
        f->value[i].count = list[i].count;
        f->n_values++;
    }
    stk_free(list);
    return 0;
}

static int add_lengths(stk_description *d, const stk_array *a, uint64_t most, stk_error *err)
{
    uint64_t n = 0, every, at = 0, seen = 0;
    stk_feature *f;
    double *v;

    for (uint32_t p = 0; p < a->n_parts; p++)
        n += a->part[p].docs ? a->part[p].docs->documents : 0;
    if (!n)
        return 0;
    every = 1 + (n - 1) / most;
    v = stk_alloc((n / every + 1) * sizeof *v);
    f = v ? stk_description_add(d, "tokens.document_length", strlen("tokens.document_length"))
          : NULL;
    if (!f) {
        stk_free(v);
        return stk_fail_nomem(err, n * sizeof *v);
    }
    for (uint32_t p = 0; p < a->n_parts; p++)
        for (uint64_t k = 0; a->part[p].docs && k < a->part[p].docs->documents; k++)
            if (seen++ % every == 0)
                v[at++] = (double)(stk_megatron_document(a->part[p].docs, k + 1) -
                                   stk_megatron_document(a->part[p].docs, k));
    stk_feature_numbers(f, v, at);
    stk_free(v);
    return 0;
}

static int describe_tokens(walk *w, stk_description *d, stk_error *err)
{
    uint64_t *count = stk_zalloc(VOCABULARY, sizeof *count), rest = 0;
    uint64_t most = w->o->most ? w->o->most : MOST_ROWS;
    int rc = count ? begin(w, most * TOKENS_OF_A_ROW, err)
                   : stk_fail_nomem(err, VOCABULARY * sizeof *count);

    if (rc == 0)
        rc = count_tokens(w, count, &rest, &d->counts.described, err);
    if (rc == 0)
        rc = add_tokens(d, w->a->name, count, rest, err);
    if (rc == 0)
        rc = add_lengths(d, w->a, most, err);
    stk_free(count);
    return rc;
}

/* ---- numbers ---- */

typedef struct columns { /* of one array, a number for each row that is looked at */
    double *mean, *least, *most;
    uint64_t n, cap;
} columns;

static void note_row(columns *c, const stk_array *a, const uint8_t *row)
{
    size_t size = stk_dtype_size(a->dtype), n = size ? a->row_bytes / size : 0;
    double sum = 0, least = INFINITY, most = -INFINITY;

    if (c->n == c->cap || !n)
        return;
    for (size_t i = 0; i < n; i++) {
        double v = number_of(row + i * size, a->dtype);

        sum += v;
        least = v < least ? v : least;
        most = v > most ? v : most;
    }
    c->mean[c->n] = isfinite(sum) ? sum / (double)n : NAN;
    c->least[c->n] = isfinite(least) ? least : NAN;
    c->most[c->n++] = isfinite(most) ? most : NAN;
}

static int read_rows(walk *w, columns *c, stk_error *err)
{
    uint64_t n = 0, row = 0;
    int rc;

    for (uint64_t at = 0; (rc = next_run(w, &at, &n, err)) == 0; at += n)
        for (uint64_t i = 0; i < n; i++, row++)
            if (row % w->every == 0)
                note_row(c, w->a, w->buf + i * w->a->row_bytes);
    return rc == STK_END ? 0 : rc;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Whole numbers that repeat are a category; 1: they were.  The values are sorted. */
static int add_category(stk_description *d, const char *name, double *v, uint64_t n, stk_error *err)
{
    uint64_t kinds = 0;
    stk_feature *f;

    qsort(v, n, sizeof *v, by_value);
    for (uint64_t i = 0; i < n; i++) {
        if (!(floor(v[i]) == v[i]))
            return 0;
        kinds += i == 0 || v[i] != v[i - 1];
    }
    if (!n || kinds > STK_MAX_VALUES || (kinds > 20 && 2 * kinds > n))
        return 0;
    f = stk_description_add(d, name, strlen(name));
    if (!f)
        return 1; /* as many as there is room for */
    f->value = stk_zalloc(STK_MAX_VALUES, sizeof *f->value);
    if (!f->value)
        return stk_fail_nomem(err, STK_MAX_VALUES * sizeof *f->value);
    f->category = 1;
    f->count = n;
    for (uint64_t i = 0; i < n; i++) {
        if (i == 0 || v[i] != v[i - 1])
            snprintf(f->value[f->n_values++].text, sizeof f->value->text, "%.0f", v[i]);
        f->value[f->n_values - 1].count++;
    }
    return 1;
}

static void add_numbers(stk_description *d, const char *name, const char *what, double *v,
                        uint64_t n)
{
    char full[200];
    stk_feature *f;

    snprintf(full, sizeof full, "%.140s.%s", name, what);
    f = stk_description_add(d, full, strlen(full));
    if (f)
        stk_feature_numbers(f, v, n);
}

static int add_columns(stk_description *d, const stk_array *a, columns *c, stk_error *err)
{
    size_t size = stk_dtype_size(a->dtype);
    int rc = 0;

    if (a->row_bytes == size) {
        rc = add_category(d, a->name, c->least, c->n, err);
        if (rc == 0)
            add_numbers(d, a->name, "value", c->mean, c->n);
        return rc < 0 ? rc : 0;
    }
    add_numbers(d, a->name, "mean", c->mean, c->n);
    add_numbers(d, a->name, "least", c->least, c->n);
    add_numbers(d, a->name, "most", c->most, c->n);
    return 0;
}

static int describe_array(walk *w, stk_description *d, stk_error *err)
{
    uint64_t most = w->o->most ? w->o->most : MOST_ROWS;
    int rc = begin(w, most, err);
    columns c = { .cap = rc == 0 ? (w->a->rows + w->every - 1) / w->every : 0 };

    c.mean = stk_zalloc(c.cap + 1, sizeof *c.mean);
    c.least = stk_zalloc(c.cap + 1, sizeof *c.least);
    c.most = stk_zalloc(c.cap + 1, sizeof *c.most);
    if (rc == 0 && (!c.mean || !c.least || !c.most))
        rc = stk_fail_nomem(err, c.cap * sizeof *c.mean);
    if (rc == 0)
        rc = read_rows(w, &c, err);
    if (rc == 0)
        rc = add_columns(d, w->a, &c, err);
    if (rc == 0 && c.n > d->counts.described)
        d->counts.described = c.n;
    stk_free(c.mean);
    stk_free(c.least);
    stk_free(c.most);
    return rc;
}

int stk_describe_arrays(const stk_dataset *ds, const stk_describe_options *o, stk_description *d,
                        stk_error *err)
{
    const stk_arrays *set = (const stk_arrays *)ds; /* stk_dataset_arrays() said so */
    int tokens = !strcmp(set->kind, "tokens"), rc = 0;

    if (o->select)
        return stk_fail(err, STK_ENOTSUP,
                        "arrays and token files are described as a whole, not by sample");
    for (uint32_t i = 0; rc == 0 && i < set->n; i++) {
        walk w = { .a = &set->array[i], .o = o };

        rc = tokens ? describe_tokens(&w, d, err) : describe_array(&w, d, err);
        stk_free(w.buf);
    }
    d->counts.samples = stk_dataset_len(ds);
    d->counts.bytes = set->bytes;
    return rc;
}

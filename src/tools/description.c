/* SPDX-License-Identifier: Apache-2.0 */
/* description.c - figures of a data set, made by describe.c or read back from JSON. */
#include "tools/description.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"

int stk_description_open(stk_description **out, stk_error *err)
{
    stk_description *d = STK_NEW(stk_description);

    *out = d;
    if (d)
        d->feature = stk_zalloc(STK_MAX_FEATURES, sizeof *d->feature);
    if (d && d->feature)
        return 0;
    stk_description_close(out);
    return stk_fail_nomem(err, STK_MAX_FEATURES * sizeof *d->feature);
}

void stk_description_close(stk_description **d)
{
    if (!*d)
        return;
    for (uint32_t i = 0; i < (*d)->n; i++)
        stk_free((*d)->feature[i].value);
    stk_free((*d)->feature);
    stk_free(*d);
    *d = NULL;
}

stk_feature *stk_description_add(stk_description *d, const char *name, size_t len)
{
    stk_feature *f = d->n < STK_MAX_FEATURES ? &d->feature[d->n] : NULL;

    if (!f || len >= sizeof f->name)
        return NULL;
    memset(f, 0, sizeof *f);
    memcpy(f->name, name, len);
    d->n++;
    return f;
}

void stk_description_count(const stk_description *d, stk_description_counts *out)
{
    *out = d->counts;
}

const stk_feature *stk_description_feature(const stk_description *d, uint32_t i)
{
    return i < d->n ? &d->feature[i] : NULL;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

void stk_feature_numbers(stk_feature *f, double *v, uint64_t n)
{
    double sum = 0, square = 0;
    uint64_t m = 0;

    for (uint64_t i = 0; i < n; i++)
        if (!isnan(v[i]))
            v[m++] = v[i];
    f->count = m;
    if (!m)
        return;
    qsort(v, m, sizeof *v, by_value);
    for (uint64_t i = 0; i < m; i++)
        sum += v[i];
    f->mean = sum / (double)m;
    for (uint64_t i = 0; i < m; i++)
        square += (v[i] - f->mean) * (v[i] - f->mean);
    f->std = sqrt(square / (double)m);
    for (uint32_t q = 0; q < STK_QUANTILES; q++)
        f->quantile[q] = v[(uint64_t)((double)(m - 1) * q / (STK_QUANTILES - 1) + 0.5)];
}

/* ---- from JSON ---- */

static int not_ours(stk_error *err, const char *what)
{
    return stk_fail(err, STK_ECORRUPT, "this is not a description by `stoker describe`: %s", what);
}

static double number_at(stk_bytes doc, const char *path, double absent)
{
    stk_bytes v;
    char text[40];

    if (stk_json_find(doc, path, &v, NULL) < 0 || v.len >= sizeof text)
        return absent;
    memcpy(text, v.data, v.len);
    text[v.len] = 0;
    return strtod(text, NULL);
}

static uint64_t count_at(stk_bytes doc, const char *path)
{
    double v = number_at(doc, path, 0);

    return v > 0 && v < 1e18 ? (uint64_t)v : 0;
}

static int read_quantiles(stk_feature *f, stk_bytes doc, stk_error *err)
{
    stk_bytes list;
    const char *at, *end;
    char *next;

    if (stk_json_find(doc, "quantiles", &list, NULL) < 0 || list.len < 2)
        return f->count ? not_ours(err, "a number has no quantiles") : 0;
    at = (const char *)list.data + 1;
    end = (const char *)list.data + list.len; /* ends with a bracket, which ends a number too */
    for (uint32_t q = 0; q < STK_QUANTILES; q++) {
        while (at < end && strchr(" \n\r\t,", *at))
            at++;
        f->quantile[q] = strtod(at, &next);
        if (next == at || next > end || !isfinite(f->quantile[q]))
            return not_ours(err, "a number has no 101 quantiles");
        at = next;
    }
    return 0;
}

static int add_value(void *cookie, stk_bytes key, stk_bytes value, stk_error *err)
{
    stk_feature *f = cookie;
    uint8_t text[600];
    char count[32];
    size_t len = 0;

    if (f->n_values == STK_MAX_VALUES || key.len >= sizeof text || value.len >= sizeof count ||
        stk_json_unquote(key, text, &len, err) < 0 || len >= sizeof f->value->text)
        return not_ours(err, "a category has other values");
    memcpy(f->value[f->n_values].text, text, len);
    memcpy(count, value.data, value.len);
    count[value.len] = 0;
    f->value[f->n_values++].count = strtoull(count, NULL, 10);
    return 0;
}

static int add_feature(void *cookie, stk_bytes key, stk_bytes value, stk_error *err)
{
    stk_description *d = cookie;
    uint8_t name[1000];
    stk_bytes values;
    stk_feature *f;
    size_t len = 0;

    if (key.len >= sizeof name || stk_json_unquote(key, name, &len, err) < 0 ||
        !(f = stk_description_add(d, (const char *)name, len)))
        return not_ours(err, "it has other features");
    f->count = count_at(value, "count");
    f->mean = number_at(value, "mean", 0);
    f->std = number_at(value, "std", 0);
    f->rest = count_at(value, "rest");
    f->category = stk_json_find(value, "values", &values, NULL) == 0;
    if (!f->category)
        return read_quantiles(f, value, err);
    f->value = stk_zalloc(STK_MAX_VALUES, sizeof *f->value);
    if (!f->value)
        return stk_fail_nomem(err, STK_MAX_VALUES * sizeof *f->value);
    return stk_json_members(values, add_value, f, err);
}

static int read_all(stk_description *d, stk_bytes doc, stk_error *err)
{
    stk_description_counts *c = &d->counts;
    double version = number_at(doc, "stoker_description", -1);
    stk_bytes features;

    if (version < 0)
        return not_ours(err, "it has no member stoker_description");
    if (version != STK_DESCRIPTION_VERSION)
        return stk_fail(
            err, STK_ENOTSUP,
            "this description has version %.0f and this build reads %d: describe the data again",
            version, STK_DESCRIPTION_VERSION);
    c->samples = count_at(doc, "samples");
    c->bytes = count_at(doc, "bytes");
    c->described = count_at(doc, "described");
    c->duplicates = count_at(doc, "duplicates");
    c->near_duplicates = count_at(doc, "near_duplicates");
    c->bad = count_at(doc, "bad");
    if (stk_json_find(doc, "features", &features, NULL) < 0)
        return not_ours(err, "it has no features");
    return stk_json_members(features, add_feature, d, err);
}

int stk_description_read(stk_description **out, const char *text, size_t len, stk_error *err)
{
    stk_bytes doc = { (const uint8_t *)text, len }, whole;
    int rc = stk_json_find(doc, "", &whole, err);

    *out = NULL;
    if (rc < 0)
        return rc;
    rc = stk_description_open(out, err);
    if (rc == 0)
        rc = read_all(*out, doc, err);
    if (rc < 0)
        stk_description_close(out);
    return rc;
}

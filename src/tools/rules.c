/* SPDX-License-Identifier: Apache-2.0 */
/* rules.c - what a data set must be like, as JSON, held against its description.
 *
 *     {"required": ["jpg", "cls"], "jpg.width": {"min": 32, "max": 4096}, "cls": {"in": ["cat",
 *     "dog"]},
 *      "duplicates": {"max": 0}}
 *
 * A bad sample breaks the rules whatever they say. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "tools/description.h"

typedef struct rules {
    const stk_description *d;
    void (*broken)(void *cookie, const char *line);
    void *cookie;
    int n; /* broken so far */
} rules;

static void tell(rules *r, const char *fmt, ...) STK_PRINTF(2, 3);
static void tell(rules *r, const char *fmt, ...)
{
    char line[400];
    va_list args;

    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    r->broken(r->cookie, line);
    r->n++;
}

static const stk_feature *find(const stk_description *d, const char *name)
{
    for (uint32_t i = 0; i < d->n; i++)
        if (!strcmp(d->feature[i].name, name))
            return &d->feature[i];
    return NULL;
}

/* A JSON string or number as text; 0, or -1: it is neither, or too long. */
static int plain(stk_bytes v, char text[200])
{
    size_t len = v.len;

    if (!v.len || v.len >= 200 || v.data[0] == '{' || v.data[0] == '[')
        return -1;
    if (v.data[0] == '"') {
        if (stk_json_unquote(v, (uint8_t *)text, &len, NULL) < 0)
            return -1;
    } else {
        memcpy(text, v.data, len);
    }
    text[len] = 0;
    return 0;
}

static int member(stk_bytes list, uint32_t i, char text[200])
{
    char path[16];
    stk_bytes v;

    snprintf(path, sizeof path, "%u", i);
    return stk_json_find(list, path, &v, NULL) < 0 ? -1 : plain(v, text);
}

static int check_required(rules *r, stk_bytes list, stk_error *err)
{
    char field[200], name[220];

    if (!list.len || list.data[0] != '[')
        return stk_fail(err, STK_EINVAL,
                        "rules: required is a list of fields, as [\"jpg\", \"cls\"]");
    for (uint32_t i = 0; member(list, i, field) == 0; i++) {
        const stk_feature *f;

        snprintf(name, sizeof name, "%s.bytes", field);
        f = find(r->d, name);
        if (!f || f->count < r->d->counts.described)
            tell(r, "%s: %llu of %llu samples do not have it", field,
                 (unsigned long long)(r->d->counts.described - (f ? f->count : 0)),
                 (unsigned long long)r->d->counts.described);
    }
    return 0;
}

static int bound(stk_bytes rule, const char *name, double *v)
{
    char text[200], *end;
    stk_bytes raw;

    if (stk_json_find(rule, name, &raw, NULL) < 0 || plain(raw, text) < 0)
        return 0;
    *v = strtod(text, &end);
    return end != text;
}

static void check_range(rules *r, const char *name, stk_bytes rule, double low, double high)
{
    double v;

    if (bound(rule, "min", &v) && low < v)
        tell(r, "%s: %.6g is below %.6g", name, low, v);
    if (bound(rule, "max", &v) && high > v)
        tell(r, "%s: %.6g is above %.6g", name, high, v);
}

static void check_values(rules *r, const stk_feature *f, stk_bytes list)
{
    char text[200];

    for (uint32_t i = 0; i < f->n_values; i++) {
        uint32_t k = 0;

        while (member(list, k, text) == 0 && strcmp(text, f->value[i].text))
            k++;
        if (member(list, k, text) < 0)
            tell(r, "%s: \"%s\" is not allowed, and %llu samples have it", f->name,
                 f->value[i].text, (unsigned long long)f->value[i].count);
    }
    if (f->rest)
        tell(r, "%s: %llu samples have values beyond the first %u", f->name,
             (unsigned long long)f->rest, f->n_values);
}

static const uint64_t *count_named(const stk_description_counts *c, const char *name)
{
    return !strcmp(name, "samples")           ? &c->samples
           : !strcmp(name, "bytes")           ? &c->bytes
           : !strcmp(name, "duplicates")      ? &c->duplicates
           : !strcmp(name, "near_duplicates") ? &c->near_duplicates
                                              : NULL;
}

static int check_rule(void *cookie, stk_bytes key, stk_bytes rule, stk_error *err)
{
    rules *r = cookie;
    const uint64_t *count;
    const stk_feature *f;
    char name[200];
    stk_bytes in;

    if (plain(key, name) < 0)
        return stk_fail(err, STK_EINVAL, "rules: a name is too long");
    if (!strcmp(name, "required"))
        return check_required(r, rule, err);
    if (!rule.len || rule.data[0] != '{')
        return stk_fail(err, STK_EINVAL, "rules: %.100s is an object with min, max or in", name);
    count = count_named(&r->d->counts, name);
    f = find(r->d, name);
    if (count) {
        check_range(r, name, rule, (double)*count, (double)*count);
    } else if (!f) {
        tell(r, "%s: the data has no such figure; 'stoker describe' lists them", name);
    } else if (!f->category) {
        check_range(r, name, rule, f->quantile[0], f->quantile[STK_QUANTILES - 1]);
    } else if (stk_json_find(rule, "in", &in, NULL) == 0) {
        check_values(r, f, in);
    } else {
        return stk_fail(err, STK_EINVAL,
                        "rules: %.100s has few values: give them as {\"in\": [...]}", name);
    }
    return 0;
}

int stk_rules_check(const stk_description *d, const char *text, size_t len,
                    void (*broken)(void *cookie, const char *line), void *cookie, stk_error *err)
{
    stk_bytes doc = { (const uint8_t *)text, len }, whole;
    rules r = { d, broken, cookie, 0 };

    STK_TRY(stk_json_find(doc, "", &whole, err));
    if (whole.data[0] != '{')
        return stk_fail(err, STK_EINVAL,
                        "rules are a JSON object: {\"required\": [...], NAME: {...}}");
    if (d->counts.bad)
        tell(&r, "%llu samples are bad; 'stoker check' lists them",
             (unsigned long long)d->counts.bad);
    STK_TRY(stk_json_members(whole, check_rule, &r, err));
    return r.n;
}

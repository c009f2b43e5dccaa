/* SPDX-License-Identifier: Apache-2.0 */
/* drift.c - is the data still what it was?  The tests and bounds that the field uses by default:
 * above 1,000 samples distances (Wasserstein in standard deviations, Jensen-Shannon) against 0.1,
 * below Kolmogorov-Smirnov and chi-square.  A distance of two finite draws of the same data is not
 * 0; of categories that is taken into account, since with many of them it would alarm by itself. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/description.h"

#define FEW 1000u
#define BOUND 0.1
#define P 0.05

static double wasserstein(const stk_feature *a, const stk_feature *b)
{
    double sum = 0, spread = a->std;

    for (int q = 1; q < STK_QUANTILES - 1; q++) /* least and most are of one sample each */
        sum += fabs(a->quantile[q] - b->quantile[q]);
    sum /= STK_QUANTILES - 2;
    if (spread <= 0) /* all were equal: any change counts in units of the value itself */
        spread = fabs(a->mean) > 0 ? 0.01 * fabs(a->mean) : 1;
    return sum / spread;
}

/* Share of values up to x. */
static double cdf(const stk_feature *f, double x)
{
    int below = 0;

    while (below < STK_QUANTILES && f->quantile[below] <= x)
        below++;
    if (below == 0)
        return 0;
    if (below == STK_QUANTILES)
        return 1;
    return ((double)below - 0.5) / STK_QUANTILES;
}

/* p of the two-sample test, by Kolmogorov's distribution. */
static double ks(const stk_feature *a, const stk_feature *b)
{
    double d = 0, n = (double)a->count * (double)b->count / (double)(a->count + b->count), x, p = 0;

    for (int q = 0; q < STK_QUANTILES; q++) {
        d = fmax(d, fabs(cdf(a, a->quantile[q]) - cdf(b, a->quantile[q])));
        d = fmax(d, fabs(cdf(a, b->quantile[q]) - cdf(b, b->quantile[q])));
    }
    d = fmax(d - 1.0 / STK_QUANTILES, 0); /* what the quantiles leave open */
    x = (sqrt(n) + 0.12 + 0.11 / sqrt(n)) * d;
    if (x < 0.2)
        return 1;
    for (int k = 1; k <= 100; k++)
        p += (k % 2 ? 2 : -2) * exp(-2.0 * k * k * x * x);
    return fmin(fmax(p, 0), 1);
}

static double count_of(const stk_feature *f, const char *text)
{
    for (uint32_t i = 0; i < f->n_values; i++)
        if (!strcmp(f->value[i].text, text))
            return (double)f->value[i].count;
    return 0;
}

/* A value that `f` does not list may still be in its rest, if it is no more frequent than the last
 * one that is listed.  Up to there it is taken to be as frequent as in the other, or two draws of a
 * vocabulary would differ by where their lists end.  What is taken leaves the rest. */
static double unlisted(const stk_feature *f, double expected, double *rest)
{
    double least = f->n_values ? (double)f->value[f->n_values - 1].count : 0;
    double n = fmin(fmin(expected, least), *rest);

    *rest -= n;
    return n;
}

typedef void (*each_fn)(void *cookie, double a, double b);

/* Every value of either, with its counts; all that are not listed are one more.  How many were
 * listed by both, or by one that lists all. */
static uint32_t each(const stk_feature *a, const stk_feature *b, each_fn fn, void *cookie)
{
    double rest_a = (double)a->rest, rest_b = (double)b->rest,
           ratio = (double)b->count / (double)a->count;
    uint32_t n = 0;

    for (uint32_t i = 0; i < a->n_values; i++) {
        double mine = (double)a->value[i].count, theirs = count_of(b, a->value[i].text);

        n += theirs > 0 || !b->rest;
        fn(cookie, mine, theirs > 0 ? theirs : unlisted(b, mine * ratio, &rest_b));
    }
    for (uint32_t i = 0; i < b->n_values; i++) {
        double mine = (double)b->value[i].count;

        if (count_of(a, b->value[i].text) > 0)
            continue;
        n += !a->rest;
        fn(cookie, unlisted(a, mine / ratio, &rest_a), mine);
    }
    if (a->rest || b->rest) {
        fn(cookie, rest_a, rest_b);
        n++;
    }
    return n;
}

typedef struct sums {
    double n, m, js, chi;
} sums;

static double part(double p, double q)
{
    return p > 0 ? p * log2(p / ((p + q) / 2)) : 0;
}

static void add(void *cookie, double a, double b)
{
    sums *s = cookie;
    double p = a / s->n, q = b / s->m, d = sqrt(s->m / s->n) * a - sqrt(s->n / s->m) * b;

    s->js += (part(p, q) + part(q, p)) / 2;
    s->chi += a + b > 0 ? d * d / (a + b) : 0;
}

/* Chi-square's upper tail by Wilson and Hilferty. */
static double chi_p(double chi, double k)
{
    double z = k > 0 ? (cbrt(chi / k) - (1 - 2 / (9 * k))) / sqrt(2 / (9 * k)) : 0;

    return k > 0 ? 0.5 * erfc(z / sqrt(2)) : 1;
}

static void categories(const stk_feature *a, const stk_feature *b, double p_bound,
                       stk_drift_row *row)
{
    sums s = { (double)a->count, (double)b->count, 0, 0 };
    uint32_t k = each(a, b, add, &s);
    double noise;

    if (a->count <= FEW || b->count <= FEW) {
        row->test = "chi-square";
        row->value = chi_p(s.chi, (double)k - 1);
        row->bound = p_bound;
        row->drifted = row->value < p_bound;
        return;
    }
    /* expected of two draws of the same */
    noise = ((double)k - 1) / (8 * log(2)) * (1 / s.n + 1 / s.m);
    row->test = "jensen-shannon";
    row->value = sqrt(fmax(s.js - noise, 0));
    row->bound = BOUND;
    row->drifted = row->value > BOUND;
}

static void numbers(const stk_feature *a, const stk_feature *b, double p_bound, stk_drift_row *row)
{
    int few = a->count <= FEW || b->count <= FEW;

    row->test = few ? "ks" : "wasserstein";
    row->value = few ? ks(a, b) : wasserstein(a, b);
    row->bound = few ? p_bound : BOUND;
    row->drifted = few ? row->value < p_bound : row->value > BOUND;
}

static const stk_feature *find(const stk_description *d, const char *name)
{
    for (uint32_t i = 0; i < d->n; i++)
        if (!strcmp(d->feature[i].name, name))
            return &d->feature[i];
    return NULL;
}

#define PICTURE_FIGURE ".width" /* a field with it holds pictures */

/* The length of the name of the only field that holds pictures; 0: there is none, or several. */
static size_t picture_field(const stk_description *d, const char **name)
{
    size_t found = 0, end = strlen(PICTURE_FIGURE);

    for (uint32_t i = 0; i < d->n; i++) {
        size_t len = strlen(d->feature[i].name);

        if (len <= end || strcmp(d->feature[i].name + len - end, PICTURE_FIGURE) != 0)
            continue;
        if (found)
            return 0;
        found = len - end;
        *name = d->feature[i].name;
    }
    return found;
}

/* The feature of `d` that is what `name` is in `from`.  Pictures are called "image" in a folder and
 * "jpeg" in shards packed of it: where both have one field of pictures, it is the same. */
static const stk_feature *same(const stk_description *d, const stk_description *from,
                               const char *name)
{
    const char *here = NULL, *there = NULL;
    size_t n = picture_field(from, &here), m = picture_field(d, &there);
    const stk_feature *f = find(d, name);
    char other[256];

    if (f || !n || !m || strncmp(name, here, n) != 0 || name[n] != '.')
        return f;
    snprintf(other, sizeof other, "%.*s%s", (int)m, there, name + n);
    return find(d, other);
}

static void compare(const stk_feature *a, const stk_feature *b, double p_bound, stk_drift_row *row)
{
    *row = (stk_drift_row){ .feature = a ? a->name : b->name, .test = "missing", .drifted = 1 };
    if (!a || !b || !a->count != !b->count || (a->count && a->category != b->category))
        return;
    if (!a->count)
        *row = (stk_drift_row){ .feature = a->name, .test = "missing" };
    else if (a->category)
        categories(a, b, p_bound, row);
    else
        numbers(a, b, p_bound, row);
}

uint32_t stk_drift(const stk_description *before, const stk_description *now, stk_drift_row *row,
                   uint32_t cap, uint32_t *n)
{
    double p_bound = P / (before->n ? before->n : 1); /* over all features together */
    uint32_t drifted = 0;
    stk_drift_row r;

    *n = 0;
    for (uint32_t i = 0; i < before->n + now->n; i++) {
        const stk_feature *a = i < before->n ? &before->feature[i] : NULL;
        const stk_feature *b = a ? same(now, before, a->name) : &now->feature[i - before->n];

        if (!a && same(before, now, b->name))
            continue;
        compare(a, b, p_bound, &r);
        drifted += (uint32_t)r.drifted;
        if (*n < cap)
            row[*n] = r;
        ++*n;
    }
    return drifted;
}

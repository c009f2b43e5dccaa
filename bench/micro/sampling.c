/* SPDX-License-Identifier: Apache-2.0 */
/* sampling.c - what drawing costs: set-up, then nanoseconds a draw.
 *
 *     sampling [SAMPLES]
 *
 * One thread, in processor time; positions are asked for in runs of 32 as the engine does.  "first"
 * is the time until the first sample of an epoch is known, where an epoch has a table. */
#include <string.h>

#include "base/hash.h"
#include "../limits/timing.h"
#include "order/order.h"

#define RUN 32
#define CLASSES 1000
#define SETS 10

static stk_sample_set set;

typedef struct drawing {
    const char *name;
    int (*open)(stk_order *, const void *, uint64_t, stk_error *);
    const void *with;
} drawing;

static int open_exact(stk_order *o, const void *with, uint64_t seed, stk_error *err)
{
    return stk_order_exact(o, &set, seed, with == NULL, err);
}

static int open_weighted(stk_order *o, const void *with, uint64_t seed, stk_error *err)
{
    return stk_order_weighted(o, &set, with, seed, 0, err);
}

static int open_once(stk_order *o, const void *with, uint64_t seed, stk_error *err)
{
    return stk_order_weighted_once(o, &set, with, seed, 0, err);
}

static int open_strata(stk_order *o, const void *with, uint64_t seed, stk_error *err)
{
    stk_strata how = { .of = with, .classes = CLASSES, .seed = seed, .shuffle = 1 };

    return stk_order_stratified(o, &set, &how, err);
}

static int open_mix(stk_order *o, const void *with, uint64_t seed, stk_error *err)
{
    stk_mixing how = { .weights = with, .seed = seed, .shuffle = 1 };

    return stk_order_mix(o, &set, &how, err);
}

static uint64_t draw(const stk_order *o, uint64_t epoch, uint64_t from)
{
    uint64_t at[RUN], sum = 0;
    stk_where w[RUN];

    for (uint32_t i = 0; i < RUN; i++)
        at[i] = from + i;
    o->at(o->state, epoch, at, RUN, w);
    for (uint32_t i = 0; i < RUN; i++)
        sum += w[i].sample;
    return sum;
}

static int measure(const drawing *d, uint64_t n)
{
    double start = cpu_s(), ready, first;
    uint64_t sum = 0, draws = n / RUN * RUN;
    stk_error err;
    stk_order o;

    if (d->open(&o, d->with, 1, &err) < 0) {
        fprintf(stderr, "%s: %s\n", d->name, err.message);
        return 1;
    }
    ready = cpu_s();
    sum += draw(&o, 0, 0);
    first = cpu_s();
    for (uint64_t p = 0; p < draws; p += RUN)
        sum += draw(&o, 0, p);
    printf("{\"name\": \"%s\", \"samples\": %llu, \"setup_s\": %.3f, \"first_s\": %.3f, "
           "\"ns_per_draw\": %.1f, \"sum\": %llu}\n",
           d->name, (unsigned long long)n, ready - start, first - ready,
           (cpu_s() - first) * 1e9 / (double)draws, (unsigned long long)sum);
    o.close(o.state);
    return 0;
}

int main(int argc, char **argv)
{
    uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000000, lens[SETS];
    double *weights = malloc((n + 1) * sizeof *weights);
    uint32_t *classes = malloc((n + 1) * sizeof *classes);
    int rc = 0;

    for (int i = 0; i < SETS; i++)
        lens[i] = n / SETS;
    if (!weights || !classes || n < RUN * SETS || n % SETS ||
        stk_sample_set_init(&set, lens, SETS, NULL) < 0)
        return 2;
    for (uint64_t i = 0; i < n; i++) { /* over four orders of magnitude; sorted by class */
        weights[i] = 1 / (1e-4 + (double)(stk_mix64(i) >> 11) * 0x1p-53);
        classes[i] = (uint32_t)(i * CLASSES / n);
    }
    const drawing all[] = {
        { "in order", open_exact, weights },
        { "exact", open_exact, NULL },
        { "weights", open_weighted, weights },
        { "weights, replacement=False", open_once, weights },
        { "stratify, 1,000 classes", open_strata, classes },
        { "mix of 10", open_mix, weights },
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        rc |= measure(&all[i], n);
    free(weights);
    free(classes);
    return rc;
}

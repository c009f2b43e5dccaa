/* SPDX-License-Identifier: Apache-2.0 */
/* sampling.c - see sampling.h.  Everything that does not fit is said here, before the first
 * batch. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "loader/sampling.h"

#define MOST ((uint64_t)1 << 48)
#define SHOWN 3 /* of the ids that are wrong */
#define MAX_CLASSES (1 << 24)

/* ---- which samples ---- */

static int bad_ids(const stk_loader_options *o, uint64_t samples, stk_error *err)
{
    char shown[SHOWN * 24] = "";
    uint64_t bad = 0;
    size_t len = 0;

    for (uint64_t i = 0; i < o->n_select; i++)
        if (o->select[i] >= samples && bad++ < SHOWN)
            len += (size_t)snprintf(shown + len, sizeof shown - len, "%s%" PRIu64,
                                    bad > 1 ? ", " : "", o->select[i]);
    if (!bad)
        return 0;
    return stk_fail(err, STK_EINVAL,
                    "select: %" PRIu64 " of %" PRIu64
                    " ids are not in the data, which has 0 to %" PRIu64 ": %s%s",
                    bad, o->n_select, samples ? samples - 1 : 0, shown, bad > SHOWN ? ", ..." : "");
}

/* A copy, less what is excluded. */
static int take_selection(stk_sample_set *r, const stk_loader_options *o, stk_error *err)
{
    STK_TRY(bad_ids(o, r->start[r->n], err));
    r->select = stk_zalloc(o->n_select + 1, sizeof *r->select); /* empty is not "all" */
    if (!r->select)
        return stk_fail_nomem(err, o->n_select * sizeof *r->select);
    for (uint64_t i = 0; i < o->n_select; i++)
        if (stk_exclude_rank(&r->exclude, o->select[i]) != UINT64_MAX)
            r->select[r->n_select++] = o->select[i];
    stk_free(r->exclude.id);
    r->exclude = (stk_exclude){ 0 };
    return 0;
}

int stk_sampling_set(stk_sample_set *r, const stk_loader_options *o, stk_error *err)
{
    uint64_t once;

    if (o->select)
        STK_TRY(take_selection(r, o, err));
    r->skip = o->skip;
    r->limit = o->limit;
    once = stk_sample_set_len(r);
    r->repeat = o->repeat;
    if (o->repeat && once > MOST / o->repeat)
        return stk_fail(err, STK_ELIMIT,
                        "%" PRIu64 " samples, each %u times, are more than the 2^48 of an epoch: "
                        "lower repeat",
                        once, o->repeat);
    return 0;
}

/* ---- how they are arranged ---- */

typedef struct array { /* an option with one entry a sample */
    const char *name;
    const void *data;
    uint64_t n;
    size_t size;
} array;

#define ARRAYS 4

static void arrays_of(const stk_loader_options *o, array *a)
{
    a[0] = (array){ "weights", o->weights, o->n_weights, sizeof *o->weights };
    a[1] = (array){ "balance", o->balance, o->n_balance, sizeof *o->balance };
    a[2] = (array){ "stratify", o->stratify, o->n_stratify, sizeof *o->stratify };
    a[3] = (array){ "mix", o->mix, o->n_mix, sizeof *o->mix };
}

int stk_sampling_given(const stk_loader_options *o)
{
    return o->weights || o->balance || o->stratify || o->mix;
}

uint64_t stk_sampling_print(const stk_loader_options *o)
{
    array a[ARRAYS];
    uint64_t h = 0;

    arrays_of(o, a);
    for (int i = 0; i < ARRAYS; i++)
        if (a[i].data && a[i].data != o->mix) /* its weights are in the state as they are */
            h = stk_hash64(h + 1 + (uint64_t)i, a[i].data, a[i].n * a[i].size);
    return h;
}

static int check_length(const array *a, const stk_sample_set *r, stk_error *err)
{
    int mix = !strcmp(a->name, "mix");
    uint64_t want = mix ? r->n : r->start[r->n];

    if (a->n == want)
        return 0;
    return stk_fail(err, STK_EINVAL,
                    "%s has %" PRIu64 " entries and the data %" PRIu64 " %s: give one for each",
                    a->name, a->n, want, mix ? "sets" : "samples");
}

/* One array at most, of the right length; nothing that contradicts it. */
static int check_arrays(const stk_loader_options *o, const stk_sample_set *r, stk_error *err)
{
    const char *name = NULL;
    array a[ARRAYS];

    arrays_of(o, a);
    for (int i = 0; i < ARRAYS; i++) {
        if (!a[i].data)
            continue;
        if (name)
            return stk_fail(err, STK_EINVAL,
                            "%s and %s each say how samples are drawn: give one of them", name,
                            a[i].name);
        name = a[i].name;
        STK_TRY(check_length(&a[i], r, err));
        if (o->shuffle > STK_SHUFFLE_EXACT)
            return stk_fail(
                err, STK_EINVAL, "%s and %s each say how samples are drawn: give one of them", name,
                o->shuffle == STK_SHUFFLE_BLOCK ? "a shuffle by blocks" : "Megatron's order");
    }
    return 0;
}

/* ---- weights ---- */

static int check_weights(const stk_sample_set *r, const double *w, uint64_t n, stk_error *err)
{
    uint64_t bad = 0, first = 0, taking = stk_sample_set_len(r);
    int some = 0;

    for (uint64_t i = n; i-- > 0;)
        if (!(w[i] >= 0) || !isfinite(w[i])) {
            bad++;
            first = i;
        }
    if (bad)
        return stk_fail(err, STK_EINVAL,
                        "weights: %" PRIu64 " of %" PRIu64 " are negative or not finite, the first "
                        "is %g of sample %" PRIu64,
                        bad, n, w[first], first);
    for (uint64_t i = 0; i < taking && !some; i++)
        some = w[stk_sample_set_id(r, i)] > 0;
    if (taking && !some)
        return stk_fail(err, STK_EINVAL, "weights: no sample that takes part has a weight above 0");
    return 0;
}

static int weighted_order(stk_order *order, const stk_sample_set *r, const double *w,
                          const stk_loader_options *o, stk_error *err)
{
    if (o->replacement == STK_NO)
        return stk_order_weighted_once(order, r, w, o->seed, o->epoch_size, err);
    return stk_order_weighted(order, r, w, o->seed, o->epoch_size, err);
}

/* *classes: how many there are, counted from 0. */
static int check_classes(const char *name, const uint32_t *class, uint64_t n, uint32_t *classes,
                         stk_error *err)
{
    *classes = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (class[i] >= MAX_CLASSES)
            return stk_fail(err, STK_ELIMIT,
                            "%s: sample %" PRIu64 " has class %" PRIu32 ": number classes from 0, "
                            "below %d",
                            name, i, class[i], MAX_CLASSES);
        *classes = class[i] >= *classes ? class[i] + 1 : *classes;
    }
    return 0;
}

/* 1 / the number of samples of its class that take part. */
static int balanced_weights(double *w, const stk_sample_set *r, const stk_loader_options *o,
                            stk_error *err)
{
    uint64_t *count, n = stk_sample_set_len(r);
    uint32_t classes;

    STK_TRY(check_classes("balance", o->balance, o->n_balance, &classes, err));
    count = stk_zalloc(classes, sizeof *count);
    if (!count)
        return stk_fail_nomem(err, classes * sizeof *count);
    for (uint64_t i = 0; i < n; i++)
        count[o->balance[stk_sample_set_id(r, i)]]++;
    for (uint64_t i = 0; i < o->n_balance; i++)
        w[i] = count[o->balance[i]] ? 1.0 / (double)count[o->balance[i]] : 0;
    stk_free(count);
    return 0;
}

static int balanced_order(stk_order *order, const stk_sample_set *r, const stk_loader_options *o,
                          stk_error *err)
{
    double *w = stk_zalloc(o->n_balance, sizeof *w);
    int rc;

    if (!w)
        return stk_fail_nomem(err, o->n_balance * sizeof *w);
    rc = balanced_weights(w, r, o, err);
    if (rc == 0)
        rc = weighted_order(order, r, w, o, err);
    stk_free(w);
    return rc;
}

static int stratified_order(stk_order *order, const stk_sample_set *r, const stk_loader_options *o,
                            stk_error *err)
{
    stk_strata how = { .of = o->stratify,
                       .seed = o->seed,
                       .shuffle = o->shuffle != STK_SHUFFLE_NONE };

    STK_TRY(check_classes("stratify", o->stratify, o->n_stratify, &how.classes, err));
    return stk_order_stratified(order, r, &how, err);
}

static int mixed_order(stk_order *order, const stk_sample_set *r, const stk_loader_options *o,
                       stk_error *err)
{
    stk_mixing how = { o->mix, o->seed, o->epoch_size, o->shuffle != STK_SHUFFLE_NONE };
    const char *word = r->select       ? "select"
                       : r->skip       ? "skip"
                       : r->limit      ? "limit"
                       : r->repeat > 1 ? "repeat"
                                       : NULL;

    if (word)
        return stk_fail(err, STK_EINVAL,
                        "%s does not go with mix, which walks whole data sets: exclude does", word);
    return stk_order_mix(order, r, &how, err);
}

int stk_sampling_order(stk_order *order, const stk_sample_set *r, const stk_loader_options *o,
                       stk_error *err)
{
    STK_TRY(check_arrays(o, r, err));
    if (!stk_sample_set_len(r))
        return stk_order_exact(order, r, o->seed, 0, err); /* which says that it is empty */
    if (o->balance)
        return balanced_order(order, r, o, err);
    if (o->stratify)
        return stratified_order(order, r, o, err);
    if (o->mix)
        return mixed_order(order, r, o, err);
    STK_TRY(check_weights(r, o->weights, o->n_weights, err));
    return weighted_order(order, r, o->weights, o, err);
}

/* ---- whatever the order ---- */

int stk_sampling_own_order(const stk_loader_options *o, stk_error *err)
{
    const char *word = o->exclude              ? "exclude"
                       : o->select             ? "select"
                       : o->skip               ? "skip"
                       : o->limit              ? "limit"
                       : o->repeat             ? "repeat"
                       : stk_sampling_given(o) ? "weights, balance, stratify or mix"
                                               : NULL;

    if (!word)
        return 0;
    return stk_fail(err, STK_EINVAL, "%s does not go with an order of one's own: say it there",
                    word);
}

int stk_sampling_epochs(stk_order *order, const stk_loader_options *o, stk_error *err)
{
    stk_order inner = *order;

    if (o->epoch_size > MOST)
        return stk_fail(err, STK_ELIMIT, "epoch_size %" PRIu64 " is more than 2^48", o->epoch_size);
    if (!o->epoch_size || o->weights || o->balance || o->mix ||
        (o->shuffle == STK_SHUFFLE_MEGATRON && !o->order)) /* those have it in them */
        return 0;
    if (!inner.len(inner.state))
        return 0; /* which is said of all orders alike */
    *order = (stk_order){ 0 };
    return stk_order_stream(order, &inner, o->epoch_size, err);
}

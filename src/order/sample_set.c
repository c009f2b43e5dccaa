/* SPDX-License-Identifier: Apache-2.0 */
/* sample_set.c - which samples take part, numbered through: data sets one after the other, less
 * what is excluded, or only what is selected, in its order.
 *
 * Orders arrange these numbers and know nothing of data sets. */
#include "order/order.h"

#include <assert.h>

#include "base/hash.h"

/* Without skip, limit and repeat. */
static uint64_t named(const stk_sample_set *r)
{
    return r->select ? r->n_select : r->start[r->n] - r->exclude.n;
}

static uint64_t once(const stk_sample_set *r)
{
    uint64_t all = named(r), left = all > r->skip ? all - r->skip : 0;

    return r->limit && r->limit < left ? r->limit : left;
}

uint64_t stk_sample_set_len(const stk_sample_set *r)
{
    return once(r) * (r->repeat ? r->repeat : 1);
}

void stk_sample_set_where(const stk_sample_set *r, uint64_t id, stk_where *out)
{
    uint32_t lo = 0, hi = r->n;

    assert(id < r->start[r->n]);
    while (hi - lo > 1) { /* start[lo] <= id < start[hi] */
        uint32_t mid = lo + (hi - lo) / 2;

        if (r->start[mid] <= id)
            lo = mid;
        else
            hi = mid;
    }
    out->dataset = lo;
    out->sample = id - r->start[lo];
}

uint64_t stk_sample_set_id(const stk_sample_set *r, uint64_t i)
{
    uint64_t id = (r->repeat > 1 ? i % once(r) : i) + r->skip;

    if (r->select)
        return r->select[id];
    return r->exclude.n ? stk_exclude_at(&r->exclude, id) : id;
}

void stk_sample_set_at(const stk_sample_set *r, uint64_t i, stk_where *out)
{
    stk_sample_set_where(r, stk_sample_set_id(r, i), out);
}

uint32_t stk_sample_set_run(const stk_sample_set *r, uint64_t i, uint32_t n)
{
    uint64_t id = stk_sample_set_id(r, i), most = n, k = 1;
    stk_where where;

    if (r->repeat > 1 && most > once(r) - i % once(r))
        most = once(r) - i % once(r);
    stk_sample_set_where(r, id, &where);
    if (most > r->start[where.dataset + 1] - id)
        most = r->start[where.dataset + 1] - id;
    if (!r->select && !r->exclude.n)
        return (uint32_t)most;
    while (k < most && stk_sample_set_id(r, i + k) == id + k)
        k++;
    return (uint32_t)k;
}

/* Its first number; UINT64_MAX: it does not take part. */
uint64_t stk_sample_set_find(const stk_sample_set *r, const stk_where *where)
{
    uint64_t id, at = r->skip; /* one that is named again may be skipped the first time */

    if (where->dataset >= r->n ||
        where->sample >= r->start[where->dataset + 1] - r->start[where->dataset])
        return UINT64_MAX;
    id = r->start[where->dataset] + where->sample;
    if (r->select) {
        while (at < r->n_select && r->select[at] != id)
            at++;
        at = at < r->n_select ? at : UINT64_MAX;
    } else {
        at = stk_exclude_rank(&r->exclude, id);
    }
    return at >= r->skip && at - r->skip < once(r) ? at - r->skip : UINT64_MAX;
}

uint64_t stk_sample_set_below(const stk_sample_set *r, uint64_t id)
{
    uint64_t at = stk_exclude_below(&r->exclude, id), all = once(r);

    at -= at < r->skip ? at : r->skip;
    return at < all ? at : all;
}

int stk_sample_set_init(stk_sample_set *r, const uint64_t *lens, uint32_t n, stk_error *err)
{
    if (n > STK_MAX_DATASETS)
        return stk_fail(err, STK_ELIMIT, "a loader takes at most %d data sets, not %" PRIu32,
                        STK_MAX_DATASETS, n);
    *r = (stk_sample_set){ .n = n };
    for (uint32_t i = 0; i < n; i++)
        r->start[i + 1] = r->start[i] + lens[i];
    if (r->start[n] >> 48)
        return stk_fail(err, STK_ELIMIT, "an epoch has at most 2^48 samples, not %" PRIu64,
                        r->start[n]);
    return 0;
}

uint64_t stk_sample_set_print(const stk_sample_set *r)
{
    uint64_t h = stk_hash64(r->skip, &r->limit, sizeof r->limit);

    h = stk_hash64(h, &r->repeat, sizeof r->repeat);
    if (r->exclude.n)
        h = stk_hash64(h, r->exclude.id, r->exclude.n * sizeof *r->exclude.id);
    if (r->n_select)
        h = stk_hash64(h, r->select, r->n_select * sizeof *r->select);
    return h;
}

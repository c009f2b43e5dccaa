/* SPDX-License-Identifier: Apache-2.0 */
/* concat.c - the orders that ship: data sets one after the other, as they lie or under one
 * permutation. */
#include "order/order.h"

static uint64_t concat_len(const void *state)
{
    const stk_concat *c = state;

    return c->start[c->n] - c->exclude.n;
}

/* rank: among the samples that are not excluded. */
static void concat_place(const stk_concat *c, uint64_t rank, stk_where *out)
{
    uint64_t id = c->exclude.n ? stk_exclude_at(&c->exclude, rank) : rank;
    uint32_t lo = 0, hi = c->n;

    while (hi - lo > 1) { /* start[lo] <= id < start[hi] */
        uint32_t mid = lo + (hi - lo) / 2;

        if (c->start[mid] <= id)
            lo = mid;
        else
            hi = mid;
    }
    out->dataset = lo;
    out->sample = id - c->start[lo];
}

static void concat_at(const void *state, uint64_t epoch, uint64_t first, uint32_t n, stk_where *out)
{
    const stk_concat *c = state;
    stk_perm perm;

    if (!c->shuffle) {
        for (uint32_t i = 0; i < n; i++)
            concat_place(c, first + i, &out[i]);
        return;
    }
    stk_perm_init(&perm, concat_len(c), c->seed, epoch);
    for (uint32_t at = 0; at < n; at += 32) {
        uint64_t id[32];
        uint32_t m = n - at < 32 ? n - at : 32;

        stk_perm_run(&perm, first + at, m, id);
        for (uint32_t i = 0; i < m; i++)
            concat_place(c, id[i], &out[at + i]);
    }
}

uint64_t stk_concat_find(const stk_concat *c, uint64_t epoch, uint64_t id)
{
    uint64_t rank = id < c->start[c->n] ? stk_exclude_rank(&c->exclude, id) : UINT64_MAX;
    stk_perm perm;

    if (rank == UINT64_MAX || !c->shuffle)
        return rank;
    stk_perm_init(&perm, concat_len(c), c->seed, epoch);
    return stk_perm_inverse(&perm, rank);
}

int stk_order_concat(stk_order *order, stk_concat *c, const uint64_t *lens, uint32_t n,
                     uint64_t seed, int shuffle, stk_error *err)
{
    if (n > STK_MAX_DATASETS)
        return stk_fail(err, STK_ELIMIT, "a loader takes at most %d data sets, not %" PRIu32,
                        STK_MAX_DATASETS, n);
    c->seed = seed;
    c->shuffle = shuffle;
    c->n = n;
    c->exclude = (stk_exclude){ 0 };
    c->start[0] = 0;
    for (uint32_t i = 0; i < n; i++)
        c->start[i + 1] = c->start[i] + lens[i];
    if (c->start[n] >> 48)
        return stk_fail(err, STK_ELIMIT, "an epoch has at most 2^48 samples, not %" PRIu64,
                        c->start[n]);
    *order = (stk_order){ .abi = STK_PLUGIN_ABI,
                          .name = shuffle ? "exact" : "sequential",
                          .state = c,
                          .len = concat_len,
                          .at = concat_at };
    return 0;
}

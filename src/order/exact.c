/* SPDX-License-Identifier: Apache-2.0 */
/* exact.c - the two plain orders: samples as they are stored, or all of them under one permutation
 * that is new every epoch. */
#include "base/mem.h"
#include "order/order.h"

typedef struct exact {
    const stk_sample_set *set;
    uint64_t seed, n;
    int shuffle;
} exact;

static uint64_t exact_len(const void *state)
{
    const exact *x = state;

    return x->n;
}

static void exact_at(const void *state, uint64_t epoch, const uint64_t *position, uint32_t n,
                     stk_where *out)
{
    const exact *x = state;
    stk_perm perm;

    if (!x->shuffle) {
        for (uint32_t i = 0; i < n; i++)
            stk_sample_set_at(x->set, position[i], &out[i]);
        return;
    }
    stk_perm_init(&perm, x->n, x->seed, epoch);
    for (uint32_t at = 0; at < n; at += 32) {
        uint64_t number[32];
        uint32_t m = n - at < 32 ? n - at : 32;

        stk_perm_run(&perm, position + at, m, number);
        for (uint32_t i = 0; i < m; i++)
            stk_sample_set_at(x->set, number[i], &out[at + i]);
    }
}

static uint64_t exact_find(const void *state, uint64_t epoch, const stk_where *where)
{
    const exact *x = state;
    uint64_t number = stk_sample_set_find(x->set, where);
    stk_perm perm;

    if (number == UINT64_MAX || !x->shuffle)
        return number;
    stk_perm_init(&perm, x->n, x->seed, epoch);
    return stk_perm_inverse(&perm, number);
}

static uint32_t sequential_run(const void *state, uint64_t epoch, uint64_t position, uint32_t n)
{
    (void)epoch;
    return stk_sample_set_run(((const exact *)state)->set, position, n);
}

int stk_order_exact(stk_order *order, const stk_sample_set *set, uint64_t seed, int shuffle,
                    stk_error *err)
{
    exact *x = STK_NEW(exact);

    if (!x)
        return stk_fail_nomem(err, sizeof *x);
    *x = (exact){ .set = set, .seed = seed, .n = stk_sample_set_len(set), .shuffle = shuffle };
    *order = (stk_order){ .abi = STK_PLUGIN_ABI,
                          .size = sizeof(stk_order),
                          .name = shuffle ? "exact" : "sequential",
                          .state = x,
                          .len = exact_len,
                          .at = exact_at,
                          .find = exact_find,
                          .close = stk_free,
                          .run = shuffle ? NULL : sequential_run };
    return 0;
}

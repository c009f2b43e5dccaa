/* SPDX-License-Identifier: Apache-2.0 */
/* exclude.c - the ids that are left when some are taken out, by their rank.
 *
 * The ids taken out are sorted: id[0] < id[1] < ...  Below id[i] are id[i] - i ids that stay, so
 * the r-th id that stays has after it as many of the others as have id[i] - i <= r: one binary
 * search, and the order stays arithmetic. */
#include <assert.h>
#include <stdlib.h>

#include "order/order.h"

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

void stk_exclude_settle(stk_exclude *x)
{
    uint64_t n = 0;

    if (x->n)
        qsort(x->id, x->n, sizeof *x->id, by_value);
    for (uint64_t i = 0; i < x->n; i++)
        if (!n || x->id[n - 1] != x->id[i])
            x->id[n++] = x->id[i];
    x->n = n;
}

uint64_t stk_exclude_at(const stk_exclude *x, uint64_t rank)
{
    uint64_t lo = 0, hi = x->n;

    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;

        if (x->id[mid] - mid <= rank)
            lo = mid + 1;
        else
            hi = mid;
    }
    return rank + lo;
}

/* How many of those taken out are below it. */
static uint64_t out_below(const stk_exclude *x, uint64_t id)
{
    uint64_t lo = 0, hi = x->n;

    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;

        if (x->id[mid] < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

uint64_t stk_exclude_below(const stk_exclude *x, uint64_t id)
{
    uint64_t out = out_below(x, id);

    assert(out <= id); /* they are sorted, and each is there once */
    return id - out;
}

uint64_t stk_exclude_rank(const stk_exclude *x, uint64_t id)
{
    uint64_t lo = out_below(x, id);

    return lo < x->n && x->id[lo] == id ? UINT64_MAX : id - lo;
}

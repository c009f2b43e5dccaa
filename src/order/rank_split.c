/* SPDX-License-Identifier: Apache-2.0 */
/* rank_split.c - ranks and steps.
 *
 * A global batch is `global` positions, from wherever the epoch was entered; it is dealt to the
 * ranks evenly, in runs that follow each other: rank r begins at r / world of it, rounded up.
 * Ranks of one node may divide their runs among them row by row.  So are a global batch that does
 * not divide by the ranks and the last one, when it is short and kept; a rank left with nothing
 * gets one wrapped row that is marked as not valid, so that all ranks take the same number of
 * steps. */
#include <assert.h>

#include "base/hash.h"

#include <assert.h>
#include "order/order.h"

uint64_t stk_rank_split_steps(const stk_rank_split *d, uint64_t from)
{
    uint64_t left = from < d->samples ? d->samples - from : 0;

    assert(d->global);
    return left / d->global + (!d->drop_last && left % d->global != 0);
}

uint64_t stk_rank_split_rows(const stk_rank_split *d)
{
    return d->global / d->world + (d->global % d->world != 0); /* the sum may not fit 64 bits */
}

/* Where rank r begins: rows that are left over are spread too, so that a rank stays where it is. */
static uint64_t begin_of(const stk_rank_split *d, uint64_t count, uint64_t rank)
{
    uint64_t each = count / d->world, extra = count % d->world;

    return rank * each + (extra * rank + d->world - 1) / d->world;
}

void stk_rank_split_step(const stk_rank_split *d, uint64_t from, uint64_t step, stk_share *out)
{
    uint64_t start = from + step * d->global, left = d->samples - start,
             count = left < d->global ? left : d->global;
    uint32_t local = d->local ? d->local : 1, k = d->rank % local;
    uint64_t first = begin_of(d, count, d->rank - k),
             n = begin_of(d, count, (uint64_t)d->rank - k + local) - first; /* of the node */

    assert(d->rank < d->world && start < d->samples && first + n <= count);
    *out = (stk_share){ .start = start,
                        .count = count,
                        .item = first + k,
                        .stride = local,
                        .rows = (uint32_t)((n + local - 1 - k) / local) };
    if (!out->rows)
        *out = (stk_share){ .start = start,
                            .count = count,
                            .item = d->rank % d->samples,
                            .stride = 1,
                            .rows = 1,
                            .filler = 1 };
}

void stk_share_positions(const stk_share *s, const stk_order *order, uint32_t row, uint32_t n,
                         uint64_t *out)
{
    if (order->deal && !s->filler) {
        order->deal(order->state, s, row, n, out);
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        out[i] = (s->filler ? 0 : s->start) + s->item + (uint64_t)(row + i) * s->stride;
}

uint64_t stk_substitute(uint64_t seed, uint64_t epoch, uint64_t position, uint32_t attempt,
                        uint64_t samples)
{
    uint64_t h = stk_mix64(stk_mix64(seed ^ 0x5D588B656C078965u) + epoch);

    assert(samples);
    h = stk_mix64(h ^ stk_mix64(position) ^ (uint64_t)attempt << 48);
    return (uint64_t)((unsigned __int128)h * samples >> 64);
}

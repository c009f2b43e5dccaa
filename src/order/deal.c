/* SPDX-License-Identifier: Apache-2.0 */
/* deal.c - ranks and steps.
 *
 * A global batch is world * batch positions; rank r takes the r-th run of `batch`.  The last
 * one, when it is short and kept, is dealt evenly; a rank left with nothing gets one wrapped row
 * that is marked as not valid, so that all ranks take the same number of steps. */
#include "base/hash.h"
#include "order/order.h"

uint64_t stk_deal_steps(const stk_deal *d)
{
    uint64_t global = (uint64_t)d->batch * d->world;

    return d->samples / global + (!d->drop_last && d->samples % global != 0);
}

void stk_deal_step(const stk_deal *d, uint64_t step, stk_share *out)
{
    uint64_t global = (uint64_t)d->batch * d->world, start = step * global,
             left = d->samples - start, each, extra;

    out->filler = 0;
    if (left >= global) {
        out->first = start + (uint64_t)d->rank * d->batch;
        out->rows = d->batch;
        return;
    }
    each = left / d->world;
    extra = left % d->world;
    out->first = start + d->rank * each + (d->rank < extra ? d->rank : extra);
    out->rows = (uint32_t)(each + (d->rank < extra));
    if (!out->rows) {
        out->first = d->rank % d->samples;
        out->rows = 1;
        out->filler = 1;
    }
}

uint64_t stk_substitute(uint64_t seed, uint64_t epoch, uint64_t position, uint32_t attempt,
                        uint64_t samples)
{
    uint64_t h = stk_mix64(stk_mix64(seed ^ 0x5D588B656C078965u) + epoch);

    h = stk_mix64(h ^ stk_mix64(position) ^ (uint64_t)attempt << 48);
    return (uint64_t)((unsigned __int128)h * samples >> 64);
}

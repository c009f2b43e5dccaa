/* SPDX-License-Identifier: Apache-2.0 */
/* row_docs.c - the documents of a row that is packed again in every epoch. */
#include "pipe/engine.h"

static int grow(stk_row_docs *d, uint32_t n, stk_error *err)
{
    if (n <= d->cap)
        return 0;
    stk_row_docs_fini(d);
    d->position = stk_zalloc(n, sizeof *d->position);
    d->part = stk_zalloc(n, sizeof *d->part);
    d->where = stk_zalloc(n, sizeof *d->where);
    d->doc = stk_zalloc(n, sizeof *d->doc);
    if (!d->position || !d->part || !d->where || !d->doc) {
        stk_row_docs_fini(d);
        return stk_fail_nomem(err, n * sizeof *d->doc);
    }
    d->cap = n;
    return 0;
}

int stk_row_docs_find(stk_engine *e, stk_row_docs *d, uint64_t epoch, uint64_t bin, stk_error *err)
{
    const stk_array_plan *p = e->plan->chains.arrays;
    uint32_t n = stk_bins_size(e->schedule->bins, epoch, bin);

    STK_TRY(grow(d, n + n / 2, err));
    stk_bins_pieces(e->schedule->bins, epoch, bin, d->position, d->part);
    e->schedule->order.at(e->schedule->order.state, epoch, d->position, n, d->where);
    for (uint32_t i = 0; i < n; i++)
        d->doc[i] = p->packed[d->where[i].dataset].doc[d->where[i].sample];
    d->n = n;
    return 0;
}

void stk_row_docs_fini(stk_row_docs *d)
{
    stk_free(d->position);
    stk_free(d->part);
    stk_free(d->where);
    stk_free(d->doc);
    *d = (stk_row_docs){ 0 };
}

/* SPDX-License-Identifier: Apache-2.0 */
/* row_docs.c - the documents of a row that is packed again in every epoch. */
#include <assert.h>

#include "row/row_docs.h"

#include "base/mem.h"

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

int stk_row_docs_find(stk_row_docs *d, const stk_schedule *s, const stk_packed *packed,
                      uint64_t epoch, uint64_t bin, stk_error *err)
{
    uint32_t n = stk_bins_size(s->bins, epoch, bin);

    assert(n); /* no row is empty */
    STK_TRY(grow(d, n + n / 2, err));
    stk_bins_pieces(s->bins, epoch, bin, d->position, d->part);
    stk_schedule_at(s, epoch, d->position, n, d->where);
    for (uint32_t i = 0; i < n; i++)
        d->doc[i] = packed[d->where[i].dataset].doc[d->where[i].sample];
    assert(n <= d->cap);
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

/* SPDX-License-Identifier: Apache-2.0 */
/* row_gpu_pictures.c - a row of several pictures on its way to a GPU: a record for each, side by
 * side, then their grids, then what each takes to be made.
 *
 * How large a record is shows when its picture was looked at, and the row gets its room when all of
 * them were: so records are put together beside it.  They are charged with the scratch memory,
 * across the resets that come with each picture, until the row is made (row_pictures.c). */
#include <assert.h>
#include <string.h>

#include "row/row.h"

#define HELD ((size_t)1 << 20) /* bytes that a worker keeps from row to row */

/* Room for the next picture's record, until the one after it is asked for.  NULL: there is none,
 * and the scratch memory says whether there will be. */
void *stk_gpu_pictures_place(stk_row *x, size_t size)
{
    stk_row_records *k = &x->m->records;

    assert(size % STK_PIC_ALIGN == 0);
    if (!stk_scratch_hold(&x->m->scratch, size))
        return NULL;
    if (size > k->cap - k->used) {
        size_t cap = k->used + k->used / 2 + size;
        uint8_t *grown = stk_grow(k->data, k->used, cap);

        if (!grown)
            return NULL;
        k->data = grown;
        k->cap = cap;
    }
    k->at = k->used;
    k->used += size;
    return k->data + k->at;
}

void stk_gpu_pictures_note(stk_row *x, const stk_pic_share *share)
{
    stk_row_records *k = &x->m->records;

    assert(k->n < k->most);
    k->share[k->n++] = *share;
}

int stk_gpu_pictures_check(const stk_row *x, const stk_view *v, stk_error *err)
{
    const stk_row_records *k = &x->m->records;
    uint32_t side = stk_row_chain(x)->spec.picture.patch.side;

    side = side ? side : 1;
    if (k->n < k->grids->n && v->vis_h == k->grids->at[k->n][0] * side &&
        v->vis_w == k->grids->at[k->n][1] * side)
        return 0;
    return stk_fail(err, STK_ECORRUPT, "a picture's size changed while it was read");
}

static int begin(stk_row *x, uint32_t n, stk_error *err)
{
    stk_row_records *k = &x->m->records;

    k->used = 0;
    k->n = 0;
    if (!stk_scratch_hold(&x->m->scratch, n * sizeof *k->share))
        return stk_row_no_room(x, n * sizeof *k->share, err);
    if (n <= k->most)
        return 0;
    stk_free(k->share);
    k->most = 0;
    k->share = stk_zalloc(n, sizeof *k->share);
    if (!k->share)
        return stk_fail_nomem(err, n * sizeof *k->share);
    k->most = n;
    return 0;
}

/* Records, grids and shares, to where the batch has them. */
static int put(stk_row *x, const stk_grid_list *g, stk_error *err)
{
    const stk_row_records *k = &x->m->records;
    size_t shares, tail = g->n * sizeof *g->at;
    uint8_t *to;

    assert(k->n == g->n && k->used % STK_PIC_ALIGN == 0);
    shares = stk_shares_at(k->used, g->n);
    stk_row_fresh(x);
    to = stk_row_reserve(x, shares + k->n * sizeof *k->share, NULL);
    if (!to)
        return stk_row_no_room(x, k->used, err);
    stk_row_out_of(x)->len = k->used;
    if (!k->n)
        return 0;
    memcpy(to, k->data, k->used);
    memset(to + k->used, 0, shares - k->used);
    memcpy(to + stk_grids_at(k->used), g->at, tail);
    memcpy(to + shares, k->share, k->n * sizeof *k->share);
    return 0;
}

int stk_gpu_pictures_make(stk_row *x, const stk_grid_list *g, stk_row_each each, stk_error *err)
{
    stk_row_records *k = &x->m->records;
    int rc = begin(x, g->n, err);

    k->grids = g;
    if (rc == 0)
        rc = each(x, err);
    if (rc == 0)
        rc = put(x, g, err);
    if (k->cap > HELD) {
        stk_free(k->data);
        k->data = NULL;
        k->cap = k->used = 0;
    }
    return rc;
}

int stk_gpu_pictures_finish(const stk_plan *p, stk_batch *b, uint32_t output, const uint32_t *used,
                            stk_error *err)
{
    if (!b->out[output].pictures)
        STK_TRY(stk_batch_take_grids(b, output, err));
    return stk_gpu_pad(p, b, output, used, err);
}

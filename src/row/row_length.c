/* SPDX-License-Identifier: Apache-2.0 */
/* row_length.c - rows that are only measured: how long they are is stored, and no row is made. */
#include <assert.h>

#include "row/row.h"

static uint32_t as_length(uint64_t n)
{
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

/* A sample that fills up the last batch is measured twice, by two workers: to the same length. */
static void store(const stk_row *x, uint64_t at, uint64_t n)
{
    __atomic_store_n(&x->plan->rows.measured[at], as_length(n), __ATOMIC_RELAXED);
}

/* The longest of its values, and the patches of each output of pictures, a column each: of a
 * sample, not of what stands in for it.  The longest is less while outputs of the row are still to
 * be measured. */
int stk_length_note(const stk_row *x, int64_t len)
{
    uint64_t id = stk_schedule_id(x->schedule, &x->where), at = id;
    uint64_t n = x->schedule->start[x->schedule->n_data];
    stk_measured *m = &x->m->measured;
    stk_row_out *out = stk_row_out_of(x);

    assert(x->plan->rows.measured && len >= 0);
    if (m->row != id + 1)
        *m = (stk_measured){ .row = id + 1 };
    m->longest = (uint64_t)len > m->longest ? (uint64_t)len : m->longest;
    if (!x->req->row.attempt)
        store(x, id, m->longest);
    for (uint32_t i = 0; i < x->m->n_grids; i++) {
        if (!x->plan->chains.chain[i].many.pictures)
            continue;
        at += n;
        if (x->m->grids[i].row == id + 1 && !x->req->row.attempt)
            store(x, at, x->m->grids[i].patches);
    }
    out->ndim = 1;
    out->shape[0] = 0;
    out->len = 0;
    return 0;
}

static int note_bytes(stk_row *x, stk_bytes in, stk_error *err)
{
    (void)err;
    return stk_length_note(x, (int64_t)in.len);
}

static int note_shape(stk_row *x, const stk_spec *spec, size_t bytes, void **dst, stk_error *err)
{
    (void)bytes;
    (void)dst;
    (void)err;
    stk_length_note(x, spec->ndim ? spec->shape[0] : 1);
    return 1;
}

static int note_value(stk_row *x, const stk_value_row *row, stk_error *err)
{
    (void)err;
    return stk_length_note(x, row->ndim ? row->shape[0] : 1);
}

const stk_row_goal stk_goal_length = {
    .name = "length", .bytes = note_bytes, .room = note_shape, .put = note_value
};

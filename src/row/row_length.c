/* SPDX-License-Identifier: Apache-2.0 */
/* row_length.c - rows that are only measured: how long they are is stored, and no row is made. */
#include <assert.h>

#include "row/row.h"

int stk_length_note(const stk_row *x, int64_t len)
{
    uint32_t *at = &x->plan->rows.measured[stk_schedule_id(x->schedule, &x->where)];
    uint32_t n = len < (int64_t)UINT32_MAX ? (uint32_t)len : UINT32_MAX;
    stk_row_out *out = stk_row_out_of(x);

    assert(x->plan->rows.measured && len >= 0);
    if (!x->req->attempt && n > *at)
        *at = n;
    out->ndim = 1;
    out->shape[0] = 0;
    out->len = 0;
    return 0;
}

static int make_bytes(stk_row *x, stk_error *err)
{
    stk_bytes in;

    STK_TRY(stk_row_input(x, &in, err));
    return stk_length_note(x, (int64_t)in.len);
}

static int make_value(stk_row *x, stk_error *err)
{
    stk_spec spec;
    stk_bytes in;
    size_t bytes;

    STK_TRY(stk_row_input(x, &in, err));
    STK_TRY(stk_value_shape(x, in, &spec, &bytes, err));
    return stk_length_note(x, spec.ndim ? spec.shape[0] : 1);
}

const stk_row_ops stk_row_length_bytes = { .name = "length_bytes", .make = make_bytes };
const stk_row_ops stk_row_length_value = { .name = "length_value", .make = make_value };

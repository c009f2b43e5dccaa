/* SPDX-License-Identifier: Apache-2.0 */
/* row_learn.c - learn_jpeg: what helps to decode a picture again is made once, by the worker that
 * has its bytes, and kept for later epochs and runs.
 *
 * It costs about as much as decoding a crop without it, and pixels don't depend on it. */
#include "index/seeklearn.h"

#include <assert.h>
#include "row/row.h"

static stk_learn_place place_of(const stk_request *r, uint32_t output)
{
    return (stk_learn_place){ r->entry.shard, r->entry.row, r->want[output].number };
}

void stk_learn_look(const stk_plan *p, stk_request *r, uint32_t output)
{
    const stk_learn *l = p->rows.learn ? p->rows.learn[r->where.dataset] : NULL;
    stk_learn_place at = place_of(r, output);
    stk_wanted *want = &r->want[output];
    int tried;

    if (!l || want->hint.data)
        return;
    want->hint = stk_learn_get(l, &at, &tried);
    want->learn = !tried && !stk_learn_full(l);
}

void stk_learn_from(stk_row *x, const stk_decoder *decoder, void *ctx)
{
    stk_learn *l = x->plan->rows.learn[x->where.dataset];
    stk_learn_place at = place_of(x->req, x->output);
    stk_bytes points = { 0 }, in = x->req->want[x->output].bytes;
    const stk_media_reader whole = stk_media_here(&in);
    int rc;

    assert(l && decoder->points);      /* `learn` is set only then */
    stk_scratch_reset(&x->m->scratch); /* the picture is sampled, its bytes are the request's */
    rc = decoder->points(ctx, &whole, &x->m->scratch, &points, NULL);
    if (rc == 0 && !stk_points_are_of(decoder, points))
        rc = STK_ECORRUPT;
    if (rc == 0 || rc == STK_ECORRUPT)
        stk_learn_put(l, &at, rc == 0 ? points : (stk_bytes){ 0 }, in.len);
    stk_stage_time(x->m, STK_STAGE_DECODE);
}

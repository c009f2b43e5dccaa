/* SPDX-License-Identifier: Apache-2.0 */
/* row_image_tokens.c - tokens that stand for the pictures of a sample: image_tokens(). */
#include <assert.h>

#include "base/cpu.h"
#include "kern/convert.h"
#include "op/image_tokens.h"
#include "row/row.h"

/* The row's numbers as i64. */
static int as_ids(const stk_row *x, const stk_value_row *row, size_t n, const int64_t **out,
                  stk_error *err)
{
    stk_convert_fn convert = stk_convert_find(stk_cpu_level(), row->dtype, STK_I64);
    int64_t *made;

    *out = row->data;
    if (row->dtype == STK_I64)
        return 0;
    made = stk_scratch_get(&x->m->scratch, (n + 1) * sizeof *made);
    if (!made)
        return stk_fail_nomem(err, n * sizeof *made);
    if (!convert || convert(made, row->data, n))
        return stk_fail(err, STK_ECORRUPT, "image_tokens: %s numbers are no tokens",
                        stk_dtype_name(row->dtype));
    *out = made;
    return 0;
}

/* The pictures that tokens are counted for. */
static int grids_for(stk_row *x, const stk_image_tokens *t, const stk_grid_list *g, stk_grids *out,
                     stk_error *err)
{
    uint64_t unit = (uint64_t)t->merge * t->merge;
    uint64_t most = x->plan->chains.chain[t->output].sizes.most_patches;
    uint32_t(*at)[2];

    *out = (stk_grids){ g->n, (const uint32_t(*)[2])g->at, NULL };
    if (!stk_row_counts_most(x->plan, t->output))
        return 0;
    at = stk_scratch_get(&x->m->scratch, (g->n + 1) * sizeof *at);
    if (!at)
        return stk_fail_nomem(err, g->n * sizeof *at);
    for (uint32_t i = 0; i < g->n; i++) {
        at[i][0] = t->merge;
        at[i][1] = (uint32_t)((most + unit - 1) / unit * t->merge);
    }
    out->at = (const uint32_t(*)[2])at;
    return 0;
}

/* Labels may be without placeholders: those of the tokens, a row of the same length. */
static int note_places(stk_grid_list *g, const stk_image_tokens *t, const int64_t *ids, size_t n,
                       stk_grids *out, stk_error *err)
{
    uint32_t seen;

    if (t->give != STK_GIVE_IDS) {
        if (g->n && g->place_row == g->row && g->place_len == n &&
            !stk_image_tokens_places(t, ids, n, NULL, 0))
            out->place = g->place;
        return 0;
    }
    g->place_row = 0;
    if (g->n > g->places) {
        void *grown = stk_grow(g->place, 0, g->n * sizeof *g->place);

        if (!grown)
            return stk_fail_nomem(err, g->n * sizeof *g->place);
        g->place = grown;
        g->places = g->n;
    }
    seen = stk_image_tokens_places(t, ids, n, g->place, g->n);
    g->place_row = seen == g->n && n <= UINT32_MAX ? g->row : 0;
    g->place_len = n;
    return 0;
}

int stk_row_image_tokens(stk_row *x, const stk_step *s, stk_value_row *row, stk_error *err)
{
    const stk_image_tokens *t = s->state;
    uint32_t width = t->give == STK_GIVE_MROPE ? 3 : 1;
    size_t n = row->ndim ? (size_t)row->shape[0] : 1;
    stk_grid_list *g = stk_row_grids_of(x, t->output, err);
    const int64_t *ids;
    stk_grids grids;
    uint64_t count;
    int64_t *made;

    if (!g)
        return STK_ENOMEM;
    assert(g->row == stk_schedule_id(x->schedule, &x->where) + 1); /* it was made before */
    STK_TRY(grids_for(x, t, g, &grids, err));
    if (row->ndim != 1)
        return stk_fail(err, STK_ECORRUPT, "image_tokens: a row of %u dimensions", row->ndim);
    STK_TRY(as_ids(x, row, n, &ids, err));
    STK_TRY(note_places(g, t, ids, n, &grids, err));
    STK_TRY(stk_image_tokens_count(t, ids, n, &grids, &count, err));
    made = count < SIZE_MAX / 64
               ? stk_scratch_get(&x->m->scratch, (count * width + 1) * sizeof *made)
               : NULL;
    if (!made)
        return stk_fail_nomem(err, (size_t)count);
    stk_image_tokens_put(t, ids, n, &grids, made);
    row->data = made;
    row->dtype = STK_I64;
    row->shape[0] = (int64_t)count;
    if (width > 1) {
        row->ndim = 2;
        row->shape[1] = width;
    }
    return 0;
}

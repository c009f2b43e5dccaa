/* SPDX-License-Identifier: Apache-2.0 */
/* truncate_lengths.c - see truncate_lengths.h.
 *
 * A picture loses whole rows of blocks, so that what is left has a grid.  A block is what the chain
 * merges to one token, so that tokens and positions follow from that grid, as ever.  Rows of
 * numbers are not cut: they get shorter by the tokens that the patches were. */
#include "loader/truncate_lengths.h"

#include <string.h>

#include "loader/lengths.h"
#include "op/image_tokens.h"
#include "op/patch_size.h"

int stk_truncates(const stk_loader_options *o)
{
    return o->over_budget && !strcmp(o->over_budget, "truncate");
}

static uint32_t common_multiple(uint32_t m, uint32_t n)
{
    uint32_t a = m, b = n, rest;

    for (; b; a = b, b = rest)
        rest = a % b;
    return m / a * n;
}

/* The output whose pictures are cut. */
static int find_output(const stk_plan_chains *c, uint32_t *out, stk_error *err)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->n_out; i++)
        if (c->chain[i].counted && c->chain[i].spec.picture.patch.side) {
            *out = i;
            n++;
        }
    if (n == 1 && !c->chain[*out].calls.n && !c->chain[*out].like.leader)
        return 0;
    return stk_fail(err, STK_EINVAL,
                    n ? "over_budget=\"truncate\" cuts the patches of one output, whose chain has "
                        "no call() and no like(): lower max_patches or max_pixels, or take \"drop\""
                      : "over_budget=\"truncate\" is for `patches`: cut rows of numbers with "
                        "truncate(n), recordings with part() or random_part(), or take \"drop\"");
}

/* Pixels of a block's side: whole merged patches. */
static uint32_t block_side(const stk_chain *c, uint32_t merge)
{
    const stk_patch_spec *p = &c->spec.picture.patch;
    uint32_t unit = common_multiple(p->side * p->block, p->side * merge);

    for (uint32_t i = 0; i < c->n_all; i++) {
        const stk_patch_sizing *sizing = c->all[i]->state;

        if (c->all[i]->op == &stk_op_resize_to_patches ||
            c->all[i]->op == &stk_op_random_resized_crop_to_patches)
            unit = common_multiple(unit, sizing->patch * sizing->merge);
    }
    return unit;
}

/* The side in patches of what becomes one token in all rows of numbers; 0: some have no such
 * tokens. */
static uint32_t merge_of(const stk_plan_chains *c, uint32_t output)
{
    uint32_t merge = 0;

    for (uint32_t i = 0; i < c->n_out; i++) {
        const stk_step *step = c->chain[i].many.tokens;
        const stk_image_tokens *t = step ? step->state : NULL;

        if (!c->chain[i].counted || i == output)
            continue;
        if (!t || t->output != output || (merge && merge != t->merge))
            return 0;
        merge = t->merge;
    }
    return merge;
}

static int values_are_joined(const stk_plan_chains *c, uint32_t output)
{
    for (uint32_t i = 0; i < c->n_out; i++)
        if (i != output && c->chain[i].counted && !c->out[i].joined)
            return 0;
    return 1;
}

int stk_truncating_init(stk_truncating *t, stk_schedule *s, const stk_plan_chains *c,
                        const stk_loader_options *o, stk_error *err)
{
    uint32_t output = 0, merge, side;

    *t = (stk_truncating){ .s = s, .budget = o->max_tokens };
    STK_TRY(find_output(c, &output, err));
    STK_TRY(stk_bins_multiple(c, &t->pad_values, err));
    t->pad_patches = c->out[output].joined ? 0 : t->pad_values;
    t->pad_values = values_are_joined(c, output) ? 0 : t->pad_values;
    merge = merge_of(c, output);
    side = c->chain[output].spec.picture.patch.side;
    s->truncated.output = output;
    s->truncated.unit = block_side(&c->chain[output], merge ? merge : 1);
    t->block = s->truncated.unit / side * (s->truncated.unit / side);
    t->merged = merge * merge;
    return 0;
}

/* What the rows of numbers count where `less` patches are left out. */
static uint32_t values_without(const stk_truncating *t, uint32_t values, uint32_t less)
{
    uint32_t tokens = t->merged ? less / t->merged : 0;

    return values > tokens ? values - tokens : 0;
}

static int fits(const stk_truncating *t, uint32_t patches, uint32_t values)
{
    uint64_t n = values ? stk_bin_round(values, t->pad_values) : 0;

    return n + stk_bin_round(patches, t->pad_patches) <= t->budget;
}

/* The most blocks that fit, of those of a sample. */
static uint32_t most_blocks(const stk_truncating *t, uint32_t patches, uint32_t values)
{
    uint32_t lo = 0, hi = patches / t->block;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo + 1) / 2, rest = mid * t->block;

        if (fits(t, rest, values_without(t, values, patches - rest)))
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

static int note(stk_truncating *t, uint64_t id, uint32_t blocks, stk_error *err)
{
    stk_truncation *out = &t->s->truncated;

    if (out->n == t->cap) {
        uint64_t cap = t->cap ? 2 * t->cap : 64;
        stk_reduced *grown = stk_grow(out->sample, out->n * sizeof *grown, cap * sizeof *grown);

        if (!grown)
            return stk_fail_nomem(err, cap * sizeof *grown);
        out->sample = grown;
        t->cap = cap;
    }
    out->sample[out->n++] = (stk_reduced){ id, blocks };
    return 0;
}

int stk_truncating_add(stk_truncating *t, uint64_t id, uint32_t *patches, uint32_t *values,
                       stk_error *err)
{
    uint32_t blocks, rest;

    if (fits(t, *patches, *values))
        return 0;
    blocks = most_blocks(t, *patches, *values);
    if (!blocks) /* not even one: the sample stays over the budget */
        return 0;
    rest = blocks * t->block;
    *values = values_without(t, *values, *patches - rest);
    *patches = rest;
    return note(t, id, blocks, err);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* plan_megatron.c - see plan_megatron.h.  Megatron's words for ours: sequence_length is the stride
 * of the windows (so `block`, unless a stride is given), add_extra_token_to_sequence is whether
 * they reach one token farther, num_samples is epoch_size, and random_seed is seed. */
#include "loader/plan_megatron.h"

#include "order/gpt_order.h"

static int check_options(const stk_plan *so_far, const stk_loader_options *o, stk_error *err)
{
    const char *word = o->exclude      ? "exclude"
                       : o->select     ? "select"
                       : o->skip       ? "skip"
                       : o->limit      ? "limit"
                       : o->repeat > 1 ? "repeat"
                                       : NULL;

    if (word)
        return stk_fail(err, STK_EINVAL,
                        "%s does not go with shuffle=\"megatron\", which knows whole files and "
                        "epoch_size",
                        word);
    if (o->seed > UINT32_MAX)
        return stk_fail(err, STK_EINVAL,
                        "seed %" PRIu64 " is more than the 4,294,967,295 that NumPy's RandomState, "
                        "and so shuffle=\"megatron\", takes",
                        o->seed);
    if (!so_far->chains.arrays || !so_far->chains.arrays->cut.block)
        return stk_fail(err, STK_EINVAL,
                        "shuffle=\"megatron\" is the order of token files: tokens(block=...) of a "
                        ".bin with an .idx");
    if (so_far->data.n != 1)
        return stk_fail(err, STK_EINVAL,
                        "shuffle=\"megatron\" is the order of one data set, not of %u: give its "
                        "files as one list",
                        so_far->data.n);
    return 0;
}

static int check_cut(const stk_array_plan *p, stk_error *err)
{
    const stk_tokens *t = &p->cut;
    const char *word = t->random ? "random" : t->parted ? "separator" : t->pack ? "pack" : NULL;

    if (word)
        return stk_fail(err, STK_EINVAL,
                        "tokens: %s does not go with shuffle=\"megatron\", which cuts documents "
                        "as they follow",
                        word);
    if (p->span < t->stride || p->span - t->stride > 1)
        return stk_fail(err, STK_EINVAL,
                        "tokens: with shuffle=\"megatron\" a window, shift included, has stride or "
                        "stride + 1 tokens; here it has %" PRIu64 " and stride is %" PRIu64,
                        p->span, t->stride);
    return 0;
}

int stk_megatron_plan(stk_schedule *s, const stk_plan_input *in, const stk_plan *so_far,
                      stk_error *err)
{
    const stk_array_plan *p = so_far->chains.arrays;
    stk_gpt_plan plan = { .seed = (uint32_t)in->o->seed, .samples = in->o->epoch_size };
    const stk_megatron **docs;
    const stk_array *a;
    int rc = 0;

    STK_TRY(check_options(so_far, in->o, err));
    STK_TRY(check_cut(p, err));
    plan.length = p->cut.stride;
    plan.extra = (uint32_t)(p->span - plan.length);
    a = p->out[0].array;
    docs = stk_zalloc(a->n_parts, sizeof *docs);
    if (!docs)
        return stk_fail_nomem(err, a->n_parts * sizeof *docs);
    for (uint32_t i = 0; rc == 0 && i < a->n_parts; i++) {
        docs[i] = a->part[i].docs;
        if (!docs[i])
            rc = stk_fail(err, STK_EINVAL,
                          "shuffle=\"megatron\" shuffles documents, and these files know none: "
                          "Megatron's .bin with an .idx does");
    }
    plan.part = docs;
    plan.n_parts = a->n_parts;
    if (rc == 0)
        rc = stk_order_gpt(&s->order, &plan, err);
    if (rc == 0) {
        s->start[1] = stk_gpt_numbers(&s->order);
        rc = stk_sample_set_init(&s->set, &s->start[1], 1, err);
    }
    stk_free(docs);
    return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* plan_schedule.c - which samples take part, in which order, and what of it is this rank's. */
#include "base/table.h"
#include "loader/blocks.h"
#include "loader/exclude.h"
#include "loader/lengths.h"
#include "loader/parts.h"
#include "loader/plan_bins.h"
#include "loader/plan_megatron.h"
#include "loader/sampling.h"

static int plan_samples(stk_schedule *s, const stk_plan_input *in, const stk_plan *so_far,
                        stk_error *err)
{
    if (s->n_data > STK_MAX_DATASETS)
        return stk_fail(err, STK_ELIMIT, "a loader takes at most %d data sets, not %u",
                        STK_MAX_DATASETS, s->n_data);
    if (in->o->exclude)
        STK_TRY(stk_exclude_load(&s->set.exclude, in->o->exclude, so_far->data.set, &s->set,
                                 &so_far->policy.log, err));
    return stk_sampling_set(&s->set, in->o, err);
}

static int plan_own_order(stk_schedule *s, const stk_loader_options *o, stk_error *err)
{
    STK_TRY(stk_table_take(&s->order, sizeof s->order, o->order, "order", err));
    s->order.close = NULL; /* it stays the caller's */
    STK_TRY(stk_sampling_own_order(o, err));
    s->set = (stk_sample_set){ 0 }; /* it says itself who takes part */
    return 0;
}

static int plan_shuffle(stk_schedule *s, const stk_plan_input *in, const stk_plan *so_far,
                        stk_error *err)
{
    const stk_loader_options *o = in->o;

    if (so_far->chains.megatron && !stk_sampling_given(o))
        return stk_megatron_plan(s, in, so_far, err);
    STK_TRY(plan_samples(s, in, so_far, err));
    for (uint32_t i = 0; i < so_far->data.n; i++)
        if (so_far->data.set[i]->can & STK_DATA_STREAM)
            s->near = STK_STREAM_NEAR;
    s->drawn_print = stk_sampling_print(o);
    if (stk_sampling_given(o))
        return stk_sampling_order(&s->order, &s->set, o, err);
    if (o->shuffle == STK_SHUFFLE_BLOCK)
        return stk_blocks_plan(s, in, &so_far->data, err);
    if (o->shuffle == STK_SHUFFLE_EXACT)
        STK_TRY(stk_blocks_warn(s, so_far, err));
    return stk_order_exact(&s->order, &s->set, o->seed, o->shuffle == STK_SHUFFLE_EXACT, err);
}

static int plan_order(stk_schedule *s, const stk_plan_input *in, const stk_plan *so_far,
                      stk_error *err)
{
    STK_TRY(in->o->order ? plan_own_order(s, in->o, err) : plan_shuffle(s, in, so_far, err));
    STK_TRY(stk_sampling_epochs(&s->order, in->o, err));
    STK_TRY(stk_schedule_settle(s, err));
    return stk_bins_plan(s, in, so_far, err);
}

static int check_steps(const stk_schedule *s, stk_error *err)
{
    stk_rank_split d = stk_schedule_split(s, 0);

    if (!d.samples)
        return stk_fail(err, STK_EINVAL, "exclude, select, skip and limit leave no samples");
    if (!stk_rank_split_steps(&d, 0))
        return stk_fail(err, STK_EINVAL,
                        "%" PRIu64 " samples make no global batch of %" PRIu64
                        " (%u rank%s): lower "
                        "batch_size or leave drop_last",
                        d.samples, d.global, d.world, d.world == 1 ? "" : "s");
    return 0;
}

int stk_plan_schedule_make(stk_schedule **out, const stk_plan_input *in, const stk_plan *so_far,
                           stk_error *err)
{
    const uint64_t *start = so_far->chains.start;
    uint32_t n = so_far->data.n;
    uint64_t *lens;
    int rc;

    STK_TRY(stk_sound_parts_bind(so_far, err));
    lens = stk_zalloc(n, sizeof *lens);
    if (!lens)
        return stk_fail_nomem(err, n * sizeof *lens);
    for (uint32_t i = 0; i < n; i++)
        lens[i] = start[i + 1] - start[i];
    rc = stk_schedule_open(out, lens, n, &so_far->ranks.split, so_far->policy.seed, err);
    stk_free(lens);
    if (rc == 0)
        rc = plan_order(*out, in, so_far, err);
    return rc == 0 ? check_steps(*out, err) : rc;
}

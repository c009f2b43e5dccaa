/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - options to a plan: what contradicts itself is refused, then the parts are made one after
 * the other. */
#include "loader/parts.h"

#include "base/registry.h"
#include "loader/blocks.h"
#include "loader/options.h"
#include "loader/plan_bins.h"

static int check_options(const stk_loader_options *o, size_t n_data, stk_error *err)
{
    if (!n_data)
        return stk_fail(err, STK_EINVAL, "a loader needs a data set");
    if (!o->n_outputs || !o->outputs)
        return stk_fail(
            err, STK_EINVAL,
            "a loader needs at least one output: fields={\"image\": \"from(jpg) | image | ...\"}");
    STK_TRY(stk_options_check(o, err));
    if (o->rank >= (o->world_size ? o->world_size : 1))
        return stk_fail(err, STK_EINVAL, "rank %u is not below world_size %u", o->rank,
                        o->world_size ? o->world_size : 1);
    return 0;
}

static int check_plugins(const stk_loader_options *o, stk_error *err)
{
    if (o->n_stages > STK_MAX_STAGES)
        return stk_fail(err, STK_EINVAL, "a loader has at most %d batch stages, not %u",
                        STK_MAX_STAGES, o->n_stages);
    STK_TRY(stk_blocks_check(o, err));
    STK_TRY(stk_bins_check(o, err));
    return 0;
}

static int make_parts(stk_plan *p, const stk_plan_input *in, stk_error *err)
{
    STK_TRY(stk_plan_ranks_make(&p->ranks, in, p, err));
    STK_TRY(stk_plan_policy_make(&p->policy, in, p, err));
    STK_TRY(stk_plan_data_make(&p->data, in, p, err));
    STK_TRY(stk_plan_gpu_make(&p->gpu, in, p, err));
    STK_TRY(stk_plan_io_make(&p->io, in, p, err));
    STK_TRY(stk_plan_chains_make(&p->chains, in, p, err));
    STK_TRY(stk_plan_io_named(&p->io, &p->chains, err));
    STK_TRY(stk_plan_schedule_make(&p->schedule, in, p, err));
    STK_TRY(stk_plan_batching_make(&p->batching, in, p, err));
    STK_TRY(stk_plan_memory_make(&p->memory, in, p, err));
    STK_TRY(stk_plan_cache_make(&p->cache, in, p, err));
    STK_TRY(stk_plan_outputs_make(&p->outputs, in, p, err));
    return stk_plan_rows_make(&p->rows, in, p, err);
}

int stk_plan_open(stk_plan **out, const stk_plan_input *in, stk_error *err)
{
    int rc;

    *out = NULL;
    STK_TRY(check_options(in->o, in->n_data, err));
    STK_TRY(check_plugins(in->o, err));
    *out = STK_NEW(stk_plan);
    if (!*out)
        return stk_fail_nomem(err, sizeof **out);
    rc = make_parts(*out, in, err);
    if (rc < 0)
        stk_plan_close(out);
    return rc;
}

void stk_plan_close(stk_plan **pp)
{
    stk_plan *p = *pp;

    if (!p)
        return;
    *pp = NULL;
    stk_plan_rows_fini(&p->rows, p);
    stk_plan_chains_fini(&p->chains, p->data.n);
    stk_plan_memory_fini(&p->memory, &p->data);
    stk_plan_batching_fini(&p->batching);
    stk_plan_gpu_fini(&p->gpu);
    stk_plan_cache_fini(&p->cache);
    if (p->memory.pool)
        stk_pool_shut(p->memory.pool); /* a batch that is still held keeps its own buffers only */
    if (!p->outputs.common)
        stk_pool_close(&p->memory.pool);
    stk_batch_plan_unref(&p->outputs.common);
    stk_schedule_close(&p->schedule);
    stk_plan_data_fini(&p->data);
    stk_registry_close(&p->policy.registry);
    stk_free(p);
}

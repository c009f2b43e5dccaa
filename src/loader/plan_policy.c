/* SPDX-License-Identifier: Apache-2.0 */
/* plan_policy.c - what holds for every row, and this rank among the others. */
#include <stdlib.h>

#include "base/registry.h"
#include "base/table.h"
#include "loader/parts.h"
#include "loader/sampling.h"

#define DEFAULT_PIXELS 178956970u
#define DEFAULT_WAIT 30.0 /* seconds */

/* STOKER_WAIT_WARN=seconds; a collective's watchdog ends a job after minutes and says nothing of
 * data. */
static uint64_t wait_ns(void)
{
    const char *text = getenv("STOKER_WAIT_WARN");
    double s = text ? strtod(text, NULL) : 0;

    return (uint64_t)((s >= 0.01 && s <= 1e6 ? s : DEFAULT_WAIT) * 1e9);
}

int stk_plan_policy_make(stk_plan_policy *out, const stk_plan_input *in, const stk_plan *so_far,
                         stk_error *err)
{
    const stk_loader_options *o = in->o;

    (void)so_far;
    out->seed = o->seed;
    out->max_pixels = o->max_pixels ? o->max_pixels : DEFAULT_PIXELS;
    out->on_error = o->on_error;
    out->skip_budget = o->skip_budget;
    out->log = (stk_log){ o->log, o->log_cookie };
    out->wait_ns = wait_ns();
    out->registry = stk_registry_ref(o->registry);
    if (o->watch)
        STK_TRY(stk_table_take(&out->watch, sizeof out->watch, o->watch, "watch", err));
    if (o->caller)
        STK_TRY(stk_table_take(&out->caller, sizeof out->caller, o->caller, "caller", err));
    return stk_stall_plan(&out->stall, err);
}

/* Rows of a global batch: as given, or what one rank's makes with those of the others. */
static int plan_global(stk_rank_split *d, const stk_loader_options *o, stk_error *err)
{
    uint32_t batch = o->batch_size ? o->batch_size : 1;

    d->global = stk_has_budget(o) ? d->world : (uint64_t)batch * d->world; /* of bins, or rows */
    if (!o->global_batch_size)
        return 0;
    if (o->batch_size)
        return stk_fail(err, STK_EINVAL,
                        "batch_size is per rank and global_batch_size of all ranks: give one");
    d->global = o->global_batch_size;
    if (d->global < d->world)
        return stk_fail(err, STK_EINVAL,
                        "global_batch_size %" PRIu64 " leaves some of %u ranks without a row: give "
                        "at least one to each",
                        d->global, d->world);
    if (stk_rank_split_rows(d) > STK_MAX_BATCH)
        return stk_fail(err, STK_EINVAL,
                        "global_batch_size %" PRIu64 " gives each of %u ranks %" PRIu64
                        " rows, and a rank has at most %u: lower it",
                        d->global, d->world, stk_rank_split_rows(d), STK_MAX_BATCH);
    return 0;
}

int stk_plan_ranks_make(stk_plan_ranks *out, const stk_plan_input *in, const stk_plan *so_far,
                        stk_error *err)
{
    const stk_loader_options *o = in->o;
    stk_rank_split *d = &out->split;

    (void)so_far;
    d->world = o->world_size ? o->world_size : 1;
    d->rank = o->rank;
    d->drop_last = o->drop_last == STK_YES;
    if (o->shuffle == STK_SHUFFLE_BLOCK && !o->order && !stk_sampling_given(o))
        d->local = (uint32_t)o->ranks_per_node;
    STK_TRY(plan_global(d, o, err));
    out->rows = stk_has_budget(o) ? 2 : (uint32_t)stk_rank_split_rows(d);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* blocks.c - the block order's plan: streams and window from the options, shards from the indexes.
 *
 * The order knows numbers of the sample set only.  A shard is a run of them, thinner where samples
 * are left out; where a table says which samples stand where, a run of samples from one shard is
 * one, and where those are short, any 1,024 that follow each other. */
#include "loader/blocks.h"

#include "base/mem.h"
#include "data/data.h"

#define TABLE_RUN 1024 /* of a table without runs */
#define SHORT_RUN 16   /* runs of less, on average, are none */
#define MANY_TIMES 1024
#define MANY_SHARDS (1u << 20)

typedef struct starts {
    uint64_t *at, n, room;
} starts;

static int add(starts *list, uint64_t number, stk_error *err)
{
    if (list->n == list->room) {
        uint64_t room = list->room ? list->room * 2 : 1024;
        uint64_t *at = stk_grow(list->at, list->n * sizeof *at, room * sizeof *at);

        if (!at)
            return stk_fail_nomem(err, room * sizeof *at);
        list->at = at;
        list->room = room;
    }
    list->at[list->n++] = number;
    return 0;
}

/* 1: all data sets have runs that are read in order. */
static int is_forward(const stk_plan_data *data)
{
    for (uint32_t d = 0; d < data->n; d++)
        if (!data->set[d]->runs)
            return 0;
    return data->n > 0;
}

static int add_runs(const stk_schedule *s, const stk_plan_data *data, starts *list, stk_error *err)
{
    for (uint32_t d = 0; d < data->n; d++) {
        const stk_dataset *ds = data->set[d];
        uint64_t end = stk_dataset_len(ds);

        for (uint64_t i = 0; i < ds->n_runs; i++) {
            uint64_t first = stk_sample_set_below(&s->set, s->set.start[d] + ds->runs[i]);
            uint64_t next = i + 1 < ds->n_runs ? ds->runs[i + 1] : end;

            if (stk_sample_set_below(&s->set, s->set.start[d] + next) > first)
                STK_TRY(add(list, first, err));
        }
    }
    return 0;
}

/* Of what takes part in its own order, once. */
static int add_shards(const stk_schedule *s, const stk_plan_data *data, starts *list,
                      stk_error *err)
{
    for (uint32_t d = 0; d < data->n; d++) {
        const stk_dataset *ds = data->set[d];

        for (uint64_t i = 0; i < stk_dataset_shards(ds); i++) {
            uint64_t first, end;
            stk_shard_info info;

            STK_TRY(ds->ops->shard(ds, i, &info, err));
            first = stk_sample_set_below(&s->set, s->set.start[d] + info.first);
            end = stk_sample_set_below(&s->set, s->set.start[d] + info.first + info.samples);
            if (end > first)
                STK_TRY(add(list, first, err));
        }
    }
    return 0;
}

/* Of a table of n samples, once. */
static int add_table(const stk_schedule *s, const stk_plan_data *data, uint64_t n, starts *list,
                     stk_error *err)
{
    uint64_t shard = UINT64_MAX;
    uint32_t last = UINT32_MAX;

    for (uint64_t i = 0; i < n && list->n <= n / SHORT_RUN; i++) {
        const stk_dataset *ds;
        stk_where w;
        stk_entry x;

        stk_sample_set_at(&s->set, i, &w);
        ds = data->set[w.dataset];
        STK_TRY(ds->ops->entry(ds, w.sample, &x, err));
        if (w.dataset != last || x.shard != shard)
            STK_TRY(add(list, i, err));
        last = w.dataset;
        shard = x.shard;
    }
    if (list->n <= n / SHORT_RUN)
        return 0;
    list->n = 0;
    for (uint64_t i = 0; i < n; i += TABLE_RUN)
        STK_TRY(add(list, i, err));
    return 0;
}

/* *passes: how often that comes.  A list of a million shards and more takes long to plan, so with a
 * large repeat they are listed once; with others all of them are in one order, as they always
 * were. */
static int find_starts(const stk_schedule *s, const stk_plan_data *data, starts *list,
                       uint64_t *passes, stk_error *err)
{
    uint32_t times = s->set.repeat ? s->set.repeat : 1;
    uint64_t n = stk_sample_set_len(&s->set) / times, once;

    STK_TRY(s->set.select      ? add_table(s, data, n, list, err)
            : is_forward(data) ? add_runs(s, data, list, err)
                               : add_shards(s, data, list, err));
    once = list->n;
    *passes = times > MANY_TIMES && once > MANY_SHARDS / times ? times : 1;
    times = *passes > 1 ? 1 : times;
    for (uint32_t k = 1; k < times; k++)
        for (uint64_t i = 0; i < once; i++)
            STK_TRY(add(list, list->at[i] + k * n, err));
    return 0;
}

int stk_blocks_replan(stk_schedule *s, const stk_plan_data *data, uint64_t streams, uint64_t window,
                      stk_error *err)
{
    stk_block_plan p = { .seed = s->seed,
                         .streams = streams > UINT32_MAX ? UINT32_MAX : (uint32_t)streams,
                         .window = window,
                         .forward = is_forward(data) };
    starts list = { 0 };
    stk_order fresh;
    int rc = find_starts(s, data, &list, &p.passes, err);

    p.shards = list.at;
    p.n_shards = list.n;
    if (rc == 0)
        rc = stk_order_block(&fresh, &s->set, &p, err);
    if (rc == 0 && s->positions && s->positions != fresh.len(fresh.state)) {
        stk_order inner = fresh; /* epochs of another size are planned already */

        rc = stk_order_stream(&fresh, &inner, s->positions, err);
    }
    stk_free(list.at);
    if (rc < 0)
        return rc;
    if (s->order.close)
        s->order.close(s->order.state);
    s->order = fresh;
    s->streams = p.streams;
    s->window = window;
    return 0;
}

/* Bytes of a sample, on average: shards by their samples. */
static int mean_size(const stk_plan_data *data, uint64_t *out, stk_error *err)
{
    uint64_t bytes = 0, samples = 0;

    for (uint32_t d = 0; d < data->n; d++) {
        const stk_dataset *ds = data->set[d];

        for (uint64_t i = 0; i < stk_dataset_shards(ds); i++) {
            stk_shard_info info;

            STK_TRY(ds->ops->shard(ds, i, &info, err));
            bytes += info.size;
            samples += info.samples;
        }
    }
    *out = bytes / (samples ? samples : 1);
    *out = *out ? *out : 1;
    return 0;
}

/* As many videos as a batch has rows, and at most 64 a rank: each has a decoder. */
static uint64_t forward_streams(const stk_schedule *s, const stk_plan_data *data)
{
    uint64_t runs = 0, most = (uint64_t)64 * s->split.world, n = 1;

    for (uint32_t d = 0; d < data->n; d++)
        runs += data->set[d]->n_runs;
    most = most < s->split.global ? most : s->split.global;
    most = most < (uint64_t)8 * s->split.world ? (uint64_t)8 * s->split.world : most;
    while (n < most && n * 2 <= runs)
        n *= 2;
    return n;
}

int stk_blocks_plan(stk_schedule *s, const stk_plan_input *in, const stk_plan_data *data,
                    stk_error *err)
{
    const stk_loader_options *o = in->o;
    uint64_t streams = o->streams, window = o->window, size;

    if (is_forward(data)) {
        streams = streams ? streams : forward_streams(s, data);
        return stk_blocks_replan(s, data, streams, streams, err);
    }
    if (!streams)
        streams = stk_block_streams(s->split.global, stk_sample_set_len(&s->set));
    if (!window && o->window_bytes) {
        STK_TRY(mean_size(data, &size, err));
        window = o->window_bytes / size ? o->window_bytes / size : 1;
    }
    return stk_blocks_replan(s, data, streams, window ? window : STK_BLOCK_WINDOW, err);
}

int stk_blocks_check(const stk_loader_options *o, stk_error *err)
{
    if (o->window && o->window_bytes)
        return stk_fail(err, STK_EINVAL,
                        "window is in samples and window_bytes in bytes: give one of them");
    if (o->shuffle > STK_SHUFFLE_MEGATRON)
        return stk_fail(err, STK_EINVAL, "there is no shuffle %d", (int)o->shuffle);
    if (o->ranks_per_node && (o->world_size ? o->world_size : 1) % o->ranks_per_node)
        return stk_fail(err, STK_EINVAL,
                        "ranks_per_node %" PRIu64 " does not divide world_size %" PRIu32,
                        o->ranks_per_node, o->world_size ? o->world_size : 1);
    if ((o->streams || o->window || o->window_bytes) &&
        (o->shuffle != STK_SHUFFLE_BLOCK || o->order))
        return stk_fail(err, STK_EINVAL, "streams and window belong to shuffle=\"block\"");
    return 0;
}

int stk_blocks_warn(const stk_schedule *s, const stk_plan *so_far, stk_error *err)
{
    uint64_t size;

    if (!so_far->data.remote)
        return 0;
    STK_TRY(mean_size(&so_far->data, &size, err));
    stk_log_line(&so_far->policy.log, STK_LOG_WARN,
                 "shuffle=\"exact\" over remote shards costs %" PRIu64 " reads at random places an "
                 "epoch, of %" PRIu64 " bytes each: shuffle=\"block\" reads shard by shard",
                 stk_sample_set_len(&s->set), size);
    return 0;
}

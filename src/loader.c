/* SPDX-License-Identifier: Apache-2.0 */
/* loader.c - the public loader: options checked and turned into an engine's plan; everything
 * else is passed on. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/opts.h"
#include "base/hash.h"
#include "base/registry.h"
#include "batching.h"
#include "blocks.h"
#include "device_plan.h"
#include "exclude.h"
#include "megatron_plan.h"
#include "lengths.h"
#include "pipe/engine.h"
#include "ragged.h"
#include "sampling.h"

struct stk_loader {
    stk_engine e;
};

#define DEFAULT_PIXELS 178956970u
#define DEFAULT_IO 8
#define MAX_IO 1024
#define MAX_BATCH (1u << 20)
#define IO_DEPTH 64
#define AHEAD_ROWS 384        /* rows that all slots together should hold ... */
#define RING_BYTES (6u << 20) /* rows of arrays: what processors cache is written, not memory */
#define AHEAD_LIGHT 4096 /* ... and where rows are cheap, so that a batch's hand-over is no wait */

/* ---- options ---- */

static int check_options(const stk_loader_options *o, size_t n_data, stk_error *err)
{
    if (!n_data)
        return stk_fail(err, STK_EINVAL, "a loader needs a data set");
    if (!o->n_outputs || !o->outputs)
        return stk_fail(
            err, STK_EINVAL,
            "a loader needs at least one output: fields={\"image\": \"from(jpg) | image | ...\"}");
    if (o->n_outputs > STK_MAX_OUTPUTS)
        return stk_fail(err, STK_EINVAL, "a loader has at most %d outputs, not %u", STK_MAX_OUTPUTS,
                        o->n_outputs);
    if (o->batch_size > MAX_BATCH)
        return stk_fail(err, STK_EINVAL, "batch_size %u is more than 1,048,576", o->batch_size);
    if (o->num_workers < STK_NONE || o->num_workers > STK_MAX_WORKERS)
        return stk_fail(err, STK_EINVAL, "num_workers is 0 to %d, not %d", STK_MAX_WORKERS,
                        o->num_workers);
    if (o->prefetch > STK_MAX_SLOTS)
        return stk_fail(err, STK_EINVAL, "prefetch is 1 to %d batches, not %u", STK_MAX_SLOTS,
                        o->prefetch);
    if (o->rank >= (o->world_size ? o->world_size : 1))
        return stk_fail(err, STK_EINVAL, "rank %u is not below world_size %u", o->rank,
                        o->world_size ? o->world_size : 1);
    if (o->io_threads > MAX_IO)
        return stk_fail(err, STK_EINVAL, "io_threads is 1 to %d, not %u", MAX_IO, o->io_threads);
    if (o->n_stages > STK_MAX_STAGES)
        return stk_fail(err, STK_EINVAL, "a loader has at most %d batch stages, not %u",
                        STK_MAX_STAGES, o->n_stages);
    if (o->watch && o->watch->abi != STK_PLUGIN_ABI)
        return stk_fail(err, STK_EINVAL, "the watch was built for ABI %u, this is %d",
                        o->watch->abi, STK_PLUGIN_ABI);
    STK_TRY(stk_blocks_check(o, err));
    STK_TRY(stk_batching_check(o, err));
    for (uint32_t i = 0; i < o->n_stages; i++)
        if (o->stages[i]->abi != STK_PLUGIN_ABI)
            return stk_fail(err, STK_EINVAL, "batch stage %s was built for ABI %u, this is %d",
                            o->stages[i]->name, o->stages[i]->abi, STK_PLUGIN_ABI);
    return 0;
}

static uint32_t default_workers(void)
{
    uint32_t n = stk_cpu_share();

    return n > STK_MAX_WORKERS ? STK_MAX_WORKERS : n;
}

/* ---- outputs ---- */

static int plan_output(stk_engine *e, uint32_t i, const stk_loader_options *o, stk_error *err)
{
    stk_out_plan *p = &e->plan.batching.common->out[i];
    stk_chain *c = &e->plan.chains.chain[i];
    int bound = 0, rc;

    if (!o->outputs[i].name || !o->outputs[i].chain)
        return stk_fail(err, STK_EINVAL, "output %u needs a name and a chain", i);
    p->name = stk_strdup(o->outputs[i].name);
    if (!p->name)
        return stk_fail_nomem(err, 64);
    if (e->plan.data.set[0]->arrays)
        return stk_chain_plan_rows(c, p->name, o->outputs[i].chain, err);
    STK_TRY(stk_chain_plan(c, p->name, o->outputs[i].chain, err));
    STK_TRY(stk_ragged_plan(e, i, o, err));
    p->spec = c->spec;
    p->row_bytes = c->row_bytes;
    stk_device_records(e, i);
    e->plan.chains.open_root[i] = c->open_root;
    if (c->fallback)
        e->plan.chains.fallback[i] = (stk_bytes){ (const uint8_t *)c->fallback, strlen(c->fallback) };
    for (uint32_t d = 0; d < e->plan.data.n; d++) {
        const stk_dataset *data = e->plan.data.set[d];

        if (c->open_root && !data->format->find)
            return stk_fail(err, STK_ENOTSUP,
                            "output %s: open reads files that a manifest (.csv, .jsonl) names; "
                            "fields of the format %s are the data themselves",
                            p->name, data->format->name);
        rc = stk_chain_bind(c, p->name, data->index, &e->plan.chains.field_of[d][i], err);
        if (rc < 0)
            return rc;
        bound |= rc != STK_END;
    }
    if (!bound)
        return stk_fail(err, STK_EINVAL,
                        "output %s: no sample has a field %s, so that all would get the default: "
                        "check its name",
                        p->name, c->from[0]);
    return 0;
}

/* Either all data sets are arrays or none is. */
static int check_kinds(const stk_engine *e, const stk_loader_options *o, stk_error *err)
{
    int arrays = e->plan.data.set[0]->arrays != NULL;

    for (uint32_t d = 1; d < e->plan.data.n; d++)
        if ((e->plan.data.set[d]->arrays != NULL) != arrays)
            return stk_fail(
                err, STK_EINVAL,
                "a loader takes arrays and token files, or shards of samples, not both");
    if (arrays && (o->exclude || (o->shuffle == STK_SHUFFLE_BLOCK && !o->order)))
        return stk_fail(err, STK_ENOTSUP,
                        "%s is for shards with an index, not for arrays and token "
                        "files",
                        o->exclude ? "exclude" : "shuffle=\"block\"");
    if (arrays && o->on_error == STK_ON_ERROR_SKIP)
        return stk_fail(
            err, STK_ENOTSUP,
            "on_error=\"skip\" is for samples that are decoded each by itself; a row of "
            "an array that can't be had means that the file is damaged or of another "
            "type: leave it at \"raise\"");
    return 0;
}

static int plan_outputs(stk_engine *e, const stk_loader_options *o, stk_error *err)
{
    uint32_t n_data = e->plan.data.n;
    int light = 1;

    STK_TRY(check_kinds(e, o, err));
    e->plan.chains.chain = stk_zalloc(o->n_outputs, sizeof *e->plan.chains.chain);
    e->plan.chains.field_of = stk_zalloc(n_data, sizeof *e->plan.chains.field_of);
    if (!e->plan.chains.chain || !e->plan.chains.field_of)
        return stk_fail_nomem(err, o->n_outputs * sizeof *e->plan.chains.chain);
    for (uint32_t d = 0; d < n_data; d++) {
        e->plan.chains.field_of[d] = stk_zalloc(o->n_outputs, sizeof *e->plan.chains.field_of[d]);
        if (!e->plan.chains.field_of[d])
            return stk_fail_nomem(err, o->n_outputs * sizeof *e->plan.chains.field_of[d]);
    }
    for (uint32_t i = 0; i < o->n_outputs; i++) {
        for (uint32_t k = 0; k < i; k++)
            if (o->outputs[i].name && !strcmp(o->outputs[k].name, o->outputs[i].name))
                return stk_fail(err, STK_EINVAL, "two outputs are called %s", o->outputs[i].name);
        STK_TRY(plan_output(e, i, o, err));
        light &= e->plan.chains.chain[i].spec.kind != STK_KIND_IMAGE;
    }
    if (e->plan.data.set[0]->arrays)
        return stk_array_plan_open(e, err);
    e->plan.batching.claim_size = light ? 32 : 1; /* cheap rows are claimed in runs, costly ones one by one */
    return 0;
}

/* ---- order, memory, ring ---- */

static int plan_samples(stk_engine *e, const stk_loader_options *o, stk_error *err)
{
    uint64_t lens[STK_MAX_DATASETS];

    if (e->plan.data.n > STK_MAX_DATASETS)
        return stk_fail(err, STK_ELIMIT, "a loader takes at most %d data sets, not %u",
                        STK_MAX_DATASETS, e->plan.data.n);
    for (uint32_t i = 0; i < e->plan.data.n; i++)
        lens[i] = e->schedule.start[i + 1] - e->schedule.start[i];
    STK_TRY(stk_roster_init(&e->schedule.set, lens, e->plan.data.n, err));
    if (o->exclude)
        STK_TRY(stk_exclude_load(&e->schedule.set.exclude, o->exclude, e->plan.data.set, &e->schedule.set,
                                 &e->plan.policy.log, err));
    return stk_sampling_roster(&e->schedule.set, o, err);
}

static int plan_own_order(stk_engine *e, const stk_loader_options *o, stk_error *err)
{
    if (o->order->abi != STK_PLUGIN_ABI)
        return stk_fail(err, STK_EINVAL, "order %s was built for ABI %u, this is %d",
                        o->order->name, o->order->abi, STK_PLUGIN_ABI);
    STK_TRY(stk_sampling_own_order(o, err));
    e->schedule.order = *o->order;
    e->schedule.order.close = NULL; /* it stays the caller's */
    return 0;
}

static int plan_shuffle(stk_engine *e, const stk_loader_options *o, stk_error *err)
{
    if (e->plan.chains.megatron && !stk_sampling_given(o))
        return stk_megatron_plan(e, o, err);
    STK_TRY(plan_samples(e, o, err));
    e->schedule.drawn_print = stk_sampling_print(o);
    if (stk_sampling_given(o))
        return stk_sampling_order(&e->schedule.order, &e->schedule.set, o, err);
    if (o->shuffle == STK_SHUFFLE_BLOCK)
        return stk_blocks_plan(e, o, err);
    if (o->shuffle == STK_SHUFFLE_EXACT)
        STK_TRY(stk_blocks_warn(e, err));
    return stk_order_exact(&e->schedule.order, &e->schedule.set, o->seed, o->shuffle == STK_SHUFFLE_EXACT, err);
}

static int plan_order(stk_engine *e, const stk_loader_options *o, stk_error *err)
{
    STK_TRY(o->order ? plan_own_order(e, o, err) : plan_shuffle(e, o, err));
    STK_TRY(stk_sampling_epochs(&e->schedule.order, o, err));
    e->schedule.positions = e->schedule.order.len(e->schedule.order.state);
    return e->schedule.positions ? stk_batching_plan(e, o, err) : 0;
}

/* Rows of a global batch: as given, or what one rank's makes with those of the others. */
static int plan_global(stk_deal *d, const stk_loader_options *o, stk_error *err)
{
    uint32_t batch = o->batch_size ? o->batch_size : 1;

    d->world = o->world_size ? o->world_size : 1;
    d->rank = o->rank;
    d->drop_last = o->drop_last == STK_YES;
    d->global = o->max_tokens ? d->world : (uint64_t)batch * d->world; /* of bins, or rows */
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
    if (stk_deal_rows(d) > MAX_BATCH)
        return stk_fail(err, STK_EINVAL,
                        "global_batch_size %" PRIu64 " gives each of %u ranks %" PRIu64
                        " rows, and a rank has at most %u: lower it",
                        d->global, d->world, stk_deal_rows(d), MAX_BATCH);
    return 0;
}

static int plan_steps(stk_engine *e, stk_error *err)
{
    e->schedule.split.samples = stk_engine_deal(e, 0).samples;
    if (!e->schedule.split.samples)
        return stk_fail(err, STK_EINVAL,
                        e->schedule.set.n && e->schedule.set.start[e->schedule.set.n]
                            ? "exclude, select, skip and limit leave no samples"
                            : "the data set has no samples");
    e->ahead.steps = e->base_left = stk_deal_steps(&e->schedule.split, 0);
    if (!e->base_left)
        return stk_fail(
            err, STK_EINVAL,
            "%" PRIu64 " samples make no global batch of %" PRIu64 " (%u rank%s): lower "
            "batch_size or leave drop_last",
            e->schedule.split.samples, e->schedule.split.global, e->schedule.split.world, e->schedule.split.world == 1 ? "" : "s");
    return 0;
}

static int plan_memory(stk_engine *e, const stk_loader_options *o, stk_error *err)
{
    uint64_t limit = o->memory_limit ? o->memory_limit : stk_memory_total() / 4, bytes = 0, fit,
             ragged = 0;

    STK_TRY(stk_device_pool(e, o, limit, err));
    for (uint32_t i = 0; i < e->plan.chains.n_out; i++) {
        if (!e->plan.batching.common->out[i].shared || !i) /* shared memory is the first one's */
            bytes += (uint64_t)e->plan.batching.common->out[i].row_bytes * e->plan.batching.common->batch;
        if (!e->plan.batching.common->out[i].row_bytes)
            ragged += e->plan.batching.common->out[i].pad ? 2 : 1; /* rows, and the tensor they become */
    }
    e->plan.batching.common->ragged_cap = (size_t)(limit / 8 * 5 / 2 /
                                     (ragged ? ragged : 1)); /* two batches fit into the pool */
    if (bytes > limit / 8 * 5 / 2)                           /* of what the pool holds */
        return stk_fail(err, STK_EINVAL,
                        "a batch is %" PRIu64 " MB, and two of them and their reads need a "
                        "memory_limit of %" PRIu64 " MB, not %" PRIu64
                        " MB: raise it or lower batch_size",
                        bytes >> 20, (bytes * 16 / 5 >> 20) + 1, limit >> 20);
    e->plan.memory.slots = o->prefetch;
    if (!e->plan.memory.slots && e->plan.chains.arrays) {
        e->plan.memory.slots = (uint32_t)(bytes < RING_BYTES / 32 ? 32 : RING_BYTES / bytes);
        e->plan.memory.slots = e->plan.memory.slots < 4 ? 4 : e->plan.memory.slots;
    } else if (!e->plan.memory.slots) {
        e->plan.memory.slots = (e->plan.batching.claim_size > 1 ? AHEAD_LIGHT : AHEAD_ROWS) / e->plan.batching.common->batch;
        e->plan.memory.slots = e->plan.memory.slots < 3 ? 3 : e->plan.memory.slots > 32 ? 32 : e->plan.memory.slots;
    }
    if (!o->prefetch)
        stk_device_ahead(e, bytes);
    fit = bytes ? limit / 8 * 5 / bytes : STK_MAX_SLOTS; /* what the pool holds */
    stk_account_init(&e->plan.memory.reads, limit / 4);
    e->plan.memory.reads.whole = stk_pool_account(e->plan.batching.common->pool);
    if (e->plan.memory.slots > fit)
        e->plan.memory.slots = fit > 1 ? (uint32_t)fit : 1;
    STK_TRY(stk_device_fit(e, err));
    STK_TRY(stk_device_cache(e, o, err));
    STK_TRY(stk_batching_slots(e, err));
    return stk_cache_open(&e->plan.memory.blocks, limit / 8, stk_pool_account(e->plan.batching.common->pool), err);
}

/* The sources that want driving: every shard may lie elsewhere. */
static int plan_source(stk_engine *e, const stk_source *s, stk_error *err)
{
    uint32_t k = 0;

    e->plan.data.remote |= s && s->remote;
    e->plan.rows.peeks |= s && s->peek && e->plan.chains.n_out <= STK_PEEK_OUTPUTS;
    if (!s || !s->drive)
        return 0;
    while (k < e->plan.io.n_driven && e->plan.io.driven[k] != s)
        k++;
    if (k == STK_MAX_DRIVEN)
        return stk_fail(err, STK_ELIMIT, "a loader drives at most %d sources", STK_MAX_DRIVEN);
    if (k == e->plan.io.n_driven)
        e->plan.io.driven[e->plan.io.n_driven++] = s;
    return 0;
}

static int plan_sources(stk_engine *e, stk_error *err)
{
    for (uint32_t i = 0; i < e->plan.data.n; i++) {
        const stk_shards *shards = e->plan.data.set[i]->shards;
        const char *name;

        if (!shards)
            continue;
        for (uint64_t k = 0; (name = stk_shards_name(shards, k)); k++)
            if (name[0] != '/') /* a plain path */
                STK_TRY(plan_source(e, stk_registry_source(name), err));
    }
    return 0;
}

static int plan_threads(stk_engine *e, const stk_loader_options *o, stk_error *err)
{
    pthread_condattr_t mono;

    pthread_condattr_init(&mono);
    pthread_condattr_setclock(&mono, CLOCK_MONOTONIC);
    pthread_mutex_init(&e->lock, NULL);
    pthread_mutex_init(&e->io_lock, NULL);
    pthread_cond_init(&e->work, &mono);
    pthread_cond_init(&e->parked, NULL);
    pthread_cond_init(&e->io_work, NULL);
    pthread_cond_init(&e->ready, &mono);
    pthread_condattr_destroy(&mono);
    e->plan.io.inline_mode = o->num_workers == STK_NONE;
    e->want_workers = o->num_workers > 0 ? (uint32_t)o->num_workers : default_workers();
    e->plan.io.threads = o->io_threads ? o->io_threads : DEFAULT_IO;
    e->plan.io.depth = IO_DEPTH;
    e->max_requests = e->want_workers + e->plan.io.depth;
    e->arrived = stk_zalloc(e->max_requests, sizeof *e->arrived);
    e->io_thread = stk_zalloc(e->plan.io.threads, sizeof *e->io_thread);
    e->skips = stk_zalloc(STK_KEPT_SKIPS, sizeof *e->skips);
    if (!e->arrived || !e->io_thread || !e->skips)
        return stk_fail_nomem(err, STK_KEPT_SKIPS * sizeof *e->skips);
    return 0;
}

/* ---- the face ---- */

static int loader_open(stk_loader **out, stk_dataset *const *data, size_t n,
                       const stk_loader_options *opt, uint32_t *measured, stk_error *err)
{
    stk_loader_options o;
    stk_loader *l = NULL;
    int rc;

    *out = NULL;
    stk_options_take(&o, sizeof o, opt);
    STK_TRY(check_options(&o, n, err));
    l = STK_NEW(stk_loader);
    if (!l)
        return stk_fail_nomem(err, sizeof *l);
    l->e.opened_ns = stk_now_ns();
    l->e.opened_ticks = stk_ticks();
    l->e.pid = getpid();
    l->e.plan.policy.seed = o.seed;
    l->e.plan.chains.megatron = o.shuffle == STK_SHUFFLE_MEGATRON && !o.order;
    l->e.plan.rows.measured = measured;
    l->e.plan.policy.max_pixels = o.max_pixels ? o.max_pixels : DEFAULT_PIXELS;
    l->e.plan.policy.on_error = o.on_error;
    l->e.plan.policy.skip_budget = o.skip_budget;
    l->e.plan.policy.log = (stk_log){ o.log, o.log_cookie };
    if (o.watch)
        l->e.plan.policy.watch = *o.watch;
    l->e.plan.rows.kern = stk_kern_table(stk_cpu_level());
    l->e.plan.batching.n_stages = o.n_stages;
    if (o.n_stages)
        memcpy(l->e.plan.batching.stage, o.stages, o.n_stages * sizeof *o.stages);
    rc = plan_threads(&l->e, &o, err);
    if (rc == 0)
        rc = plan_global(&l->e.schedule.split, &o, err);
    if (rc == 0)
        rc = stk_stall_plan(&l->e.plan.policy.stall, err);
    if (rc == 0)
        rc = stk_common_open(&l->e.plan.batching.common, o.n_outputs, data, (uint32_t)n, err);
    if (rc == 0) {
        l->e.plan.data.set = l->e.plan.batching.common->data;
        l->e.plan.data.n = l->e.plan.batching.common->n_data;
        l->e.plan.chains.n_out = l->e.plan.batching.common->n_out;
        l->e.schedule.start = l->e.plan.batching.common->start;
        l->e.plan.batching.tickets = l->e.plan.batching.common->batch = o.max_tokens ? 2 : (uint32_t)stk_deal_rows(&l->e.schedule.split);
        rc = plan_sources(&l->e, err);
    }
    if (rc == 0)
        rc = stk_device_plan(&l->e, &o, err);
    if (rc == 0)
        rc = plan_outputs(&l->e, &o, err);
    if (rc == 0)
        rc = plan_order(&l->e, &o, err);
    if (rc == 0)
        rc = plan_steps(&l->e, err);
    if (rc == 0)
        rc = plan_memory(&l->e, &o, err);
    if (rc == 0 && o.learn_jpeg == STK_YES)
        rc = stk_learn_plan(&l->e, err);
    l->e.tickets = l->e.plan.batching.tickets;
    l->e.n_slots = l->e.plan.memory.slots;
    l->e.claim_size = l->e.plan.batching.claim_size;
    if (rc < 0)
        stk_loader_close(&l);
    *out = l;
    return rc;
}

int stk_loader_open(stk_loader **out, stk_dataset *const *data, size_t n,
                    const stk_loader_options *opt, stk_error *err)
{
    return loader_open(out, data, n, opt, NULL, err);
}

int stk_loader_open_measuring(stk_loader **out, stk_dataset *const *data, size_t n,
                              const stk_loader_options *opt, uint32_t *lengths, stk_error *err)
{
    return loader_open(out, data, n, opt, lengths, err);
}

static int check_process(const stk_loader *l, stk_error *err)
{
    if (l->e.pid == getpid())
        return 0;
    return stk_fail(err, STK_ECLOSED,
                    "this loader was opened by process %d and its threads did not come along "
                    "through fork: open "
                    "one in this process",
                    (int)l->e.pid);
}

int stk_loader_next(stk_loader *l, stk_batch **out, int timeout_ms, stk_error *err)
{
    *out = NULL;
    STK_TRY(check_process(l, err));
    return stk_engine_next(&l->e, out, timeout_ms, err);
}

int stk_loader_peek(stk_loader *l, stk_batch **out, int timeout_ms, stk_error *err)
{
    int rc = check_process(l, err);

    *out = NULL;
    if (rc == 0)
        rc = stk_engine_peek(&l->e, timeout_ms, err);
    if (rc == 0) {
        stk_batch_ref(l->e.held.batch);
        *out = l->e.held.batch;
    }
    return rc;
}

void stk_loader_copies_on(stk_loader *l, void *stream)
{
    if (l->e.plan.memory.pins)
        stk_pins_seen(l->e.plan.memory.pins, stream);
}

void stk_loader_where(const stk_loader *l, uint64_t *epoch, uint64_t *step)
{
    *epoch = l->e.epoch;
    *step = l->e.taken;
}

uint64_t stk_loader_position(const stk_loader *l)
{
    return stk_engine_position(&l->e);
}

int stk_loader_seek(stk_loader *l, uint64_t epoch, uint64_t step, stk_error *err)
{
    uint64_t steps;
    stk_deal d;

    STK_TRY(check_process(l, err));
    d = stk_engine_deal(&l->e, epoch);
    steps = stk_deal_steps(&d, 0);
    if (step > steps)
        return stk_fail(err, STK_EINVAL, "step %" PRIu64 " of %" PRIu64 " does not exist", step,
                        steps);
    return stk_engine_seek(&l->e, epoch, step == steps ? d.samples : step * d.global, err);
}

int stk_loader_resume(stk_loader *l, uint64_t epoch, uint64_t position, stk_error *err)
{
    STK_TRY(check_process(l, err));
    return stk_engine_seek(&l->e, epoch, position, err);
}

void stk_loader_streams(const stk_loader *l, uint64_t *streams, uint64_t *window)
{
    *streams = l->e.schedule.streams;
    *window = l->e.schedule.window;
}

/* The order is another now. */
static void forget_bins(stk_engine *e)
{
    if (e->schedule.bins)
        stk_bins_forget(e->schedule.bins);
}

void stk_loader_bins(const stk_loader *l, uint64_t *window, uint64_t *together, uint64_t *print)
{
    const stk_engine *e = &l->e;
    const stk_binning *h = &e->schedule.binning;

    *window = *together = *print = 0;
    if (!e->schedule.bins)
        return;
    *window = h->window;
    *together = h->kind == STK_BIN_BUDGET ? h->group : h->kind == STK_BIN_LIKE ? h->rows : 1;
    *print = stk_hash64(0, e->schedule.lengths, e->schedule.start[e->plan.data.n] * sizeof *e->schedule.lengths);
}

int stk_loader_set_bins(stk_loader *l, uint64_t window, uint64_t together, stk_error *err)
{
    uint64_t position = stk_loader_position(l);
    int rc, at;

    STK_TRY(check_process(l, err));
    stk_ring_drain(&l->e);
    rc = stk_batching_replan(&l->e, window, together, err);
    if (position > stk_loader_positions(l, l->e.epoch))
        position = 0;
    at = stk_engine_seek(&l->e, l->e.epoch, position, rc < 0 ? NULL : err);
    return rc < 0 ? rc : at;
}

uint64_t stk_loader_positions(const stk_loader *l, uint64_t epoch)
{
    return stk_engine_deal(&l->e, epoch).samples;
}

int stk_loader_set_streams(stk_loader *l, uint64_t streams, uint64_t window, stk_error *err)
{
    uint64_t position = stk_loader_position(l);
    int rc, at;

    STK_TRY(check_process(l, err));
    if (!l->e.schedule.streams || !window)
        return stk_fail(err, STK_EINVAL,
                        l->e.schedule.streams ? "a window has at least one sample"
                                     : "streams and window belong to shuffle=\"block\"");
    stk_ring_drain(&l->e); /* nobody reads the order now */
    rc = stk_blocks_replan(&l->e, streams, window, err);
    forget_bins(&l->e);
    at = stk_engine_seek(&l->e, l->e.epoch, position, rc < 0 ? NULL : err);
    return rc < 0 ? rc : at;
}

static int no_mix(stk_error *err)
{
    return stk_fail(err, STK_EINVAL,
                    "this loader mixes nothing: open it over a mixture of data sets");
}

/* Batches made ahead are of the old mixture: the consumer goes on where it stands. */
static int remix(stk_loader *l, int rc, uint64_t position, stk_error *err)
{
    int at;

    forget_bins(&l->e);
    at = stk_engine_seek(&l->e, l->e.epoch, position, rc < 0 ? NULL : err);

    return rc < 0 ? rc : at;
}

int stk_loader_set_weights(stk_loader *l, const double *weights, size_t n, uint64_t epoch,
                           uint64_t position, stk_error *err)
{
    uint64_t stands = stk_loader_position(l);

    STK_TRY(check_process(l, err));
    if (!stk_order_is_mix(&l->e.schedule.order))
        return no_mix(err);
    if (l->e.schedule.bins)
        return stk_fail(err, STK_ENOTSUP,
                        "weights change at a position, and max_tokens and bucket batch whole "
                        "windows of positions: leave one of them");
    if (n != l->e.plan.batching.common->n_data)
        return stk_fail(err, STK_EINVAL, "%zu weights for %u data sets: give one for each", n,
                        l->e.plan.batching.common->n_data);
    stk_ring_drain(&l->e); /* nobody reads the order now */
    return remix(l, stk_mix_change(&l->e.schedule.order, weights, epoch, position, err), stands, err);
}

int stk_loader_mix(const stk_loader *l, uint64_t i, stk_mix_change_info *out)
{
    return stk_order_is_mix(&l->e.schedule.order) ? stk_mix_get(&l->e.schedule.order, i, out) : STK_END;
}

int stk_loader_set_mix(stk_loader *l, const stk_mix_change_info *all, size_t n, stk_error *err)
{
    uint64_t stands = stk_loader_position(l);

    STK_TRY(check_process(l, err));
    if (!stk_order_is_mix(&l->e.schedule.order))
        return no_mix(err);
    stk_ring_drain(&l->e);
    return remix(l, stk_mix_set(&l->e.schedule.order, all, n, err), stands, err);
}

uint64_t stk_loader_steps(const stk_loader *l)
{
    return stk_engine_steps(&l->e, l->e.epoch);
}

uint64_t stk_loader_steps_of(const stk_loader *l, uint64_t epoch)
{
    return stk_engine_steps(&l->e, epoch);
}

uint64_t stk_loader_samples(const stk_loader *l)
{
    return l->e.schedule.positions;
}

uint64_t stk_loader_samples_of(const stk_loader *l, uint32_t i)
{
    const stk_common *c = l->e.plan.batching.common;

    return i < c->n_data ? c->start[i + 1] - c->start[i] : 0;
}

/* An order that can't find says only what stands where. */
static uint64_t search(const stk_engine *e, uint64_t epoch, const stk_where *what)
{
    stk_where at;

    for (uint64_t p = 0; p < e->schedule.positions; p++) {
        e->schedule.order.at(e->schedule.order.state, epoch, &p, 1, &at);
        if (at.dataset == what->dataset && at.sample == what->sample)
            return p;
    }
    return UINT64_MAX;
}

int stk_loader_find(const stk_loader *l, uint64_t epoch, uint64_t id, uint64_t *position,
                    stk_error *err)
{
    const stk_engine *e = &l->e;
    stk_where what = { .sample = id };

    while (what.dataset + 1 < e->plan.data.n && e->schedule.start[what.dataset + 1] <= id)
        what.dataset++;
    what.sample -= e->schedule.start[what.dataset];
    *position = e->schedule.order.find ? e->schedule.order.find(e->schedule.order.state, epoch, &what)
                              : search(e, epoch, &what);
    if (*position != UINT64_MAX)
        return 0;
    return stk_fail(err, STK_ENOTFOUND, "sample %" PRIu64 " is not in epoch %" PRIu64, id, epoch);
}

int stk_loader_ledger(stk_loader *l, const char *folder, uint64_t generation, uint64_t epoch,
                      uint64_t position, stk_error *err)
{
    ldg_head from = { .generation = generation, .epoch = epoch, .position = position };

    STK_TRY(check_process(l, err));
    return stk_engine_ledger(&l->e, folder, &from, err);
}

int stk_loader_print(const stk_loader *l, stk_print *out, stk_error *err)
{
    return stk_engine_print(&l->e, out, err);
}

uint64_t stk_loader_drawn_print(const stk_loader *l)
{
    return l->e.schedule.drawn_print;
}

uint64_t stk_loader_chain_print(const stk_loader *l, uint32_t output)
{
    return output < l->e.plan.batching.common->n_out ? l->e.plan.chains.chain[output].print : 0;
}

int stk_loader_set_workers(stk_loader *l, uint32_t n, stk_error *err)
{
    STK_TRY(check_process(l, err));
    return stk_engine_set_workers(&l->e, n, err);
}

void stk_loader_stats(const stk_loader *l, stk_stats *out)
{
    stk_engine_stats(&l->e, out);
}

int stk_loader_skipped(const stk_loader *l, uint64_t i, stk_error *out)
{
    stk_engine *e = (stk_engine *)(uintptr_t)&l->e;
    int rc = STK_END;

    pthread_mutex_lock(&e->lock);
    if (i < e->n_skips) {
        *out = e->skips[i];
        rc = 0;
    }
    pthread_mutex_unlock(&e->lock);
    return rc;
}

static void free_bindings(stk_engine *e)
{
    for (uint32_t d = 0; e->plan.chains.field_of && d < e->plan.data.n; d++) {
        for (uint32_t i = 0; e->plan.chains.field_of[d] && i < e->plan.chains.n_out; i++)
            stk_free(e->plan.chains.field_of[d][i]);
        stk_free(e->plan.chains.field_of[d]);
    }
    stk_free(e->plan.chains.field_of);
    for (uint32_t i = 0; e->plan.chains.chain && i < e->plan.chains.n_out; i++)
        stk_chain_fini(&e->plan.chains.chain[i]);
    stk_free(e->plan.chains.chain);
}

void stk_loader_close(stk_loader **lp)
{
    stk_loader *l = *lp;
    stk_engine *e;

    if (!l)
        return;
    *lp = NULL;
    e = &l->e;
    if (e->pid != getpid()) /* its threads and locks are the parent's */
        return;
    if (e->arrived)
        stk_engine_stop(e);
    stk_learn_save(e, 1);
    stk_learn_fini(e);
    if (e->plan.batching.common)
        free_bindings(e);
    stk_array_plan_close(&e->plan.chains.arrays);
    stk_cache_close(&e->plan.memory.blocks);
    stk_device_close(&e->plan.gpu.device);
    stk_small_close(&e->plan.cache.fields);
    if (e->plan.batching.common && e->plan.batching.common->pool)
        stk_pool_shut(
            e->plan.batching.common->pool); /* a batch that is still held keeps its own buffers, not the ring's */
    stk_common_unref(&e->plan.batching.common);
    stk_free(e->arrived);
    stk_free(e->io_thread);
    stk_free(e->skips);
    stk_batching_fini(e);
    stk_ledger_writer_close(&e->ledger);
    if (e->schedule.order.close)
        e->schedule.order.close(e->schedule.order.state);
    stk_free(e->schedule.set.exclude.id);
    stk_free(e->schedule.set.select);
    pthread_mutex_destroy(&e->lock);
    pthread_mutex_destroy(&e->io_lock);
    pthread_cond_destroy(&e->work);
    pthread_cond_destroy(&e->parked);
    pthread_cond_destroy(&e->io_work);
    pthread_cond_destroy(&e->ready);
    stk_free(l);
}

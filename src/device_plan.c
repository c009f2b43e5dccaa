/* SPDX-License-Identifier: Apache-2.0 */
/* device_plan.c - what a loader needs for a GPU: the device itself, the last batch stage, outputs
 * that go over as records, and page-locked memory to gather in. */
#include "device_plan.h"

#include <string.h>

#include "device/pic.h"

#define AHEAD_LEAST 8 /* slots of the ring, where some are on their way to a GPU ... */
#define AHEAD_MOST 32 /* ... and where batches are small, so that a hand-over is no wait: ... */
#define AHEAD_BYTES ((uint64_t)64 << 20)   /* ... so many bytes in all */
#define AHEAD_PICTURES ((uint64_t)3 << 29) /* and of pictures, as they are there */

int stk_device_plan(stk_engine *e, const stk_loader_options *o, stk_error *err)
{
    stk_device_options d = { .name = o->device,
                             .memory_limit = o->device_memory_limit,
                             .sm_limit = o->sm_limit,
                             .flights = o->in_flight };

    if (!o->device || !strcmp(o->device, "cpu"))
        return 0;
    if (o->decode && strcmp(o->decode, "gpu") && strcmp(o->decode, "cpu"))
        return stk_fail(err, STK_EINVAL, "decode is gpu or cpu, not \"%.40s\"", o->decode);
    STK_TRY(stk_device_open(&e->plan.gpu.device, &d, err));
    e->plan.gpu.decode = !o->decode || !strcmp(o->decode, "gpu");
    e->plan.gpu.stage = (stk_stage){ STK_PLUGIN_ABI, "device", e->plan.gpu.device, stk_device_run };
    e->plan.batching.stage[e->plan.batching.n_stages++] = &e->plan.gpu.stage;
    return 0;
}

static uint64_t shard_bytes(const stk_dataset *data)
{
    uint64_t bytes = 0;
    stk_shard_info s;

    for (uint64_t k = 0; k < stk_index_shards(data->index); k++)
        if (stk_index_shard(data->index, k, &s, NULL) == 0)
            bytes += s.size;
    return bytes;
}

/* What a picture's record takes, before one was seen: its file, or what the CPU makes of it. */
static size_t expect_record(const stk_engine *e, const stk_chain *c)
{
    uint64_t bytes = 0, samples = 0;
    int points = 1;
    size_t made = (size_t)c->spec.width * c->spec.height * 3;

    for (uint32_t d = 0; d < e->plan.data.n; d++) {
        samples += stk_dataset_len(e->plan.data.set[d]);
        points &= e->plan.data.set[d]->seek != NULL;
        bytes += shard_bytes(e->plan.data.set[d]);
    }
    bytes = samples ? bytes / samples : 0;
    bytes = points ? bytes * 3 / 4 : bytes * 9 / 8; /* most crops see less than half of a picture */
    return e->plan.gpu.decode && bytes < made ? (size_t)bytes : made;
}

/* Dense pictures go over as records, in one buffer a batch. */
void stk_device_records(const stk_engine *e, uint32_t i)
{
    stk_out_plan *p = &e->plan.batching.common->out[i];

    if (!e->plan.gpu.device || p->spec.kind != STK_KIND_IMAGE || !p->row_bytes)
        return;
    p->far_bytes = p->row_bytes;
    p->row_bytes = 0;
    p->note_bytes = sizeof(stk_pic_share);
    atomic_store(&p->high, (expect_record(e, &e->plan.chains.chain[i]) + 4096) * e->plan.batching.common->batch);
}

/* Batches that go to a GPU are gathered in page-locked memory. */
int stk_device_pool(stk_engine *e, const stk_loader_options *o, uint64_t limit, stk_error *err)
{
    stk_memory pinned;
    const stk_cuda *cuda;
    int gpu, rc;

    e->plan.batching.common->pinned = e->plan.gpu.device || o->pin_memory == STK_YES;
    if (!e->plan.batching.common->pinned || o->memory)
        return stk_pool_open(&e->plan.batching.common->pool, o->memory, limit, err);
    if (e->plan.gpu.device) {
        pinned = stk_pinned_memory((int)stk_device_gpu(e->plan.gpu.device) - 1);
        return stk_pool_open(&e->plan.batching.common->pool, &pinned, limit, err);
    }
    STK_TRY(stk_cuda_load(&cuda, err));
    STK_TRY(stk_cuda_find(cuda, "cuda", &gpu, err));
    STK_TRY(stk_pins_open(&e->plan.memory.pins, gpu, &pinned, err));
    rc = stk_pool_open(&e->plan.batching.common->pool, &pinned, limit, err);
    if (rc < 0) {
        pinned.close(pinned.cookie);
        e->plan.memory.pins = NULL;
    }
    return rc;
}

void stk_device_ahead(stk_engine *e, uint64_t bytes)
{
    uint64_t n = bytes ? AHEAD_BYTES / bytes : AHEAD_MOST, far = 0;

    for (uint32_t i = 0; i < e->plan.chains.n_out; i++) {
        const stk_out_plan *p = &e->plan.batching.common->out[i];

        far += (uint64_t)p->far_bytes * e->plan.batching.common->batch;
        if (!p->row_bytes && !p->far_bytes &&
            (p->spec.out == STK_OUT_LIST || p->spec.out == STK_OUT_DENSE))
            return; /* ragged: nobody knows yet how much of the GPU a batch takes */
    }
    if (far)
        n = AHEAD_PICTURES / far < 16 ? AHEAD_PICTURES / far : 16;
    n = n < AHEAD_LEAST ? AHEAD_LEAST : n > AHEAD_MOST ? AHEAD_MOST : n;
    if (e->plan.gpu.device && e->plan.memory.slots < n)
        e->plan.memory.slots = (uint32_t)n;
}

int stk_device_fit(stk_engine *e, stk_error *err)
{
    uint64_t bytes = 0, room;

    if (!e->plan.gpu.device)
        return 0;
    room = stk_device_room(e->plan.gpu.device);
    for (uint32_t i = 0; i < e->plan.chains.n_out; i++)
        bytes += (uint64_t)(e->plan.batching.common->out[i].row_bytes + e->plan.batching.common->out[i].far_bytes) *
                 e->plan.batching.common->batch;
    if (bytes > room / 3)
        return stk_fail(err, STK_EINVAL,
                        "a batch is %" PRIu64
                        " MB, and three of them need a device_memory_limit of "
                        "%" PRIu64 " MB, not %" PRIu64 " MB: raise it or lower batch_size",
                        bytes >> 20, (bytes * 6 >> 20) + 1, room * 2 >> 20);
    if (bytes && e->plan.memory.slots > room / bytes - 1) /* one is the consumer's */
        e->plan.memory.slots = (uint32_t)(room / bytes - 1);
    stk_device_group(e->plan.gpu.device, e->plan.memory.slots);
    return 0;
}

/* ---- what the GPU keeps ---- */

/* 1: both have their bytes from the same field. */
static int same_field(const stk_chain *a, const stk_chain *b)
{
    if (a->n_from != b->n_from)
        return 0;
    for (uint32_t i = 0; i < a->n_from; i++)
        if (strcmp(a->from[i], b->from[i]))
            return 0;
    return 1;
}

/* Pictures are kept once, however many outputs are made of them.  How many kinds there are. */
static uint32_t number_outputs(const stk_engine *e)
{
    stk_out_plan *out = e->plan.batching.common->out;
    uint32_t n = 0;

    for (uint32_t i = 0; i < e->plan.chains.n_out; i++) {
        if (!out[i].far_bytes || e->plan.chains.open_root[i])
            continue;
        for (uint32_t k = 0; k < i && !out[i].keep; k++)
            if (out[k].keep && same_field(&e->plan.chains.chain[k], &e->plan.chains.chain[i]))
                out[i].keep = out[k].keep;
        if (!out[i].keep)
            out[i].keep = ++n;
    }
    return n;
}

/* More than all shards have is not needed; 0: the index does not say. */
static uint64_t all_bytes(const stk_engine *e)
{
    uint64_t bytes = 1 << 20;

    for (uint32_t d = 0; d < e->plan.data.n; d++) {
        const stk_dataset *data = e->plan.data.set[d];

        if (data->format->locate)
            return 0;
        bytes += stk_dataset_len(data) * 128 + shard_bytes(data);
    }
    return bytes;
}

static int has_points(const stk_engine *e)
{
    for (uint32_t d = 0; d < e->plan.data.n; d++)
        if (e->plan.data.set[d]->seek)
            return 1;
    return 0;
}

/* Arrays go there whole, or not at all. */
static int keep_arrays(stk_engine *e, uint64_t limit, stk_error *err)
{
    uint64_t bytes = stk_array_keep_plan(e);

    if (bytes)
        STK_TRY(stk_device_shelf(e->plan.gpu.device, bytes, limit, &e->plan.cache.arrays, err));
    if (e->plan.cache.arrays)
        return 0;
    stk_array_keep_forget(e);
    if (bytes)
        stk_log_line(&e->plan.policy.log, STK_LOG_WARN,
                     "cache=device: the arrays take %" PRIu64 " MB of the GPU, more than "
                     "device_cache_limit: they are not kept there",
                     (bytes >> 20) + 1);
    else
        stk_log_line(
            &e->plan.policy.log, STK_LOG_WARN,
            "cache=device keeps whole rows and windows of types that are moved or widened: "
            "these outputs are made here");
    return 0;
}

int stk_device_cache(stk_engine *e, const stk_loader_options *o, stk_error *err)
{
    stk_keep_options k = { .bytes = o->device_cache_limit,
                           .samples = e->schedule.start[e->plan.data.n] };
    int asked = o->cache && strcmp(o->cache, "none") != 0;

    if (asked && strcmp(o->cache, "device"))
        return stk_fail(err, STK_EINVAL, "cache is device or none, not \"%.40s\"", o->cache);
    if (!asked)
        return o->device_cache_limit ? stk_fail(err, STK_EINVAL,
                                                "device_cache_limit bounds cache=\"device\": ask "
                                                "for that too")
                                     : 0;
    if (!e->plan.gpu.device)
        return stk_fail(err, STK_EINVAL, "cache=\"device\" is for device=\"cuda\"");
    if (e->plan.chains.arrays)
        return keep_arrays(e, o->device_cache_limit, err);
    if (e->plan.gpu.decode)
        k.outputs = number_outputs(e);
    if (!k.outputs)
        return stk_fail(
            err, STK_ENOTSUP,
            "cache=\"device\" keeps JPEGs that the GPU decodes to one size, and no output "
            "has such: leave it");
    if (!has_points(e))
        stk_log_line(
            &e->plan.policy.log, STK_LOG_WARN,
            "cache=device keeps JPEGs that have seek points, and these have none: make them "
            "with 'stoker index --jpeg'");
    e->plan.rows.peeks = 0; /* it knows no seek points */
    STK_TRY(stk_small_open(&e->plan.cache.fields, k.samples, stk_pool_account(e->plan.batching.common->pool), err));
    return stk_device_keep(e->plan.gpu.device, &k, all_bytes(e), err);
}

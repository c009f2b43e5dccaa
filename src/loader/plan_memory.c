/* SPDX-License-Identifier: Apache-2.0 */
/* plan_memory.c - what memory_limit is spent on, and how many slots that leaves the ring.
 *
 * Batches have five eighths of it, reads a quarter, blocks that samples share an eighth. */
#include "base/cpu.h"
#include "base/size.h"
#include "data/shard_data.h"
#include "loader/parts.h"

#define AHEAD_ROWS 384   /* rows that all slots together should hold ... */
#define AHEAD_LIGHT 4096 /* ... and where rows are cheap, so that a hand-over does not wait */
/* ... and for each worker, where bytes come 100 ms after they are asked for */
#define AHEAD_REMOTE 128
/* bytes of remote reads: what waits for the client can be merged */
#define IN_FLIGHT ((uint64_t)128 << 20)
#define RING_BYTES (6u << 20) /* rows of arrays: what processors cache is written, not memory ... */
#define RING_WORKER (512u << 10) /* ... of which many have more */
#define RING_INLINE (6u << 20)   /* likewise, of the consumer's thread, which waits for none */
#define GPU_LEAST 8              /* slots, where some are on their way to a GPU ... */
#define GPU_MOST 32              /* ... and where batches are small: ... */
#define GPU_BYTES ((uint64_t)64 << 20)   /* ... so many bytes in all */
#define GPU_PICTURES ((uint64_t)3 << 29) /* and of pictures, as they are on the GPU */
#define GPU_ANY_SIZE ((size_t)512 << 10) /* what a picture of any size is taken for */

/* pin_memory without a device: what is missing is said of that option. */
static int pins_for_host(stk_plan_memory *out, stk_memory *pinned, stk_error *err)
{
    const stk_cuda *cuda;
    stk_error why = { 0 };
    int gpu, rc = stk_cuda_load(&cuda, &why);

    if (rc == 0)
        rc = stk_cuda_find(cuda, "cuda", &gpu, &why);
    if (rc == 0)
        rc = stk_pins_open(&out->pins, gpu, pinned, &why);
    return rc < 0 ? stk_fail(err, rc, "pin_memory: %.220s", why.message) : 0;
}

/* Batches that go to a GPU are gathered in page-locked memory. */
static int open_pool(stk_plan_memory *out, const stk_loader_options *o, const stk_plan_gpu *gpu,
                     stk_error *err)
{
    stk_memory pinned;
    int rc;

    out->pinned = gpu->device || o->pin_memory == STK_YES;
    if (!out->pinned || o->memory)
        return stk_pool_open(&out->pool, o->memory, out->limit, err);
    if (gpu->device) {
        pinned = stk_pinned_memory((int)stk_device_gpu(gpu->device) - 1);
        return stk_pool_open(&out->pool, &pinned, out->limit, err);
    }
    STK_TRY(pins_for_host(out, &pinned, err));
    rc = stk_pool_open(&out->pool, &pinned, out->limit, err);
    if (rc < 0) {
        pinned.close(pinned.cookie);
        out->pins = NULL;
    }
    return rc;
}

/* Bytes of a batch here, as far as they are known; *ragged: outputs, counted with what they
 * become. */
static uint64_t batch_bytes(const stk_plan *so_far, uint64_t *ragged)
{
    uint64_t bytes = 0;

    *ragged = 0;
    for (uint32_t i = 0; i < so_far->chains.n_out; i++) {
        const stk_out_plan *p = &so_far->chains.out[i];

        if (!p->shared || !i) /* shared memory is the first one's */
            bytes += (uint64_t)p->row_bytes * so_far->batching.rows;
        if (!p->row_bytes)
            *ragged += p->pad && !p->gpu_made ? 2 : 1; /* rows, and the tensor they become */
    }
    return bytes;
}

/* More slots where some are on their way to a GPU; `bytes`: of a batch here. */
static uint32_t gpu_slots(const stk_plan *so_far, uint64_t bytes)
{
    uint64_t n = bytes ? GPU_BYTES / bytes : GPU_MOST, on_gpu = 0;

    for (uint32_t i = 0; i < so_far->chains.n_out; i++) {
        const stk_out_plan *p = &so_far->chains.out[i];

        if (p->gpu_made)
            on_gpu += (uint64_t)(p->gpu_bytes ? p->gpu_bytes : GPU_ANY_SIZE) *
                      so_far->batching.rows;
        if (!p->row_bytes && !p->gpu_made &&
            (p->spec.out == STK_OUT_LIST || p->spec.out == STK_OUT_DENSE))
            return 0; /* ragged: how much of the GPU a batch takes is not known yet */
    }
    if (on_gpu)
        n = GPU_PICTURES / on_gpu < 16 ? GPU_PICTURES / on_gpu : 16;
    return (uint32_t)(n < GPU_LEAST ? GPU_LEAST : n > GPU_MOST ? GPU_MOST : n);
}

/* Rows that are on their way or made, by Little's law: for remote data as many as all workers make
 * while the first one's bytes come, if a quarter of the limit holds them. */
static uint64_t ahead_rows(const stk_plan *so_far, uint64_t limit, uint64_t bytes)
{
    uint64_t n = so_far->batching.claim_size > 1 ? AHEAD_LIGHT : AHEAD_ROWS;
    uint64_t rows = (uint64_t)AHEAD_REMOTE * so_far->io.workers;

    if (!so_far->data.remote || rows <= n)
        return n;
    bytes = bytes ? bytes / so_far->batching.rows + 1 : 1;
    rows = rows < limit / 4 / bytes ? rows : limit / 4 / bytes;
    return rows < n ? n : rows;
}

static uint32_t chosen_slots(const stk_plan *so_far, uint64_t limit, uint64_t bytes)
{
    uint32_t n, gpu = so_far->gpu.device ? gpu_slots(so_far, bytes) : 0;
    uint32_t rows = AHEAD_ROWS + AHEAD_REMOTE * so_far->io.workers;
    uint32_t most = so_far->data.remote && rows / 32 > so_far->batching.rows ? 64 : 32;

    if (so_far->data.immediate) {
        uint64_t ring = (uint64_t)RING_WORKER * so_far->io.workers;

        ring = ring < RING_BYTES ? RING_BYTES : ring;
        n = (uint32_t)(bytes < ring / 32 ? 32 : ring / bytes);
        n = n < 4 ? 4 : n;
    } else {
        n = (uint32_t)(ahead_rows(so_far, limit, bytes) / so_far->batching.rows);
        n = n < 3 ? 3 : n > most ? most : n;
    }
    if (so_far->io.inline_mode && !so_far->data.remote && n > 4 && bytes > RING_INLINE / n)
        n = bytes < RING_INLINE / 4 ? (uint32_t)(RING_INLINE / bytes) : 4;
    return n < gpu ? gpu : n;
}

/* No more slots than the GPU has room for. */
static int fit_gpu(uint32_t *slots, const stk_plan *so_far, stk_error *err)
{
    uint64_t bytes = 0, room;

    if (!so_far->gpu.device)
        return 0;
    room = stk_device_room(so_far->gpu.device);
    for (uint32_t i = 0; i < so_far->chains.n_out; i++)
        bytes += (uint64_t)(so_far->chains.out[i].row_bytes + so_far->chains.out[i].gpu_bytes) *
                 so_far->batching.rows;
    if (bytes > room / 3)
        return stk_fail(err, STK_EINVAL,
                        "a batch is %" PRIu64
                        " MB, and three of them need a device_memory_limit of "
                        "%" PRIu64 " MB, not %" PRIu64 " MB: raise it or lower batch_size",
                        stk_size_mb(bytes), stk_size_mb(bytes * 6), stk_size_mb(room * 2));
    if (bytes && *slots > room / bytes - 1) /* one is the consumer's */
        *slots = (uint32_t)(room / bytes - 1);
    stk_device_group(so_far->gpu.device, *slots);
    return 0;
}

static int plan_slots(stk_plan_memory *out, const stk_plan_input *in, const stk_plan *so_far,
                      stk_error *err)
{
    uint64_t ragged, bytes = batch_bytes(so_far, &ragged), fit;

    out->ragged_cap = (size_t)(out->limit / 8 * 5 / 2 /
                               (ragged ? ragged : 1)); /* two batches fit into the pool */
    if (bytes > out->limit / 8 * 5 / 2)                /* of what the pool holds */
        return stk_fail(
            err, STK_EINVAL,
            "a batch is %" PRIu64 " MB, and two of them and their reads need a "
            "memory_limit of %" PRIu64 " MB, not %" PRIu64 " MB: raise it or lower batch_size",
            stk_size_mb(bytes), stk_size_mb(bytes * 16 / 5 + 8), stk_size_mb(out->limit));
    out->slots_free = !in->o->prefetch;
    out->slots = in->o->prefetch ? in->o->prefetch : chosen_slots(so_far, out->limit, bytes);
    fit = bytes ? out->limit / 8 * 5 / bytes : STK_MAX_SLOTS; /* what the pool holds */
    out->slots_short = out->slots > fit;
    if (out->slots_short)
        out->slots = fit > 1 ? (uint32_t)fit : 1;
    STK_TRY(fit_gpu(&out->slots, so_far, err));
    /* Rows of arrays are made in less time than it takes to wake a thread: several at once. */
    out->open_slots = so_far->data.immediate ? out->slots / 4 : 0;
    out->wake_slots = so_far->data.immediate ? out->slots / 2 : 0;
    return 0;
}

int stk_plan_memory_make(stk_plan_memory *out, const stk_plan_input *in, const stk_plan *so_far,
                         stk_error *err)
{
    out->limit = in->o->memory_limit ? in->o->memory_limit : stk_memory_total() / 4;
    STK_TRY(open_pool(out, in->o, &so_far->gpu, err));
    STK_TRY(plan_slots(out, in, so_far, err));
    out->reads = STK_NEW(stk_account);
    out->ration = STK_NEW(stk_ration);
    if (!out->reads || !out->ration)
        return stk_fail_nomem(err, sizeof *out->reads);
    stk_account_init_part(out->reads, out->limit / 4, stk_pool_account(out->pool));
    if (so_far->data.remote)
        out->in_flight = out->limit / 8 < IN_FLIGHT ? out->limit / 8 : IN_FLIGHT;
    for (uint32_t i = 0; i < so_far->data.n; i++) {
        const stk_shard_data *shards = stk_shard_data_of(so_far->data.set[i]);

        stk_stream_limit(so_far->data.set[i], out->limit / 8 * 3); /* as reads and blocks have */
        if (shards)
            stk_frames_charge(stk_shards_frames(shards->shards), out->reads);
    }
    stk_account_init_part(&out->ration->account, out->limit, stk_pool_account(out->pool));
    out->ration->most = (size_t)(out->limit / 2);
    return stk_cache_open(&out->blocks, out->limit / 8, out->reads, err);
}

void stk_plan_memory_fini(stk_plan_memory *p, const stk_plan_data *data)
{
    for (uint32_t i = 0; i < data->n && p->reads; i++)
        if (stk_shard_data_of(data->set[i]))
            stk_frames_uncharge(stk_shards_frames(stk_shard_data_of(data->set[i])->shards),
                                p->reads);
    stk_cache_close(&p->blocks);
    stk_free(p->reads);
    stk_free(p->ration);
}

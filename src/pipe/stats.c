/* SPDX-License-Identifier: Apache-2.0 */
/* stats.c - figures for people, summed over workers when somebody asks. */
#include <string.h>

#include "index/seeklearn.h"
#include "pipe/engine.h"

const char *stk_stage_name(stk_stage_id id)
{
    static const char *const names[STK_STAGES] = { "fetch", "decode", "sample",
                                                   "value", "batch",  "idle" };

    return (unsigned)id < STK_STAGES ? names[id] : "?";
}

static uint64_t get(const _Atomic uint64_t *c)
{
    return atomic_load_explicit(c, memory_order_relaxed);
}

/* A batch may be let go while its tensors live, so batches are counted by their buffers: those
 * that are out of the pool and not in the ring, divided by how many a batch has. */
uint32_t stk_engine_held(const stk_engine *e)
{
    const stk_common *c = e->plan->outputs.common;
    uint32_t out = stk_pool_out(c->pool), each = 0, more = 0, ring;

    for (uint32_t i = 0; i < c->n_out; i++) {
        const stk_out_plan *p = &c->out[i];
        const stk_out_sizes *learned = &c->sizes[i];
        size_t size = p->row_bytes ? p->row_bytes * c->batch
                                   : atomic_load_explicit(&learned->high, memory_order_relaxed);
        size_t dense = atomic_load_explicit(&learned->pad_high, memory_order_relaxed);
        int large = size >= STK_SMALL_OUTPUT || c->pinned;

        if (stk_out_pads(p, c->batch)) { /* rows, which leave when padded, and the tensor */
            more += (uint32_t)large;
            large = c->pinned || dense >= STK_SMALL_OUTPUT;
        }
        each += (uint32_t)large;
    }
    ring = (uint32_t)(e->head - e->tail) * (each + more);
    return each && out > ring ? (out - ring + each - 1) / each : 0;
}

/* Documents that are packed once, when the loader is opened. */
static void packed_figures(const stk_array_plan *p, stk_stats *s)
{
    for (uint32_t i = 0; i < p->n_data; i++) {
        s->packed_tokens += p->packed[i].tokens;
        s->packed_room += p->packed[i].rows * p->cut.block;
    }
}

/* Who has the memory that is counted.  Small fields of cache="device" are with the batches. */
static void memory_figures(const stk_engine *e, stk_stats *s)
{
    const stk_account *account = stk_pool_account(e->plan->outputs.common->pool);
    uint64_t reads = get(&e->plan->memory.reads->used), others;

    s->memory = get(&account->used);
    s->memory_peak = get(&account->peak);
    s->memory_limit = account->limit;
    s->memory_blocks = stk_cache_held(e->plan->memory.blocks);
    s->memory_reads = reads > s->memory_blocks ? reads - s->memory_blocks : 0;
    s->memory_scratch = get(&e->plan->memory.ration->account.used);
    others = s->memory_blocks + s->memory_reads + s->memory_scratch;
    s->memory_batches = s->memory > others ? s->memory - others : 0; /* threads go on meanwhile */
}

static const char *cold_by(const stk_engine *e)
{
    switch (atomic_load_explicit(&e->io.ring_state, memory_order_relaxed)) {
    case STK_RING_RUNS: return "io_uring";
    case STK_RING_REFUSED: return "threads";
    default: return NULL;
    }
}

static void device_figures(const stk_engine *e, stk_stats *s)
{
    stk_device_stats d;

    stk_device_figures(e->plan->gpu.device, &d);
    s->gpu_copy_ns = d.copy_ns;
    s->gpu_picture_ns = d.picture_ns;
    s->gpu_bytes = d.copied;
    s->gpu_jpegs = d.pictures;
    s->gpu_mended = d.mended;
    s->gpu_memory = d.memory;
    s->gpu_memory_peak = d.memory_peak;
    s->gpu_memory_limit = d.memory_limit;
    s->gpu_cache_hits = d.hits;
    s->gpu_cache_misses = d.misses;
    s->gpu_cache_bytes = d.kept.bytes;
    s->gpu_cache_entries = d.kept.entries;
    s->gpu_cache_limit = d.kept.limit;
}

void stk_engine_stats(const stk_engine *e, stk_stats *out)
{
    uint64_t ns = stk_now_ns() - e->figures.opened_ns, ticks = stk_ticks() - e->figures.opened_ticks;
    double ns_per_tick = ticks ? (double)ns / (double)ticks : 0;
    stk_stats s = { .size = out->size,
                    .workers = atomic_load_explicit(&e->active, memory_order_relaxed),
                    .slots = e->n_slots };
    size_t size = out->size && out->size < sizeof s ? out->size : sizeof s;

    for (uint32_t i = 0; i < e->n_workers; i++) {
        const stk_counters *c = &e->worker[i]->m.count;

        for (int k = 0; k < STK_STAGES; k++)
            s.stage_ns[k] += (uint64_t)((double)get(&c->ticks[k]) * ns_per_tick);
        s.samples += get(&c->samples);
        s.bytes += get(&c->bytes);
        s.cold_reads += get(&c->cold);
        s.jpeg_seek += get(&c->lane[STK_LANE_SEEK]);
        s.jpeg_misfit += get(&c->lane[STK_LANE_MISFIT]);
        s.jpeg_fallback += get(&c->lane[STK_LANE_FALLBACK]);
    }
    for (uint32_t i = 0; e->plan->rows.learn && i < e->plan->data.n; i++)
        s.jpeg_learned += e->plan->rows.learn[i] ? stk_learn_count(e->plan->rows.learn[i]) : 0;
    s.batches = e->figures.batches;
    s.skipped = get(&e->bad.skipped);
    s.retried_reads = get(&e->retried);
    s.wait_ns = e->figures.wait_ns;
    s.first_batch_ns = e->figures.first_batch_ns;
    memory_figures(e, &s);
    s.held = stk_engine_held(e);
    s.cold_by = cold_by(e);
    if (e->plan->chains.arrays && e->plan->chains.arrays->packed && !e->schedule->bins)
        packed_figures(e->plan->chains.arrays, &s);
    if (e->plan->gpu.device)
        device_figures(e, &s);
    stk_schedule_fill(e->schedule, e->epoch, &s.packed_tokens, &s.packed_room);
    memcpy(out, &s, size);
}

int stk_engine_skipped(stk_engine *e, uint64_t i, stk_error *out)
{
    int rc = STK_END;

    pthread_mutex_lock(&e->lock);
    if (i < e->bad.n) {
        *out = e->bad.list[i];
        rc = 0;
    }
    pthread_mutex_unlock(&e->lock);
    return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* stats.c - figures for people, summed over workers when somebody asks.
 *
 * A snapshot may be taken on any thread until close, and takes no lock that next() or a worker
 * holds: a figure is an atomic that one thread writes, workers are published with release and freed
 * at close.  So it is not one moment: figures of one snapshot may be some instructions apart. */
#include <string.h>

#include "index/seeklearn.h"
#include "pipe/engine.h"

const char *stk_stage_name(stk_stage_id id)
{
    static const char *const names[STK_STAGES] = { "fetch", "decode", "resample",
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
    const stk_batch_plan *c = e->plan->outputs.common;
    uint32_t out = stk_pool_out(c->pool), each = 0, more = 0, ring;

    for (uint32_t i = 0; i < c->n_out; i++) {
        const stk_out_plan *p = &c->out[i];
        const stk_out_sizes *learned = &c->sizes[i];
        size_t size = p->row_bytes ? p->row_bytes * c->batch
                                   : atomic_load_explicit(&learned->high, memory_order_relaxed);
        size_t dense = atomic_load_explicit(&learned->pad_high, memory_order_relaxed);
        int large = size >= STK_SMALL_OUTPUT || c->pinned;

        /* rows, which leave when padded, and the tensor */
        if (stk_out_pads(p, c->batch) && !p->gpu_made) {
            more += (uint32_t)large;
            large = c->pinned || dense >= STK_SMALL_OUTPUT;
        }
        each += (uint32_t)large;
    }
    ring = stk_open_slots(e) * (each + more);
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

/* The consumer's: the schedule is its own. */
void stk_engine_note_fill(stk_engine *e)
{
    const stk_array_plan *arrays = e->plan->chains.arrays;
    stk_stats s = { 0 };

    if (arrays && arrays->packed && !e->schedule->bins)
        packed_figures(arrays, &s);
    stk_schedule_fill(e->schedule, e->consumer.epoch, &s.packed_tokens, &s.packed_room);
    atomic_store_explicit(&e->figures.packed_tokens, s.packed_tokens, memory_order_relaxed);
    atomic_store_explicit(&e->figures.packed_room, s.packed_room, memory_order_relaxed);
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
    s->gpu_redecoded = d.redone;
    s->gpu_clips = d.clips;
    s->gpu_clips_by_workers = d.clips_by_workers;
    s->gpu_clip_queue_ns = d.clip_queue_ns;
    s->gpu_memory = d.memory;
    s->gpu_memory_peak = d.memory_peak;
    s->gpu_memory_limit = d.memory_limit;
    s->gpu_cache_hits = d.hits;
    s->gpu_cache_misses = d.misses;
    s->gpu_cache_bytes = d.cache.bytes;
    s->gpu_cache_entries = d.cache.entries;
    s->gpu_cache_limit = d.cache.limit;
}

static void worker_figures(const stk_engine *e, double ns_per_tick, stk_stats *s)
{
    uint32_t n = atomic_load_explicit(&e->workers.n, memory_order_acquire);

    for (uint32_t i = 0; i < n; i++) {
        const stk_counters *c = &e->workers.worker[i]->m.count;

        for (int k = 0; k < STK_STAGES * STK_TIMES; k++)
            (&s->stage_times[0][0])[k] += atomic_load_explicit(&c->times[0][0] + k,
                                                               memory_order_relaxed);
        for (int k = 0; k < STK_STAGES; k++)
            s->stage_ns[k] += (uint64_t)((double)get(&c->ticks[k]) * ns_per_tick);
        s->samples += get(&c->samples);
        s->bytes += get(&c->bytes);
        s->bytes_unread += get(&c->unread);
        s->cold_reads += get(&c->cold);
        s->remote_reads += get(&c->remote);
        s->read_wait_ns += (uint64_t)((double)get(&c->read_wait) * ns_per_tick);
        s->room_ns += (uint64_t)((double)get(&c->room) * ns_per_tick);
        s->value_call_ns += (uint64_t)((double)get(&c->call[0]) * ns_per_tick);
        s->resample_call_ns += (uint64_t)((double)get(&c->call[1]) * ns_per_tick);
        s->jpeg_seek += get(&c->lane[STK_LANE_SEEK]);
        s->jpeg_misfit += get(&c->lane[STK_LANE_MISFIT]);
        s->jpeg_fallback += get(&c->lane[STK_LANE_FALLBACK]);
    }
}

static void ring_figures(const stk_engine *e, uint64_t now, stk_stats *s)
{
    const stk_engine_figures *f = &e->figures;

    s->batches = get(&f->batches);
    s->handed_out = get(&f->handed_out);
    s->first_batch_ns = get(&f->first_batch_ns);
    s->first_wait_ns = get(&f->first_wait_ns);
    s->elapsed_ns = now - f->opened_ns;
    s->open_ns = f->open_ns;
    s->wait_ns = get(&f->data_wait_ns);
    s->repair_ns = get(&f->repair_ns);
    s->ledger_ns = get(&f->ledger_ns);
    s->next_ns = get(&f->next_ns);
    s->waiting_ns = stk_wait_ns(e, now);
    s->packed_tokens = get(&f->packed_tokens);
    s->packed_room = get(&f->packed_room);
    s->ring_open = stk_open_slots(e);
    s->ring_ahead = atomic_load_explicit(&f->ahead, memory_order_relaxed);
    s->ring_ready = atomic_load_explicit(&f->ready, memory_order_relaxed);
}

double stk_engine_tick_ns(const stk_engine *e, uint64_t ticks_now)
{
    uint64_t ns = stk_now_ns() - e->figures.opened_ns, ticks = ticks_now - e->figures.opened_ticks;

    return ticks ? (double)ns / (double)ticks : 0;
}

int stk_engine_doing(const stk_engine *e, uint32_t i, stk_doing *out)
{
    const stk_counters *c;
    uint64_t doing, since, now;

    if (i >= atomic_load_explicit(&e->workers.n, memory_order_acquire))
        return STK_END;
    c = &e->workers.worker[i]->m.count;
    doing = get(&c->doing);
    since = get(&c->since);
    now = stk_ticks();
    *out = (stk_doing){ .stage = (stk_stage_id)(doing >> STK_TICKET_BITS),
                        .ticket = doing & (((uint64_t)1 << STK_TICKET_BITS) - 1),
                        .ns = now > since
                                  ? (uint64_t)((double)(now - since) * stk_engine_tick_ns(e, now))
                                  : 0 };
    return 0;
}

void stk_engine_stats(const stk_engine *e, stk_stats *out)
{
    double ns_per_tick = stk_engine_tick_ns(e, stk_ticks());
    stk_stats s = { .size = out->size,
                    .workers = atomic_load_explicit(&e->workers.active, memory_order_relaxed),
                    .slots = e->n_slots };
    size_t size = out->size && out->size < sizeof s ? out->size : sizeof s;

    s.tick_ns = ns_per_tick;
    worker_figures(e, ns_per_tick, &s);
    ring_figures(e, stk_now_ns(), &s);
    for (uint32_t i = 0; e->plan->rows.learn && i < e->plan->data.n; i++)
        s.jpeg_learned += e->plan->rows.learn[i] ? stk_learn_count(e->plan->rows.learn[i]) : 0;
    s.skipped = get(&e->bad.skipped);
    s.retried_reads = get(&e->retried);
    memory_figures(e, &s);
    s.held = stk_engine_held(e);
    s.cold_by = cold_by(e);
    if (e->plan->gpu.device)
        device_figures(e, &s);
    memcpy(out, &s, size);
}

int stk_engine_skipped(const stk_engine *e, uint64_t i, stk_error *out)
{
    if (i >= atomic_load_explicit(&e->bad.n, memory_order_acquire))
        return STK_END;
    *out = e->bad.list[i];
    return 0;
}

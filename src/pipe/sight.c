/* SPDX-License-Identifier: Apache-2.0 */
/* sight.c - a loader's figures as a sight: what every worker was at, and what the system knows of
 * its threads.  See stoker/seeing.h. */
#include <stoker/seeing.h>
#include <string.h>

#include "base/cpu.h"
#include "base/proc.h"
#include "pipe/engine.h"

#define LONG_NS 1000000u /* a lap that is this long counts before it is over */

static double s_of(uint64_t ns)
{
    return (double)ns * 1e-9;
}

/* Laps that are not over: a worker that sleeps, or is in one long row, has counted nothing of
 * it. */
static void add_running(const stk_engine *e, stk_stats *s)
{
    int reads = atomic_load_explicit(&e->inflight, memory_order_relaxed) != 0;
    stk_doing d;

    for (uint32_t i = 0; stk_engine_doing(e, i, &d) == 0; i++) {
        if (d.ns < LONG_NS)
            continue;
        s->stage_ns[d.stage] += d.ns;
        if (d.stage == STK_STAGE_IDLE && reads)
            s->read_wait_ns += d.ns;
    }
}

static void add_threads(const stk_engine *e, stk_sight *out)
{
    uint32_t n = atomic_load_explicit(&e->workers.n, memory_order_acquire);
    uint64_t ran, delayed, all = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t tid = atomic_load_explicit(&e->workers.worker[i]->tid, memory_order_relaxed);

        stk_proc_thread(tid, &ran, &delayed);
        all += delayed;
    }
    out->delay_s = s_of(all);
    out->consumer_cpu_s = -1;
    if (stk_proc_thread(atomic_load_explicit(&e->figures.consumer_tid, memory_order_relaxed), &ran,
                        &delayed) == 0)
        out->consumer_cpu_s = s_of(
            ran + delayed - atomic_load_explicit(&e->figures.consumer_ns, memory_order_relaxed));
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* Waiting for memory is counted in the stage that waited, which is fetch before decode. */
static void add_stages(const stk_stats *s, stk_sight *out)
{
    double fetch = s_of(s->stage_ns[STK_STAGE_FETCH]), decode = s_of(s->stage_ns[STK_STAGE_DECODE]);
    double room = s_of(s->room_ns), from_fetch = room < fetch ? room : fetch;
    stk_cause reads = 2 * s->remote_reads > s->cold_reads ? STK_CAUSE_NETWORK : STK_CAUSE_STORAGE;

    fetch -= from_fetch;
    decode -= room - from_fetch < decode ? room - from_fetch : decode;
    out->busy_s[STK_CAUSE_MEMORY] = room;
    out->busy_s[reads] = fetch + s_of(s->read_wait_ns);
    out->busy_s[STK_CAUSE_DECODE] = decode +
                                    s_of(less(s->stage_ns[STK_STAGE_VALUE], s->value_call_ns));
    out->busy_s[STK_CAUSE_AUGMENT] = s_of(
        less(s->stage_ns[STK_STAGE_RESAMPLE], s->resample_call_ns));
    out->busy_s[STK_CAUSE_PYTHON] = s_of(s->value_call_ns + s->resample_call_ns);
    out->busy_s[STK_CAUSE_COLLATE] = s_of(s->stage_ns[STK_STAGE_BATCH]);
    out->idle_s = s_of(s->stage_ns[STK_STAGE_IDLE]) - s_of(s->read_wait_ns);
    if (out->idle_s < 0)
        out->idle_s = 0;
}

/* Pictures that were decoded, where fields are called as JPEGs are. */
static double jpegs(const stk_engine *e)
{
    uint32_t n = atomic_load_explicit(&e->workers.n, memory_order_acquire), named = 0;
    uint64_t sum = 0;
    const char *f;

    for (uint32_t i = 0; i < e->plan->data.n && !e->plan->data.immediate; i++)
        for (uint32_t k = 0; (f = stk_dataset_field(e->plan->data.set[i], k)); k++)
            named += !strcmp(f, "jpg") || !strcmp(f, "jpeg");
    for (uint32_t i = 0; i < n && named; i++)
        for (int k = 0; k < STK_LANES; k++)
            sum += atomic_load_explicit(&e->workers.worker[i]->m.count.lane[k],
                                        memory_order_relaxed);
    return (double)sum;
}

static void add_settings(const stk_engine *e, const stk_stats *s, stk_sight *out)
{
    double busy = stk_proc_cores_busy();

    out->workers = e->plan->io.inline_mode ? 0 : s->workers;
    out->cores = stk_cpu_share();
    out->slots = s->ring_ahead;
    out->slots_short = e->plan->memory.slots_short;
    out->memory_peak = (double)s->memory_peak;
    out->memory_limit = (double)s->memory_limit;
    out->gpu = e->plan->gpu.device != NULL;
    out->others_s = busy < 0 ? -1 : busy - stk_proc_own_cpu();
    out->sm_share = out->gpu_memory_share = -1;
    if (e->plan->gpu.device)
        stk_gpu_use(stk_device_gpu(e->plan->gpu.device) - 1, &out->sm_share,
                    &out->gpu_memory_share);
}

void stk_engine_sight(const stk_engine *e, stk_sight *out)
{
    stk_stats s = { .size = sizeof s };
    stk_sight n = { .size = out->size };
    size_t size = out->size && out->size < sizeof n ? out->size : sizeof n;

    stk_engine_stats(e, &s);
    add_running(e, &s);
    n.at_s = s_of(s.elapsed_ns);
    n.steps = (double)s.batches;
    n.samples = (double)s.samples;
    n.bytes = (double)s.bytes;
    n.start_s = s_of(s.open_ns + s.first_wait_ns);
    n.wait_s = s_of(s.open_ns + s.wait_ns + s.waiting_ns);
    if (!s.batches) /* it waits for its first batch */
        n.start_s = n.wait_s;
    add_stages(&s, &n);
    add_threads(e, &n);
    n.copy_s = s_of(s.gpu_copy_ns);
    n.clip_queue_s = s_of(s.gpu_clip_queue_ns);
    n.cold = (double)s.cold_reads;
    n.remote = (double)s.remote_reads;
    n.jpegs_seek = (double)s.jpeg_seek;
    n.jpegs = jpegs(e);
    n.cache_hits = (double)s.gpu_cache_hits;
    n.cache_misses = (double)s.gpu_cache_misses;
    add_settings(e, &s, &n);
    memcpy(out, &n, size);
}

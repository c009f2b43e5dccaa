/* SPDX-License-Identifier: Apache-2.0 */
/* tune.c - how many workers work, how many batches are made ahead and how many reads are in flight,
 * while they are left to the loader.
 *
 * The consumer looks now and then at what happened since it looked last.  It waits while workers
 * rest: more batches may be open, twice as many, and that stays only if it waits less for it.  It
 * waits for reads: more of them.  It does not wait and workers rest: one fewer works, until the
 * consumer waits again, which is then the least.  Remote data begins with the most of both: what
 * latency costs is known before it is measured.  Nothing of this changes a batch: a row follows
 * from its ticket, no matter which worker makes it, and when. */
#include "pipe/engine.h"

#define LOOK_NS 20000000u /* at least so long between two looks ... */
#define LOOK_BATCHES 4    /* ... and so many batches */
#define WAITS 0.02        /* share of the time in which the consumer waits: too much */
#define CALM 0.002        /* none, so to speak */
#define RESTS 0.1         /* share of the workers' time: they could do more */
#define HELPED 0.93       /* of the wait for a batch before: less than that is worth the memory */
#define CALM_LOOKS 8      /* in a row, before a worker is parked */
#define TIRED 32          /* looks, before what did not help is tried again */
#define FIRST_AHEAD 2
#define FIRST_DEPTH 32
#define SMALL_RING ((uint64_t)16 << 20) /* bytes: not worth saving */

static uint64_t get(const _Atomic uint64_t *c)
{
    return atomic_load_explicit(c, memory_order_relaxed);
}

static uint64_t batch_bytes(const stk_plan *p)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < p->chains.n_out; i++)
        bytes += (uint64_t)p->chains.out[i].row_bytes * p->batching.rows;
    return bytes;
}

void stk_tune_open(stk_engine *e)
{
    stk_tune *t = &e->tune;
    const stk_plan *p = e->plan;

    t->workers = p->io.workers_free && !p->io.inline_mode;
    t->least = 1;
    t->most = p->io.workers;
    atomic_store_explicit(&e->tune.depth,
                          p->io.depth < FIRST_DEPTH || p->data.remote ? p->io.depth : FIRST_DEPTH,
                          memory_order_relaxed);
    atomic_store_explicit(&e->figures.ahead, e->n_slots, memory_order_relaxed);
    if (!p->memory.slots_free || p->io.inline_mode || p->gpu.device || p->data.remote ||
        e->n_slots <= FIRST_AHEAD || batch_bytes(p) * e->n_slots <= SMALL_RING)
        return;
    atomic_store_explicit(&t->ahead, 1, memory_order_relaxed);
    atomic_store_explicit(&e->figures.ahead, FIRST_AHEAD, memory_order_relaxed);
}

/* What all workers did so far. */
static void sum(const stk_engine *e, stk_tune_sums *s)
{
    uint32_t n = atomic_load_explicit(&e->workers.n, memory_order_relaxed);
    uint32_t active = atomic_load_explicit(&e->workers.active, memory_order_relaxed);

    *s = (stk_tune_sums){ .wait_ns = get(&e->figures.data_wait_ns) };
    for (uint32_t i = 0; i < n; i++) {
        const stk_counters *c = &e->workers.worker[i]->m.count;

        for (int k = 0; k < STK_STAGE_IDLE; k++)
            s->busy += get(&c->ticks[k]);
        s->reads += get(&c->read_wait);
        s->idle += i < active ? get(&c->ticks[STK_STAGE_IDLE]) - get(&c->read_wait) : 0;
    }
}

static void set_ahead(stk_engine *e, uint32_t n)
{
    atomic_store_explicit(&e->figures.ahead, n, memory_order_relaxed);
}

/* More batches ahead: what that gave is seen at the next look. */
static void try_ahead(stk_engine *e, double wait)
{
    stk_tune *t = &e->tune;
    uint32_t n = atomic_load_explicit(&e->figures.ahead, memory_order_relaxed);

    if (!atomic_load_explicit(&t->ahead, memory_order_relaxed) || n >= e->n_slots || t->tired)
        return;
    t->before = wait;
    t->was = n;
    set_ahead(e, 2 * n < e->n_slots ? 2 * n : e->n_slots);
}

/* By the wait for a batch: its share of the time is near 1 for a consumer that does nothing else,
 * at any rate. */
static void judge_ahead(stk_engine *e, double wait)
{
    stk_tune *t = &e->tune;

    if (t->was && wait > HELPED * t->before &&
        atomic_load_explicit(&t->ahead, memory_order_relaxed)) {
        set_ahead(e, t->was);
        t->tired = TIRED;
    }
    t->was = 0;
}

static void more_reads(stk_engine *e)
{
    uint32_t n = atomic_load_explicit(&e->tune.depth, memory_order_relaxed);

    if (n < e->plan->io.depth)
        atomic_store_explicit(&e->tune.depth, 2 * n < e->plan->io.depth ? 2 * n : e->plan->io.depth,
                              memory_order_relaxed);
}

static void set_workers(stk_engine *e, uint32_t n)
{
    stk_engine_workers(e, n, NULL); /* where no thread can be had, things stay as they are */
    e->tune.calm = 0;
    e->tune.skip = 1;
}

static void adapt(stk_engine *e, double waits, double wait, double rests, double reads)
{
    stk_tune *t = &e->tune;
    uint32_t active = atomic_load_explicit(&e->workers.active, memory_order_relaxed);

    if (waits > WAITS && t->workers && active < t->most && rests < RESTS) {
        t->least = active + 1; /* fewer were too few */
        set_workers(e, active + 1);
    } else if (waits > WAITS && (rests > RESTS || reads > RESTS)) {
        if (reads > RESTS)
            more_reads(e);
        try_ahead(e, wait);
    }
    t->calm = waits < CALM && t->workers && rests * active > 1.2 ? t->calm + 1 : 0;
    if (t->calm >= CALM_LOOKS && active > t->least)
        set_workers(e, active - 1);
}

void stk_tune_look(stk_engine *e, uint64_t now)
{
    stk_tune *t = &e->tune;
    uint64_t batches = get(&e->figures.batches);
    stk_tune_sums s;
    double ns, all, waits, wait, rests, reads;

    if (batches < t->batches + LOOK_BATCHES || now - t->at_ns < LOOK_NS)
        return;
    sum(e, &s);
    ns = (double)(now - t->at_ns);
    all = (double)(s.busy - t->last.busy) + (double)(s.reads - t->last.reads);
    waits = (double)(s.wait_ns - t->last.wait_ns) / ns;
    wait = (double)(s.wait_ns - t->last.wait_ns) / (double)(batches - t->batches);
    rests = s.idle > t->last.idle ? (double)(s.idle - t->last.idle) : 0;
    all += rests;
    reads = all > 0 ? (double)(s.reads - t->last.reads) / all : 0;
    rests = all > 0 ? rests / all : 0;
    if (t->at_ns && !t->skip) { /* the first look only remembers: its time has the start in it */
        judge_ahead(e, wait);
        adapt(e, waits, wait, rests, reads);
        t->tired -= t->tired > 0;
    } else {
        t->skip = 0;
    }
    t->last = s;
    t->at_ns = now;
    t->batches = batches;
}

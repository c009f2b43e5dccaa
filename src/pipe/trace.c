/* SPDX-License-Identifier: Apache-2.0 */
/* trace.c - what every thread of a loader did, from when to when.
 *
 * Nothing is noted before someone asks: a lap costs one look at a pointer until then.  From then on
 * each thread keeps its last spans in memory of its own (base/spans.h), and any thread may read
 * them. */
#include "base/spans.h"
#include "pipe/engine.h"

#define TICKET_MASK (((uint64_t)1 << STK_TICKET_BITS) - 1)

/* Without memory for it a worker that comes later is not in the trace, which is no reason to
 * fail. */
void stk_trace_worker_locked(stk_engine *e, stk_worker *w)
{
    stk_spans *s = atomic_load_explicit(&w->spans, memory_order_relaxed);

    if (!e->figures.trace.cells || (!s && stk_spans_open(&s, e->figures.trace.cells, NULL) < 0))
        return;
    atomic_store_explicit(&w->spans, s, memory_order_release);
    atomic_store_explicit(&w->m.spans, e->figures.trace.on ? s : NULL, memory_order_release);
}

static void close_spans(_Atomic(stk_spans *) *at)
{
    stk_spans *s = atomic_exchange_explicit(at, NULL, memory_order_acquire);

    stk_spans_close(&s);
}

void stk_trace_worker_close(stk_worker *w)
{
    close_spans(&w->spans);
}

void stk_trace_close(stk_engine *e)
{
    close_spans(&e->figures.trace.consumer);
}

static int begin_locked(stk_engine *e, uint32_t spans, stk_error *err) STK_REQUIRES(e->lock)
{
    stk_spans *mine = atomic_load_explicit(&e->figures.trace.consumer, memory_order_relaxed);

    if (!mine)
        STK_TRY(stk_spans_open(&mine, spans, err));
    atomic_store_explicit(&e->figures.trace.consumer, mine, memory_order_release);
    /* those that are there stay */
    e->figures.trace.cells = e->figures.trace.cells ? e->figures.trace.cells : spans;
    atomic_store_explicit(&e->figures.trace.from, stk_ticks(), memory_order_relaxed);
    return 0;
}

int stk_engine_trace(stk_engine *e, uint32_t spans, stk_error *err)
{
    uint32_t n = atomic_load_explicit(&e->workers.n, memory_order_relaxed);
    int rc = 0;

#if !STK_COUNTERS
    return stk_fail(err, STK_ENOTSUP,
                    "this build counts nothing, so it has no trace: build it with counters");
#endif
    stk_mutex_lock(&e->lock);
    if (spans)
        rc = begin_locked(e, spans, err);
    e->figures.trace.on = spans && rc == 0;
    for (uint32_t i = 0; i < n; i++)
        stk_trace_worker_locked(e, e->workers.worker[i]);
    stk_mutex_unlock(&e->lock);
    return rc;
}

void stk_trace_next(stk_engine *e, uint64_t from, uint64_t to)
{
    stk_spans *mine = atomic_load_explicit(&e->figures.trace.consumer, memory_order_relaxed);

    stk_spans_note(mine, (uint64_t)STK_STAGES << STK_TICKET_BITS | e->consumer.taken, from, to);
}

typedef struct taker {
    stk_trace_span *out;
    uint64_t n, cap, from, zero; /* ticks: of the trace, of the loader */
    double ns;                   /* of a tick */
} taker;

static void take(taker *t, const stk_spans *s, uint32_t thread)
{
    uint64_t i = 0, n = s ? stk_spans_range(s, &i) : 0;
    stk_spans_row row;

    for (; i < n && t->n < t->cap; i++) {
        if (!stk_spans_get(s, i, &row) || row.from < t->from)
            continue;
        t->out[t->n++] = (stk_trace_span){
            .thread = thread,
            .stage = (uint32_t)(row.what >> STK_TICKET_BITS),
            .number = row.what & TICKET_MASK,
            .from_ns = (uint64_t)((double)(row.from - t->zero) * t->ns),
            .to_ns = (uint64_t)((double)(row.to - t->zero) * t->ns)
        };
    }
}

uint64_t stk_engine_spans(const stk_engine *e, stk_trace_span *out, uint64_t cap)
{
    uint32_t n = atomic_load_explicit(&e->workers.n, memory_order_acquire);
    const stk_spans *mine = atomic_load_explicit(&e->figures.trace.consumer, memory_order_acquire);
    taker t = { .out = out,
                .cap = cap,
                .zero = e->figures.opened_ticks,
                .from = atomic_load_explicit(&e->figures.trace.from, memory_order_relaxed),
                .ns = stk_engine_tick_ns(e, stk_ticks()) };

    if (!mine)
        return 0;
    if (!out) /* how many there can be */
        return (uint64_t)(n + 1) * (mine->mask + 1);
    take(&t, mine, STK_CONSUMER);
    for (uint32_t i = 0; i < n; i++)
        take(&t, atomic_load_explicit(&e->workers.worker[i]->spans, memory_order_acquire), i);
    return t.n;
}

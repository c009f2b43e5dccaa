/* SPDX-License-Identifier: Apache-2.0 */
/* in_flight.h - requests that left their workers: those whose bytes are on their way, and those
 * that arrived.
 *
 * Bytes of remote files take long to come, so many reads are in flight at once.  How many is
 * bounded by their bytes, counted from the submit until a worker goes on with the row: few large
 * samples or many small ones.  Local reads are bounded by their number. */
#ifndef STOKER_IN_FLIGHT_H
#define STOKER_IN_FLIGHT_H

#include <assert.h>

#include "pipe/engine.h"

static inline void stk_in_flight_add(stk_engine *e, stk_request *r)
{
    r->in_flight = e->plan->memory.in_flight ? r->total : 0;
    if (r->in_flight)
        atomic_fetch_add_explicit(&e->io.in_flight, r->in_flight, memory_order_relaxed);
}

/* 1: there was no room for more, and now there is. */
static inline int stk_in_flight_end(stk_engine *e, stk_request *r)
{
    uint64_t had, mine = r->in_flight, most = e->plan->memory.in_flight;

    if (!mine)
        return 0;
    r->in_flight = 0;
    had = atomic_fetch_sub_explicit(&e->io.in_flight, mine, memory_order_relaxed);
    assert(had >= mine); /* what ends was added */
    return had >= most && had - mine < most;
}

/* May more be read?  0: some is on its way or has arrived, so that a worker will be woken. */
static inline int stk_in_flight_room(const stk_engine *e)
{
    return !e->plan->memory.in_flight ||
           atomic_load_explicit(&e->io.in_flight, memory_order_relaxed) < e->plan->memory.in_flight;
}

/* Those that arrived are a heap by ticket. */
static inline void stk_arrived_push_locked(stk_engine *e, stk_request *r) STK_REQUIRES(e->lock)
{
    uint32_t i = atomic_load_explicit(&e->n_arrived, memory_order_relaxed);

    assert(i < e->requests.max); /* each is there once */
    atomic_store_explicit(&e->n_arrived, i + 1, memory_order_relaxed);
    for (; i && e->requests.arrived[(i - 1) / 2]->ticket > r->ticket; i = (i - 1) / 2)
        e->requests.arrived[i] = e->requests.arrived[(i - 1) / 2];
    e->requests.arrived[i] = r;
}

static inline stk_request *stk_arrived_pop_locked(stk_engine *e) STK_REQUIRES(e->lock)
{
    uint32_t n = atomic_load_explicit(&e->n_arrived, memory_order_relaxed), i = 0, kid;
    stk_request *top, *last;

    if (!n)
        return NULL;
    top = e->requests.arrived[0];
    last = e->requests.arrived[--n];
    assert(top->ticket <= last->ticket); /* a heap */
    atomic_store_explicit(&e->n_arrived, n, memory_order_relaxed);
    while ((kid = 2 * i + 1) < n) {
        if (kid + 1 < n && e->requests.arrived[kid + 1]->ticket < e->requests.arrived[kid]->ticket)
            kid++;
        if (e->requests.arrived[kid]->ticket >= last->ticket)
            break;
        e->requests.arrived[i] = e->requests.arrived[kid];
        i = kid;
    }
    e->requests.arrived[i] = last;
    return top;
}

#endif

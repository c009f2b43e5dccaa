/* SPDX-License-Identifier: Apache-2.0 */
/* in_flight.h - requests that left their workers: their bytes are in flight or have arrived.  Used
 * by worker.c, engine.c and iothread.c.
 *
 * Bytes of remote files take long, so many reads are in flight at once.  Their bytes are limited,
 * counted from submit() until a worker continues with the row: a few large samples or many small
 * ones.  Local reads are limited by number. */
#ifndef STOKER_IN_FLIGHT_H
#define STOKER_IN_FLIGHT_H

#include <assert.h>

#include "pipe/engine.h"

static inline void stk_in_flight_add(stk_engine *e, stk_request *r)
{
    r->row.in_flight = e->plan->memory.in_flight ? r->reads.total : 0;
    if (r->row.in_flight)
        atomic_fetch_add_explicit(&e->io.in_flight, r->row.in_flight, memory_order_relaxed);
}

/* 1: the limit was reached before, and is not any more. */
static inline int stk_in_flight_end(stk_engine *e, stk_request *r)
{
    uint64_t had, mine = r->row.in_flight, most = e->plan->memory.in_flight;

    if (!mine)
        return 0;
    r->row.in_flight = 0;
    had = atomic_fetch_sub_explicit(&e->io.in_flight, mine, memory_order_relaxed);
    assert(had >= mine); /* each is added before it ends */
    return had >= most && had - mine < most;
}

/* 1: more may be read.  0: enough is in flight or has arrived, and will wake a worker. */
static inline int stk_in_flight_room(const stk_engine *e)
{
    return !e->plan->memory.in_flight ||
           atomic_load_explicit(&e->io.in_flight, memory_order_relaxed) < e->plan->memory.in_flight;
}

/* Arrived requests are a heap by ticket. */
static inline void stk_arrived_push_locked(stk_engine *e, stk_request *r) STK_REQUIRES(e->lock)
{
    uint32_t i = atomic_load_explicit(&e->n_arrived, memory_order_relaxed);

    assert(i < e->requests.max); /* each is in it once */
    atomic_store_explicit(&e->n_arrived, i + 1, memory_order_relaxed);
    for (; i && e->requests.arrived[(i - 1) / 2]->row.ticket > r->row.ticket; i = (i - 1) / 2)
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
    assert(top->row.ticket <= last->row.ticket); /* the heap's order */
    atomic_store_explicit(&e->n_arrived, n, memory_order_relaxed);
    while ((kid = 2 * i + 1) < n) {
        if (kid + 1 < n &&
            e->requests.arrived[kid + 1]->row.ticket < e->requests.arrived[kid]->row.ticket)
            kid++;
        if (e->requests.arrived[kid]->row.ticket >= last->row.ticket)
            break;
        e->requests.arrived[i] = e->requests.arrived[kid];
        i = kid;
    }
    e->requests.arrived[i] = last;
    return top;
}

#endif

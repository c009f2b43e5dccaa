/* SPDX-License-Identifier: Apache-2.0 */
/* claim.h - how a worker claims tickets: one compare-and-swap for a run of them.  Included by
 * worker.c and engine.c.
 *
 * Cheap rows are claimed 32 at a time, costly ones one by one.  Remote rows are claimed 32 at a
 * time while bytes have to be waited for: a worker that begins the reads of neighbours together
 * needs one request for them.  For the same reason it waits until requests for many rows are
 * free. */
#ifndef STOKER_CLAIM_H
#define STOKER_CLAIM_H

#include "pipe/in_flight.h"

#define STK_REMOTE_ROWS 64u  /* rows of remote data that are begun together ... */
#define STK_REMOTE_CLAIM 32u /* ... of so many tickets each */

/* Claims up to `want` tickets of one slot and returns how many; 0: none are open. */
static inline uint32_t stk_claim(stk_engine *e, uint32_t want, uint64_t *first)
{
    const uint64_t mask = ((uint64_t)1 << STK_TICKET_BITS) - 1;
    uint64_t c = atomic_load_explicit(&e->claim, memory_order_acquire), t, limit, n;

    for (;;) {
        t = c & mask;
        limit = atomic_load_explicit(&e->limit, memory_order_acquire);
        if (t >= limit)
            return 0;
        n = e->tickets - t % e->tickets;
        /* the tickets after it stand for no sample: one claim takes all */
        if (t % e->tickets < stk_slot_tickets(stk_slot_of(e, t)))
            n = n < want ? n : want;
        if (atomic_compare_exchange_weak_explicit(&e->claim, &c, c + n, memory_order_acq_rel,
                                                  memory_order_acquire)) {
            *first = t;
            return (uint32_t)n;
        }
    }
}

/* 1: there is room to begin many rows at once.  0: requests are in flight or have arrived. */
static inline int stk_claim_many_locked(const stk_engine *e) STK_REQUIRES(e->lock)
{
    return stk_in_flight_room(e) &&
           e->requests.max - e->requests.n + e->io.n_idle >= STK_REMOTE_ROWS;
}

/* Tickets to claim at once.  One worker should have neighbours if bytes must be waited for. */
static inline uint32_t stk_claim_size(const stk_engine *e)
{
    return e->plan->data.remote && e->claim_size < STK_REMOTE_CLAIM &&
                   atomic_load_explicit(&e->cold, memory_order_relaxed)
               ? STK_REMOTE_CLAIM
               : e->claim_size;
}

#endif

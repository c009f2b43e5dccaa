/* SPDX-License-Identifier: Apache-2.0 */
/* slot.h - a batch in the ring while it is made: FREE -> FILLING -> STAGES -> READY.
 *
 * The consumer opens a slot, workers fill it, the one that does its last row runs the stages.  A
 * slot is not opened again while a ticket of it is not done. */
#ifndef STOKER_SLOT_H
#define STOKER_SLOT_H

#include <stdatomic.h>

#include "base/ticket.h"
#include "order/schedule.h"
#include "row/row.h"

typedef struct stk_engine stk_engine;
typedef struct stk_slot stk_slot;

typedef enum stk_slot_state {
    STK_SLOT_FREE,
    STK_SLOT_FILLING,
    STK_SLOT_STAGES,
    STK_SLOT_READY
} stk_slot_state;

typedef struct stk_slot_ticket {
    stk_ticket ticket;
    stk_engine *engine;
    stk_slot *slot;
} stk_slot_ticket;

struct stk_slot {
    stk_slot_state state;  /* lock */
    _Atomic uint32_t left; /* rows not done */
    uint64_t seq, epoch, step;
    stk_share share;
    _Atomic uint32_t tickets; /* that stand for a sample; the others are done by being claimed */
    stk_ticket_list list;     /* what they are, where the schedule lists them */
    stk_batch *batch;
    const stk_row_table *table; /* how its rows are made */
    uint32_t stage;             /* the next one to run */
    _Atomic uint32_t skipped;   /* bad samples that others stand in for */
    stk_slot_ticket ticket;
    int rc;           /* lock: failure of the lowest row */
    uint32_t err_row; /* lock */
    stk_error err;    /* lock */
};

static inline uint32_t stk_slot_tickets(const stk_slot *s)
{
    return atomic_load_explicit(&s->tickets, memory_order_relaxed);
}

/* ring.c: slots */
int stk_ring_plan(stk_engine *e, stk_error *err); /* memory of slots that have positions */
void stk_ring_fail(stk_engine *e, stk_slot *s, uint32_t row, int rc, const stk_error *err);
/* Rows are done; the last one runs the stages.  1: it was among them. */
int stk_ring_done(stk_engine *e, stk_slot *s, uint32_t rows);
void stk_ring_drain(stk_engine *e); /* no claims left, all slots free, nothing held */

#endif

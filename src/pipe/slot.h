/* SPDX-License-Identifier: Apache-2.0 */
/* slot.h - one place in the ring, in which a batch is made: FREE -> FILLING -> STAGES -> READY.
 *
 * The consumer opens a slot and workers fill its rows.  The worker that makes the last row runs the
 * batch stages.  A slot is opened again only after each of its tickets is done.
 * Used by ring.c, worker.c and engine.c. */
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
    _Atomic uint32_t left; /* rows that are not done yet */
    uint64_t seq, epoch, step;
    stk_share share;
    /* tickets that stand for a sample; the rest of the slot's tickets are skipped */
    _Atomic uint32_t tickets;
    stk_ticket_list list; /* their samples, if the schedule lists them */
    stk_batch *batch;
    const stk_row_table *table; /* how its rows are made */
    uint32_t stage;             /* index of the batch stage that runs next */
    _Atomic uint32_t skipped;   /* bad samples that were replaced by others */
    stk_slot_ticket ticket;
    int rc;           /* lock: error of the lowest row that failed; 0: none failed */
    uint32_t err_row; /* lock */
    stk_error err;    /* lock */
};

static inline uint32_t stk_slot_tickets(const stk_slot *s)
{
    return atomic_load_explicit(&s->tickets, memory_order_relaxed);
}

/* ring.c */
int stk_ring_plan(stk_engine *e, stk_error *err); /* allocates lists of positions */
void stk_ring_fail(stk_engine *e, stk_slot *s, uint32_t row, int rc, const stk_error *err);
/* `rows` more rows are done.  If the last row is among them, runs the stages and returns 1. */
int stk_ring_done(stk_engine *e, stk_slot *s, uint32_t rows);
/* afterwards no ticket is claimed, all slots are FREE, and no batch is held */
void stk_ring_drain(stk_engine *e);

#endif

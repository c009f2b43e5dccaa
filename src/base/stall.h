/* SPDX-License-Identifier: Apache-2.0 */
/* stall.h - holds threads up on purpose, so that tests see orders of events that a quiet machine
 * never shows.
 *
 * With STK_STALL=seed in the environment when a loader is opened, the engine stops now and then at
 * the named points: not at all, for a yield or a short sleep, by hash(seed, point, number).  No
 * result may depend on it.  Without the variable, a point costs one branch. */
#ifndef STOKER_BASE_STALL_H
#define STOKER_BASE_STALL_H

#include <stoker/base.h>

typedef enum stk_stall_point {
    STK_STALL_CLAIM,   /* tickets are claimed, none of their rows is begun */
    STK_STALL_TRY,     /* what can be read without waiting was read */
    STK_STALL_DONE,    /* rows are made, their slot is not counted down */
    STK_STALL_ARRIVED, /* bytes have arrived, and no worker knows it yet */
    STK_STALL_TAKE,    /* the consumer is about to look at its slot */
    STK_STALL_DRAIN,   /* a seek or close is between two of its steps */
    STK_STALL_READ,    /* a reader has a read of the queue and has not begun it */
    STK_STALL_POINTS
} stk_stall_point;

typedef struct stk_stall { /* read-only once planned */
    uint64_t seed;
    int on;
} stk_stall;

/* Reads $STK_STALL.  Off if it is absent or empty; STK_EINVAL if it is not a number. */
int stk_stall_plan(stk_stall *s, stk_error *err);
void stk_stall_now(const stk_stall *s, stk_stall_point point, uint64_t number);

/* `number` tells events apart: a ticket, a step, an offset. */
static inline void stk_stall_at(const stk_stall *s, stk_stall_point point, uint64_t number)
{
    if (__builtin_expect(s->on, 0))
        stk_stall_now(s, point, number);
}

#endif

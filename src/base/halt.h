/* SPDX-License-Identifier: Apache-2.0 */
/* halt.h - stop flags ("halts") by which long waits end early.  Everything that waits for a server,
 * for another process, or for a thread that may wait for these, looks at one.
 *
 * A halt is a flag.  Each thread stores the halt it listens to in thread-local memory, because
 * waits are many calls below the code that knows it.  Threads of a loader listen to the loader's
 * halt, jobs to that of the call that started them; other threads have none.  A wait looks at the
 * halt about 20 times a second.  In a thread that called the library, it also calls the function
 * that stk_thread_ask() was given: that is how Ctrl-C is noticed. */
#ifndef STOKER_BASE_HALT_H
#define STOKER_BASE_HALT_H

#include <stdatomic.h>

#include "base/err.h"
#include "base/lock.h"

#define STK_HALT_MS 50 /* time between two looks at the halt */

typedef struct stk_halt { /* Thread: any.  It outlives every wait that looks at it. */
    _Atomic int now;
    const struct stk_halt *above; /* this halt is set, too, when that one is; NULL: none */
} stk_halt;

static inline void stk_halt_set(stk_halt *h, int now)
{
    atomic_store_explicit(&h->now, now, memory_order_release);
}

static inline int stk_halt_is(const stk_halt *h) /* NULL: never */
{
    for (; h; h = h->above)
        if (atomic_load_explicit(&h->now, memory_order_acquire))
            return 1;
    return 0;
}

const stk_halt *stk_halt_mine(void); /* the calling thread's halt; NULL: none */
/* Makes `h` the calling thread's halt.  Returns the one before, which the caller enters again. */
const stk_halt *stk_halt_enter(const stk_halt *h);

/* What stk_thread_ask() was given.  stk_thread_hush() removes and returns it, for a time in which
 * the function must not be called. */
typedef struct stk_asking {
    stk_asked_fn asked;
    void *cookie;
} stk_asking;
stk_asking stk_thread_hush(void);

/* 1: the calling thread's waits have to end.  It may call the program, so call it only after a
 * longer wait. */
int stk_halt_wanted(void);
/* Sleeps so long.  STK_ECLOSED: the calling thread's waits have to end. */
int stk_halt_sleep(uint32_t ms);
int stk_fail_halted(stk_error *err); /* fills in *err and returns STK_ECLOSED */

/* A wait for a number of answers from other threads. */
typedef struct stk_wait {
    stk_mutex lock;
    pthread_cond_t came;
    uint32_t left; /* lock */
} stk_wait;

void stk_wait_init(stk_wait *w, uint32_t n);
void stk_wait_fini(stk_wait *w);
void stk_wait_came(stk_wait *w); /* one answer has come */
/* Waits until all have come.  STK_ECLOSED: not all have, and the calling thread's waits must
 * end. */
int stk_wait_look(stk_wait *w);
void stk_wait_all(stk_wait *w); /* waits until all have come, whatever the halt says */

/* Waits on a condition of the monotonic clock until the next look at the halt is due. */
void stk_halt_cond_wait(pthread_cond_t *c, stk_mutex *l) STK_REQUIRES(*l);

#endif

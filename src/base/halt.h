/* SPDX-License-Identifier: Apache-2.0 */
/* halt.h - waits that end early when they are told to.
 *
 * A halt is a flag.  Every thread has one that its waits look at, or none: threads of a loader have
 * the loader's, jobs that of the call that started them.  A wait for a server, for another process,
 * or for another thread that waits so looks at it about 20 times a second.  A thread that called
 * the library also asks what stk_thread_ask() was given: that is how Ctrl-C is noticed.
 *
 * Which halt is a thread's own is kept in thread-local memory: the waits are many calls below those
 * who know. */
#ifndef STOKER_BASE_HALT_H
#define STOKER_BASE_HALT_H

#include <stdatomic.h>

#include "base/err.h"
#include "base/lock.h"

#define STK_HALT_MS 50 /* between two looks */

typedef struct stk_halt { /* Thread: any.  It outlives every wait that looks at it. */
    _Atomic int now;
    const struct stk_halt *above; /* it halts with this one; NULL: alone */
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

const stk_halt *stk_halt_mine(void); /* of the calling thread; NULL: none */
/* From now on this is the calling thread's.  Returns the one before, to be entered again. */
const stk_halt *stk_halt_enter(const stk_halt *h);

/* what stk_thread_ask() was given, for a moment in which nothing is asked */
typedef struct stk_asking {
    stk_asked_fn asked;
    void *cookie;
} stk_asking;
stk_asking stk_thread_hush(void);

/* Are the calling thread's waits to end?  Asks, so that it is for those who have waited a while. */
int stk_halt_wanted(void);
/* Sleep so long.  STK_ECLOSED: the calling thread's waits are to end. */
int stk_halt_sleep(uint32_t ms);
int stk_fail_halted(stk_error *err); /* STK_ECLOSED, in words */

/* So many answers from other threads, waited for. */
typedef struct stk_wait {
    stk_mutex lock;
    pthread_cond_t came;
    uint32_t left; /* lock */
} stk_wait;

void stk_wait_init(stk_wait *w, uint32_t n);
void stk_wait_fini(stk_wait *w);
void stk_wait_came(stk_wait *w); /* one of them */
/* Until all have come.  STK_ECLOSED: not all have, and the calling thread's waits are to end. */
int stk_wait_look(stk_wait *w);
void stk_wait_all(stk_wait *w); /* whatever halts */

/* Wait on a condition of the monotonic clock until the next look is due. */
void stk_halt_cond_wait(pthread_cond_t *c, stk_mutex *l) STK_REQUIRES(*l);

#endif

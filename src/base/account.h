/* SPDX-License-Identifier: Apache-2.0 */
/* account.h - bytes planned against a limit, and waiting for them.  Thread: any.
 *
 * An account may be a part of another, the whole; what is taken of a part is taken of both.  Those
 * who wait for memory all wait at the whole: there every stk_account_give() ends.
 *
 * NULL stands for an account without a limit in take() and give().
 *
 * A wake-up is not lost: a waiter is counted first and tries after that, a giver gives first and
 * looks for waiters after that. */
#ifndef STOKER_ACCOUNT_H
#define STOKER_ACCOUNT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"

typedef struct stk_turn { /* a thread in stk_account_reserve() */
    uint64_t ticket;
    struct stk_turn *next;
} stk_turn;

typedef struct stk_account {
    _Atomic uint64_t used, peak;
    uint64_t limit;
    struct stk_account *whole; /* what this is a part of, with a limit of its own; NULL: nothing */

    /* of the whole only */
    _Atomic uint32_t watched; /* threads that want to know of every give() */
    _Atomic uint32_t turns;   /* of them: threads that wait in order of their tickets */
    stk_mutex lock;           /* no other is taken while it is held */
    pthread_cond_t changed;
    uint64_t changes; /* lock */
    stk_turn *first;  /* lock: lowest ticket first */
} stk_account;

void stk_account_init(stk_account *a, uint64_t limit);
void stk_account_init_part(stk_account *a, uint64_t limit, stk_account *whole);
void stk_account_fini(stk_account *a); /* no one waits any more */

/* ---- waiting for memory, or for what else may bring some ---- */

/* From here to unwatch() no change is missed.  Answers what sleep() wants. */
uint64_t stk_account_watch(stk_account *a);
void stk_account_unwatch(stk_account *a);
/* Until something has changed since watch() or since the sleep that put it into *seen.  1: it has;
 * 0: `ms` have passed. */
int stk_account_sleep(stk_account *a, uint64_t *seen, int ms);
/* Something else has changed that waiters look at: a read has arrived, a drain begins. */
void stk_account_wake_all(stk_account *a);

typedef struct stk_patience { /* of a waiter */
    /* Asked before every sleep, without locks; first: it is the caller's turn.  0: wait on; else
     * the answer of reserve(). */
    int (*enough)(void *cookie, int first);
    void *cookie;
} stk_patience;

/* Take `size` bytes, waiting for them: the lowest ticket first, and no other that waits here before
 * it has got its bytes.  The caller must hold nothing that another one here waits for.  0, or what
 * enough() answered. */
int stk_account_reserve(stk_account *a, uint64_t size, uint64_t ticket, const stk_patience *p);

/* 1: threads wait in reserve().  Who can do with less lets them go first. */
static inline int stk_account_waited_for(const stk_account *a)
{
    const stk_account *w = a->whole ? a->whole : a;

    return atomic_load_explicit(&w->turns, memory_order_relaxed) != 0;
}

static inline int stk_account_take_here(stk_account *a, uint64_t size)
{
    uint64_t peak = atomic_load_explicit(&a->peak, memory_order_relaxed);
    uint64_t used = atomic_load(&a->used);

    do { /* not added and taken back: another one's try would fail meanwhile, and no one tell it */
        if (size > a->limit || used > a->limit - size)
            return 0;
    } while (!atomic_compare_exchange_weak(&a->used, &used, used + size));
    used += size;
    while (used > peak && !atomic_compare_exchange_weak_explicit(
                              &a->peak, &peak, used, memory_order_relaxed, memory_order_relaxed)) {}
    return 1;
}

static inline void stk_account_give(stk_account *a, uint64_t size)
{
    if (!size || !a)
        return;
    atomic_fetch_sub(&a->used, size);
    if (a->whole) {
        a = a->whole;
        atomic_fetch_sub(&a->used, size);
    }
    if (atomic_load(&a->watched))
        stk_account_wake_all(a);
}

/* 1: granted; 0: it would pass the limit. */
static inline int stk_account_take(stk_account *a, uint64_t size)
{
    if (!a)
        return 1;
    if (!stk_account_take_here(a, size))
        return 0;
    if (!a->whole || stk_account_take_here(a->whole, size))
        return 1;
    atomic_fetch_sub(&a->used, size);
    return 0;
}

#endif

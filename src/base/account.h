/* SPDX-License-Identifier: Apache-2.0 */
/* account.h - counts bytes against a limit, and lets threads wait for memory.  The pool, caches,
 * requests and scratch memories of a loader use it.  Thread: any.
 *
 * An account may be a part of another one, the whole; bytes taken from a part are taken from both.
 * Threads that wait for memory all wait at the whole, where every stk_account_give() arrives.
 *
 * In take() and give(), NULL is an account without a limit.
 *
 * No wake-up is lost: a waiter is counted first and tries then; a giver gives first and looks for
 * waiters then. */
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
    struct stk_account *whole; /* the account this is a part of; NULL: none */

    /* the fields below are used in a whole only */
    _Atomic uint32_t watched; /* threads that are woken by every give() */
    _Atomic uint32_t turns;   /* of these, threads that wait in the order of their tickets */
    stk_mutex lock;           /* no other lock is taken while it is held */
    pthread_cond_t changed;
    uint64_t changes; /* lock */
    stk_turn *first;  /* lock: lowest ticket first */
} stk_account;

void stk_account_init(stk_account *a, uint64_t limit);
void stk_account_init_part(stk_account *a, uint64_t limit, stk_account *whole);
void stk_account_fini(stk_account *a); /* call when no thread waits any more */

/* ---- waiting for memory, or for what else may bring some ---- */

/* No change is missed between here and unwatch().  Returns the value for sleep(). */
uint64_t stk_account_watch(stk_account *a);
void stk_account_unwatch(stk_account *a);
/* Sleeps until something changed after watch() or after the last sleep.  1: it changed; 0: `ms`
 * passed. */
int stk_account_sleep(stk_account *a, uint64_t *seen, int ms);
/* Wakes waiters for another reason: a read arrived, a drain begins. */
void stk_account_wake_all(stk_account *a);

typedef struct stk_patience { /* decides whether a waiter goes on waiting */
    /* Called before every sleep, without locks; first: it is this waiter's turn.  0: wait on; other
     * values end reserve(), which returns them. */
    int (*enough)(void *cookie, int first);
    void *cookie;
} stk_patience;

/* Takes `size` bytes and waits for them.  The lowest ticket comes first, and no other waiter gets
 * memory before it has its bytes.  The caller must hold nothing that another waiter here needs.  0,
 * or the value of enough(). */
int stk_account_reserve(stk_account *a, uint64_t size, uint64_t ticket, const stk_patience *p);

/* 1: threads wait in reserve().  Callers that can do with less memory let them go first. */
static inline int stk_account_waited_for(const stk_account *a)
{
    const stk_account *w = a->whole ? a->whole : a;

    return atomic_load_explicit(&w->turns, memory_order_relaxed) != 0;
}

static inline int stk_account_take_here(stk_account *a, uint64_t size)
{
    uint64_t peak = atomic_load_explicit(&a->peak, memory_order_relaxed);
    uint64_t used = atomic_load(&a->used);

    do { /* never added first and taken back later: a try of another thread would fail meanwhile */
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

/* 1: taken; 0: it would exceed the limit. */
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

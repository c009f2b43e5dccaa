/* SPDX-License-Identifier: Apache-2.0 */
/* account.h - bytes planned against a limit.  Thread: any. */
#ifndef STOKER_ACCOUNT_H
#define STOKER_ACCOUNT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

typedef struct stk_account {
    _Atomic uint64_t used, peak;
    uint64_t limit;
    struct stk_account *whole; /* what this is a part of, with a limit of its own; NULL: nothing */
} stk_account;

static inline void stk_account_init(stk_account *a, uint64_t limit)
{
    atomic_init(&a->used, 0);
    atomic_init(&a->peak, 0);
    a->limit = limit;
    a->whole = NULL;
}

static inline int stk_account_take_here(stk_account *a, uint64_t size)
{
    uint64_t peak = atomic_load_explicit(&a->peak, memory_order_relaxed), now;

    if (size > a->limit) /* nor can the sum below wrap */
        return 0;
    now = atomic_fetch_add_explicit(&a->used, size, memory_order_relaxed) + size;
    if (now > a->limit) {
        atomic_fetch_sub_explicit(&a->used, size, memory_order_relaxed);
        return 0;
    }
    while (now > peak && !atomic_compare_exchange_weak_explicit(
                             &a->peak, &peak, now, memory_order_relaxed, memory_order_relaxed)) {}
    return 1;
}

static inline void stk_account_give(stk_account *a, uint64_t size)
{
    for (; a; a = a->whole)
        atomic_fetch_sub_explicit(&a->used, size, memory_order_relaxed);
}

/* 1: granted; 0: it would pass the limit. */
static inline int stk_account_take(stk_account *a, uint64_t size)
{
    if (!stk_account_take_here(a, size))
        return 0;
    if (!a->whole || stk_account_take_here(a->whole, size))
        return 1;
    atomic_fetch_sub_explicit(&a->used, size, memory_order_relaxed);
    return 0;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* account.c - waiting for memory.  A counter of changes under a lock, and a list of those who wait
 * in turn. */
#include "base/account.h"

#include "base/clock.h"

#define LOOK_MS 50 /* enough() may depend on what no one tells us */

void stk_account_init_part(stk_account *a, uint64_t limit, stk_account *whole)
{
    pthread_condattr_t attr;

    *a = (stk_account){ .limit = limit, .whole = whole };
    stk_mutex_init(&a->lock);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&a->changed, &attr);
    pthread_condattr_destroy(&attr);
}

void stk_account_init(stk_account *a, uint64_t limit)
{
    stk_account_init_part(a, limit, NULL);
}

void stk_account_fini(stk_account *a)
{
    pthread_cond_destroy(&a->changed);
    stk_mutex_destroy(&a->lock);
}

static stk_account *whole_of(stk_account *a)
{
    return a->whole ? a->whole : a;
}

uint64_t stk_account_watch(stk_account *a)
{
    uint64_t seen;

    a = whole_of(a);
    atomic_fetch_add(&a->watched, 1);
    stk_mutex_lock(&a->lock);
    seen = a->changes;
    stk_mutex_unlock(&a->lock);
    return seen;
}

void stk_account_unwatch(stk_account *a)
{
    atomic_fetch_sub(&whole_of(a)->watched, 1);
}

static int sleep_locked(stk_account *a, uint64_t *seen, int ms) STK_REQUIRES(a->lock)
{
    struct timespec until = stk_in_ms(ms);
    int changed;

    while (a->changes == *seen && stk_cond_timedwait(&a->changed, &a->lock, &until) == 0) {}
    changed = a->changes != *seen;
    *seen = a->changes;
    return changed;
}

int stk_account_sleep(stk_account *a, uint64_t *seen, int ms)
{
    int changed;

    a = whole_of(a);
    stk_mutex_lock(&a->lock);
    changed = sleep_locked(a, seen, ms);
    stk_mutex_unlock(&a->lock);
    return changed;
}

static void change_locked(stk_account *a) STK_REQUIRES(a->lock)
{
    a->changes++;
    pthread_cond_broadcast(&a->changed);
}

void stk_account_wake_all(stk_account *a)
{
    a = whole_of(a);
    stk_mutex_lock(&a->lock);
    change_locked(a);
    stk_mutex_unlock(&a->lock);
}

/* ---- in turn ---- */

static void queue_locked(stk_account *w, stk_turn *t) STK_REQUIRES(w->lock)
{
    stk_turn **at = &w->first;

    while (*at && (*at)->ticket <= t->ticket)
        at = &(*at)->next;
    t->next = *at;
    *at = t;
    atomic_fetch_add(&w->turns, 1);
}

static void leave_locked(stk_account *w, stk_turn *t) STK_REQUIRES(w->lock)
{
    stk_turn **at = &w->first;

    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    atomic_fetch_sub(&w->turns, 1);
    change_locked(w); /* the next one may have its turn now */
}

int stk_account_reserve(stk_account *a, uint64_t size, uint64_t ticket, const stk_patience *p)
{
    stk_account *w = whole_of(a);
    stk_turn turn = { .ticket = ticket };
    uint64_t seen = stk_account_watch(a);
    int rc = 0, first;

    stk_mutex_lock(&w->lock);
    queue_locked(w, &turn);
    while (!(first = w->first == &turn) || !stk_account_take(a, size)) {
        stk_mutex_unlock(&w->lock);
        rc = p->enough(p->cookie, first);
        stk_mutex_lock(&w->lock);
        if (rc)
            break;
        sleep_locked(w, &seen, LOOK_MS);
    }
    leave_locked(w, &turn);
    stk_mutex_unlock(&w->lock);
    stk_account_unwatch(a);
    return rc;
}

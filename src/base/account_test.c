/* SPDX-License-Identifier: Apache-2.0 */
/* account_test.c - waiting for memory: in order, woken by every give(), and never past the
 * limit. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/account.h"
#include "base/hash.h"

static int never_enough(void *cookie, int first)
{
    (void)cookie, (void)first;
    return 0;
}

static const stk_patience patient = { never_enough, NULL };

typedef struct waiter {
    stk_account *account;
    uint64_t ticket, size;
    _Atomic int *order, place; /* which of them it was that got its bytes */
    pthread_t thread;
} waiter;

static void *wait_for_it(void *arg)
{
    waiter *w = arg;

    assert_int_equal(stk_account_reserve(w->account, w->size, w->ticket, &patient), 0);
    atomic_store(&w->place, atomic_fetch_add(w->order, 1));
    stk_account_give(w->account, w->size);
    return NULL;
}

/* Whatever order they come in, the lowest ticket has its turn first, also before smaller ones. */
static void lowest_ticket_first(void **state)
{
    static const uint64_t tickets[] = { 9, 4, 7, 1 };
    static const uint64_t sizes[] = { 60, 80, 70, 100 }; /* no two fit together */
    static const int places[] = { 3, 1, 2, 0 };
    _Atomic int order = 0;
    stk_account a;
    waiter w[4];

    (void)state;
    stk_account_init(&a, 100);
    assert_int_equal(stk_account_take(&a, 100), 1);
    for (uint32_t i = 0; i < 4; i++) {
        w[i] = (waiter){ &a, tickets[i], sizes[i], &order, -1, 0 };
        pthread_create(&w[i].thread, NULL, wait_for_it, &w[i]);
        while (atomic_load(&a.turns) != i + 1)
            usleep(100);
    }
    assert_int_equal(stk_account_waited_for(&a), 1);
    stk_account_give(&a, 75); /* enough for either of two, and neither has its turn */
    usleep(2000);
    assert_int_equal(atomic_load(&order), 0);
    stk_account_give(&a, 25);
    for (int i = 0; i < 4; i++)
        pthread_join(w[i].thread, NULL);
    for (int i = 0; i < 4; i++)
        assert_int_equal(w[i].place, places[i]);
    assert_int_equal(stk_account_waited_for(&a), 0);
    assert_int_equal(atomic_load(&a.used), 0);
    assert_int_equal(atomic_load(&a.peak), 100);
    stk_account_fini(&a);
}

static int give_up(void *cookie, int first)
{
    *(int *)cookie += first;
    return first && *(int *)cookie == 3 ? -7 : 0;
}

static void patience_ends(void **state)
{
    int asked = 0;
    stk_account a, part;

    (void)state;
    stk_account_init(&a, 100);
    stk_account_init_part(&part, 60, &a);
    assert_int_equal(stk_account_take(&part, 30), 1);
    assert_int_equal(stk_account_reserve(&part, 31, 0, &(stk_patience){ give_up, &asked }), -7);
    assert_int_equal(atomic_load(&a.turns), 0);
    assert_int_equal(atomic_load(&a.watched), 0);
    assert_int_equal(stk_account_reserve(&part, 30, 0, &patient), 0);
    stk_account_give(&part, 60);
    assert_int_equal(atomic_load(&a.used), 0);
    stk_account_fini(&part);
    stk_account_fini(&a);
}

/* A change between watch() and sleep() is not slept through. */
static void no_change_is_missed(void **state)
{
    stk_account a;
    uint64_t seen;

    (void)state;
    stk_account_init(&a, 100);
    assert_int_equal(stk_account_take(&a, 10), 1);
    seen = stk_account_watch(&a);
    assert_int_equal(stk_account_sleep(&a, &seen, 1), 0);
    stk_account_give(&a, 5);
    assert_int_equal(stk_account_sleep(&a, &seen, 60000), 1);
    assert_int_equal(stk_account_sleep(&a, &seen, 1), 0);
    stk_account_wake_all(&a);
    assert_int_equal(stk_account_sleep(&a, &seen, 60000), 1);
    stk_account_unwatch(&a);
    stk_account_fini(&a);
}

typedef struct churner {
    stk_account *part;
    uint64_t seed;
    _Atomic uint64_t *now; /* what all hold, counted by themselves */
    uint64_t limit, most;
} churner;

static void *churn(void *arg)
{
    churner *c = arg;

    for (uint64_t i = 0; i < 3000; i++) {
        uint64_t r = stk_mix64(c->seed + i), size = 1 + r % 90, now;

        if (r >> 32 & 1) {
            if (!stk_account_take(c->part, size))
                continue;
        } else if (stk_account_reserve(c->part, size, r >> 40, &patient)) {
            return arg;
        }
        now = atomic_fetch_add(c->now, size) + size;
        c->most = now > c->most ? now : c->most;
        atomic_fetch_sub(c->now, size);
        stk_account_give(c->part, size);
    }
    return NULL;
}

/* Takers and waiters of two parts that together are more than the whole: all end, none is past a
 * limit.  A lost wake-up would show as a test that never ends. */
static void many_threads(void **state)
{
    uint64_t seed = (uint64_t)getpid() * 7919;
    _Atomic uint64_t now = 0;
    stk_account whole, part[2];
    pthread_t t[8];
    churner c[8];

    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    stk_account_init(&whole, 120);
    stk_account_init_part(&part[0], 90, &whole);
    stk_account_init_part(&part[1], 100, &whole);
    for (uint32_t i = 0; i < 8; i++) {
        c[i] = (churner){ &part[i % 2], seed + i * 1000003u, &now, 120, 0 };
        pthread_create(&t[i], NULL, churn, &c[i]);
    }
    for (int i = 0; i < 8; i++) {
        void *bad;

        pthread_join(t[i], &bad);
        assert_null(bad);
        assert_in_range(c[i].most, 1, 120);
    }
    assert_int_equal(atomic_load(&whole.used) + atomic_load(&part[0].used), 0);
    assert_int_equal(atomic_load(&whole.watched) + atomic_load(&whole.turns), 0);
    assert_in_range(atomic_load(&whole.peak), 1, 120);
    assert_in_range(atomic_load(&part[0].peak), 1, 90);
    for (int i = 0; i < 2; i++)
        stk_account_fini(&part[i]);
    stk_account_fini(&whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lowest_ticket_first),
        cmocka_unit_test(patience_ends),
        cmocka_unit_test(no_change_is_missed),
        cmocka_unit_test(many_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

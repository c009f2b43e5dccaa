/* SPDX-License-Identifier: Apache-2.0 */
/* claim_test.c - tickets are claimed once each, never over the end of a slot, and not after a seek;
 * what arrived comes back lowest ticket first; bytes in flight are counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/thread.h"
#include "pipe/claim.h"

#define SLOTS 8
#define TICKETS 40
#define THREADS 4

static stk_engine e;
static stk_plan plan;

static int setup(void **state)
{
    (void)state;
    memset(&e, 0, sizeof e);
    memset(&plan, 0, sizeof plan);
    e.plan = &plan;
    e.tickets = TICKETS;
    e.n_slots = SLOTS;
    e.claim_size = 1;
    for (uint32_t i = 0; i < SLOTS; i++)
        atomic_store(&e.slot[i].tickets, TICKETS);
    return 0;
}

static void within_a_slot(void **state)
{
    uint64_t first = 99;

    (void)state;
    assert_int_equal(stk_claim(&e, 7, &first), 0); /* nothing is open */
    assert_int_equal(first, 99);
    atomic_store(&e.limit, 2 * TICKETS);
    for (uint64_t at = 0; at < 2 * TICKETS;) {
        uint32_t n = stk_claim(&e, 7, &first), left = TICKETS - (uint32_t)(at % TICKETS);

        assert_int_equal(first, at);
        assert_int_equal(n, left < 7 ? left : 7);
        at += n;
    }
    assert_int_equal(stk_claim(&e, 7, &first), 0);
}

/* In a batch with fewer samples than the batch size, the tickets that are left over are claimed in
 * one go. */
static void tickets_that_stand_for_nothing(void **state)
{
    uint64_t first;

    (void)state;
    atomic_store(&e.limit, TICKETS);
    atomic_store(&e.slot[0].tickets, 5);
    assert_int_equal(stk_claim(&e, 3, &first), 3);
    assert_int_equal(stk_claim(&e, 3, &first), 3); /* 3, 4 and one more */
    assert_int_equal(stk_claim(&e, 3, &first), TICKETS - 6);
    assert_int_equal(first, 6);
}

/* The bits above the ticket count seeks: they neither are a ticket nor get lost. */
static void after_a_seek(void **state)
{
    uint64_t first, seeks = (uint64_t)3 << STK_TICKET_BITS;

    (void)state;
    atomic_store(&e.limit, TICKETS);
    atomic_store(&e.claim, seeks);
    assert_int_equal(stk_claim(&e, 4, &first), 4);
    assert_int_equal(first, 0);
    assert_true(atomic_load(&e.claim) == seeks + 4);
}

static _Atomic uint32_t claimed[SLOTS * TICKETS];

static void *claimer(void *number)
{
    uint64_t first, h = (uintptr_t)number;
    uint32_t n;

    while ((n = stk_claim(&e, 1 + (uint32_t)(h % 9), &first))) {
        for (uint32_t i = 0; i < n; i++)
            atomic_fetch_add(&claimed[first + i], 1);
        h = stk_hash64(h, &h, sizeof h);
    }
    return NULL;
}

static void each_once_by_many_threads(void **state)
{
    pthread_t thread[THREADS];

    (void)state;
    atomic_store(&e.limit, SLOTS * TICKETS);
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(stk_thread_start(&thread[i], claimer, (void *)(i + 1), "claimer"), 0);
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (uint32_t i = 0; i < SLOTS * TICKETS; i++)
        assert_int_equal(atomic_load(&claimed[i]), 1);
}

static void more_at_once_of_cold_remote_data(void **state)
{
    (void)state;
    assert_int_equal(stk_claim_size(&e), 1);
    plan.data.remote = 1;
    assert_int_equal(stk_claim_size(&e), 1);
    atomic_store(&e.cold, 1);
    assert_int_equal(stk_claim_size(&e), STK_REMOTE_CLAIM);
    e.claim_size = 2 * STK_REMOTE_CLAIM; /* never fewer than the plan has */
    assert_int_equal(stk_claim_size(&e), 2 * STK_REMOTE_CLAIM);
}

static void lowest_ticket_first(void **state) STK_UNCHECKED
{
    static stk_request request[100], *heap[100];
    uint64_t last = 0;

    (void)state;
    e.requests.arrived = heap;
    e.requests.max = 100;
    for (uint64_t i = 0; i < 100; i++) {
        request[i].row.ticket = stk_hash64(7, &i, sizeof i) % 50;
        stk_arrived_push_locked(&e, &request[i]);
        if (i % 3 == 2)
            assert_non_null(stk_arrived_pop_locked(&e)); /* some leave in between */
    }
    assert_int_equal(atomic_load(&e.n_arrived), 67);
    for (uint32_t n = 67; n; n--) {
        stk_request *r = stk_arrived_pop_locked(&e);

        assert_true(r->row.ticket >= last);
        last = r->row.ticket;
    }
    assert_null(stk_arrived_pop_locked(&e));
}

static void bytes_in_flight(void **state)
{
    stk_request a = { .reads.total = 60 }, b = { .reads.total = 50 };

    (void)state;
    stk_in_flight_add(&e, &a); /* local data: only their number counts */
    assert_int_equal(atomic_load(&e.io.in_flight), 0);
    assert_true(stk_in_flight_room(&e));
    plan.memory.in_flight = 100;
    stk_in_flight_add(&e, &a);
    assert_true(stk_in_flight_room(&e));
    stk_in_flight_add(&e, &b);
    assert_false(stk_in_flight_room(&e));
    assert_int_equal(stk_in_flight_end(&e, &b), 1); /* there is room again */
    assert_int_equal(stk_in_flight_end(&e, &b), 0); /* it ended before */
    assert_int_equal(stk_in_flight_end(&e, &a), 0); /* there was room already */
    assert_int_equal(atomic_load(&e.io.in_flight), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(within_a_slot, setup),
        cmocka_unit_test_setup(tickets_that_stand_for_nothing, setup),
        cmocka_unit_test_setup(after_a_seek, setup),
        cmocka_unit_test_setup(each_once_by_many_threads, setup),
        cmocka_unit_test_setup(more_at_once_of_cold_remote_data, setup),
        cmocka_unit_test_setup(lowest_ticket_first, setup),
        cmocka_unit_test_setup(bytes_in_flight, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

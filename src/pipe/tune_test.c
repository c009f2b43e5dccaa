/* SPDX-License-Identifier: Apache-2.0 */
/* tune_test.c - what the looks of the consumer change: batches ahead, reads in flight, nothing too
 * early; what did not help is taken back and not tried again for a while. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pipe/engine.h"

#define MS 1000000u
#define SLOTS 16

static stk_engine e;
static stk_plan plan;
static stk_out_plan out;
static stk_worker worker;
static uint64_t now, batches;

static int setup(void **state)
{
    (void)state;
    memset(&e, 0, sizeof e);
    memset(&plan, 0, sizeof plan);
    memset(&worker, 0, sizeof worker);
    out = (stk_out_plan){ .row_bytes = 1 << 20 };
    plan.chains.n_out = 1;
    plan.chains.out = &out;
    plan.batching.rows = 32;
    plan.memory.slots_free = 1;
    plan.io.depth = 256;
    plan.io.workers = 1;
    e.plan = &plan;
    e.n_slots = SLOTS;
    e.workers.worker[0] = &worker;
    atomic_store(&e.workers.n, 1);
    atomic_store(&e.workers.active, 1);
    stk_tune_open(&e);
    now = 1000 * MS;
    batches = 0;
    return 0;
}

static uint32_t ahead(void)
{
    return atomic_load(&e.figures.ahead);
}

static uint32_t depth(void)
{
    return atomic_load(&e.tune.depth);
}

/* 100 ms later, with 10 batches: so much of the time the consumer waited, and workers did this. */
static void look(uint64_t wait_ms, uint64_t busy, uint64_t idle, uint64_t reads)
{
    now += 100 * (uint64_t)MS;
    batches += 10;
    atomic_store(&e.figures.batches, batches);
    stk_count(&e.figures.data_wait_ns, wait_ms * MS);
    stk_count(&worker.m.count.ticks[STK_STAGE_VALUE], busy);
    stk_count(&worker.m.count.ticks[STK_STAGE_IDLE], idle + reads);
    stk_count(&worker.m.count.read_wait, reads);
    stk_tune_look(&e, now);
}

static void what_it_begins_with(void **state)
{
    (void)state;
    assert_int_equal(ahead(), 2);
    assert_int_equal(depth(), 32);
    plan.io.depth = 8; /* never more than the plan allows */
    stk_tune_open(&e);
    assert_int_equal(depth(), 8);
    plan.io.depth = 256;
    plan.data.remote = 1; /* what latency costs is known before it is measured */
    atomic_store(&e.tune.ahead, 0);
    stk_tune_open(&e);
    assert_int_equal(depth(), 256);
    assert_int_equal(ahead(), SLOTS);
    assert_int_equal(atomic_load(&e.tune.ahead), 0);
}

static void small_rings_are_not_worth_saving(void **state)
{
    (void)state;
    out.row_bytes = 1 << 10;
    atomic_store(&e.tune.ahead, 0);
    stk_tune_open(&e);
    assert_int_equal(ahead(), SLOTS);
}

static void a_consumer_that_does_not_wait_changes_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++)
        look(0, 500, 500, 0);
    assert_int_equal(ahead(), 2);
    assert_int_equal(depth(), 32);
}

/* It waits while workers rest, and each time less: twice as many, up to the ring. */
static void more_ahead_while_it_helps(void **state)
{
    (void)state;
    look(90, 500, 500, 0);
    assert_int_equal(ahead(), 2); /* the first look only remembers */
    look(80, 500, 500, 0);
    assert_int_equal(ahead(), 4);
    look(60, 500, 500, 0);
    assert_int_equal(ahead(), 8);
    look(40, 500, 500, 0);
    look(30, 500, 500, 0);
    assert_int_equal(ahead(), SLOTS);
    assert_int_equal(depth(), 32); /* reads were not waited for */
}

static void what_did_not_help_is_taken_back(void **state)
{
    (void)state;
    look(90, 500, 500, 0);
    look(80, 500, 500, 0);
    assert_int_equal(ahead(), 4);
    look(79, 500, 500, 0);
    assert_int_equal(ahead(), 2);
    for (int i = 0; i < 31; i++) {
        look(80, 500, 500, 0);
        assert_int_equal(ahead(), 2);
    }
    look(80, 500, 500, 0); /* long enough ago */
    assert_int_equal(ahead(), 4);
}

/* Who chose a number ends it. */
static void a_number_that_was_chosen_stays(void **state)
{
    (void)state;
    atomic_store(&e.tune.ahead, 0);
    look(90, 500, 500, 0);
    look(80, 500, 500, 0);
    assert_int_equal(ahead(), 2);
}

static void more_reads_where_they_are_waited_for(void **state)
{
    (void)state;
    look(90, 500, 0, 500);
    look(80, 500, 0, 500);
    assert_int_equal(depth(), 64);
    look(70, 500, 0, 500);
    look(60, 500, 0, 500);
    look(50, 500, 0, 500);
    assert_int_equal(depth(), 256); /* and no more than the plan has */
}

static void not_before_it_is_time(void **state)
{
    (void)state;
    look(90, 500, 500, 0);
    stk_count(&e.figures.data_wait_ns, 90 * MS);
    stk_count(&worker.m.count.ticks[STK_STAGE_IDLE], 500);
    stk_tune_look(&e, now + 100 * (uint64_t)MS); /* no batch came */
    atomic_store(&e.figures.batches, batches + 10);
    stk_tune_look(&e, now + MS); /* a moment later */
    assert_int_equal(ahead(), 2);
    assert_int_equal(e.tune.batches, batches);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_it_begins_with, setup),
        cmocka_unit_test_setup(small_rings_are_not_worth_saving, setup),
        cmocka_unit_test_setup(a_consumer_that_does_not_wait_changes_nothing, setup),
        cmocka_unit_test_setup(more_ahead_while_it_helps, setup),
        cmocka_unit_test_setup(what_did_not_help_is_taken_back, setup),
        cmocka_unit_test_setup(a_number_that_was_chosen_stays, setup),
        cmocka_unit_test_setup(more_reads_where_they_are_waited_for, setup),
        cmocka_unit_test_setup(not_before_it_is_time, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

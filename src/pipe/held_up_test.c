/* SPDX-License-Identifier: Apache-2.0 */
/* held_up_test.c - one clock for a wait, also where it is cut into calls that time out; who stays
 * away for long waits for something else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pipe/engine.h"

#define S ((uint64_t)1000000000)

static stk_engine e;
static stk_plan plan;

static int setup(void **state)
{
    (void)state;
    memset(&e, 0, sizeof e);
    memset(&plan, 0, sizeof plan);
    e.plan = &plan;
    return stk_mutex_init(&e.figures.wait.lock);
}

static uint64_t counted(void)
{
    return atomic_load(&e.figures.data_wait_ns);
}

static void one_call(void **state)
{
    uint64_t from = stk_now_ns(), took;

    (void)state;
    assert_int_equal(stk_wait_ns(&e, from), 0);
    stk_wait_begin(&e, from);
    stk_wait_begin(&e, from + S); /* the same call looks again: it waits since before */
    assert_int_equal(stk_wait_ns(&e, from + 5 * S), 5 * S);
    assert_int_equal(counted(), 0); /* not before it ends */
    stk_wait_end(&e);
    took = stk_now_ns() - from;
    assert_true(counted() <= took);
    assert_int_equal(stk_wait_ns(&e, from + 5 * S), 0);
    stk_wait_end(&e); /* nothing is counted twice */
    assert_true(counted() <= took);
}

/* next(timeout) again and again: the wait goes on, and the time between calls is not counted. */
static void calls_that_time_out(void **state)
{
    uint64_t from = stk_now_ns(), later, between;

    (void)state;
    stk_wait_begin(&e, from);
    stk_wait_pause(&e);
    between = stk_now_ns();
    stk_wait_pause(&e); /* it had ended */
    while (stk_now_ns() - between < 3000000) {}
    later = stk_now_ns();
    stk_wait_begin(&e, later);
    assert_int_equal(stk_wait_ns(&e, later), later - from);
    stk_wait_end(&e);
    assert_true(counted() <= stk_now_ns() - from - 2900000);
}

static void who_stays_away_waits_for_something_else(void **state)
{
    uint64_t from = stk_now_ns(), paused;

    (void)state;
    stk_wait_begin(&e, from);
    stk_wait_pause(&e);
    paused = atomic_load(&e.figures.paused_at);
    assert_true(paused >= from);
    assert_int_equal(stk_wait_ns(&e, paused + 4 * S), paused + 4 * S - from);
    assert_int_equal(stk_wait_ns(&e, paused + 6 * S), 0);
    stk_wait_begin(&e, paused + 6 * S); /* a wait of its own */
    assert_int_equal(atomic_load(&e.figures.waiting_since), paused + 6 * S);
    assert_int_equal(stk_wait_ns(&e, paused + 7 * S), S);
}

static void nothing_is_said_of_a_wait_that_no_one_looked_at(void **state)
{
    stk_waiting w;

    (void)state;
    assert_int_equal(stk_engine_waiting(&e, &w), STK_END);
    stk_wait_begin(&e, stk_now_ns() - S);
    assert_int_equal(stk_engine_waiting(&e, &w), STK_END);
    e.figures.wait.is = (stk_waiting){ .ns = 5, .epoch = 2, .step = 7 };
    assert_int_equal(stk_engine_waiting(&e, &w), 0);
    assert_true(w.epoch == 2 && w.step == 7 && w.ns >= S); /* the time is that of now */
    stk_wait_end(&e);
    assert_int_equal(stk_engine_waiting(&e, &w), STK_END);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(one_call, setup),
        cmocka_unit_test_setup(calls_that_time_out, setup),
        cmocka_unit_test_setup(who_stays_away_waits_for_something_else, setup),
        cmocka_unit_test_setup(nothing_is_said_of_a_wait_that_no_one_looked_at, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* jobs_test.c - every job once, the lowest failure reported, no signals in workers. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/halt.h"
#include "base/jobs.h"

static _Atomic uint32_t runs[1000];
static _Atomic uint32_t unblocked, started;

static int count(void *cookie, uint64_t i, stk_error *err)
{
    atomic_fetch_add(&runs[i], 1);
    return 0;
}

static void each_once(void **state)
{
    for (uint32_t workers = 0; workers <= 8; workers++) {
        memset((void *)runs, 0, sizeof runs);
        assert_int_equal(stk_jobs_run(workers, 1000, count, NULL, NULL), 0);
        for (int i = 0; i < 1000; i++)
            assert_int_equal(runs[i], 1);
    }
    assert_int_equal(stk_jobs_run(4, 0, count, NULL, NULL), 0);
    assert_int_equal(stk_jobs_run(100000, 3, count, NULL, NULL), 0);
}

static int fail_some(void *cookie, uint64_t i, stk_error *err)
{
    atomic_fetch_add(&started, 1);
    if (i == 20)
        usleep(20000); /* the lower one fails later */
    if (i == 20 || i == 21)
        return stk_fail(err, STK_ECORRUPT, "job %u", (unsigned)i);
    usleep(100);
    return 0;
}

static void lowest_failure(void **state)
{
    stk_error err;

    for (uint32_t workers = 1; workers <= 8; workers *= 2) {
        started = 0;
        assert_int_equal(stk_jobs_run(workers, 1000, fail_some, NULL, &err), STK_ECORRUPT);
        assert_string_equal(err.message, "job 20");
        assert_true(started < 1000);
        assert_int_equal(stk_jobs_run(workers, 1000, fail_some, NULL, NULL), STK_ECORRUPT);
    }
}

static _Atomic int ticks;

static int tick(void *cookie)
{
    return ++ticks == 3;
}

static int slow(void *cookie, uint64_t i, stk_error *err)
{
    atomic_fetch_add(&started, 1);
    usleep(10000);
    return 0;
}

/* The caller ticks while others work, and can stop them. */
static void watched(void **state)
{
    stk_error err;

    started = 0;
    ticks = 0;
    assert_int_equal(stk_jobs_watch(2, 1000, slow, tick, NULL, &err), STK_ECLOSED);
    assert_string_equal(err.message, "stopped by the caller");
    assert_true(started < 100 && ticks == 3);
    ticks = 10;
    started = 0;
    assert_int_equal(stk_jobs_watch(3, 30, slow, tick, NULL, &err), 0);
    assert_int_equal(started, 30);
    assert_true(ticks > 10);
}

static int wait_for_nothing(void *cookie, uint64_t i, stk_error *err)
{
    stk_wait w;
    int rc;

    atomic_fetch_add(&started, 1);
    stk_wait_init(&w, 1);
    rc = stk_wait_look(&w);
    stk_wait_fini(&w);
    return rc < 0 ? stk_fail_halted(err) : 0;
}

static int asked(void *cookie)
{
    return atomic_load(&started) == 2;
}

static int wait_in_jobs(void *cookie, uint64_t i, stk_error *err)
{
    return stk_jobs_run(2, 2, wait_for_nothing, NULL, err);
}

/* Waits of jobs end when the caller is told to: by its tick, by what its thread asks, in jobs of
 * jobs. */
static void halted(void **state)
{
    stk_error err;

    started = 0;
    assert_int_equal(stk_jobs_watch(2, 2, wait_for_nothing, asked, NULL, &err), STK_ECLOSED);
    stk_thread_ask(asked, NULL);
    started = 0;
    assert_int_equal(stk_jobs_run(2, 2, wait_for_nothing, NULL, &err), STK_ECLOSED);
    started = 0;
    assert_int_equal(stk_jobs_run(2, 1, wait_in_jobs, NULL, &err), STK_ECLOSED);
    started = 1;
    assert_int_equal(stk_jobs_run(1, 1, wait_for_nothing, NULL, &err), STK_ECLOSED);
    stk_thread_ask(NULL, NULL);
    assert_null(stk_halt_mine());
}

static int look_at_mask(void *cookie, uint64_t i, stk_error *err)
{
    sigset_t set;

    pthread_sigmask(SIG_BLOCK, NULL, &set);
    if (!sigismember(&set, SIGINT) || !sigismember(&set, SIGTERM) || !sigismember(&set, SIGCHLD))
        atomic_fetch_add(&unblocked, 1);
    return 0;
}

static void signals_blocked(void **state)
{
    sigset_t before, after;

    pthread_sigmask(SIG_BLOCK, NULL, &before);
    assert_int_equal(stk_jobs_run(3, 50, look_at_mask, NULL, NULL), 0);
    pthread_sigmask(SIG_BLOCK, NULL, &after);
    assert_int_equal(unblocked, 0);
    assert_int_equal(sigismember(&before, SIGINT), sigismember(&after, SIGINT));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_once), cmocka_unit_test(lowest_failure),  cmocka_unit_test(watched),
        cmocka_unit_test(halted),    cmocka_unit_test(signals_blocked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* nomem_test.c - the n-th allocation and all after it fail, for every n until nothing fails: a
 * clean error each time.
 *
 * Run under ASan it also shows that nothing leaks.  The same with threads, where a lost wake-up
 * would show as a time-out.  TSan, which looks for races alone, sees every third or fifth n. */
#include "../seams/seam.h"
#include "../support/sanitized.h"

#include "base/mem.h"
#include "lag.h"

#define N 60
#define STEP (TEST_TSAN ? 5u : 1u)     /* between two n */
#define ODD_STEP (TEST_TSAN ? 3u : 1u) /* the same, odd and prime to 4 */

static stk_dataset *plain, *lagging;

static int setup(void **state)
{
    stk_error err;

    (void)state;
    seam_ok(stk_plugin_add(STK_PLUGIN_SOURCE, &lag_source, &err), &err);
    seam_shards("a", 2, N / 2, 0);
    plain = seam_open("", "a-{0..1}.tar", NULL);
    lagging = seam_open("lag://", "a-{0..1}.tar", NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stk_dataset_unref(&plain);
    stk_dataset_unref(&lagging);
    return 0;
}

static int clean(int rc, const stk_error *err)
{
    return (rc == STK_ENOMEM || rc == STK_ELIMIT) && err->code == rc && err->message[0];
}

/* Open, one epoch, close.  0: all rows came. */
static int try_epoch(stk_dataset *ds, const stk_loader_options *o)
{
    stk_loader *l = NULL;
    stk_batch *b = NULL;
    uint64_t rows = 0;
    stk_error err = { 0 };
    int rc = stk_loader_open(&l, &ds, 1, o, &err);

    assert_true(rc == 0 ? l != NULL : clean(rc, &err) && !l);
    while (rc == 0) {
        rc = stk_loader_next(l, &b, 60000, &err);
        assert_true(rc >= 0 || clean(rc, &err));
        rows += b ? stk_batch_rows(b) : 0;
        stk_batch_release(&b);
    }
    if (rc == STK_END)
        assert_int_equal(rows, N);
    stk_loader_close(&l);
    return rc < 0 ? rc : 0;
}

static void sweep(stk_dataset *ds, const stk_loader_options *o, uint64_t step)
{
    uint64_t n = 1;
    int rc;

    do {
        stk_mem_fail_at(n);
        rc = try_epoch(ds, o);
        stk_mem_fail_at(0);
        n += step * STEP;
    } while (rc < 0);
    print_message("%u allocations in vain\n", (unsigned)n);
    assert_true(n > 20);
    assert_int_equal(try_epoch(ds, o), 0);
}

static void without_workers(void **state)
{
    stk_loader_options o = seam_options(8, STK_NONE);

    (void)state;
    sweep(plain, &o, 1);
    sweep(lagging, &o, 1);
    o.on_error = STK_ON_ERROR_SKIP; /* no memory is not the sample's fault */
    sweep(lagging, &o, 1);
}

static void with_workers(void **state)
{
    stk_loader_options o = seam_options(8, 3);

    (void)state;
    sweep(plain, &o, 1);
    sweep(lagging, &o, 1);
}

/* It fails in the middle, then there is memory again: the same loader goes on and ends well. */
static void memory_comes_back(void **state)
{
    (void)state;
    for (uint64_t n = 1; n < 200; n += ODD_STEP) {
        stk_loader_options o = seam_options(8, n % 2 ? STK_NONE : 2);
        stk_dataset *ds = n % 4 < 2 ? plain : lagging;
        stk_loader *l;
        stk_batch *b = NULL;
        stk_error err;
        int rc, steps;

        o.prefetch = 3;
        l = seam_loader(&ds, 1, &o);
        stk_mem_fail_at(n);
        rc = stk_loader_next(l, &b, 60000, &err);
        stk_mem_fail_at(0);
        assert_true(rc == 0 || clean(rc, &err));
        steps = rc == 0;
        stk_batch_release(&b);
        while ((rc = stk_loader_next(l, &b, 60000, &err)) != STK_END) {
            if (rc < 0) { /* made ahead while there was no memory: it is made again */
                assert_true(clean(rc, &err));
                continue;
            }
            assert_int_equal(stk_batch_step(b), steps++);
            stk_batch_release(&b);
        }
        assert_int_equal(steps, 8);
        while ((rc = stk_loader_next(l, &b, 60000, &err)) == 0)
            stk_batch_release(&b);
        assert_int_equal(rc, STK_END);
        stk_loader_close(&l);
    }
}

/* Threads that are held up at other places find other allocations failing. */
static void with_workers_held_up(void **state)
{
    stk_loader_options o = seam_options(8, 2);

    (void)state;
    setenv("STK_STALL", "11", 1);
    sweep(plain, &o, 1);
    sweep(lagging, &o, 2);
    unsetenv("STK_STALL");
}

static int is_clean_or_done(int rc, const stk_error *err, uint64_t n)
{
    if (rc < 0 && !clean(rc, err))
        fail_msg("n %u: %d %s", (unsigned)n, rc, err->message);
    return rc == 0;
}

/* Shards to batches: index, data set, loader, an epoch, close, all with threads. */
static void from_shards_to_batches(void **state)
{
    stk_dataset_options o = { .size = sizeof o, .cache_dir = seam_dir(), .num_workers = 2 };
    stk_loader_options lo = seam_options(8, 2);
    char url[600];
    const char *urls[] = { url };
    stk_dataset *ds = NULL;
    stk_error err = { 0 };
    uint64_t n = 1;
    int rc;

    (void)state;
    snprintf(url, sizeof url, "%s", seam_path("b-{0..1}.tar"));
    seam_shards("b", 2, N / 2, 0);
    do {
        stk_mem_fail_at(n);
        rc = stk_dataset_open(&ds, urls, 1, &o, &err);
        if (is_clean_or_done(rc, &err, n))
            rc = try_epoch(ds, &lo);
        stk_mem_fail_at(0);
        if (ds)
            assert_int_equal(remove(stk_dataset_index_path(ds)), 0); /* the next one builds again */
        stk_dataset_unref(&ds);
        n += STEP;
    } while (rc < 0);
    print_message("%u allocations in vain\n", (unsigned)n);
    assert_true(n > 50);
}

static void building_an_index(void **state)
{
    char url[600];
    const char *urls[] = { url };

    (void)state;
    snprintf(url, sizeof url, "%s", seam_path("a-{0..1}.tar"));
    for (uint32_t workers = 1; workers <= 2; workers++) {
        stk_index_options o = {
            .size = sizeof o, .cache_dir = seam_dir(), .num_workers = workers, .force = STK_YES
        };
        stk_index_report report = { .size = sizeof report };
        stk_error err = { 0 };
        uint64_t n = 0;
        int rc;

        do {
            stk_mem_fail_at(++n);
            rc = stk_index_build(urls, 1, &o, &report, &err);
            stk_mem_fail_at(0);
        } while (!is_clean_or_done(rc, &err, n));
        assert_true(n > 20 && report.built && report.samples == N);
    }
}

static void opening_a_data_set(void **state)
{
    stk_dataset_options o = { .size = sizeof o, .cache_dir = seam_dir(), .num_workers = 1 };
    char url[600];
    const char *urls[] = { url };
    stk_dataset *ds = NULL;
    stk_error err = { 0 };
    uint64_t n = 1;
    int rc;

    (void)state;
    snprintf(url, sizeof url, "%s", seam_path("c-{0..1}.tar"));
    for (int built = 0; built < 2; built++) {
        do {
            seam_shards("c", 2, N / 2, 0); /* a new mtime: the index is looked at again */
            stk_mem_fail_at(n++);
            rc = stk_dataset_open(&ds, urls, 1, &o, &err);
            stk_mem_fail_at(0);
            if (rc < 0 && !clean(rc, &err))
                fail_msg("n %u: %d %s", (unsigned)n, rc, err.message);
            assert_true(rc == 0 || !ds);
        } while (rc < 0);
        stk_dataset_unref(&ds);
        n = 1;
    }
}

/* A ledger begun, one batch written, and read back: with every allocation failing in turn. */
static int try_ledger(stk_loader *l, const char *folder, uint64_t generation)
{
    stk_ledger_step s = { .size = sizeof s };
    stk_ledger *ledger = NULL;
    stk_error err = { 0 };
    int rc = stk_loader_ledger(l, folder, generation, 0, 0, &err);

    assert_true(rc == 0 || clean(rc, &err));
    if (rc == 0)
        rc = stk_ledger_open(&ledger, folder, &err);
    while (rc == 0)
        rc = stk_ledger_next(ledger, &s, &err);
    assert_true(rc == STK_END || clean(rc, &err));
    stk_ledger_close(&ledger);
    return rc < 0 ? rc : 0;
}

static void a_ledger(void **state)
{
    stk_loader_options o = seam_options(7, STK_NONE);
    char folder[300];
    stk_loader *l = seam_loader(&plain, 1, &o);
    stk_batch *b = NULL;
    uint64_t n = 0;
    stk_error err;
    int rc;

    (void)state;
    snprintf(folder, sizeof folder, "%s", seam_path("ledger"));
    seam_ok(stk_loader_ledger(l, folder, 0, 0, 0, &err), &err);
    seam_ok(stk_loader_next(l, &b, 60000, &err), &err);
    stk_batch_release(&b);
    do {
        stk_mem_fail_at(++n);
        rc = try_ledger(l, folder, n);
        stk_mem_fail_at(0);
    } while (rc < 0);
    assert_in_range(n, 10, 100);
    stk_loader_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_workers),        cmocka_unit_test(with_workers),
        cmocka_unit_test(memory_comes_back),      cmocka_unit_test(opening_a_data_set),
        cmocka_unit_test(with_workers_held_up),   cmocka_unit_test(building_an_index),
        cmocka_unit_test(from_shards_to_batches), cmocka_unit_test(a_ledger),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}

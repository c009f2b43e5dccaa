/* SPDX-License-Identifier: Apache-2.0 */
/* seam_large_epochs_test.c - epochs far larger than the data: an order that says a billion, or
 * more than 2^32.
 *
 * Going on deep inside of one is arithmetic: at once, without memory, and the right samples. */
#include <time.h>
#include <unistd.h>

#include "seam.h"
#include "../support/sanitized.h"

#define N 60
#define BILLION ((uint64_t)1000000000)

static stk_dataset *ds;

static uint64_t far_len(const void *state)
{
    return *(const uint64_t *)state;
}

static uint64_t sample_at(uint64_t epoch, uint64_t position)
{
    return (position * 7 + position / N + epoch) % N;
}

static void far_at(const void *state, uint64_t epoch, const uint64_t *position, uint32_t n,
                   stk_where *out)
{
    (void)state;
    for (uint32_t i = 0; i < n; i++)
        out[i] = (stk_where){ 0, sample_at(epoch, position[i]) };
}

static int open_data(void **state)
{
    (void)state;
    seam_shards("far", 2, N / 2, 0);
    ds = seam_open("", "far-{0..1}.tar", NULL);
    return 0;
}

static int close_data(void **state)
{
    (void)state;
    stk_dataset_unref(&ds);
    return 0;
}

static uint64_t resident_kb(void)
{
    unsigned long long size, pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%llu %llu", &size, &pages), 2);
    fclose(f);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}

static double ms_since(const struct timespec *from)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - from->tv_sec) * 1e3 + (double)(now.tv_nsec - from->tv_nsec) / 1e6;
}

static void take(stk_loader *l, uint64_t epoch, uint64_t position, uint32_t rank, uint32_t batch)
{
    stk_batch *b = NULL;
    stk_error err;

    seam_ok(stk_loader_next(l, &b, 60000, &err), &err);
    assert_true(stk_batch_epoch(b) == epoch);
    for (uint32_t i = 0; i < stk_batch_rows(b); i++) {
        uint64_t k = sample_at(epoch, position + rank * batch + i);

        seam_check_row(b, i, k, k);
    }
    stk_batch_release(&b);
}

/* The best of several: other processes have their turn too. */
static void deep_in_a_billion(void **state)
{
    uint64_t len = BILLION, before = 0;
    stk_order order = { .abi = STK_PLUGIN_ABI,
                        .size = sizeof(stk_order),
                        .name = "far",
                        .state = &len,
                        .len = far_len,
                        .at = far_at };
    stk_loader_options o = seam_options(16, 2);
    double best = 1e9, first = 1e9;
    stk_loader *l;

    (void)state;
    o.order = &order;
    o.rank = 3;
    o.world_size = 8;
    l = seam_loader(&ds, 1, &o);
    take(l, 0, 0, 3, 16);
    for (uint64_t i = 0; i < 40; i++) {
        uint64_t at = 900000000 + i * 12345;
        struct timespec from;
        stk_error err;
        double ms;

        clock_gettime(CLOCK_MONOTONIC, &from);
        seam_ok(stk_loader_resume(l, 5, at, &err), &err);
        ms = ms_since(&from);
        best = ms < best ? ms : best;
        take(l, 5, at, 3, 16);
        ms = ms_since(&from);
        first = ms < first ? ms : first;
        assert_true(stk_loader_position(l) == at + 128);
        before = i == 9 ? resident_kb() : before;
    }
    print_message("resume at 900 million of a billion: %.3f ms, %.3f ms to the first batch\n", best,
                  first);
    assert_true(best < 10);
    if (!TEST_SANITIZED) /* they keep freed memory aside, and resident memory says nothing */
        assert_in_range(resident_kb(), 0, before + 1024);
    stk_loader_close(&l);
}

/* Positions and steps beyond 2^32, the last batch, and the epoch after it. */
static void beyond_32_bits(void **state)
{
    uint64_t len = ((uint64_t)1 << 40) + 5, at = len - 21;
    stk_order order = { .abi = STK_PLUGIN_ABI,
                        .size = sizeof(stk_order),
                        .name = "far",
                        .state = &len,
                        .len = far_len,
                        .at = far_at };
    stk_loader_options o = seam_options(8, 1);
    stk_batch *b = NULL;
    stk_error err;
    stk_loader *l;

    (void)state;
    o.order = &order;
    l = seam_loader(&ds, 1, &o);
    assert_true(stk_loader_samples(l) == len && stk_loader_steps(l) == (len + 7) / 8);
    seam_ok(stk_loader_resume(l, 2, at, &err), &err);
    take(l, 2, at, 0, 8);
    take(l, 2, at + 8, 0, 8);
    seam_ok(stk_loader_next(l, &b, 60000, &err), &err);
    assert_int_equal(stk_batch_rows(b), 5);
    stk_batch_release(&b);
    assert_int_equal(stk_loader_next(l, &b, 60000, &err), STK_END);
    take(l, 3, 0, 0, 8);
    seam_ok(stk_loader_seek(l, 3, ((uint64_t)1 << 33) + 1, &err), &err);
    take(l, 3, (((uint64_t)1 << 33) + 1) * 8, 0, 8);
    assert_int_equal(stk_loader_resume(l, 3, len + 1, &err), STK_EINVAL);
    stk_loader_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deep_in_a_billion),
        cmocka_unit_test(beyond_32_bits),
    };

    return cmocka_run_group_tests(tests, open_data, close_data);
}

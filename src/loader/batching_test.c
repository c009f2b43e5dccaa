/* SPDX-License-Identifier: Apache-2.0 */
/* batching_test.c - batches by length and packed rows of samples that are in memory: no place to
 * keep lengths, rows made without a request; every allocation that fails, when opened and while
 * running; what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <stoker/stoker.h>

#include "base/mem.h"
#include "source/source.h"

#define N 60

static stk_dataset *ds;
static uint8_t *tar;

static unsigned length_of(unsigned k)
{
    return k * 11 % 19;
}

static size_t member(uint8_t *at, const char *name, const char *text)
{
    size_t len = strlen(text);
    unsigned sum = 0;

    memset(at, 0, 512 + (len + 511) / 512 * 512);
    snprintf((char *)at, 100, "%s", name);
    memcpy(at + 100, "0000644", 7);
    snprintf((char *)at + 124, 12, "%011o", (unsigned)len);
    at[156] = '0';
    memcpy(at + 257, "ustar\00000", 8);
    memset(at + 148, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += at[i];
    snprintf((char *)at + 148, 8, "%06o", sum);
    memcpy(at + 512, text, len);
    return 512 + (len + 511) / 512 * 512;
}

static int setup(void **state)
{
    static const char *const urls[] = { "mem://lengths.tar" };
    size_t at = 0;
    stk_error err;

    (void)state;
    tar = calloc(N + 2, 1024);
    for (unsigned k = 0; k < N; k++) {
        char name[32], text[400] = "";
        size_t n = 0;

        for (unsigned i = 0; i < length_of(k); i++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%u ", k * 100 + i + 1);
        snprintf(name, sizeof name, "%04u.ids", k);
        at += member(tar + at, name, text);
    }
    at += 1024;
    assert_int_equal(stk_memory_put("lengths.tar", tar, at, &err), 0);
    if (stk_dataset_open(&ds, urls, 1, NULL, &err) < 0)
        fail_msg("%s", err.message);
    return 0;
}

static int teardown(void **state)
{
    stk_error err;

    (void)state;
    stk_dataset_unref(&ds);
    assert_int_equal(stk_memory_put("lengths.tar", NULL, 0, &err), 0);
    free(tar);
    return 0;
}

static const stk_output plain = { "x", "from(ids) | ints" };
static const stk_output packed = { "x", "from(ids) | ints | pack(block=16, window=25)" };

static stk_loader_options options(int kind, int32_t workers)
{
    stk_loader_options o = { .size = sizeof o,
                             .outputs = kind == 2 ? &packed : &plain,
                             .n_outputs = 1,
                             .num_workers = workers,
                             .collate = STK_COLLATE_PAD,
                             .shuffle = STK_SHUFFLE_EXACT };

    if (kind == 0)
        o.max_tokens = 64;
    else
        o.batch_size = 5;
    if (kind == 1)
        o.bucket = 20;
    return o;
}

/* 0, or what stopped it; *values: how many came, each once. */
static int run(const stk_loader_options *o, uint64_t *values, stk_error *err)
{
    uint8_t seen[N * 100 + 100] = { 0 };
    stk_loader *l = NULL;
    stk_batch *b = NULL;
    int rc = stk_loader_open(&l, &ds, 1, o, err);

    *values = 0;
    while (rc == 0 && (rc = stk_loader_next(l, &b, -1, err)) == 0) {
        const int64_t *v;
        stk_tensor t;

        assert_int_equal(stk_batch_dense(b, 0, &t), 0);
        v = t.data;
        assert_true(!o->max_tokens || (uint64_t)(t.shape[0] * t.shape[1]) <= o->max_tokens);
        for (int64_t i = 0; i < t.shape[0] * t.shape[1]; i++)
            if (v[i]) {
                assert_int_equal(seen[v[i]]++, 0);
                ++*values;
            }
        stk_batch_release(&b);
    }
    stk_loader_close(&l);
    return rc == STK_END ? 0 : rc;
}

static uint64_t all_values(void)
{
    uint64_t n = 0;

    for (unsigned k = 0; k < N; k++)
        n += length_of(k);
    return n;
}

static void files_in_memory(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++)
        for (int32_t workers = STK_NONE; workers < 4; workers += 2) {
            stk_loader_options o = options(kind, workers);
            uint64_t values;
            stk_error err;

            if (run(&o, &values, &err) != 0)
                fail_msg("%s", err.message);
            assert_int_equal(values, all_values());
        }
}

static void every_allocation_fails(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        stk_loader_options o = options(kind, STK_NONE);
        uint64_t values, k = 1;
        stk_error err;
        int rc = STK_ENOMEM;

        for (; rc != 0 && k < 5000; k++) {
            stk_mem_fail_at(k);
            rc = run(&o, &values, &err);
            stk_mem_fail_at(0);
            if (rc != 0 && rc != STK_ENOMEM && rc != STK_ELIMIT)
                fail_msg("kind %d, allocation %u: %d %s", kind, (unsigned)k, rc, err.message);
        }
        assert_int_equal(rc, 0);
        assert_int_equal(values, all_values());
    }
}

static void refused(const stk_loader_options *o, const char *words)
{
    stk_loader *l = NULL;
    stk_error err;

    assert_true(stk_loader_open(&l, &ds, 1, o, &err) < 0);
    if (!strstr(err.message, words))
        fail_msg("%s", err.message);
}

static void what_is_refused(void **state)
{
    stk_loader_options o = options(0, STK_NONE);
    uint32_t lengths[N];

    (void)state;
    o.max_tokens = 17;
    refused(&o, "longer than max_tokens=17");
    o = options(0, STK_NONE);
    o.global_batch_size = 8;
    refused(&o, "leave global_batch_size");
    o = options(1, STK_NONE);
    o.bucket = (uint64_t)1 << 25;
    refused(&o, "bucket is 0..16777216, not");
    o = options(2, STK_NONE);
    o.bucket = 5;
    refused(&o, "leave bucket");
    o = options(1, STK_NONE);
    o.bucket = 0;
    o.lengths = lengths;
    o.n_lengths = N;
    memset(lengths, 0, sizeof lengths);
    refused(&o, "lengths are for");
    o.bucket = 5;
    o.n_lengths = N - 1;
    refused(&o, "give one for each");
}

/* Others are taken up while running; a loader without them has none. */
static void other_windows(void **state)
{
    stk_loader_options o = options(0, 2);
    uint64_t window, together, print;
    stk_loader *l = NULL;
    stk_error err;

    (void)state;
    assert_int_equal(stk_loader_open(&l, &ds, 1, &o, &err), 0);
    stk_loader_bins(l, &window, &together, &print);
    assert_true(window == 65536 && together == 1 && print);
    assert_int_equal(stk_loader_set_bins(l, 7, 3, &err), 0);
    stk_loader_bins(l, &window, &together, &print);
    assert_true(window == 7 && together == 3);
    assert_int_equal(stk_loader_set_bins(l, 0, 3, &err), STK_EINVAL);
    stk_loader_close(&l);
    o = options(1, 2);
    o.bucket = 0;
    assert_int_equal(stk_loader_open(&l, &ds, 1, &o, &err), 0);
    stk_loader_bins(l, &window, &together, &print);
    assert_true(!window && !together && !print);
    assert_int_equal(stk_loader_set_bins(l, 7, 3, &err), STK_EINVAL);
    stk_loader_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_in_memory),
        cmocka_unit_test(every_allocation_fails),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(other_windows),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}

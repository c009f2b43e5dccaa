/* SPDX-License-Identifier: Apache-2.0 */
/* arrays_test.c - rows and windows with several workers against plain loops; maps made by many
 * threads at once; every allocation that fails; a part that is not there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <stoker/stoker.h>

#include "base/hash.h"
#include "base/mem.h"

#define ROWS 1000
#define WIDE 12
#define SHARDS 5
#define TOKENS 7001 /* of a shard */
#define BLOCK 64

static char dir[64];
static uint16_t tokens[SHARDS * TOKENS];

static void shard(unsigned i, char *out, size_t size)
{
    snprintf(out, size, "%s/%u.bin", dir, i);
}

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/stoker-arrays-XXXXXX");
    assert_non_null(mkdtemp(dir));
    for (size_t i = 0; i < SHARDS * TOKENS; i++)
        tokens[i] = (uint16_t)stk_mix64(i);
    for (unsigned s = 0; s < SHARDS; s++) {
        char path[128];
        FILE *f;

        shard(s, path, sizeof path);
        f = fopen(path, "wb");
        assert_non_null(f);
        assert_int_equal(fwrite(tokens + s * TOKENS, 2, TOKENS, f), TOKENS);
        assert_int_equal(fclose(f), 0);
    }
    return 0;
}

static int teardown(void **state)
{
    char path[128];

    (void)state;
    for (unsigned s = 0; s < SHARDS; s++) {
        shard(s, path, sizeof path);
        unlink(path);
    }
    return rmdir(dir);
}

static stk_loader *loader(stk_dataset *ds, const stk_output *out, uint32_t n, int workers)
{
    stk_loader_options o = { .size = sizeof o,
                             .outputs = out,
                             .n_outputs = n,
                             .num_workers = workers,
                             .batch_size = 16,
                             .shuffle = STK_SHUFFLE_EXACT };
    stk_loader *l = NULL;
    stk_error err;

    if (stk_loader_open(&l, &ds, 1, &o, &err) < 0)
        fail_msg("%s", err.message);
    return l;
}

static void check_windows(const stk_batch *b)
{
    stk_tensor x, y;

    assert_int_equal(stk_batch_dense(b, 0, &x), 0);
    assert_int_equal(stk_batch_dense(b, 1, &y), 0);
    for (uint32_t r = 0; r < stk_batch_rows(b); r++) {
        uint64_t at = stk_batch_ids(b)[r] * BLOCK;

        for (int i = 0; i < BLOCK; i++) {
            assert_int_equal(((int64_t *)x.data)[r * x.strides[0] + i], tokens[at + (uint64_t)i]);
            assert_int_equal(((int64_t *)y.data)[r * y.strides[0] + i],
                             tokens[at + 1 + (uint64_t)i]);
        }
    }
}

static void windows(void **state)
{
    static const stk_output apart[] = { { "x", "tokens(block=64)" },
                                        { "y", "tokens(block=64, shift=1)" } },
                            shared[] = { { "x", "tokens(block=64, share=true)" },
                                         { "y", "tokens(block=64, shift=1, share=true)" } };
    char pattern[96];
    const char *url = pattern;
    uint64_t rows = 0, all = 0;

    (void)state;
    snprintf(pattern, sizeof pattern, "%s/*.bin", dir);
    for (int k = 0; k < 8; k++) {
        stk_dataset *ds = NULL;
        stk_batch *b = NULL;
        stk_loader *l;
        stk_error err;
        int rc;

        setenv("STK_MAP", k & 1 ? "0" : "1", 1);
        assert_int_equal(stk_dataset_open(&ds, &url, 1, NULL, &err), 0);
        assert_int_equal(stk_dataset_len(ds), SHARDS * TOKENS);
        l = loader(ds, k & 2 ? shared : apart, 2, k & 4 ? 4 : STK_NONE);
        while ((rc = stk_loader_next(l, &b, -1, &err)) == 0) {
            check_windows(b);
            rows += stk_batch_rows(b);
            stk_batch_release(&b);
        }
        assert_int_equal(rc, STK_END);
        all += stk_loader_samples(l);
        assert_int_equal(stk_loader_seek(l, 3, 2, &err), 0); /* batches made ahead are dropped */
        assert_int_equal(stk_loader_next(l, &b, -1, &err), 0);
        check_windows(b);
        stk_dataset_unref(&ds);
        stk_loader_close(&l);
        stk_batch_release(&b);
    }
    unsetenv("STK_MAP");
    assert_int_equal(rows, all);
    assert_int_equal(rows, 8 * ((SHARDS * TOKENS - BLOCK - 1) / BLOCK + 1));
}

static void memory(void **state)
{
    static const int64_t shape[] = { WIDE };
    static const stk_output out[] = { { "a", "from(a)" }, { "b", "from(b) | to(f32)" } };
    int32_t *a = malloc(sizeof *a * ROWS * WIDE * 2);
    uint8_t b8[ROWS];
    stk_array_in in[] = { { .name = "a",
                            .data = a,
                            .rows = ROWS,
                            .stride = 2 * WIDE * 4,
                            .dtype = STK_I32,
                            .ndim = 1,
                            .shape = shape },
                          { .name = "b", .data = b8, .rows = ROWS, .stride = 1, .dtype = STK_U8 } };
    stk_dataset *ds = NULL;
    stk_batch *b = NULL;
    stk_loader *l;
    stk_error err;

    (void)state;
    assert_non_null(a);
    for (int i = 0; i < ROWS * WIDE * 2; i++)
        a[i] = i;
    for (int i = 0; i < ROWS; i++)
        b8[i] = (uint8_t)i;
    assert_int_equal(stk_dataset_join(&ds, in, 2, &err), 0);
    assert_string_equal(stk_dataset_arrays(ds), "memory");
    l = loader(ds, out, 2, 3);
    while (stk_loader_next(l, &b, -1, &err) == 0) {
        stk_tensor x, y;

        assert_int_equal(stk_batch_dense(b, 0, &x), 0);
        assert_int_equal(stk_batch_dense(b, 1, &y), 0);
        for (uint32_t r = 0; r < stk_batch_rows(b); r++) {
            uint64_t id = stk_batch_ids(b)[r];

            assert_memory_equal((int32_t *)x.data + r * WIDE, a + id * WIDE * 2, WIDE * 4);
            assert_true(((float *)y.data)[r] == (float)(id % 256));
        }
        stk_batch_release(&b);
    }
    stk_loader_close(&l);
    in[1].rows = ROWS - 1;
    stk_dataset_unref(&ds);
    assert_int_equal(stk_dataset_join(&ds, in, 2, &err), STK_EINVAL);
    assert_null(ds);
    free(a);
}

static void memory_runs_out(void **state)
{
    static const stk_output out[] = { { "x", "tokens(block=64)" } };
    stk_loader_options o = { .size = sizeof o, .outputs = out, .n_outputs = 1 };
    char pattern[96];
    const char *url = pattern;
    int rc = -1;

    (void)state;
    snprintf(pattern, sizeof pattern, "%s/*.bin", dir);
    for (uint64_t n = 1; rc < 0; n++) {
        stk_dataset *ds = NULL;
        stk_loader *l = NULL;
        stk_error err;

        stk_mem_fail_at(n);
        rc = stk_dataset_open(&ds, &url, 1, NULL, &err);
        if (rc == 0)
            rc = stk_loader_open(&l, &ds, 1, &o, &err);
        stk_mem_fail_at(0);
        assert_true(rc == 0 || rc == STK_ENOMEM);
        stk_loader_close(&l);
        stk_dataset_unref(&ds);
        assert_true(n < 1000);
    }
}

static void a_part_that_went_away(void **state)
{
    static const stk_output out[] = { { "x", "tokens(block=64)" } };
    char pattern[96], path[128], other[140];
    const char *url = pattern;
    stk_dataset *ds = NULL;
    stk_batch *b = NULL;
    stk_loader *l;
    stk_error err;
    int rc;

    (void)state;
    snprintf(pattern, sizeof pattern, "%s/*.bin", dir);
    shard(2, path, sizeof path);
    snprintf(other, sizeof other, "%s.away", path);
    assert_int_equal(stk_dataset_open(&ds, &url, 1, NULL, &err), 0);
    assert_int_equal(rename(path, other), 0);
    l = loader(ds, out, 1, 2);
    while ((rc = stk_loader_next(l, &b, -1, &err)) == 0)
        stk_batch_release(&b);
    assert_int_equal(rc, STK_ENOTFOUND);
    assert_non_null(strstr(err.shard, "2.bin"));
    assert_int_equal(rename(other, path), 0);
    stk_loader_close(&l);
    stk_dataset_unref(&ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows),
        cmocka_unit_test(memory),
        cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(a_part_that_went_away),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}

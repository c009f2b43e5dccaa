/* SPDX-License-Identifier: Apache-2.0 */
/* seam_call_test.c - functions of the program's in chains (stk_caller): on bytes and numbers, with
 * workers, errors that are skipped, and what a loader without functions says. */
#include <stdatomic.h>

#include "seam.h"

#define N 96

static _Atomic uint32_t calls;

static int find(void *cookie, const char *function, uint32_t which, uint32_t *number,
                stk_error *err)
{
    static const char *const names[] = { "turned", "sum", "odd" };

    (void)cookie;
    for (uint32_t i = 0; i < 3; i++)
        if (!strcmp(function, names[i]) && !which) {
            *number = i;
            return 0;
        }
    return stk_fail(err, STK_EINVAL, "no function %s", function);
}

static uint8_t *copy_of(const stk_value_row *row, stk_scratch *scratch)
{
    size_t len = (size_t)row->shape[0];
    uint8_t *made = stk_scratch_get(scratch, len + 8);

    assert_non_null(made);
    if (len)
        memcpy(made, row->data, len);
    return made;
}

static int call(void *cookie, const stk_call_at *at, stk_value_row *row, stk_scratch *scratch,
                stk_error *err)
{
    uint8_t *made;
    int64_t sum = 0;

    assert_ptr_equal(cookie, &calls);
    atomic_fetch_add(&calls, 1);
    if (at->kind == STK_KIND_VALUE) { /* odd: one number */
        int64_t n;

        memcpy(&n, row->data, sizeof n);
        return n % 5 == 0 ? stk_fail(err, STK_ECORRUPT, "%" PRId64 " is bad", n) : 0;
    }
    assert_true(at->kind == STK_KIND_BYTES && row->dtype == STK_U8 && row->ndim == 1);
    made = copy_of(row, scratch);
    if (at->number == 1) {
        for (int64_t i = 0; i < row->shape[0]; i++)
            sum += made[i];
        memcpy(made, &sum, sizeof sum);
        *row = (stk_value_row){ .dtype = at->dtype, .data = made };
        return 0;
    }
    for (int64_t i = 0; i < row->shape[0]; i++)
        made[i] = (uint8_t)~made[i];
    row->data = made;
    return 0;
}

static const stk_caller caller = { .abi = STK_PLUGIN_ABI,
                                   .size = sizeof(stk_caller),
                                   .name = "test",
                                   .cookie = &calls,
                                   .find = find,
                                   .call = call };

static void check_rows(const stk_batch *b)
{
    stk_tensor t, sum;

    for (uint32_t row = 0; row < stk_batch_rows(b); row++) {
        uint64_t id = stk_batch_ids(b)[row];
        int64_t expected = 0, got;

        assert_int_equal(stk_batch_row(b, 0, row, &t), 0);
        assert_int_equal(stk_batch_row(b, 1, row, &sum), 0);
        assert_int_equal(t.shape[0], seam_bin_len(id));
        for (size_t i = 0; i < seam_bin_len(id); i++) {
            assert_int_equal(((const uint8_t *)t.data)[i], (uint8_t)~seam_bin_at(id, i));
            expected += seam_bin_at(id, i);
        }
        memcpy(&got, sum.data, sizeof got);
        assert_int_equal(got, expected);
    }
}

static void test_bytes_and_numbers(void **state)
{
    const stk_output out[] = { { "x", "from(bin) | bytes | call(turned)" },
                               { "s", "from(bin) | bytes | call(sum, dtype=i64, shape=0)" } };
    stk_dataset *ds = seam_open("", "call-*.tar", NULL);
    stk_error err;

    (void)state;
    for (int32_t workers = -1; workers < 5; workers += 2) {
        stk_loader_options o = seam_options(16, workers);
        stk_loader *l;
        stk_batch *b = NULL;

        o.outputs = out;
        o.n_outputs = 2;
        o.caller = &caller;
        o.shuffle = STK_SHUFFLE_EXACT;
        l = seam_loader(&ds, 1, &o);
        for (uint32_t i = 0; i < N / 16; i++) {
            seam_ok(stk_loader_next(l, &b, -1, &err), &err);
            check_rows(b);
            stk_batch_release(&b);
        }
        stk_loader_close(&l);
    }
    assert_true(atomic_load(&calls) >= 6 * N);
    stk_dataset_unref(&ds);
}

static void test_bad_samples(void **state)
{
    const stk_output out[] = { { "n", "from(cls) | int | call(odd)" } };
    stk_dataset *ds = seam_open("", "call-*.tar", NULL);
    stk_loader_options o = seam_options(16, 3);
    stk_loader *l;
    stk_batch *b = NULL;
    stk_error err;
    int rc = 0;

    (void)state;
    o.outputs = out;
    o.n_outputs = 1;
    o.caller = &caller;
    l = seam_loader(&ds, 1, &o);
    for (uint32_t i = 0; i < N / 16 && rc == 0; i++) {
        rc = stk_loader_next(l, &b, -1, &err);
        stk_batch_release(&b);
    }
    assert_int_equal(rc, STK_ECORRUPT);
    assert_non_null(strstr(err.message, "is bad"));
    stk_loader_close(&l);
    o.on_error = STK_ON_ERROR_SKIP;
    l = seam_loader(&ds, 1, &o);
    for (uint32_t i = 0; i < N / 16; i++) {
        stk_tensor t;

        seam_ok(stk_loader_next(l, &b, -1, &err), &err);
        for (uint32_t row = 0; row < stk_batch_rows(b); row++) {
            int64_t n;

            assert_int_equal(stk_batch_row(b, 0, row, &t), 0);
            memcpy(&n, t.data, sizeof n);
            assert_true(n % 5 != 0);
        }
        stk_batch_release(&b);
    }
    stk_loader_close(&l);
    stk_dataset_unref(&ds);
}

static void test_no_functions(void **state)
{
    const stk_output none[] = { { "x", "from(bin) | bytes | call(other)" } };
    stk_dataset *ds = seam_open("", "call-*.tar", NULL);
    stk_loader_options o = seam_options(16, 1);
    stk_loader *l = NULL;
    stk_error err;

    (void)state;
    o.outputs = none;
    o.n_outputs = 1;
    assert_int_equal(stk_loader_open(&l, &ds, 1, &o, &err), STK_EINVAL);
    assert_non_null(strstr(err.message, "there is no function for call(other)"));
    o.caller = &caller;
    assert_int_equal(stk_loader_open(&l, &ds, 1, &o, &err), STK_EINVAL);
    assert_string_equal(err.message, "no function other");
    stk_dataset_unref(&ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_bytes_and_numbers),
                                        cmocka_unit_test(test_bad_samples),
                                        cmocka_unit_test(test_no_functions) };

    seam_shards("call", 3, N / 3, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* pack_lengths_test - rows by hand; windows, long ones, none at all, a block that is none; memory
 * that fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stoker/stoker.h>

#include "base/mem.h"

static const uint32_t some[] = { 5, 7, 5, 2, 4, 2, 5, 1, 6 };

static uint64_t rows_of(uint64_t n, uint32_t block, int best, uint32_t window)
{
    stk_fit_info info;
    stk_error err;

    assert_int_equal(
        stk_fit_lengths(some, n,
                        &(stk_fit_options){ .block = block, .first = !best, .window = window },
                        &info, &err),
        0);
    return info.rows;
}

static void by_hand(void **state)
{
    static const uint32_t lengths[] = { 25, 10, 0, 5 };
    stk_fit_info info;
    stk_error err;

    (void)state;
    assert_int_equal(rows_of(9, 10, 1, 0), 4);
    assert_int_equal(rows_of(9, 10, 0, 0), 5);
    assert_int_equal(rows_of(9, 10, 1, 3), 5); /* 5+5, 7; 4+2+2; 6, 5+1 */
    assert_int_equal(rows_of(9, 10, 1, 1), 9);
    assert_int_equal(rows_of(0, 10, 1, 0), 0);
    assert_int_equal(stk_fit_lengths(lengths, 4,
                                     &(stk_fit_options){ .block = 10, .first = !1, .window = 0 },
                                     &info, &err),
                     0);
    assert_int_equal(info.rows, 4); /* two and a half, one, none, a half */
    assert_int_equal(info.tokens, 40);
    assert_int_equal(stk_fit_lengths(lengths, 4,
                                     &(stk_fit_options){ .block = 0, .first = !1, .window = 0 },
                                     &info, &err),
                     STK_EINVAL);
    assert_int_equal(
        stk_fit_lengths(lengths, 4,
                        &(stk_fit_options){ .block = UINT32_MAX, .first = !1, .window = 0 }, &info,
                        &err),
        STK_EINVAL);
}

static void memory_that_fails(void **state)
{
    stk_fit_info info;
    stk_error err;
    int rc = STK_ENOMEM;

    (void)state;
    for (uint64_t k = 1; rc != 0; k++) {
        stk_mem_fail_at(k);
        rc = stk_fit_lengths(some, 9, &(stk_fit_options){ .block = 10, .first = !1, .window = 0 },
                             &info, &err);
        stk_mem_fail_at(0);
        assert_true(rc == 0 || rc == STK_ENOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand),
        cmocka_unit_test(memory_that_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

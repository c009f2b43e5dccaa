/* SPDX-License-Identifier: Apache-2.0 */
/* stall_test.c - off without the variable, on with a seed, an error for anything else; and it
 * does hold up, differently for other seeds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/stall.h"

static int plan(const char *value, stk_stall *s, stk_error *err)
{
    if (value)
        setenv("STK_STALL", value, 1);
    else
        unsetenv("STK_STALL");
    return stk_stall_plan(s, err);
}

static void seeds(void **state)
{
    const char *bad[] = { "x", "-1", "7 ", " 7", "7x", "0x7", "99999999999999999999999" };
    stk_stall s;
    stk_error err;

    assert_int_equal(plan(NULL, &s, &err), 0);
    assert_int_equal(s.on, 0);
    assert_int_equal(plan("", &s, &err), 0);
    assert_int_equal(s.on, 0);
    assert_int_equal(plan("0", &s, &err), 0);
    assert_true(s.on && s.seed == 0);
    assert_int_equal(plan("18446744073709551615", &s, &err), 0);
    assert_true(s.on && s.seed == UINT64_MAX);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(plan(bad[i], &s, &err), STK_EINVAL);
        assert_non_null(strstr(err.message, bad[i]));
        assert_int_equal(s.on, 0);
    }
}

static void holds_up(void **state)
{
    stk_stall s;
    uint64_t from, off, on;

    assert_int_equal(plan(NULL, &s, NULL), 0);
    from = stk_now_ns();
    for (uint64_t i = 0; i < 1000; i++)
        stk_stall_at(&s, STK_STALL_CLAIM, i);
    off = stk_now_ns() - from;
    assert_int_equal(plan("5", &s, NULL), 0);
    from = stk_now_ns();
    for (uint64_t i = 0; i < 1000; i++)
        stk_stall_at(&s, STK_STALL_CLAIM, i);
    on = stk_now_ns() - from;
    print_message("1000 points: off %u us, on %u us\n", (unsigned)(off / 1000),
                  (unsigned)(on / 1000));
    assert_true(on > 5000000 && on > off);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(seeds), cmocka_unit_test(holds_up) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

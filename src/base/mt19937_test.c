/* SPDX-License-Identifier: Apache-2.0 */
/* mt19937_test.c - the generator's published numbers, and shuffles that NumPy made:
 *     x = numpy.arange(n, dtype="u4"); r = numpy.random.RandomState(seed); r.shuffle(x) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/mt19937.h"

static void published_numbers(void **state)
{
    uint32_t x = 0;
    stk_mt m;

    (void)state;
    stk_mt_init(&m, 5489);
    assert_int_equal(stk_mt_u32(&m), 3499211612u);
    for (int i = 1; i < 10000; i++) /* the ten thousandth is C++'s check value */
        x = stk_mt_u32(&m);
    assert_int_equal(x, 4123659995u);
}

static void bounds_are_kept(void **state)
{
    stk_mt m;

    (void)state;
    stk_mt_init(&m, 1);
    assert_int_equal(stk_mt_below(&m, 0), 0);
    assert_int_equal(stk_mt_u32(&m), 1791095845u); /* drew nothing */
    for (uint32_t most = 1; most < 300; most++)
        assert_true(stk_mt_below(&m, most) <= most);
    stk_mt_below(&m, UINT32_MAX);
}

static void shuffles_as_numpy(void **state)
{
    static const uint32_t ten[] = { 2, 8, 4, 9, 1, 6, 7, 3, 0, 5 };
    uint32_t x[1000], sum = 0;
    stk_mt m;

    (void)state;
    for (uint32_t i = 0; i < 10; i++)
        x[i] = i;
    stk_mt_init(&m, 0);
    stk_mt_shuffle(&m, x, 10);
    assert_memory_equal(x, ten, sizeof ten);
    stk_mt_shuffle(&m, x, 1);
    stk_mt_shuffle(&m, x, 0);
    for (uint32_t i = 0; i < 1000; i++)
        x[i] = i;
    stk_mt_init(&m, UINT32_MAX);
    stk_mt_shuffle(&m, x, 1000);
    for (uint32_t i = 0; i < 1000; i++)
        sum = sum * 31 + x[i];
    assert_int_equal(sum, 1535210712u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_numbers),
        cmocka_unit_test(bounds_are_kept),
        cmocka_unit_test(shuffles_as_numpy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

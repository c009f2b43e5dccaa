/* SPDX-License-Identifier: Apache-2.0 */
/* scratch_test.c - a scratch with a ration: charged as it grows, free where it does not, small
 * again after an outlier, and short of memory in a way that can be told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"

#define MB ((size_t)1 << 20)

static stk_account whole;
static stk_ration ration;

static void begin(stk_scratch *s)
{
    stk_account_init(&whole, 100 * MB);
    memset(&ration, 0, sizeof ration);
    stk_account_init_part(&ration.account, 100 * MB, &whole);
    ration.most = 50 * MB;
    ration.keep = 4 * MB;
    memset(s, 0, sizeof *s);
    s->ration = &ration;
}

static void end(stk_scratch *s)
{
    stk_scratch_fini(s);
    assert_int_equal(atomic_load(&whole.used), 0);
    assert_int_equal(atomic_load(&ration.over), 0);
}

static uint64_t used(void)
{
    return atomic_load(&whole.used);
}

static void charged_as_it_grows(void **state)
{
    stk_scratch s;
    void *a;

    (void)state;
    begin(&s);
    a = stk_scratch_get(&s, MB);
    assert_non_null(a);
    assert_int_equal(used(), MB + MB / 4); /* a quarter more, for the next one */
    for (int i = 0; i < 3; i++) {
        stk_scratch_reset(&s);
        assert_ptr_equal(stk_scratch_get(&s, MB + MB / 8), a);
        stk_scratch_settle(&s);
    }
    assert_int_equal(used(), MB + MB / 4);
    assert_int_equal(stk_scratch_beside(&s, MB), 1);
    assert_int_equal(used(), 2 * MB + MB / 4);
    stk_scratch_back(&s, MB);
    stk_scratch_reset(&s);
    assert_int_equal(stk_scratch_beside(&s, MB), 1); /* charged already */
    assert_int_equal(used(), 2 * MB + MB / 4);
    end(&s);
}

static void small_again_after_an_outlier(void **state)
{
    stk_scratch s;
    void *a, *b;

    (void)state;
    begin(&s);
    a = stk_scratch_get(&s, MB);
    b = stk_scratch_get(&s, 20 * MB);
    memset(b, 1, 20 * MB);
    assert_int_equal(used(), 21 * MB + MB / 4); /* no more than asked for */
    assert_int_equal(atomic_load(&ration.over), 1);
    stk_scratch_settle(&s);
    assert_int_equal(used(), MB + MB / 4);
    assert_int_equal(atomic_load(&ration.over), 0);
    stk_scratch_reset(&s);
    assert_ptr_equal(stk_scratch_get(&s, MB), a); /* the rest is still there */
    end(&s);
}

static void shortages(void **state)
{
    stk_scratch s, other;

    (void)state;
    begin(&s);
    memset(&other, 0, sizeof other);
    other.ration = &ration;
    assert_non_null(stk_scratch_get(&other, 50 * MB));
    assert_non_null(stk_scratch_get(&s, 30 * MB));
    assert_null(stk_scratch_get(&s, 20 * MB + 1)); /* more than one sample may take */
    assert_int_equal(s.shortage, STK_SHORT_FOREVER);
    assert_int_equal(stk_scratch_needs(&s), 50 * MB + 1);
    stk_scratch_reset(&s);
    assert_int_equal(s.shortage, STK_SHORT_OF_NOTHING);
    assert_int_equal(stk_account_take(&whole, 10 * MB), 1);
    assert_non_null(stk_scratch_get(&s, 30 * MB));
    assert_null(stk_scratch_get(&s, 15 * MB));
    assert_int_equal(s.shortage, STK_SHORT_NOW);
    assert_int_equal(stk_scratch_needs(&s), 45 * MB);
    stk_scratch_drop(&s);
    assert_int_equal(used(), 60 * MB);
    stk_scratch_fini(&other);
    stk_scratch_reset(&s);
    assert_int_equal(stk_account_take(&ration.account, 46 * MB), 1);
    stk_scratch_grant(&s, 46 * MB);
    assert_non_null(stk_scratch_get(&s, 30 * MB)); /* of what was granted */
    assert_non_null(stk_scratch_get(&s, 15 * MB));
    assert_int_equal(used(), 56 * MB);
    stk_scratch_settle(&s);
    assert_int_equal(used(), 10 * MB);
    stk_account_give(&whole, 10 * MB);
    end(&s);
}

/* What is known beforehand is asked for beforehand. */
static void expected(void **state)
{
    stk_scratch s;

    (void)state;
    begin(&s);
    assert_int_equal(stk_scratch_expect(&s, 30 * MB), 1);
    assert_int_equal(used(), 30 * MB);
    assert_non_null(stk_scratch_get(&s, 10 * MB));
    assert_non_null(stk_scratch_get(&s, 20 * MB));
    assert_int_equal(used(), 30 * MB);
    assert_int_equal(stk_scratch_expect(&s, 20 * MB + 1), 0);
    assert_int_equal(s.shortage, STK_SHORT_FOREVER);
    assert_int_equal(stk_scratch_needs(&s), 50 * MB + 1);
    end(&s);
}

/* One row asked for much, and thousands after it for little. */
static void shrinks_in_time(void **state)
{
    stk_scratch s;

    (void)state;
    begin(&s);
    assert_non_null(stk_scratch_get(&s, 3 * MB));
    for (int i = 0; i < 9000; i++) {
        stk_scratch_reset(&s);
        assert_non_null(stk_scratch_get(&s, 1000));
        stk_scratch_settle(&s);
    }
    assert_in_range(used(), 1000, 2000);
    end(&s);
}

static void no_memory_is_no_shortage(void **state)
{
    stk_scratch s;

    (void)state;
    begin(&s);
    stk_mem_fail_at(1);
    assert_null(stk_scratch_get(&s, MB));
    stk_mem_fail_at(0);
    assert_int_equal(s.shortage, STK_SHORT_OF_NOTHING);
    assert_non_null(stk_scratch_get(&s, MB));
    end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(charged_as_it_grows), cmocka_unit_test(small_again_after_an_outlier),
        cmocka_unit_test(shortages),           cmocka_unit_test(expected),
        cmocka_unit_test(shrinks_in_time),     cmocka_unit_test(no_memory_is_no_shortage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

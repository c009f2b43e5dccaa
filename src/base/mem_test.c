/* SPDX-License-Identifier: Apache-2.0 */
/* mem_test.c - alignment, overflow, failures on purpose, scratch, buffers, the account of bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/account.h"
#include "base/buf.h"
#include "base/mem.h"

static void aligned(void **state)
{
    (void)state;
    for (size_t size = 0; size < 300; size += 7) {
        uint8_t *p = stk_alloc(size), *z = stk_zalloc(size, 1);

        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 64, 0);
        assert_int_equal((uintptr_t)z % 64, 0);
        for (size_t i = 0; i < size; i++)
            assert_int_equal(z[i], 0);
        stk_free(p);
        stk_free(z);
    }
    stk_free(NULL);
}

static void overflow(void **state)
{
    void *p = stk_alloc(16);

    (void)state;
    assert_null(stk_alloc(SIZE_MAX));
    assert_null(stk_zalloc(SIZE_MAX / 8, 16));
    assert_null(stk_zalloc(SIZE_MAX, 2));
    assert_null(stk_buffer_new(SIZE_MAX - 3));
    assert_null(stk_grow(p, 16, SIZE_MAX)); /* p lives on */
    memset(p, 1, 16);
    stk_free(p);
}

static void grow_keeps(void **state)
{
    char *p = stk_strdup("hello"), *q;

    (void)state;
    q = stk_grow(p, 6, 4000);
    assert_string_equal(q, "hello");
    q = stk_grow(q, 4000, 3);
    assert_memory_equal(q, "hel", 3);
    stk_free(q);
    p = stk_grow(NULL, 0, 10);
    assert_non_null(p);
    stk_free(p);
    p = stk_strndup("hello", 2);
    assert_string_equal(p, "he");
    stk_free(p);
}

static void fails_on_purpose(void **state)
{
    uint64_t before = stk_mem_count();
    void *a, *b;

    (void)state;
    stk_mem_fail_at(2);
    a = stk_alloc(1);
    b = stk_alloc(1);
    assert_non_null(a);
    assert_null(b);
    assert_null(stk_zalloc(1, 1)); /* and all after it */
    assert_null(stk_strdup("x"));
    stk_mem_fail_at(0);
    b = stk_alloc(1);
    assert_non_null(b);
    assert_int_equal(stk_mem_count() - before, 5);
    stk_free(a);
    stk_free(b);
}

static void scratch_grows_only(void **state)
{
    stk_scratch s = { 0 };
    uint8_t *a, *b, *c;
    size_t total;

    (void)state;
    a = stk_scratch_get(&s, 1000);
    b = stk_scratch_get(&s, 500);
    assert_true(a != b);
    memset(a, 1, 1000);
    memset(b, 2, 500);
    assert_int_equal(a[999], 1); /* several live at once */
    total = s.total;
    for (int i = 0; i < 5; i++) {
        stk_scratch_reset(&s);
        assert_ptr_equal(stk_scratch_get(&s, 900), a);
        assert_ptr_equal(stk_scratch_get(&s, 1), b);
    }
    assert_int_equal(s.total, total);
    stk_mem_fail_at(1);
    stk_scratch_reset(&s);
    assert_null(stk_scratch_get(&s, 100000));
    stk_mem_fail_at(0);
    c = stk_scratch_get(&s, 1000); /* the old block is still good */
    assert_ptr_equal(c, a);
    assert_null(stk_scratch_get(&s, SIZE_MAX / 2));
    for (int i = 0; i < STK_SCRATCH_BLOCKS; i++)
        c = stk_scratch_get(&s, 8);
    assert_null(c); /* there are eight, not nine */
    stk_scratch_fini(&s);
    assert_int_equal(s.total, 0);
}

static void buffers_count(void **state)
{
    stk_buffer *b = stk_buffer_new(100);

    (void)state;
    assert_int_equal((uintptr_t)b->data % 64, 0);
    assert_int_equal(b->size, 100);
    memset(b->data, 7, 100);
    stk_buffer_ref(b);
    stk_buffer_unref(b);
    assert_int_equal(((uint8_t *)b->data)[99], 7);
    stk_buffer_unref(b);
    stk_buffer_unref(NULL);
}

static void account_holds(void **state)
{
    stk_account a;

    (void)state;
    stk_account_init(&a, 100);
    assert_int_equal(stk_account_take(&a, 60), 1);
    assert_int_equal(stk_account_take(&a, 41), 0);
    assert_int_equal(stk_account_take(&a, 40), 1);
    stk_account_give(&a, 90);
    assert_int_equal(atomic_load(&a.used), 10);
    assert_int_equal(atomic_load(&a.peak), 100); /* a refusal is no peak */
    assert_int_equal(stk_account_take(&a, UINT64_MAX), 0);
    assert_int_equal(atomic_load(&a.used), 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(aligned),
        cmocka_unit_test(overflow),
        cmocka_unit_test(grow_keeps),
        cmocka_unit_test(fails_on_purpose),
        cmocka_unit_test(scratch_grows_only),
        cmocka_unit_test(buffers_count),
        cmocka_unit_test(account_holds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

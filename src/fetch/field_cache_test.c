/* SPDX-License-Identifier: Apache-2.0 */
/* field_cache_test.c - small fields come back as they were put, under a bound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "fetch/field_cache.h"

static stk_bytes text(const char *s)
{
    return (stk_bytes){ (const uint8_t *)s, strlen(s) };
}

static void comes_back(void **state)
{
    stk_bytes in[3] = { text("7"), { 0 }, text("a dog") }, other[3] = { text("x") }, out[3];
    char empty[1] = "", name[16];
    stk_account a;
    stk_error err;
    stk_field_cache *s;

    (void)state;
    stk_account_init(&a, 64 << 20);
    assert_int_equal(stk_field_cache_open(&s, 100000, &a, &err), 0);
    assert_int_equal(stk_field_cache_find(s, 5, out, 3), 0);
    stk_field_cache_put(s, 5, in, 3);
    stk_field_cache_put(s, 5, other, 3); /* the first one stays */
    assert_int_equal(stk_field_cache_find(s, 5, out, 3), 1);
    assert_true(out[0].len == 1 && out[0].data[0] == '7' && !out[1].data);
    assert_true(out[2].len == 5 && !memcmp(out[2].data, "a dog", 5));
    in[1] = (stk_bytes){ (uint8_t *)empty, 0 };
    for (uint64_t i = 6; i < 100000; i++) {
        snprintf(name, sizeof name, "%u", (unsigned)i);
        in[0] = text(name);
        stk_field_cache_put(s, i, in, 3);
    }
    for (uint64_t i = 6; i < 100000; i++) {
        snprintf(name, sizeof name, "%u", (unsigned)i);
        assert_int_equal(stk_field_cache_find(s, i, out, 3), 1);
        assert_true(out[0].len == strlen(name) && !memcmp(out[0].data, name, out[0].len));
        assert_true(out[1].data && !out[1].len && out[2].len == 5);
    }
    assert_int_equal(stk_field_cache_find(s, 4, out, 3), 0);
    assert_int_equal(stk_field_cache_find(s, 100000, out, 3), 0);
    stk_field_cache_close(&s);
    assert_int_equal(atomic_load(&a.used), 0);
}

static void bounded(void **state)
{
    static uint8_t large[STK_SMALL_BYTES];
    stk_bytes in = { large, sizeof large - 2 }, out;
    uint64_t found = 0;
    stk_account a;
    stk_error err;
    stk_field_cache *s;

    (void)state;
    stk_account_init(&a, 8 << 20);
    assert_int_equal(stk_field_cache_open(&s, 10000, &a, &err), 0);
    for (uint64_t i = 0; i < 10000; i++)
        stk_field_cache_put(s, i, &in, 1);
    for (uint64_t i = 0; i < 10000; i++)
        found += (uint64_t)stk_field_cache_find(s, i, &out, 1);
    assert_true(found > 1000 && found < 2048);
    assert_true(atomic_load(&a.used) <= 1 << 20);
    in.len++;
    stk_field_cache_put(s, 9999, &in, 1);
    assert_int_equal(stk_field_cache_find(s, 9999, &out, 1),
                     0); /* too large, and there is no room */
    stk_field_cache_close(&s);
    assert_int_equal(atomic_load(&a.used), 0);
    stk_mem_fail_at(1);
    assert_int_equal(stk_field_cache_open(&s, 10, &a, &err), STK_ENOMEM);
    stk_mem_fail_at(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(comes_back), cmocka_unit_test(bounded) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* dict_test.c - numbers of names and of lists of names: the first occurrence counts, whatever the
 * tables had to grow; limits, and memory that is not to be had. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "index/dict.h"
#include "index/layout.h"

#define MANY 5000u

static uint32_t number_of(idx_dict *d, const char *name, size_t len)
{
    uint32_t id = UINT32_MAX;
    stk_error err;

    assert_int_equal(idx_dict_name(d, name, len, &id, &err), 0);
    return id;
}

static uint32_t schema_of(idx_dict *d, const uint32_t *ids, uint32_t n)
{
    uint32_t id = UINT32_MAX;
    stk_error err;

    assert_int_equal(idx_dict_schema(d, ids, n, &id, &err), 0);
    return id;
}

/* Only `len` bytes of what is given are the name.  Long ones come before their beginnings, which
 * meet them in the table. */
static void names(void **state)
{
    idx_dict d = { 0 };
    char name[16];

    (void)state;
    assert_int_equal(number_of(&d, "jpgx", 3), 0);
    assert_int_equal(number_of(&d, "jpgx", 4), 1);
    assert_int_equal(number_of(&d, "", 0), 2);
    assert_int_equal(number_of(&d, "jp", 2), 3);
    for (uint32_t round = 0; round < 2; round++)
        for (uint32_t i = 0; i < MANY; i++) {
            int len = snprintf(name, sizeof name, "%x", (unsigned)(MANY - i));

            assert_int_equal(number_of(&d, name, (size_t)len), 4 + i);
        }
    assert_int_equal(number_of(&d, "jpg", 3), 0);
    assert_int_equal(number_of(&d, "", 0), 2);
    assert_string_equal(idx_dict_text(&d, 0), "jpg");
    assert_string_equal(idx_dict_text(&d, 2), "");
    assert_string_equal(idx_dict_text(&d, 4), "1388");
    assert_int_equal(d.n_names, 4 + MANY);
    idx_dict_fini(&d);
    assert_null(d.text);
}

static void a_zero_byte(void **state)
{
    idx_dict d = { 0 };
    stk_error err;
    uint32_t id;

    (void)state;
    assert_int_equal(idx_dict_name(&d, "a\0b", 3, &id, &err), STK_ECORRUPT);
    assert_non_null(strstr(err.message, "zero byte"));
    assert_int_equal(d.n_names, 0);
    idx_dict_fini(&d);
}

/* Order and length count; an empty list is one too. */
static void schemas(void **state)
{
    const uint32_t ids[] = { 0, 1, 2 }, other[] = { 1, 0, 2 }, *have;
    idx_dict d = { 0 };
    uint32_t n;

    (void)state;
    assert_int_equal(schema_of(&d, ids, 0), 0);
    assert_null(idx_dict_ids(&d, 0, &n));
    assert_int_equal(n, 0);
    assert_int_equal(schema_of(&d, ids, 3), 1);
    assert_int_equal(schema_of(&d, other, 3), 2);
    assert_int_equal(schema_of(&d, ids, 2), 3);
    assert_int_equal(schema_of(&d, ids, 3), 1);
    assert_int_equal(schema_of(&d, NULL, 0), 0);
    have = idx_dict_ids(&d, 2, &n);
    assert_int_equal(n, 3);
    assert_memory_equal(have, other, sizeof other);
    have = idx_dict_ids(&d, 3, &n);
    assert_int_equal(n, 2);
    assert_memory_equal(have, ids, 2 * sizeof *ids);
    idx_dict_fini(&d);
}

/* Each is the beginning of those before it. */
static void beginnings(void **state)
{
    static const uint32_t zeros[500];
    idx_dict d = { 0 };

    (void)state;
    for (uint32_t round = 0; round < 2; round++)
        for (uint32_t i = 0; i < 500; i++)
            assert_int_equal(schema_of(&d, zeros, 500 - i), i);
    idx_dict_fini(&d);
}

static void too_many_schemas(void **state)
{
    idx_dict d = { 0 };
    stk_error err;
    uint32_t id;

    (void)state;
    for (uint32_t i = 0; i < IDX_MAX_SCHEMAS; i++)
        assert_int_equal(schema_of(&d, &i, 1), i);
    id = IDX_MAX_SCHEMAS;
    assert_int_equal(idx_dict_schema(&d, &id, 1, &id, &err), STK_ELIMIT);
    assert_non_null(strstr(err.message, "more than 65535 different lists"));
    id = 77;
    assert_int_equal(schema_of(&d, &id, 1), 77);
    idx_dict_fini(&d);
}

/* Whatever allocation fails: what was there stays, and the same call works when there is memory. */
static void no_memory(void **state)
{
    stk_error err;
    uint32_t id;

    (void)state;
    for (uint64_t n = 1;; n++) {
        idx_dict d = { 0 };
        int rc = 0, failed = 0;

        stk_mem_fail_at(n);
        for (uint32_t i = 0; i < 40; i++) {
            char name[2] = { (char)('0' + i), 0 };

            rc = idx_dict_name(&d, name, 1, &id, &err);
            rc = rc ? rc : idx_dict_schema(&d, &i, 1, &id, &err);
            if (rc) {
                assert_int_equal(rc, STK_ENOMEM);
                failed = 1;
                stk_mem_fail_at(0);
                assert_int_equal(number_of(&d, name, 1), i);
                assert_int_equal(schema_of(&d, &i, 1), i);
            }
        }
        stk_mem_fail_at(0);
        for (uint32_t i = 0; i < 40; i++)
            assert_int_equal(schema_of(&d, &i, 1), i);
        idx_dict_fini(&d);
        if (!failed) {
            assert_true(n > 4);
            return;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(a_zero_byte),
        cmocka_unit_test(schemas),
        cmocka_unit_test(beginnings),
        cmocka_unit_test(too_many_schemas),
        cmocka_unit_test(no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

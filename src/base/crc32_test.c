/* SPDX-License-Identifier: Apache-2.0 */
/* crc32_test.c - known sums, every length bit by bit, and pieces joined. */
#include "base/crc32.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static stk_crc32 table;

static uint32_t plain(const uint8_t *p, size_t len)
{
    uint32_t v = ~0u;

    for (; len; len--) {
        v ^= *p++;
        for (int k = 0; k < 8; k++)
            v = v >> 1 ^ (v & 1 ? 0xEDB88320u : 0);
    }
    return ~v;
}

static void known(void **state)
{
    (void)state;
    assert_int_equal(stk_crc32_of(&table, 0, "", 0), 0);
    assert_int_equal(stk_crc32_of(&table, 0, "123456789", 9), 0xCBF43926u);
}

static void all_lengths(void **state)
{
    uint8_t data[300];

    (void)state;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 151 + 7);
    for (size_t n = 0; n <= sizeof data; n++) {
        uint32_t want = plain(data, n), got = stk_crc32_of(&table, 0, data, n);
        size_t cut = n / 3;

        assert_int_equal(got, want);
        assert_int_equal(
            stk_crc32_of(&table, stk_crc32_of(&table, 0, data, cut), data + cut, n - cut), want);
        assert_int_equal(stk_crc32_join(stk_crc32_of(&table, 0, data, cut),
                                        stk_crc32_of(&table, 0, data + cut, n - cut), n - cut),
                         want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(known), cmocka_unit_test(all_lengths) };

    stk_crc32_init(&table);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* size_test.c - one rule for sizes: KB is 1,000, KiB is 1,024; exact, and never past 64 bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/size.h"

static void sizes_are_read(void **state)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        { "0", 0 },
        { "2000000000", 2000000000 },
        { "7B", 7 },
        { "1K", 1000 },
        { "1kb", 1000 },
        { "1Ki", 1024 },
        { "1KiB", 1024 },
        { "300MB", 300000000 },
        { "4G", 4000000000 },
        { "4GB", 4000000000 },
        { "4gib", (uint64_t)4 << 30 },
        { "1.5 GiB", (uint64_t)3 << 29 },
        { "0.1GB", 100000000 },
        { "0.0000000019GB", 1 },
        { "1.999999999EB", 1999999999000000000u },
        { "2TB", 2000000000000 },
        { "3PiB", (uint64_t)3 << 50 },
        { "15EiB", (uint64_t)15 << 60 },
        { "18EB", 18000000000000000000u },
        { "18446744073709551615", UINT64_MAX },
    };

    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        uint64_t bytes = 99;

        assert_int_equal(stk_size_parse(good[i].text, &bytes), 0);
        assert_true(bytes == good[i].bytes);
    }
}

static void others_are_refused(void **state)
{
    static const char *const bad[] = {
        "",       "B",    "GB",   "-1GB", "+1GB",  " 1GB", "1GB ",
        "1Q",     "1i",   "1iB",  "1GBB", "1GiBx", "1e3",  "1..2",
        "1.GB",   ".5GB", "much", "0x10", "16EiB", "19EB", "18446744073709551616",
        "18.5EB", "1 ",
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t bytes = 99;

        assert_int_equal(stk_size_parse(bad[i], &bytes), STK_EINVAL);
        assert_true(bytes == 99);
    }
}

/* As options.def writes a range. */
static void a_size_ends_where_it_ends(void **state)
{
    const char *end;
    uint64_t bytes;

    assert_int_equal(stk_size_read("1MB..8EB", &bytes, &end), 1);
    assert_true(bytes == 1000000);
    assert_string_equal(end, "..8EB");
}

static void sizes_are_written(void **state)
{
    char buf[16];

    assert_string_equal(stk_size_format(buf, 0), "0 B");
    assert_string_equal(stk_size_format(buf, 999), "999 B");
    assert_string_equal(stk_size_format(buf, 1000), "1.0 KB");
    assert_string_equal(stk_size_format(buf, 1500000), "1.5 MB");
    assert_string_equal(stk_size_format(buf, 250000000), "250 MB");
    assert_string_equal(stk_size_format(buf, 999500000), "1.0 GB");
    assert_string_equal(stk_size_format(buf, UINT64_MAX), "18.4 EB");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_read),
        cmocka_unit_test(others_are_refused),
        cmocka_unit_test(a_size_ends_where_it_ends),
        cmocka_unit_test(sizes_are_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

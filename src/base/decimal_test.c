/* SPDX-License-Identifier: Apache-2.0 */
/* decimal_test.c - scaled whole numbers: their text, and the double that strtod() makes of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/decimal.h"
#include "base/hash.h"

static void texts_are_exact(void **state)
{
    static const struct {
        int64_t v;
        int32_t scale;
        const char *text;
    } good[] = {
        { -99079, 2, "-990.79" },
        { 0, 0, "0" },
        { 0, 3, "0.000" },
        { 7, 3, "0.007" },
        { -7, 1, "-0.7" },
        { 120, 2, "1.20" },
        { 5, -3, "5000" },
        { 0, -3, "0" },
        { INT64_MIN, 0, "-9223372036854775808" },
        { INT64_MAX, 20, "0.09223372036854775807" },
        { 1000000000, 0, "1000000000" },
        { -1000000000000000000, 18, "-1.000000000000000000" },
    };
    char text[STK_SCALED_TEXT];

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        stk_scaled s = { (const uint8_t *)&good[i].v, 8, 0, good[i].scale };
        double v;

        assert_int_equal(stk_scaled_text(&s, text), strlen(good[i].text));
        assert_string_equal(text, good[i].text);
        assert_int_equal(stk_scaled_f64(&s, &v), 0);
        assert_true(v == stk_decimal(text, NULL));
    }
}

/* Bytes of any width, in both orders, with and without bytes that repeat the sign. */
static void widths_agree(void **state)
{
    uint64_t seed = 15;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        uint8_t low[96], high[96];
        size_t n = 1 + (size_t)(stk_mix64(seed++) % STK_SCALED_BYTES), all = n + (size_t)(i % 32);
        int32_t scale = (int32_t)(stk_mix64(seed++) % 80);
        char a[STK_SCALED_TEXT], b[STK_SCALED_TEXT];
        uint8_t put[200];
        size_t room;
        double x, y;

        for (size_t k = 0; k < all; k++)
            low[k] = k < n ? (uint8_t)stk_mix64(seed++) : low[n - 1] & 128 ? 255 : 0;
        for (size_t k = 0; k < all; k++)
            high[k] = low[all - 1 - k];
        assert_true(stk_scaled_text(&(stk_scaled){ low, n, 0, scale }, a) > 0);
        assert_true(stk_scaled_text(&(stk_scaled){ high, all, 1, scale }, b) > 0);
        assert_string_equal(a, b);
        memset(put, 1, sizeof put);
        room = stk_scaled_room(all, scale);
        assert_true(room <= sizeof put);
        assert_int_equal(stk_scaled_put(&(stk_scaled){ high, all, 1, scale }, put, room),
                         (int)strlen(a));
        assert_memory_equal(put, a, strlen(a));
        for (size_t k = strlen(a); k < sizeof put; k++)
            assert_int_equal(put[k], k >= room); /* zeros after it, and nothing after those */
        assert_int_equal(stk_scaled_put(&(stk_scaled){ low, n, 0, scale }, put, strlen(a) - 1), -1);
        assert_int_equal(stk_scaled_f64(&(stk_scaled){ low, all, 0, scale }, &x), 0);
        y = stk_decimal(a, NULL);
        assert_memory_equal(&x, &y, sizeof x);
    }
}

static void limits(void **state)
{
    uint8_t wide[STK_SCALED_BYTES + 1] = { [STK_SCALED_BYTES] = 1 };
    char text[STK_SCALED_TEXT];
    double v;

    (void)state;
    assert_int_equal(stk_scaled_f64(&(stk_scaled){ wide, sizeof wide, 0, 0 }, &v), -1);
    assert_int_equal(stk_scaled_text(&(stk_scaled){ wide, 4, 0, STK_SCALED_MOST + 1 }, text), -1);
    memset(wide, 255, sizeof wide);
    wide[STK_SCALED_BYTES - 1] = 127; /* the longest: all digits, all zeros of the scale */
    assert_true(stk_scaled_text(&(stk_scaled){ wide, STK_SCALED_BYTES, 0, -STK_SCALED_MOST },
                                text) < STK_SCALED_TEXT);
    assert_true(stk_scaled_text(&(stk_scaled){ wide, 1, 0, STK_SCALED_MOST }, text) <
                STK_SCALED_TEXT);
    assert_int_equal(stk_scaled_f64(&(stk_scaled){ wide, 0, 0, 2 }, &v), 0);
    assert_true(v == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_exact),
        cmocka_unit_test(widths_agree),
        cmocka_unit_test(limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* hash_test.c - CRC-32C by both ways and in pieces; the mixers spread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.c" /* for the two ways, which are static */

static uint8_t text[4099];

static void fill(void)
{
    uint32_t x = 12345;

    for (size_t i = 0; i < sizeof text; i++) {
        x = x * 1664525 + 1013904223;
        text[i] = (uint8_t)(x >> 24);
    }
}

static void known_answers(void **state)
{
    uint8_t zero[32] = { 0 }, ones[32], up[32];

    (void)state;
    memset(ones, 255, sizeof ones);
    for (int i = 0; i < 32; i++)
        up[i] = (uint8_t)i;
    assert_int_equal(stk_crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(stk_crc32c(0, "", 0), 0);
    assert_int_equal(stk_crc32c(0, zero, 32), 0x8a9136aa); /* RFC 3720, B.4 */
    assert_int_equal(stk_crc32c(0, ones, 32), 0x62a8ab43);
    assert_int_equal(stk_crc32c(0, up, 32), 0x46dd794e);
}

static void both_ways_agree(void **state)
{
    (void)state;
    fill();
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("sse4.2"))
        skip();
    for (size_t off = 0; off < 9; off++)
        for (size_t len = 0; len < 300; len++)
            assert_int_equal(~crc_bytes(~7u, text + off, len), ~crc_sse42(~7u, text + off, len));
    assert_int_equal(crc_bytes(1, text, sizeof text), crc_sse42(1, text, sizeof text));
#else
    skip();
#endif
}

static void in_pieces(void **state)
{
    uint32_t whole;

    (void)state;
    fill();
    whole = stk_crc32c(0, text, 257);
    for (size_t cut = 0; cut <= 257; cut++)
        assert_int_equal(stk_crc32c(stk_crc32c(0, text, cut), text + cut, 257 - cut), whole);
}

static int bits(uint64_t x)
{
    return __builtin_popcountll(x);
}

/* Every input bit changes about half of the output. */
static void mixer_spreads(void **state)
{
    (void)state;
    for (int bit = 0; bit < 64; bit++) {
        int sum = 0;

        for (uint64_t i = 0; i < 200; i++) {
            uint64_t x = i * 0x9E3779B97F4A7C15u;

            sum += bits(stk_mix64(x) ^ stk_mix64(x ^ 1ull << bit));
        }
        assert_in_range(sum, 200 * 26, 200 * 38);
    }
}

static void hash_sees_everything(void **state)
{
    uint8_t a[40] = { 0 };
    uint64_t base;

    (void)state;
    base = stk_hash64(1, a, sizeof a);
    assert_int_equal(base, stk_hash64(1, a, sizeof a));
    assert_true(base != stk_hash64(2, a, sizeof a));
    for (size_t n = 0; n < sizeof a; n++) {
        assert_true(stk_hash64(1, a, n) != base); /* zeros more or less count */
        a[n] ^= 1;
        assert_true(stk_hash64(1, a, sizeof a) != base);
        a[n] ^= 1;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(both_ways_agree),
        cmocka_unit_test(in_pieces),
        cmocka_unit_test(mixer_spreads),
        cmocka_unit_test(hash_sees_everything),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

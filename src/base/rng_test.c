/* SPDX-License-Identifier: Apache-2.0 */
/* rng_test.c - Philox against the known answers of its authors, the addressing, and exp()
 * without libm. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"

static void known_answers(void **state)
{
    static const struct {
        uint32_t ctr[4], key[2], want[4];
    } kat[] = {
        { { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { { UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX },
          { UINT32_MAX, UINT32_MAX },
          { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
          { 0xa4093822, 0x299f31d0 },
          { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };
    uint32_t out[4];

    (void)state;
    for (size_t i = 0; i < sizeof kat / sizeof *kat; i++) {
        stk_philox(kat[i].ctr, kat[i].key, out);
        assert_memory_equal(out, kat[i].want, sizeof out);
    }
}

/* The address is (position, epoch, output, op, draw) in the counter, the seed in the key. */
static void addressed(void **state)
{
    const uint64_t seed = 0x299f31d0a4093822u, position = 0x85a308d3243f6a88u;
    const uint32_t epoch = 0x13198a2e, key[2] = { 0xa4093822, 0x299f31d0 };
    stk_rng r;

    (void)state;
    stk_rng_init(&r, seed, position, epoch, 3, 7);
    for (uint32_t draw = 0; draw < 3; draw++) {
        const uint32_t ctr[4] = { 0x243f6a88, 0x85a308d3, epoch, 3u << 24 | 7u << 16 | draw };
        uint32_t want[4];

        stk_philox(ctr, key, want);
        for (int i = 0; i < 4; i++)
            assert_int_equal(stk_rng_u32(&r), want[i]);
    }
}

static uint32_t first(uint64_t seed, uint64_t position, uint32_t epoch, uint8_t output, uint8_t op)
{
    stk_rng r;

    stk_rng_init(&r, seed, position, epoch, output, op);
    return stk_rng_u32(&r);
}

static void every_part_of_the_address_counts(void **state)
{
    uint32_t base = first(1, 2, 3, 4, 5);

    (void)state;
    assert_int_equal(base, first(1, 2, 3, 4, 5));
    assert_int_not_equal(base, first(1 + (1ull << 40), 2, 3, 4, 5));
    assert_int_not_equal(base, first(0, 2, 3, 4, 5));
    assert_int_not_equal(base, first(1, 3, 3, 4, 5));
    assert_int_not_equal(base, first(1, 2 + (1ull << 40), 3, 4, 5));
    assert_int_not_equal(base, first(1, 2, 4, 4, 5));
    assert_int_not_equal(base, first(1, 2, 3, 5, 5));
    assert_int_not_equal(base, first(1, 2, 3, 4, 6));
}

/* 65,536 draws in, the count of draws wraps and leaves output and op alone. */
static void draws_wrap_inside_their_field(void **state)
{
    stk_rng r;
    uint32_t begin[4], again[4];

    (void)state;
    stk_rng_init(&r, 9, 8, 7, 255, 255);
    for (int i = 0; i < 4; i++)
        begin[i] = stk_rng_u32(&r);
    for (uint32_t i = 4; i < 4u * 65536; i++)
        stk_rng_u32(&r);
    for (int i = 0; i < 4; i++)
        again[i] = stk_rng_u32(&r);
    assert_memory_equal(begin, again, sizeof begin);
    assert_int_equal(r.ctr[3] >> 16, 0xffff);
}

static void ranges(void **state)
{
    uint32_t seen[7] = { 0 };
    double sum = 0;
    stk_rng r;

    (void)state;
    stk_rng_init(&r, 42, 0, 0, 0, 0);
    for (int i = 0; i < 70000; i++) {
        double u = stk_rng_unit(&r);
        uint32_t k = stk_rng_below(&r, 7);

        assert_true(u >= 0 && u < 1);
        assert_true(k < 7);
        sum += u;
        seen[k]++;
    }
    assert_true(fabs(sum / 70000 - 0.5) < 0.005);
    for (int k = 0; k < 7; k++)
        assert_in_range(seen[k], 9500, 10500);
    assert_int_equal(stk_rng_below(&r, 1), 0);
}

static void exp_is_exp(void **state)
{
    double worst = 0;

    (void)state;
    assert_true(stk_exp(0) == 1);
    for (int i = -200000; i <= 200000; i++) {
        double x = i * 1e-4, got = stk_exp(x);
        long double want = expl((long double)x);
        double e = (double)fabsl((got - want) / want);

        worst = e > worst ? e : worst;
    }
    print_message("stk_exp: largest relative error %.3g\n", worst);
    assert_true(worst < 1e-13);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(addressed),
        cmocka_unit_test(every_part_of_the_address_counts),
        cmocka_unit_test(draws_wrap_inside_their_field),
        cmocka_unit_test(ranges),
        cmocka_unit_test(exp_is_exp),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

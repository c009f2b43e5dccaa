/* SPDX-License-Identifier: Apache-2.0 */
/* rng_test.c - Philox against the known answers of its authors, the addressing, and exp()
 * without libm. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
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

/* 65,536 blocks in, numbers go on by the wide rule, at that number; none comes again. */
static void draws_go_on_wide(void **state)
{
    const stk_address at = {
        .seed = 9, .position = 8, .path = stk_path(254), .epoch = 7, .output = 255
    };
    uint32_t begin[4], at_end[4], want[4];
    stk_rng r, wide;
    stk_rng_stream s;

    (void)state;
    stk_rng_at(&r, &at);
    for (int i = 0; i < 4; i++)
        begin[i] = stk_rng_u32(&r);
    for (uint32_t i = 4; i < 4u * 65536; i++)
        stk_rng_u32(&r);
    assert_true(r.narrow && r.ctr[3] == 0xfffeffff);
    for (int i = 0; i < 4; i++)
        at_end[i] = stk_rng_u32(&r);
    assert_memory_not_equal(begin, at_end, sizeof begin);
    stk_rng_at(&wide, &at);
    stk_rng_widen(&wide);
    s = stk_rng_stream_of(&wide);
    stk_rng_stream_block(&s, 65536, want);
    assert_memory_equal(at_end, want, sizeof want);
    for (uint32_t block = 65537; block < 65560; block++) {
        stk_rng_stream_block(&s, block, want);
        for (int i = 0; i < 4; i++)
            assert_int_equal(stk_rng_u32(&r), want[i]);
    }
}

/* The wide rule in its own words. */
static void wide_rule(void **state)
{
    const stk_address wide[] = {
        { .seed = 3, .position = 1ull << 40, .path = stk_path(1), .epoch = 2, .view = 1 },
        { .seed = 3, .position = 5, .path = stk_path(1), .epoch = 2, .output = 256 },
        { .seed = 3, .position = 5, .path = stk_path(255), .epoch = 2 },
        { .seed = ~0ull, .path = stk_path_child(stk_path(0), 0), .epoch = UINT32_MAX, .output = 1 },
        { .seed = 1,
          .path = stk_path_child(stk_path_child(7, 200), 254),
          .view = 65535,
          .output = UINT32_MAX },
    };

    (void)state;
    for (size_t k = 0; k < sizeof wide / sizeof *wide; k++) {
        const stk_address *a = &wide[k];
        const uint32_t seed[2] = { (uint32_t)a->seed, (uint32_t)(a->seed >> 32) },
                       where[4] = { (uint32_t)a->path, (uint32_t)(a->path >> 32), a->output,
                                    0xffff0000u | a->view };
        uint32_t key[4], want[4];
        stk_rng r;

        stk_philox(where, seed, key);
        stk_rng_at(&r, a);
        assert_false(r.narrow);
        for (uint32_t block = 0; block < 3; block++) {
            const uint32_t ctr[4] = { (uint32_t)a->position, (uint32_t)(a->position >> 32),
                                      a->epoch, block };

            stk_philox(ctr, key, want);
            for (int i = 0; i < 4; i++)
                assert_int_equal(stk_rng_u32(&r), want[i]);
        }
        stk_rng_widen(&r); /* is wide already: nothing changes but that a block begins */
        assert_int_equal(r.block, 3);
    }
}

/* Widened in the middle: what was drawn stays drawn, and the next number begins a block. */
static void widened_later(void **state)
{
    uint32_t want[4];
    stk_rng r, plain;
    stk_rng_stream s;

    (void)state;
    stk_rng_init(&r, 1, 2, 3, 4, 5);
    stk_rng_init(&plain, 1, 2, 3, 4, 5);
    for (int i = 0; i < 6; i++)
        assert_int_equal(stk_rng_u32(&r), stk_rng_u32(&plain));
    stk_rng_widen(&r);
    s = stk_rng_stream_of(&r);
    stk_rng_stream_block(&s, r.block, want);
    assert_int_equal(r.block, 2);
    assert_int_equal(stk_rng_u32(&r), want[0]);
    assert_int_not_equal(stk_rng_u32(&plain), want[0]);
}

enum { SAMPLED = 250, BLOCKS = 1000 }; /* 10^6 numbers */

typedef struct block {
    uint32_t v[4];
} block;

static int by_value(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(block));
}

static stk_address sampled(uint32_t k)
{
    uint64_t path = stk_path(k % 5);

    for (uint32_t i = 0; i < k % 8 && k % 3; i++)
        path = stk_path_child(path, k % 7);
    return (stk_address){ .seed = k % 2,
                          .position = k / 40,
                          .path = path,
                          .epoch = k % 11 / 8,
                          .output = k % 13 < 11 ? k % 3 : 255 + k % 2,
                          .view = k % 4 / 3 * (k % 6) };
}

static int same(const stk_address *a, const stk_address *b)
{
    return a->seed == b->seed && a->position == b->position && a->path == b->path &&
           a->epoch == b->epoch && a->output == b->output && a->view == b->view;
}

/* 10^6 numbers of addresses that differ little, narrow and wide: no block comes twice but where the
 * address does, and they look like chance. */
static void no_repeats(void **state)
{
    block *all = malloc(SAMPLED * BLOCKS * sizeof *all);
    uint32_t bits[32] = { 0 }, narrow = 0;
    stk_address seen[SAMPLED];
    double sum = 0, lag = 0, last = 0.5;
    size_t n = 0, addresses = 0;
    stk_rng r;

    (void)state;
    assert_non_null(all);
    for (uint32_t k = 0; addresses < SAMPLED; k++) {
        stk_address a = sampled(k);
        size_t i = 0;

        while (i < addresses && !same(&seen[i], &a))
            i++;
        if (i < addresses)
            continue;
        seen[addresses++] = a;
        stk_rng_at(&r, &a);
        narrow += r.narrow;
        for (int b = 0; b < BLOCKS; b++, n++)
            for (int j = 0; j < 4; j++) {
                uint32_t v = all[n].v[j] = stk_rng_u32(&r);

                for (int bit = 0; bit < 32; bit++)
                    bits[bit] += v >> bit & 1;
                sum += v * 0x1p-32;
                lag += (v * 0x1p-32 - 0.5) * (last - 0.5);
                last = v * 0x1p-32;
            }
    }
    assert_in_range(narrow, SAMPLED / 5, SAMPLED * 4 / 5);
    qsort(all, n, sizeof *all, by_value);
    for (size_t i = 1; i < n; i++)
        assert_memory_not_equal(all[i - 1].v, all[i].v, sizeof(block));
    for (int bit = 0; bit < 32; bit++) /* 5 standard deviations: 2500 */
        assert_in_range(bits[bit], 497500, 502500);
    assert_true(fabs(sum / 1e6 - 0.5) < 5 * 0.2887 / 1000);
    assert_true(fabs(lag / 1e6) < 5 / 12.0 / 1000);
    free(all);
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
        cmocka_unit_test(draws_go_on_wide),
        cmocka_unit_test(wide_rule),
        cmocka_unit_test(widened_later),
        cmocka_unit_test(no_repeats),
        cmocka_unit_test(ranges),
        cmocka_unit_test(exp_is_exp),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

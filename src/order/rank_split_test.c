/* SPDX-License-Identifier: Apache-2.0 */
/* rank_split_test.c - shares of ranks: disjoint, covering, the same number of steps; and who stands
 * in for a bad sample. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "order/order.h"

/* Every position once, in order of step and rank; fillers only where a rank got nothing. */
static void check(uint64_t samples, uint32_t batch, uint32_t world, int drop_last)
{
    stk_rank_split d = { .samples = samples,
                         .global = (uint64_t)batch * world,
                         .world = world,
                         .drop_last = drop_last };
    uint64_t steps = stk_rank_split_steps(&d, 0), next = 0, global = (uint64_t)batch * world;

    assert_int_equal(steps, drop_last ? samples / global : (samples + global - 1) / global);
    for (uint64_t step = 0; step < steps; step++) {
        uint32_t least = UINT32_MAX, most = 0;

        for (d.rank = 0; d.rank < world; d.rank++) {
            stk_share s;

            stk_rank_split_step(&d, 0, step, &s);
            assert_in_range(s.rows, 1, batch);
            if (s.filler) {
                assert_int_equal(s.rows, 1);
                assert_true(s.item < samples);
                least = 0;
                continue;
            }
            assert_int_equal(s.start + s.item, next);
            next += s.rows;
            least = s.rows < least ? s.rows : least;
            most = s.rows > most ? s.rows : most;
            if (drop_last)
                assert_int_equal(s.rows, batch);
        }
        assert_true(most - least <= 1); /* dealt evenly */
    }
    assert_int_equal(next, drop_last ? steps * global : samples);
}

static void all_small_cases(void **state)
{
    (void)state;
    for (uint64_t samples = 1; samples <= 70; samples++)
        for (uint32_t batch = 1; batch <= 9; batch++)
            for (uint32_t world = 1; world <= 9; world++) {
                check(samples, batch, world, 0);
                check(samples, batch, world, 1);
            }
}

/* Ranks of a node take its rows in turn: the node's are what they were, no one has more. */
static void nodes(void **state)
{
    (void)state;
    for (uint64_t samples = 1; samples <= 50; samples++)
        for (uint32_t local = 1; local <= 4; local++)
            for (uint32_t world = local; world <= 12; world += local) {
                stk_rank_split d = {
                    .samples = samples, .global = world + 13, .world = world, .local = local
                };

                for (uint64_t step = 0; step < stk_rank_split_steps(&d, 0); step++) {
                    uint8_t seen[64] = { 0 };
                    uint64_t count = 0, rows = 0;

                    for (d.rank = 0; d.rank < world; d.rank++) {
                        stk_rank_split alone = d;
                        stk_share s, first;

                        alone.local = 0;
                        alone.rank -= d.rank % local;
                        stk_rank_split_step(&d, 0, step, &s);
                        stk_rank_split_step(&alone, 0, step, &first);
                        assert_in_range(s.rows, 1, stk_rank_split_rows(&d));
                        count = s.count;
                        for (uint32_t i = 0; i < s.rows && !s.filler; i++, rows++)
                            assert_int_equal(seen[s.item + i * s.stride]++, 0);
                        if (!s.filler && !first.filler)
                            assert_int_equal(s.item - d.rank % local, first.item);
                    }
                    assert_int_equal(rows, count);
                }
            }
}

static void large_cases(void **state)
{
    stk_rank_split d = {
        .samples = (1ull << 48) - 1, .global = 4000ull << 20, .world = 4000, .rank = 3999
    };
    stk_share s;

    (void)state;
    check(100003, 256, 7, 0);
    check(100003, 256, 7, 1);
    stk_rank_split_step(&d, 0, stk_rank_split_steps(&d, 0) - 1, &s);
    assert_int_equal(s.start + s.item + s.rows, d.samples);
}

/* Rows of a rank are counted in 64 bits: loaders refuse what is too much by this number. */
static void rows_of_any_global_batch(void **state)
{
    static const uint64_t global[] = { 1, 1ull << 31, 1ull << 32, (1ull << 32) + 1, UINT64_MAX };

    (void)state;
    for (size_t i = 0; i < sizeof global / sizeof *global; i++)
        for (uint32_t world = 1; world <= 4; world++) {
            stk_rank_split d = { .samples = 10, .global = global[i], .world = world };

            assert_int_equal(stk_rank_split_rows(&d), (global[i] - 1) / world + 1);
        }
}

static void one_rank_has_a_short_last_batch(void **state)
{
    stk_rank_split d = { .samples = 10, .global = 4, .world = 1 };
    stk_share s;

    (void)state;
    stk_rank_split_step(&d, 0, 2, &s);
    assert_int_equal(s.start + s.item, 8);
    assert_int_equal(s.rows, 2);
    assert_int_equal(s.filler, 0);
}

static void fillers_wrap(void **state)
{
    stk_rank_split d = { .samples = 2, .global = 20, .world = 5 };
    stk_share s;

    (void)state;
    for (d.rank = 0; d.rank < 5; d.rank++) {
        stk_rank_split_step(&d, 0, 0, &s);
        assert_int_equal(s.filler, d.rank != 0 && d.rank != 2); /* 0, 2 / 5, 4 / 5, ... */
        assert_int_equal(s.rows, 1);
        assert_int_equal(s.item, s.filler ? d.rank % 2 : d.rank / 2);
    }
}

/* A pure function, in range, that spreads over the epoch and differs with every argument. */
static void substitutes(void **state)
{
    uint32_t cell[10] = { 0 };
    uint64_t alike = 0;

    (void)state;
    for (uint64_t p = 0; p < 10000; p++) {
        uint64_t k = stk_substitute(5, 2, p, 1, 1000);

        assert_true(k < 1000);
        assert_int_equal(k, stk_substitute(5, 2, p, 1, 1000));
        cell[k / 100]++;
        alike += k == stk_substitute(5, 2, p, 2, 1000);
        alike += k == stk_substitute(5, 3, p, 1, 1000);
        alike += k == stk_substitute(6, 2, p, 1, 1000);
        alike += k == stk_substitute(5, 2, p + 1, 1, 1000);
    }
    for (int i = 0; i < 10; i++)
        assert_in_range(cell[i], 850, 1150);
    assert_in_range(alike, 5, 100); /* 40 by chance */
    assert_int_equal(stk_substitute(5, 2, 0, 1, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_small_cases),
        cmocka_unit_test(nodes),
        cmocka_unit_test(large_cases),
        cmocka_unit_test(rows_of_any_global_batch),
        cmocka_unit_test(one_rank_has_a_short_last_batch),
        cmocka_unit_test(fillers_wrap),
        cmocka_unit_test(substitutes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

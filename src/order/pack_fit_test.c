/* SPDX-License-Identifier: Apache-2.0 */
/* pack_fit_test - rows against a packer that looks at every row for every length; nothing is lost,
 * nothing overflows; blocks around the words of the bit sets; memory that fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "order/pack_fit.h"

#define MOST 700
#define SEED 20250301u

static uint64_t random_of(uint64_t i, uint64_t k)
{
    uint64_t at[2] = { i, k };

    return stk_hash64(SEED, at, sizeof at);
}

/* Which of them is placed next: the longest that is left, or simply the next. */
static uint32_t choose(stk_fit fit, const uint32_t *length, const uint8_t *done, uint32_t n)
{
    uint32_t found = UINT32_MAX;

    for (uint32_t i = 0; i < n; i++)
        if (!done[i] && (found == UINT32_MAX || (fit == STK_FIT_BEST && length[i] > length[found])))
            found = i;
    return found;
}

static uint32_t slow(stk_fit fit, uint32_t block, const uint32_t *length, uint32_t n)
{
    uint32_t room[MOST], rows = 0;
    uint8_t done[MOST] = { 0 };

    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = choose(fit, length, done, n), in = UINT32_MAX;

        done[i] = 1;
        for (uint32_t r = 0; r < rows; r++)
            if (room[r] >= length[i] &&
                (in == UINT32_MAX || (fit == STK_FIT_BEST && room[r] < room[in])))
                in = r;
        if (in == UINT32_MAX) {
            in = rows++;
            room[in] = block;
        }
        room[in] -= length[i];
    }
    return rows;
}

/* Whether the longest first, each into the emptiest row, works out. */
static int slow_even(uint32_t block, const uint32_t *length, uint32_t n, uint32_t rows)
{
    uint32_t room[MOST];
    uint8_t done[MOST] = { 0 };

    for (uint32_t r = 0; r < rows; r++)
        room[r] = block;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = choose(STK_FIT_BEST, length, done, n), in = 0;

        done[i] = 1;
        for (uint32_t r = 1; r < rows; r++)
            in = room[r] > room[in] ? r : in;
        if (room[in] < length[i])
            return 0;
        room[in] -= length[i];
    }
    return 1;
}

static uint32_t slow_fewest(uint32_t block, const uint32_t *length, uint32_t n)
{
    uint32_t rows = slow(STK_FIT_BEST, block, length, n), least;
    uint64_t sum = 0;

    for (uint32_t i = 0; i < n; i++)
        sum += length[i];
    least = (uint32_t)((sum + block - 1) / block);
    for (uint32_t few = least; few < rows && few < least + 4; few++)
        if (slow_even(block, length, n, few))
            return few;
    return rows;
}

static void check(const uint32_t *length, uint32_t n, uint32_t block, const uint32_t *row,
                  uint32_t rows)
{
    uint64_t used[MOST] = { 0 };
    uint32_t seen = 0;

    for (uint32_t i = 0; i < n; i++) {
        assert_true(row[i] < rows);
        assert_true(row[i] <= seen);
        seen += row[i] == seen;
        used[row[i]] += length[i];
    }
    assert_int_equal(seen, rows);
    for (uint32_t r = 0; r < rows; r++)
        assert_in_range(used[r], 1, block);
}

static void against_the_slow_one(void **state)
{
    static const uint32_t blocks[] = {
        1, 2, 7, 63, 64, 65, 127, 128, 1000, 4095, 4096, 4097, 70000
    };
    static const uint32_t counts[] = { 0, 1, 2, 3, 64, 200, MOST };
    uint32_t length[MOST], row[MOST];
    stk_error err;

    (void)state;
    for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++)
        for (int fit = STK_FIT_FIRST; fit <= STK_FIT_EVEN; fit++) {
            stk_packer *p = NULL;

            assert_int_equal(stk_packer_open(&p, (stk_fit)fit, blocks[b], MOST, &err), 0);
            for (uint32_t round = 0; round < 14; round++) {
                uint32_t n = counts[round % 7], rows;
                uint32_t top = round < 7 ? blocks[b] : blocks[b] / 3 + 1;

                for (uint32_t i = 0; i < n; i++)
                    length[i] = 1 + (uint32_t)(random_of(i, b * 100 + round) % top);
                for (uint32_t i = 0; i < n; i++)
                    length[i] = length[i] > blocks[b] ? blocks[b] : length[i];
                rows = stk_packer_run(p, length, n, row);
                if (fit == STK_FIT_EVEN) /* where numbers of lengths count, fewer are found */
                    assert_true(rows <= slow_fewest(blocks[b], length, n));
                else
                    assert_int_equal(rows, slow((stk_fit)fit, blocks[b], length, n));
                check(length, n, blocks[b], row, rows);
            }
            stk_packer_close(&p);
        }
}

static void by_hand(void **state)
{
    static const uint32_t length[] = { 5, 7, 5, 2, 4, 2, 5, 1, 6 };
    static const uint32_t as_first[] = { 0, 1, 0, 1, 2, 2, 3, 1, 4 };
    static const uint32_t as_best[] = { 0, 1, 0, 1, 2, 3, 3, 1, 2 };
    uint32_t row[9];
    stk_packer *p = NULL;
    stk_error err;

    (void)state;
    assert_int_equal(stk_packer_open(&p, STK_FIT_FIRST, 10, 9, &err), 0);
    assert_int_equal(stk_packer_run(p, length, 9, row), 5);
    assert_memory_equal(row, as_first, sizeof row);
    stk_packer_close(&p);
    assert_int_equal(stk_packer_open(&p, STK_FIT_BEST, 10, 9, &err), 0);
    assert_int_equal(stk_packer_run(p, length, 9, row), 4);
    assert_memory_equal(row, as_best, sizeof row);
    stk_packer_close(&p);
}

#define ALIKE (23 * 29)

/* 29 pictures of 560 patches fit into 16,384: best-fit puts the longest together, and fewer do. */
static void lengths_that_are_alike(void **state)
{
    uint32_t length[MOST], row[MOST], rows[2];
    uint64_t sum = 0;

    (void)state;
    for (uint32_t i = 0; i < ALIKE; i++)
        sum += length[i] = 532 + (uint32_t)(random_of(i, 7) % 57);
    for (int fit = STK_FIT_BEST; fit <= STK_FIT_EVEN; fit++) {
        stk_packer *p = NULL;
        stk_error err;

        assert_int_equal(stk_packer_open(&p, (stk_fit)fit, 16384, ALIKE, &err), 0);
        rows[fit - STK_FIT_BEST] = stk_packer_run(p, length, ALIKE, row);
        check(length, ALIKE, 16384, row, rows[fit - STK_FIT_BEST]);
        stk_packer_close(&p);
    }
    assert_int_equal(rows[1], (sum + 16383) / 16384);
    assert_true(rows[1] < rows[0]);
}

/* Random crops: 29 of the shorter ones fit, 28 of the longer ones, and 28.6 is the most on
 * average. */
static void as_many_as_fit(void **state)
{
    uint32_t length[MOST], row[MOST], n = 14 * 29 + 10 * 28, rows;
    stk_packer *p = NULL;
    stk_error err;

    (void)state;
    for (uint32_t i = 0; i < n; i++)
        length[i] = i * 7 % n < 14 * 29 ? 552 + (uint32_t)(random_of(i, 9) % 25) : 575;
    assert_true(slow_fewest(16384, length, n) > 24);
    assert_int_equal(stk_packer_open(&p, STK_FIT_EVEN, 16384, MOST, &err), 0);
    rows = stk_packer_run(p, length, n, row);
    check(length, n, 16384, row, rows);
    assert_int_equal(rows, 24);
    stk_packer_close(&p);
}

static void memory_that_fails(void **state)
{
    stk_error err;

    (void)state;
    for (uint64_t at = 1; at < 10; at++) {
        stk_packer *p = NULL;
        int rc;

        stk_mem_fail_at(at);
        rc = stk_packer_open(&p, STK_FIT_BEST, 100, 100, &err);
        stk_mem_fail_at(0);
        assert_true(rc == 0 || (rc == STK_ENOMEM && !p));
        stk_packer_close(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_the_slow_one),   cmocka_unit_test(by_hand),
        cmocka_unit_test(lengths_that_are_alike), cmocka_unit_test(as_many_as_fit),
        cmocka_unit_test(memory_that_fails),
    };

    print_message("seed %u\n", SEED);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

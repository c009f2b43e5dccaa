/* SPDX-License-Identifier: Apache-2.0 */
/* bins_test - every position of an epoch stands in one bin, within its window; rows and batches
 * hold what they may; groups are full; another reader finds the same; memory that fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "order/bins.h"

#define MOST 3000
#define SEED 20261115u

static uint32_t length[MOST];
static stk_sample_set set;

static uint64_t random_of(uint64_t i, uint64_t k)
{
    uint64_t at[2] = { i, k };

    return stk_hash64(SEED, at, sizeof at);
}

static uint32_t fill_lengths(uint64_t round, uint32_t most)
{
    uint32_t n = 1 + (uint32_t)(random_of(round, 0) % (MOST - 1));

    for (uint32_t i = 0; i < n; i++)
        length[i] = (uint32_t)(random_of(round, i + 1) % most);
    return n;
}

static stk_order order_of(uint64_t n, int shuffle)
{
    stk_order o = { 0 };
    stk_error err;

    assert_int_equal(stk_sample_set_init(&set, &n, 1, &err), 0);
    assert_int_equal(stk_order_exact(&o, &set, SEED, shuffle, &err), 0);
    return o;
}

static uint32_t at_position(const stk_order *o, uint64_t epoch, uint64_t position,
                            const uint32_t *of)
{
    stk_where w;

    o->at(o->state, epoch, &position, 1, &w);
    return of[w.sample];
}

static uint64_t up(uint64_t n, uint64_t m)
{
    return m > 1 ? (n + m - 1) / m * m : n;
}

/* What a bin may hold. */
static void check_bin(const stk_binning *h, uint64_t epoch, const uint64_t *position, uint32_t n)
{
    uint64_t longest = 0, also = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint64_t len = at_position(h->order, epoch, position[i], length);

        len = len ? len : 1;
        longest = len > longest ? len : longest;
        len = h->also.length ? at_position(h->order, epoch, position[i], h->also.length) : 0;
        len = len ? len : 1;
        also = len > also ? len : also;
    }
    longest = up(longest, h->multiple);
    if (h->kind == STK_BIN_BUDGET)
        assert_true(n * longest <= h->budget && n <= h->rows &&
                    (!h->also.length || n * up(also, h->also.multiple) <= h->also.budget));
    else
        assert_int_equal(n, 1);
}

static void check_epoch(const stk_binning *h, stk_bins *b, uint64_t epoch, uint64_t n)
{
    uint8_t seen[MOST] = { 0 };
    uint64_t position[MOST], count = stk_bins_count(b, epoch), all = 0, window = 0;

    for (uint64_t bin = 0; bin < count; bin++) {
        uint32_t size = stk_bins_size(b, epoch, bin);

        assert_in_range(size, 1, n);
        stk_bins_at(b, epoch, bin, 0, size, position);
        check_bin(h, epoch, position, size);
        assert_true(position[0] / h->window >= window); /* windows follow each other */
        window = position[0] / h->window;
        for (uint32_t i = 0; i < size; i++) {
            assert_true(position[i] < n && !seen[position[i]]);
            assert_true(position[i] / h->window == window);
            seen[position[i]] = 1;
        }
        all += size;
    }
    assert_int_equal(all, n);
}

/* Of packed rows: every token of every position once, and no row too full. */
static void check_packed(const stk_binning *h, stk_bins *b, uint64_t epoch, uint64_t n)
{
    uint64_t position[MOST], count = stk_bins_count(b, epoch), used, room, sum = 0;
    uint32_t part[MOST], blocks[MOST] = { 0 }, rests[MOST] = { 0 };

    for (uint64_t bin = 0; bin < count; bin++) {
        uint32_t size = stk_bins_size(b, epoch, bin), full = 0;

        stk_bins_pieces(b, epoch, bin, position, part);
        for (uint32_t i = 0; i < size; i++) {
            uint32_t len = at_position(h->order, epoch, position[i], length);

            if (part[i] == STK_BIN_REST) {
                rests[position[i]]++;
                full += len % h->block;
            } else {
                assert_true(part[i] < len / h->block);
                blocks[position[i]]++;
                full += h->block;
            }
        }
        assert_in_range(full, 1, h->block);
        sum += full;
    }
    for (uint64_t p = 0; p < n; p++) {
        uint32_t len = at_position(h->order, epoch, p, length);

        assert_int_equal(blocks[p], len / h->block);
        assert_int_equal(rests[p], len % h->block != 0);
    }
    stk_bins_fill(b, epoch, &used, &room);
    assert_true(used == sum && room == count * h->block);
}

static void compare(stk_bin_kind kind, stk_bins *a, stk_bins *b, uint64_t epoch)
{
    uint64_t n = stk_bins_count(a, epoch), x[MOST], y[MOST];

    assert_int_equal(n, stk_bins_count(b, epoch));
    for (uint64_t bin = n; bin-- > 0;) { /* from the end: tables are made in another order */
        uint32_t size = stk_bins_size(a, epoch, bin);

        assert_int_equal(size, stk_bins_size(b, epoch, bin));
        if (kind == STK_BIN_PACK) {
            uint32_t part[2][MOST];

            stk_bins_pieces(a, epoch, bin, x, part[0]);
            stk_bins_pieces(b, epoch, bin, y, part[1]);
            assert_memory_equal(part[0], part[1], size * sizeof *part[0]);
        } else {
            stk_bins_at(a, epoch, bin, 0, size, x);
            stk_bins_at(b, epoch, bin, 0, size, y);
        }
        assert_memory_equal(x, y, size * sizeof *x);
    }
}

static void run(const stk_binning *h, uint64_t n)
{
    stk_bins *a = NULL, *b = NULL;
    stk_error err;

    assert_int_equal(stk_bins_open(&a, h, &err), 0);
    assert_int_equal(stk_bins_open(&b, h, &err), 0);
    for (uint64_t epoch = 0; epoch < 3; epoch++)
        (h->kind == STK_BIN_PACK ? check_packed : check_epoch)(h, a, epoch, n);
    for (uint64_t epoch = 3; epoch-- > 0;)
        compare(h->kind, b, a, epoch);
    stk_bins_close(&a);
    stk_bins_close(&b);
}

static stk_binning plan(stk_bin_kind kind, const stk_order *o, uint64_t round)
{
    static const uint64_t start[2] = { 0, MOST };

    return (stk_binning){ .kind = kind,
                          .order = o,
                          .length = length,
                          .start = start,
                          .seed = round,
                          .shuffle = (int)(round % 2),
                          .window = 1 + (uint32_t)(random_of(round, 7) % 900),
                          .block = 64,
                          .fit = round % 4 < 2 ? STK_FIT_BEST : STK_FIT_FIRST,
                          .budget = 200,
                          .multiple = (uint32_t)(round % 5),
                          .rows = 1 + (uint32_t)(round % 37),
                          .group = 1 + (uint32_t)(round % 6) };
}

static void every_position_once(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 60; round++) {
        uint64_t n = fill_lengths(round, round % 3 ? 64 : 300); /* rows of their own, too */
        stk_order o = order_of(n, (int)(round % 2));
        stk_binning h = plan((stk_bin_kind)(round % 3), &o, round / 3);

        run(&h, n);
        o.close(o.state);
    }
}

/* Batches keep within two budgets, and fill one of them. */
static void two_lengths(void **state)
{
    static uint32_t tokens[MOST];
    stk_bins *b = NULL;
    stk_error err;

    (void)state;
    for (uint64_t round = 0; round < 30; round++) {
        uint64_t n = fill_lengths(round, 64);
        stk_order o = order_of(n, 1);
        stk_binning h = plan(STK_BIN_BUDGET, &o, round);

        for (uint64_t i = 0; i < n; i++)
            tokens[i] = (uint32_t)(random_of(round + 100, i) % 50);
        h.also = (stk_bin_bound){ tokens, 100, 1 + (uint32_t)round % 3 };
        run(&h, n);
        h.window = MOST;
        h.rows = MOST;
        h.group = 1;
        h.also.multiple = 0;
        h.multiple = 0;
        assert_int_equal(stk_bins_open(&b, &h, &err), 0);
        if (n > 400)
            assert_true(stk_bins_count(b, 0) < n / 2);
        stk_bins_close(&b);
        o.close(o.state);
    }
}

/* What the tensors of a batch have: padded parts their own longest, joined ones their sum. */
static uint64_t of_parts(const stk_binning *h, const uint64_t *position, uint32_t n)
{
    uint64_t sum = 0;

    for (uint32_t k = 0; k < h->parts.n; k++) {
        uint64_t longest = 0, all = 0;

        for (uint32_t i = 0; i < n; i++) {
            uint64_t len = at_position(h->order, 0, position[i],
                                       h->parts.length + k * h->parts.stride);

            longest = len > longest ? len : longest;
            all += len;
        }
        sum += h->parts.joined >> k & 1 ? all : longest * n;
    }
    return sum;
}

/* Batches of several tensors keep within the budget of all; what is over it alone is in none. */
static void parts_of_lengths(void **state)
{
    static uint32_t part[3 * MOST];

    (void)state;
    for (uint64_t round = 0; round < 40; round++) {
        uint64_t n = fill_lengths(round, 2), position[MOST], seen = 0, most = 0;
        stk_order o = order_of(n, 1);
        stk_binning h = plan(STK_BIN_BUDGET, &o, round);
        stk_bins *b = NULL;
        stk_error err;

        h.parts = (stk_bin_parts){ 3, (uint32_t)round % 8, part, n };
        h.budget = 120;
        h.multiple = 0;
        h.rows = MOST;
        h.drops = 1;
        for (uint64_t i = 0; i < n; i++) {
            length[i] = 0;
            for (uint32_t k = 0; k < 3; k++)
                length[i] += part[k * n + i] = (uint32_t)(random_of(round + k, i) % 45);
            most += length[i] <= h.budget;
        }
        assert_int_equal(stk_bins_open(&b, &h, &err), 0);
        for (uint64_t bin = 0; bin < stk_bins_count(b, 0); bin++) {
            uint32_t size = stk_bins_size(b, 0, bin);

            stk_bins_at(b, 0, bin, 0, size, position);
            assert_in_range(of_parts(&h, position, size), 0, h.budget);
            seen += size;
        }
        assert_int_equal(seen, most); /* each once, and none that is longer */
        stk_bins_close(&b);
        o.close(o.state);
    }
}

/* A window's batches are a multiple of a group where it has enough rows, and those of a group
 * follow each other: no row of a later one is longer than all of an earlier one when nothing is
 * shuffled. */
static void groups_are_full(void **state)
{
    (void)state;
    for (uint64_t round = 1; round < 20; round++) {
        uint64_t n = fill_lengths(round, 64), used, room;
        stk_order o = order_of(n, 1);
        stk_binning h = plan(STK_BIN_BUDGET, &o, round);
        stk_bins *b = NULL;
        stk_error err;

        h.window = MOST;
        assert_int_equal(stk_bins_open(&b, &h, &err), 0);
        if (n >= h.group)
            assert_int_equal(stk_bins_count(b, 5) % h.group, 0);
        stk_bins_fill(b, 5, &used, &room);
        assert_true(used <= room);
        stk_bins_close(&b);
        o.close(o.state);
    }
}

static void runs_are_alike(void **state)
{
    uint64_t n = fill_lengths(4, 64), position, before = UINT64_MAX;
    stk_order o = order_of(n, 1);
    stk_binning h = plan(STK_BIN_LIKE, &o, 2); /* not shuffled: the longest first */
    stk_bins *b = NULL;
    stk_error err;

    (void)state;
    h.window = MOST;
    h.multiple = 0;
    assert_int_equal(stk_bins_open(&b, &h, &err), 0);
    for (uint64_t i = 0; i < n; i++) {
        uint32_t len;

        stk_bins_at(b, 1, i, 0, 1, &position);
        len = at_position(&o, 1, position, length);
        len = len ? len : 1;
        assert_true(len <= before);
        before = len;
    }
    stk_bins_close(&b);
    o.close(o.state);
}

static void memory_that_fails(void **state)
{
    uint64_t n = fill_lengths(1, 64);
    stk_order o = order_of(n, 1);
    stk_binning h = plan(STK_BIN_PACK, &o, 1);
    stk_bins *b = NULL;
    stk_error err;
    int rc = STK_ENOMEM;

    (void)state;
    for (uint64_t k = 1; rc != 0; k++) {
        stk_mem_fail_at(k);
        rc = stk_bins_open(&b, &h, &err);
        stk_mem_fail_at(0);
        assert_true(rc == 0 || (rc == STK_ENOMEM && !b));
    }
    stk_bins_close(&b);
    o.close(o.state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_position_once), cmocka_unit_test(two_lengths),
        cmocka_unit_test(parts_of_lengths),    cmocka_unit_test(groups_are_full),
        cmocka_unit_test(runs_are_alike),      cmocka_unit_test(memory_that_fails),
    };

    print_message("seed %u\n", SEED);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

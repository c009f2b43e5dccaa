/* SPDX-License-Identifier: Apache-2.0 */
/* permute_test.c - the keyed permutation: a bijection for every n, and one that looks like
 * chance. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "order/order.h"

#define SEED 20240607u

static void bijection(uint64_t n, uint64_t seed, uint64_t epoch, uint8_t *seen)
{
    stk_perm p;

    memset(seen, 0, n);
    stk_perm_init(&p, n, seed, epoch);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t k = stk_perm_at(&p, i);

        if (k >= n || seen[k]++)
            fail_msg("n %llu seed %llu epoch %llu: position %llu gives %llu", (unsigned long long)n,
                     (unsigned long long)seed, (unsigned long long)epoch, (unsigned long long)i,
                     (unsigned long long)k);
        assert_true(stk_perm_inverse(&p, k) == i);
    }
}

static void every_small_n(void **state)
{
    static uint8_t seen[2000];

    (void)state;
    for (uint64_t n = 1; n <= 2000; n++)
        for (uint64_t epoch = 0; epoch < 3; epoch++)
            bijection(n, SEED + n, epoch, seen);
}

static void large_n(void **state)
{
    static const uint64_t ns[] = { 65535, 65536, 65537, 99991, 1000000, 1048577, 1999999 };
    uint8_t *seen = malloc(2000000);

    (void)state;
    for (size_t i = 0; i < sizeof ns / sizeof *ns; i++)
        bijection(ns[i], SEED, i, seen);
    free(seen);
}

/* Too large to mark off: in range, and no two of many neighbours alike. */
static void huge_n(void **state)
{
    static const uint64_t ns[] = { 1ull << 32, (1ull << 32) + 1, (1ull << 40) - 87,
                                   (1ull << 48) - 1, 1ull << 48 };
    static uint64_t got[5000];

    (void)state;
    for (size_t k = 0; k < sizeof ns / sizeof *ns; k++) {
        stk_perm p;

        stk_perm_init(&p, ns[k], SEED, 1);
        assert_true(p.a * p.b >= p.n && p.a * p.b - p.n < p.a + p.b);
        for (uint64_t i = 0; i < 5000; i++) {
            got[i] = stk_perm_at(&p, i % 2 ? ns[k] - 1 - i : i);
            assert_true(got[i] < ns[k]);
            for (uint64_t j = i > 300 ? i - 300 : 0; j < i; j++)
                assert_true(got[j] != got[i]);
        }
    }
}

static uint64_t same(uint64_t n, uint64_t seed1, uint64_t epoch1, uint64_t seed2, uint64_t epoch2)
{
    stk_perm p, q;
    uint64_t k = 0;

    stk_perm_init(&p, n, seed1, epoch1);
    stk_perm_init(&q, n, seed2, epoch2);
    for (uint64_t i = 0; i < n; i++)
        k += stk_perm_at(&p, i) == stk_perm_at(&q, i);
    return k;
}

/* Two independent permutations agree at one place on average. */
static void keys_differ(void **state)
{
    uint64_t seeds = 0, epochs = 0, bits = 0;

    (void)state;
    for (uint64_t i = 0; i < 64; i++) {
        seeds += same(10000, i, 0, i + 1, 0);
        epochs += same(10000, SEED, i, SEED, i + 1);
        bits += same(10000, SEED, 5, SEED ^ 1ull << i, 5);
    }
    print_message("seed %u: places alike in 64 pairs: seeds %llu, epochs %llu, one bit %llu\n",
                  SEED, (unsigned long long)seeds, (unsigned long long)epochs,
                  (unsigned long long)bits);
    assert_in_range(seeds, 30, 110);
    assert_in_range(epochs, 30, 110);
    assert_in_range(bits, 30, 110);
    assert_int_equal(same(10000, SEED, 5, SEED, 5), 10000);
}

/* Fixed points: one on average; rising steps: half; where a position goes over many epochs:
 * everywhere. */
static void looks_like_chance(void **state)
{
    static uint32_t cell[50];
    uint64_t fixed = 0, rising = 0, near = 0;
    const uint64_t n = 9973, rounds = 200;
    double chi = 0;

    (void)state;
    for (uint64_t e = 0; e < rounds; e++) {
        stk_perm p;
        uint64_t before = 0;

        stk_perm_init(&p, n, SEED, e);
        for (uint64_t i = 0; i < n; i++) {
            uint64_t k = stk_perm_at(&p, i);

            fixed += k == i;
            rising += i && k > before;
            near += i && (k - before + 100 <= 200); /* neighbours that stay near: 2 % */
            before = k;
        }
        for (uint64_t i = 0; i < 40; i++)
            cell[stk_perm_at(&p, i) * 50 / n]++;
    }
    for (int i = 0; i < 50; i++)
        chi += (cell[i] - 40.0 * (double)rounds / 50) * (cell[i] - 40.0 * (double)rounds / 50) /
               (40.0 * (double)rounds / 50);
    print_message(
        "seed %u: fixed points %llu of 200 expected, rising %.4f, near %.4f, chi-square(49) %.1f\n",
        SEED, (unsigned long long)fixed, (double)rising / (double)(n * rounds),
        (double)near / (double)(n * rounds), chi);
    assert_in_range(fixed, 140, 270);
    assert_true(fabs((double)rising / (double)(n * rounds) - 0.5) < 0.003);
    assert_true(fabs((double)near / (double)(n * rounds) - 0.02) < 0.002);
    assert_true(chi < 90); /* p about 0.0003 */
}

/* All n! orders of a tiny set turn up: 24 of 4, about equally often. */
static void tiny_sets(void **state)
{
    uint32_t count[256] = { 0 }, kinds = 0;

    (void)state;
    for (uint64_t e = 0; e < 24000; e++) {
        uint32_t code = 0;
        stk_perm p;

        stk_perm_init(&p, 4, SEED, e);
        for (uint64_t i = 0; i < 4; i++)
            code = code << 2 | (uint32_t)stk_perm_at(&p, i);
        count[code]++;
    }
    for (int i = 0; i < 256; i++) {
        kinds += count[i] > 0;
        if (count[i])
            assert_in_range(count[i], 800, 1200);
    }
    assert_int_equal(kinds, 24);
}

static void set_finds_its_data_set(void **state)
{
    static const uint64_t lens[] = { 3, 0, 5, 1, 0, 7 };
    static stk_sample_set r;
    static stk_where w[16];
    uint8_t seen[16] = { 0 };
    stk_order o;
    stk_error err;
    uint64_t many[STK_MAX_DATASETS + 1] = { 0 }, at[16];

    (void)state;
    for (uint64_t i = 0; i < 16; i++)
        at[i] = i;
    assert_int_equal(stk_sample_set_init(&r, lens, 6, &err), 0);
    assert_int_equal(stk_order_exact(&o, &r, SEED, 0, &err), 0);
    assert_int_equal(o.len(o.state), 16);
    o.at(o.state, 0, at, 16, w);
    for (uint32_t i = 0, d = 0, k = 0; i < 16; i++, k++) {
        while (k == lens[d]) {
            d++;
            k = 0;
        }
        assert_int_equal(w[i].dataset, d);
        assert_int_equal(w[i].sample, k);
    }
    o.close(o.state);
    assert_int_equal(stk_order_exact(&o, &r, SEED, 1, &err), 0);
    for (uint64_t first = 0; first < 16; first += 4) { /* in pieces it is the same */
        o.at(o.state, 7, at + first, 4, w);
        for (int i = 0; i < 4; i++) {
            assert_true(w[i].sample < lens[w[i].dataset]);
            assert_int_equal(seen[r.start[w[i].dataset] + w[i].sample]++, 0);
            assert_int_equal(o.find(o.state, 7, &w[i]), first + (uint64_t)i);
        }
    }
    o.close(o.state);
    assert_int_equal(stk_sample_set_init(&r, many, STK_MAX_DATASETS + 1, &err), STK_ELIMIT);
    many[0] = 1ull << 48;
    assert_int_equal(stk_sample_set_init(&r, many, 1, &err), STK_ELIMIT);
}

/* skip, limit, repeat and select, together. */
static void sample_sets(void **state)
{
    static const uint64_t lens[] = { 10, 10 };
    static uint64_t select[] = { 19, 3, 3, 11, 0 };
    static stk_sample_set r;
    stk_where w;

    (void)state;
    assert_int_equal(stk_sample_set_init(&r, lens, 2, NULL), 0);
    r.skip = 8;
    r.limit = 4;
    r.repeat = 3;
    assert_int_equal(stk_sample_set_len(&r), 12);
    for (uint64_t i = 0; i < 12; i++) {
        stk_sample_set_at(&r, i, &w);
        assert_int_equal(w.dataset * 10 + w.sample, 8 + i % 4);
        assert_int_equal(stk_sample_set_find(&r, &w), i % 4);
    }
    assert_int_equal(stk_sample_set_find(&r, &(stk_where){ 0, 7 }), UINT64_MAX);
    assert_int_equal(stk_sample_set_find(&r, &(stk_where){ 1, 2 }), UINT64_MAX);
    assert_int_equal(stk_sample_set_find(&r, &(stk_where){ 2, 0 }), UINT64_MAX);
    assert_int_equal(stk_sample_set_find(&r, &(stk_where){ 0, 10 }), UINT64_MAX);
    r.select = select;
    r.n_select = 5;
    r.skip = 1;
    r.limit = 0;
    r.repeat = 0;
    assert_int_equal(stk_sample_set_len(&r), 4);
    for (uint64_t i = 0; i < 4; i++) {
        stk_sample_set_at(&r, i, &w);
        assert_int_equal(w.dataset * 10 + w.sample, select[i + 1]);
    }
    assert_int_equal(stk_sample_set_find(&r, &(stk_where){ 1, 1 }), 2);
    assert_int_equal(stk_sample_set_find(&r, &(stk_where){ 1, 9 }), UINT64_MAX);
    r.skip = 6;
    assert_int_equal(stk_sample_set_len(&r), 0);
}

/* Data sets of more than 2^32 samples: what stands at a position is found there again. */
static void beyond_32_bits(void **state)
{
    static const uint64_t lens[] = { ((uint64_t)1 << 33) + 7, 5, ((uint64_t)1 << 40) + 1 };
    static stk_sample_set r;
    stk_order o;
    stk_error err;

    (void)state;
    assert_int_equal(stk_sample_set_init(&r, lens, 3, &err), 0);
    for (int shuffle = 0; shuffle < 2; shuffle++) {
        assert_int_equal(stk_order_exact(&o, &r, SEED, shuffle, &err), 0);
        assert_true(o.len(o.state) == lens[0] + lens[1] + lens[2]);
        for (uint64_t i = 0; i < 4000; i++) {
            uint64_t at = i < 20 ? i : o.len(o.state) - 1 - i * i * i * 17;
            stk_where w;

            o.at(o.state, i % 3, &at, 1, &w);
            assert_true(w.dataset < 3 && w.sample < lens[w.dataset]);
            assert_true(o.find(o.state, i % 3, &w) == at);
        }
        o.close(o.state);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_small_n),
        cmocka_unit_test(large_n),
        cmocka_unit_test(huge_n),
        cmocka_unit_test(keys_differ),
        cmocka_unit_test(looks_like_chance),
        cmocka_unit_test(tiny_sets),
        cmocka_unit_test(beyond_32_bits),
        cmocka_unit_test(set_finds_its_data_set),
        cmocka_unit_test(sample_sets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

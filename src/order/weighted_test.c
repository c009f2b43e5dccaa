/* SPDX-License-Identifier: Apache-2.0 */
/* weighted_test.c - draws by weight: frequencies, purity, and nothing twice without
 * replacement. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/hash.h"
#include "base/mem.h"
#include "order/order.h"

#define SEED 29u
#define N 40u

typedef int (*open_fn)(stk_order *, const stk_sample_set *, const double *, uint64_t, uint64_t,
                       stk_error *);

static stk_sample_set set;

static void make_set(uint64_t n)
{
    uint64_t lens[2] = { n / 3, n - n / 3 };

    assert_int_equal(stk_sample_set_init(&set, lens, 2, NULL), 0);
}

static uint64_t id_at(const stk_order *o, uint64_t epoch, uint64_t position)
{
    stk_where w;

    o->at(o->state, epoch, &position, 1, &w);
    return set.start[w.dataset] + w.sample;
}

/* Chi-square of counts against weights, in standard deviations of its own. */
static double excess(const uint32_t *count, const double *weight, unsigned n, double draws)
{
    double sum = 0, chi = 0;
    int free = -1;

    for (unsigned i = 0; i < n; i++)
        sum += weight[i];
    for (unsigned i = 0; i < n; i++) {
        double expected = weight[i] / sum * draws;

        if (weight[i] > 0) {
            chi += (count[i] - expected) * (count[i] - expected) / expected;
            free++;
        } else {
            assert_int_equal(count[i], 0);
        }
    }
    return free > 0 ? (chi - free) / sqrt(2.0 * free) : 0;
}

static void some_weights(double *w, unsigned n, unsigned kind)
{
    for (unsigned i = 0; i < n; i++) {
        double u = (double)(stk_mix64(SEED + i * 7 + kind) >> 11) * 0x1p-53;

        w[i] = kind == 0   ? 1
               : kind == 1 ? (i % 3 ? u : 0)
               : kind == 2 ? exp(6 * u) * 1e300
               : kind == 3 ? (i == 7)
                           : 1e-300 * (1 + i);
    }
}

static void frequencies(void **state)
{
    static double w[N];
    stk_order o;

    (void)state;
    make_set(N);
    for (unsigned kind = 0; kind < 5; kind++) {
        uint32_t count[N] = { 0 };

        some_weights(w, N, kind);
        assert_int_equal(stk_order_weighted(&o, &set, w, SEED, 1000, NULL), 0);
        assert_int_equal(o.len(o.state), 1000);
        for (uint64_t e = 0; e < 100; e++)
            for (uint64_t p = 0; p < 1000; p++)
                count[id_at(&o, e, p)]++;
        print_message("seed %u, weights %u: chi-square %+.2f deviations\n", SEED, kind,
                      excess(count, w, N, 1e5));
        assert_true(excess(count, w, N, 1e5) < 4);
        o.close(o.state);
    }
}

/* With a table of many bins, in two halves of unequal weight, and one number of no weight that
 * rounding might let in. */
static void many_bins(void **state)
{
    const unsigned n = 100003;
    double *w = malloc(n * sizeof *w);
    uint64_t low = 0, draws = 400000;
    stk_order o;

    (void)state;
    make_set(n);
    for (unsigned i = 0; i < n; i++)
        w[i] = i < n / 2 ? 0.1 : i % 5 ? 0.3 : 0;
    assert_int_equal(stk_order_weighted(&o, &set, w, SEED, draws, NULL), 0);
    for (uint64_t p = 0; p < draws; p++) {
        uint64_t id = id_at(&o, 1, p);

        assert_true(w[id] > 0);
        low += id < n / 2;
    }
    /* 0.1 : 0.24 */
    assert_true(fabs((double)low / (double)draws - 0.1 / 0.34) < 0.003);
    o.close(o.state);
    free(w);
}

/* The same in any pieces, in another loader; other for another seed and epoch. */
static void pure(open_fn open)
{
    static double w[1000];
    uint64_t at[1000], alike = 0;
    stk_where all[1000];
    stk_order o, again, other;

    make_set(1000);
    some_weights(w, 1000, 1);
    assert_int_equal(open(&o, &set, w, SEED, 500, NULL), 0);
    assert_int_equal(open(&again, &set, w, SEED, 500, NULL), 0);
    assert_int_equal(open(&other, &set, w, SEED + 1, 500, NULL), 0);
    for (uint64_t i = 0; i < 500; i++)
        at[i] = i * 7 % 500;
    o.at(o.state, 5, at, 500, all);
    for (uint64_t i = 500; i-- > 0;) {
        uint64_t id = set.start[all[i].dataset] + all[i].sample;

        assert_int_equal(id, id_at(&again, 5, at[i]));
        alike += id == id_at(&other, 5, at[i]);
        alike += id == id_at(&again, 6, at[i]);
    }
    assert_true(alike < 20);
    o.close(o.state);
    again.close(again.state);
    other.close(other.state);
}

static void purity(void **state)
{
    (void)state;
    pure(stk_order_weighted);
    pure(stk_order_weighted_once);
}

/* All that weigh something, each once; heavy ones come first on average. */
static void nothing_twice(void **state)
{
    static double w[5000];
    stk_order o;

    (void)state;
    make_set(5000);
    for (unsigned kind = 0; kind < 5; kind++) {
        uint64_t positive = 0;

        some_weights(w, 5000, kind);
        for (int i = 0; i < 5000; i++)
            positive += w[i] > 0;
        assert_int_equal(stk_order_weighted_once(&o, &set, w, SEED, 0, NULL), 0);
        assert_int_equal(o.len(o.state), positive);
        for (uint64_t e = 0; e < 3; e++) {
            uint8_t seen[5000] = { 0 };

            for (uint64_t p = 0; p < positive; p++) {
                uint64_t id = id_at(&o, e, p);

                assert_true(w[id] > 0);
                assert_int_equal(seen[id]++, 0);
            }
        }
        o.close(o.state);
    }
}

/* Weights over 600 orders of magnitude fall into few runs, which are sorted without memory. */
static void far_apart(void **state)
{
    static double w[5000];
    uint8_t seen[5000] = { 0 };
    uint64_t light = 0;
    stk_order o;

    (void)state;
    make_set(5000);
    for (int i = 0; i < 5000; i++)
        w[i] = i == 9 ? 1e-300 : i % 2 ? 1 : 1e-3;
    assert_int_equal(stk_order_weighted_once(&o, &set, w, SEED, 0, NULL), 0);
    for (uint64_t p = 0; p < 5000; p++) {
        uint64_t id = id_at(&o, 0, p);

        assert_int_equal(seen[id]++, 0);
        light += p < 1000 && id % 2 == 0;
    }
    assert_int_equal(id_at(&o, 0, 4999), 9);
    assert_in_range(light, 0, 8); /* 1.1 expected */
    o.close(o.state);
}

/* The first of an epoch is a draw by weight, and so is the second given the first. */
static void draws_in_turn(void **state)
{
    static const double w[4] = { 4, 3, 2, 1 };
    uint32_t first[4] = { 0 }, pair[16] = { 0 };
    double want[16];
    stk_order o;

    (void)state;
    make_set(4);
    assert_int_equal(stk_order_weighted_once(&o, &set, w, SEED, 2, NULL), 0);
    for (uint64_t e = 0; e < 40000; e++) {
        uint64_t a = id_at(&o, e, 0), b = id_at(&o, e, 1);

        first[a]++;
        pair[4 * a + b]++;
    }
    for (int i = 0; i < 16; i++)
        want[i] = i / 4 == i % 4 ? 0 : w[i / 4] * w[i % 4] / (10 - w[i / 4]);
    assert_true(excess(first, w, 4, 40000) < 4);
    assert_true(excess(pair, want, 16, 40000) < 4);
    o.close(o.state);
}

static void with_a_selection(void **state)
{
    static uint64_t select[] = { 30, 2, 9 };
    static double w[N];
    stk_order o;

    (void)state;
    make_set(N);
    set.select = select;
    set.n_select = 3;
    for (unsigned i = 0; i < N; i++)
        w[i] = i == 9 ? 0 : i == 2 ? 3 : 1;
    for (int once = 0; once < 2; once++) {
        uint32_t count[N] = { 0 };

        assert_int_equal((once ? stk_order_weighted_once : stk_order_weighted)(&o, &set, w, SEED,
                                                                               once ? 1 : 0, NULL),
                         0);
        assert_int_equal(o.len(o.state), once ? 1 : 3);
        for (uint64_t e = 0; e < 4000; e++)
            count[id_at(&o, e, 0)]++;
        assert_int_equal(count[2] + count[30], 4000);
        assert_in_range(count[2], 2850, 3150);
        o.close(o.state);
    }
}

static void refusals(void **state)
{
    static double w[N] = { 1, 2 };
    stk_order o = { 0 };
    stk_error err;

    (void)state;
    make_set(N);
    assert_int_equal(stk_order_weighted_once(&o, &set, w, SEED, 3, &err), STK_EINVAL);
    assert_non_null(strstr(err.message, "more than the 2 samples"));
    set.repeat = 200000000;
    assert_int_equal(stk_order_weighted(&o, &set, w, SEED, 0, &err), STK_ELIMIT);
    assert_int_equal(stk_order_weighted_once(&o, &set, w, SEED, 0, &err), STK_ELIMIT);
    set.repeat = 0;
    for (uint64_t n = 1; n <= 4; n++) {
        stk_mem_fail_at(n);
        assert_int_equal(stk_order_weighted(&o, &set, w, SEED, 0, &err), STK_ENOMEM);
    }
    for (uint64_t n = 1; n <= 7; n++) {
        stk_mem_fail_at(n);
        assert_int_equal(stk_order_weighted_once(&o, &set, w, SEED, 0, &err), STK_ENOMEM);
    }
    stk_mem_fail_at(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frequencies),      cmocka_unit_test(many_bins),
        cmocka_unit_test(purity),           cmocka_unit_test(nothing_twice),
        cmocka_unit_test(far_apart),        cmocka_unit_test(draws_in_turn),
        cmocka_unit_test(with_a_selection), cmocka_unit_test(refusals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

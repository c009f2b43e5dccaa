/* SPDX-License-Identifier: Apache-2.0 */
/* order_quality_test.c - is the permutation as good as chance?  Pearson's chi-square over 10,000
 * seeds and over 10,000 epochs, for every n up to 64 and for 10^4 and 10^6.
 *
 * Positions: how often sample k stands at position i, all n * n cells.  Rows and columns both add
 * up, so (n - 1) / n times the statistic has (n - 1)^2 degrees of freedom.  Adjacent pairs: which
 * two samples stand side by side, one pair a seed at places that go round, so that all counts are
 * independent; n (n - 1) cells.  The large n take one position out of each hundredth and count
 * values in bins.
 *
 * Some 260 tests are made.  All together must pass at 0.001: Bonferroni's correction, each at
 * 0.001 / tests, on both sides, since counts that are too even are not chance either.  And no more
 * than 3 may lie below 0.001 by themselves, where a quarter is expected. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "order/order.h"

#define ROUNDS 10000
#define SMALL 64
#define BINS 25    /* divides 10^4 and 10^6 */
#define PLACES 100 /* positions looked at a seed, for large n */
#define TESTS (2 * (2 * (SMALL - 1) + 2 * 3))

static unsigned tests, low;
static double worst = 1;

/* P(chi-square with df >= x): exact for 1, else Wilson and Hilferty's cube root. */
static double tail(double x, double df)
{
    double z;

    if (df <= 1)
        return erfc(sqrt(x / 2));
    z = (cbrt(x / df) - (1 - 2 / (9 * df))) / sqrt(2 / (9 * df));
    return 0.5 * erfc(z / sqrt(2));
}

static void judge(const char *what, uint64_t n, int epochs, double x, double df)
{
    double p = tail(x, df), q = p < 1 - p ? p : 1 - p;

    tests++;
    low += p < 0.001;
    worst = q < worst ? q : worst;
    if (df > 1 ? q < 0.001 / TESTS : p < 0.001 / TESTS)
        fail_msg("%s of %llu over 10,000 %s: chi-square %.1f with %.0f degrees, p = %g", what,
                 (unsigned long long)n, epochs ? "epochs" : "seeds", x, df, p);
}

static void perm_of(stk_perm *p, uint64_t n, uint64_t round, int epochs)
{
    stk_perm_init(p, n, epochs ? 77 : round, epochs ? round : 0);
}

static double uniform_chi(const uint32_t *count, size_t cells, double expected)
{
    double x = 0;

    for (size_t i = 0; i < cells; i++)
        x += (count[i] - expected) * (count[i] - expected) / expected;
    return x;
}

static void small_n(uint64_t n, int epochs)
{
    static uint32_t at[SMALL * SMALL], pair[SMALL * SMALL];
    double x = 0, cells = (double)n * (double)(n - 1);

    memset(at, 0, sizeof at);
    memset(pair, 0, sizeof pair);
    for (uint64_t r = 0; r < ROUNDS; r++) {
        uint64_t k[SMALL], place = r % (n - 1);
        stk_perm p;

        perm_of(&p, n, r, epochs);
        for (uint64_t i = 0; i < n; i++) {
            k[i] = stk_perm_at(&p, i);
            at[i * n + k[i]]++;
        }
        pair[k[place] * n + k[place + 1]]++;
    }
    judge("positions", n, epochs,
          uniform_chi(at, n * n, ROUNDS / (double)n) * (double)(n - 1) / (double)n,
          (double)(n - 1) * (double)(n - 1));
    for (uint64_t i = 0; i < n; i++) {
        double e = ROUNDS / cells;

        assert_int_equal(pair[i * n + i], 0);
        for (uint64_t j = 0; j < n; j++)
            x += i == j ? 0 : (pair[i * n + j] - e) * (pair[i * n + j] - e) / e;
    }
    judge("adjacent pairs", n, epochs, x, cells - 1);
}

/* Pairs: the two bins; steps: how far apart they stand, round the circle. */
static void large_n(uint64_t n, int epochs)
{
    static uint32_t at[PLACES * BINS], pair[BINS * BINS], step[PLACES];
    const double obs = (double)ROUNDS * PLACES, in_bin = (double)n / BINS;
    double x = 0;

    memset(at, 0, sizeof at);
    memset(pair, 0, sizeof pair);
    memset(step, 0, sizeof step);
    for (uint64_t r = 0; r < ROUNDS; r++) {
        stk_perm p;

        perm_of(&p, n, r, epochs);
        for (uint64_t b = 0; b < PLACES; b++) {
            uint64_t i = (b * n + stk_mix64(r * PLACES + b) % (n - PLACES)) / PLACES;
            uint64_t k = stk_perm_at(&p, i), next = stk_perm_at(&p, i + 1);

            at[b * BINS + k * BINS / n]++;
            pair[k * BINS / n * BINS + next * BINS / n]++;
            step[((next + n - k) % n - 1) * PLACES / (n - 1)]++;
        }
    }
    judge("positions", n, epochs, uniform_chi(at, PLACES * BINS, ROUNDS / (double)BINS),
          PLACES * (BINS - 1.0));
    for (int i = 0; i < BINS * BINS; i++) {
        double e = obs / BINS * (in_bin - (i / BINS == i % BINS)) / ((double)n - 1);

        x += (pair[i] - e) * (pair[i] - e) / e;
    }
    judge("adjacent pairs", n, epochs, x, BINS * BINS - 1.0);
    judge("steps between neighbours", n, epochs, uniform_chi(step, PLACES, obs / PLACES),
          PLACES - 1.0);
}

static void as_good_as_chance(void **state)
{
    (void)state;
    for (int epochs = 0; epochs < 2; epochs++) {
        for (uint64_t n = 2; n <= SMALL; n++)
            small_n(n, epochs);
        large_n(10000, epochs);
        large_n(1000000, epochs);
    }
    print_message("%u tests, %u below 0.001, the most extreme %.3g\n", tests, low, worst);
    assert_int_equal(tests, TESTS);
    assert_in_range(low, 0, 3);
}

/* Against tables. */
static void the_tail_is_right(void **state)
{
    (void)state;
    assert_true(fabs(tail(10.828, 1) - 0.001) < 1e-5);
    assert_true(fabs(tail(29.588, 10) - 0.001) < 1e-4);
    assert_true(fabs(tail(149.449, 100) - 0.001) < 2e-5);
    assert_true(fabs(tail(3940.0, 3940) - 0.497) < 0.003);
}

int main(void)
{
    const struct CMUnitTest tests_[] = {
        cmocka_unit_test(the_tail_is_right),
        cmocka_unit_test(as_good_as_chance),
    };

    return cmocka_run_group_tests(tests_, NULL, NULL);
}

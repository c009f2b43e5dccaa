/* SPDX-License-Identifier: Apache-2.0 */
/* mix_test.c - counts exact in every block, passes whole, weights changed in the middle. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/mem.h"
#include "order/order.h"

#define SEED 5u
#define SETS 3
#define M STK_MIX_PARTS

static const uint64_t lens[SETS] = { 7, 50, 23 };
static stk_sample_set set;

static int make_roster(void **state)
{
    (void)state;
    return stk_sample_set_init(&set, lens, SETS, NULL);
}

static void make(stk_order *o, const double *weights, uint64_t epoch_size, int shuffle)
{
    stk_mixing how = { weights, SEED, epoch_size, shuffle };

    assert_int_equal(stk_order_mix(o, &set, &how, NULL), 0);
    assert_true(stk_order_is_mix(o));
}

static stk_where at(const stk_order *o, uint64_t epoch, uint64_t position)
{
    stk_where w;

    o->at(o->state, epoch, &position, 1, &w);
    assert_true(w.dataset < SETS && w.sample < lens[w.dataset]);
    return w;
}

/* What the next of each data set may be: a pass gives every sample once. */
typedef struct passes {
    uint8_t seen[SETS][50];
    uint64_t n[SETS];
} passes;

static void pass_check(passes *p, stk_where w, int shuffle)
{
    uint64_t *n = &p->n[w.dataset];

    if (*n % lens[w.dataset] == 0)
        memset(p->seen[w.dataset], 0, sizeof p->seen[w.dataset]);
    assert_int_equal(p->seen[w.dataset][w.sample]++, 0);
    if (!shuffle)
        assert_int_equal(w.sample, *n % lens[w.dataset]);
    ++*n;
}

static void exact_in_blocks(void **state)
{
    static const double weights[SETS] = { 1, 2.5, 0.1 };
    stk_mix_change_info c;
    stk_order o;

    (void)state;
    for (int shuffle = 0; shuffle < 2; shuffle++) {
        passes p = { 0 };

        make(&o, weights, M, shuffle);
        assert_int_equal(stk_mix_get(&o, 0, &c), 0);
        assert_int_equal(stk_mix_get(&o, 1, &c), STK_END);
        assert_int_equal(c.parts[0] + c.parts[1] + c.parts[2], M);
        for (int d = 0; d < SETS; d++)
            assert_true(fabs(c.parts[d] - weights[d] / 3.6 * M) < 1);
        for (uint64_t e = 0; e < 2; e++)
            for (uint64_t i = 0; i < M; i++) {
                stk_where w = at(&o, e, i);

                pass_check(&p, w, shuffle);
                for (int d = 0; d < SETS; d++) /* a batch of any size has its share */
                    assert_true(fabs((double)p.n[d] -
                                     (double)c.parts[d] / M * (double)(e * M + i + 1)) < 1.001);
            }
        for (int d = 0; d < SETS; d++)
            assert_int_equal(p.n[d], 2 * c.parts[d]);
        o.close(o.state);
    }
}

static void epochs_go_on(void **state)
{
    static const double weights[SETS] = { 1, 1, 1 };
    stk_order a, b;

    (void)state;
    make(&a, weights, 0, 1);
    make(&b, weights, 13, 1);
    assert_int_equal(a.len(a.state), 80);
    for (uint64_t g = 0; g < 1000; g++) {
        stk_where x = at(&a, g / 80, g % 80), y = at(&b, g / 13, g % 13);

        assert_int_equal(x.dataset, y.dataset);
        assert_int_equal(x.sample, y.sample);
    }
    a.close(a.state);
    b.close(b.state);
}

/* Small weights get a part all the same; all parts together stay M. */
static void rounding(void **state)
{
    static const double weights[][SETS] = { { 1e-9, 1, 1e-9 },
                                            { 1e300, 1e300, 1e300 },
                                            { 0, 1, 0 },
                                            { 1e-200, 1e-200, 0 },
                                            { 1, 1e6, 3e5 + .5 } };
    stk_mix_change_info c;
    stk_order o;

    (void)state;
    for (int k = 0; k < 5; k++) {
        make(&o, weights[k], 10, 1);
        assert_int_equal(stk_mix_get(&o, 0, &c), 0);
        assert_int_equal(c.parts[0] + c.parts[1] + c.parts[2], M);
        for (int d = 0; d < SETS; d++)
            assert_int_equal(c.parts[d] > 0, weights[k][d] > 0);
        o.close(o.state);
    }
}

static void changes(void **state)
{
    static const double before[SETS] = { 1, 1, 0 }, after[SETS] = { 0, 1, 3 },
                        last[SETS] = { 1, 0, 0 };
    const uint64_t g0 = M + 12345, g1 = g0 + 5000;
    uint64_t count[SETS] = { 0 };
    stk_mix_change_info c[4];
    passes p = { 0 };
    stk_order o, again;

    (void)state;
    make(&o, before, 1000, 1);
    make(&again, before, 1000, 1);
    assert_int_equal(stk_mix_change(&o, last, 7, 3, NULL), 0); /* and is forgotten again: */
    assert_int_equal(stk_mix_change(&o, before, 0, 0, NULL), 0);
    assert_int_equal(stk_mix_get(&o, 1, &c[1]), STK_END);
    assert_int_equal(stk_mix_change(&o, after, g0 / 1000, g0 % 1000, NULL), 0);
    assert_int_equal(stk_mix_change(&o, last, g1 / 1000, g1 % 1000, NULL), 0);
    for (uint64_t g = 0; g < g1 + 100; g++) {
        stk_where w = at(&o, g / 1000, g % 1000);

        pass_check(&p, w, 1); /* passes go on across a change */
        count[w.dataset] += g >= g0 && g < g1;
        assert_true(g < g1 || w.dataset == 0);
        if (g < g0)
            assert_int_equal(w.sample, at(&again, g / 1000, g % 1000).sample);
    }
    assert_int_equal(count[0], 0);
    assert_int_equal(count[1], 1250);
    assert_int_equal(count[2], 3750);
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(stk_mix_get(&o, i, &c[i]), 0);
    assert_int_equal(stk_mix_get(&o, 3, &c[3]), STK_END);
    assert_int_equal(stk_mix_set(&again, c, 3, NULL), 0);
    for (uint64_t g = g0 - 500; g < g1 + 500; g += 7)
        assert_int_equal(at(&again, g / 1000, g % 1000).sample, at(&o, g / 1000, g % 1000).sample);
    assert_int_equal(stk_mix_set(&again, &c[1], 1, NULL), 0); /* the last one is enough to go on */
    for (uint64_t g = g0; g < g1; g += 7)
        assert_int_equal(at(&again, g / 1000, g % 1000).sample, at(&o, g / 1000, g % 1000).sample);
    assert_in_range(at(&again, 0, 5).dataset, 0, SETS - 1); /* before it: something */
    assert_int_equal(stk_mix_change(&again, last, 0, 5, NULL), STK_EINVAL);
    o.close(o.state);
    again.close(again.state);
}

static void with_exclusions(void **state)
{
    static const double weights[SETS] = { 1, 1, 1 };
    uint64_t out[] = { 0, 1, 2, 3, 4, 5, 60, 79 };
    uint64_t n[SETS] = { 0 };
    stk_order o;

    (void)state;
    set.exclude = (stk_exclude){ out, 8 };
    make(&o, weights, 0, 1);
    assert_int_equal(o.len(o.state), 72);
    for (uint64_t i = 0; i < 72; i++) {
        stk_where w = at(&o, 0, i);
        uint64_t id = set.start[w.dataset] + w.sample;

        for (int k = 0; k < 8; k++)
            assert_true(id != out[k]);
        n[w.dataset]++;
    }
    assert_int_equal(n[0], 24); /* one sample, again and again */
    o.close(o.state);
    set.exclude = (stk_exclude){ 0 };
}

static void refusals(void **state)
{
    static const double bad[][SETS] = {
        { 0, 0, 0 }, { -1, 1, 1 }, { NAN, 1, 1 }, { INFINITY, 1, 1 }
    };
    static const double good[SETS] = { 1, 1, 1 };
    static uint32_t parts[SETS] = { M, 0, 0 }, few[SETS] = { 5, 5, 5 };
    static uint64_t base[SETS];
    stk_mix_change_info c[2] = { { 0, few, base, SETS }, { 5, parts, base, SETS } };
    stk_mixing how = { good, SEED, 0, 1 };
    stk_order o = { 0 };
    stk_error err;

    (void)state;
    for (int i = 0; i < 4; i++) {
        how.weights = bad[i];
        assert_int_equal(stk_order_mix(&o, &set, &how, &err), STK_EINVAL);
        assert_non_null(strstr(err.message, "mix: "));
    }
    how.weights = good;
    for (uint64_t n = 1; n <= 13; n++) {
        stk_mem_fail_at(n);
        assert_int_equal(stk_order_mix(&o, &set, &how, &err), STK_ENOMEM);
    }
    stk_mem_fail_at(0);
    make(&o, good, 0, 1);
    assert_int_equal(stk_mix_set(&o, c, 0, &err), STK_EINVAL);
    assert_int_equal(stk_mix_set(&o, c, 2, &err), STK_EINVAL); /* 15 parts */
    c[0].parts = parts;
    assert_int_equal(stk_mix_set(&o, c, 2, &err), 0);
    c[1].from = 0;
    assert_int_equal(stk_mix_set(&o, c, 2, &err), STK_EINVAL);
    c[0].n = 2;
    assert_int_equal(stk_mix_set(&o, c, 1, &err), STK_EINVAL);
    c[0].n = SETS;
    for (uint64_t n = 1; n <= 4; n++) {
        stk_mem_fail_at(n);
        assert_int_equal(stk_mix_set(&o, c, 1, &err), STK_ENOMEM);
        stk_mem_fail_at(n);
        assert_int_equal(stk_mix_change(&o, good, 0, 9, &err), STK_ENOMEM);
    }
    stk_mem_fail_at(0);
    assert_int_equal(at(&o, 0, 0).dataset, 0);
    o.close(o.state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_in_blocks), cmocka_unit_test(epochs_go_on),
        cmocka_unit_test(rounding),        cmocka_unit_test(changes),
        cmocka_unit_test(with_exclusions), cmocka_unit_test(refusals),
    };

    return cmocka_run_group_tests(tests, make_roster, NULL);
}

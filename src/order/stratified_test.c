/* SPDX-License-Identifier: Apache-2.0 */
/* stratified_test.c - an epoch is a permutation, and every run of it has its share of each
 * class. */
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

#define SEED 77u
#define N 3001u
#define CLASSES 13u

static stk_sample_set set;
static uint32_t class_of[N];

static int make_roster(void **state)
{
    static const uint64_t lens[] = { 1000, N - 1000 };

    (void)state;
    for (uint32_t i = 0; i < N; i++) { /* sorted by class, sizes far apart; 5 is of none */
        uint32_t c = (uint32_t)(sqrt((double)i / N) * CLASSES);

        class_of[i] = c == 5 ? 6 : c;
    }
    return stk_sample_set_init(&set, lens, 2, NULL);
}

static void make(stk_order *o, int shuffle)
{
    stk_strata how = { class_of, CLASSES, SEED, shuffle };

    assert_int_equal(stk_order_stratified(o, &set, &how, NULL), 0);
}

static uint64_t id_at(const stk_order *o, uint64_t epoch, uint64_t position)
{
    stk_where w;

    o->at(o->state, epoch, &position, 1, &w);
    return set.start[w.dataset] + w.sample;
}

static void permutation(void **state)
{
    static uint8_t seen[N];
    uint64_t alike = 0, same_class = 0;
    stk_order o;

    (void)state;
    for (int shuffle = 0; shuffle < 2; shuffle++) {
        uint64_t last[CLASSES] = { 0 };

        make(&o, shuffle);
        assert_int_equal(o.len(o.state), N);
        for (uint64_t e = 0; e < 3; e++) {
            memset(seen, 0, sizeof seen);
            for (uint64_t p = 0; p < N; p++) {
                uint64_t id = id_at(&o, e, p);
                stk_where w = { id >= 1000, id >= 1000 ? id - 1000 : id };

                assert_int_equal(seen[id]++, 0);
                if (p % 17 == 0)
                    assert_int_equal(o.find(o.state, e, &w), p);
                alike += shuffle && id == id_at(&o, e + 1, p);
                same_class += shuffle && class_of[id] == class_of[id_at(&o, e + 1, p)];
                if (!shuffle && e == 0) {
                    assert_true(id >= last[class_of[id]]);
                    last[class_of[id]] = id;
                }
            }
        }
        o.close(o.state);
    }
    assert_true(alike < 30);
    assert_true(same_class < 3 * N / 2); /* the pattern is turned */
}

/* Runs of any length, anywhere: less than 2 from the share. */
static void shares(void **state)
{
    double count[CLASSES] = { 0 }, worst = 0;
    stk_order o;

    (void)state;
    for (uint32_t i = 0; i < N; i++)
        count[class_of[i]]++;
    make(&o, 1);
    for (uint64_t round = 0; round < 2000; round++) {
        uint64_t h = stk_mix64(SEED + round), len = 1 + h % 600, from = (h >> 20) % (N - len);
        double came[CLASSES] = { 0 };

        for (uint64_t p = from; p < from + len; p++)
            came[class_of[id_at(&o, round % 5, p)]]++;
        for (uint32_t c = 0; c < CLASSES; c++)
            worst = fmax(worst, fabs(came[c] - count[c] / N * (double)len));
    }
    print_message("seed %u: %.2f from the share at most\n", SEED, worst);
    assert_true(worst < 2);
    o.close(o.state);
}

static void of_a_selection(void **state)
{
    static uint64_t select[] = { 2999, 5, 2000, 6, 2998, 5 };
    uint8_t seen[6] = { 0 };
    stk_order o;

    (void)state;
    set.select = select;
    set.n_select = 6;
    make(&o, 1);
    assert_int_equal(o.len(o.state), 6);
    for (uint64_t p = 0; p < 6; p++) {
        uint64_t id = id_at(&o, 0, p), k = 0;

        while (select[k] != id || seen[k])
            assert_true(++k < 6);
        seen[k] = 1;
    }
    assert_int_equal(o.find(o.state, 0, &(stk_where){ 0, 7 }), UINT64_MAX);
    o.close(o.state);
    set.select = NULL;
}

static void no_memory(void **state)
{
    stk_strata how = { class_of, CLASSES, SEED, 1 };
    stk_order o;

    (void)state;
    for (uint64_t n = 1; n <= 8; n++) {
        stk_mem_fail_at(n);
        assert_int_equal(stk_order_stratified(&o, &set, &how, NULL), STK_ENOMEM);
    }
    stk_mem_fail_at(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(permutation),
        cmocka_unit_test(shares),
        cmocka_unit_test(of_a_selection),
        cmocka_unit_test(no_memory),
    };

    return cmocka_run_group_tests(tests, make_roster, NULL);
}

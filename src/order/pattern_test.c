/* SPDX-License-Identifier: Apache-2.0 */
/* pattern_test.c - every number once, a kind's in order, and shares that hold after every place. */
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

#define SEED 41u
#define KINDS 200u

static void check(const uint64_t *count, uint32_t kinds)
{
    uint64_t first[KINDS + 1] = { 0 }, came[KINDS] = { 0 }, n;
    stk_pattern *p = NULL;
    uint32_t *out;

    for (uint32_t k = 0; k < kinds; k++)
        first[k + 1] = first[k] + count[k];
    n = first[kinds];
    out = malloc((n + 1) * sizeof *out);
    assert_int_equal(stk_pattern_open(&p, kinds, NULL), 0);
    stk_pattern_make(p, first, kinds, SEED, out);
    for (uint64_t place = 0; place < n; place++) {
        uint32_t kind = stk_pattern_kind(first, kinds, out[place]);

        assert_int_equal(out[place], first[kind] + came[kind]++);
        for (uint32_t k = 0; k < kinds; k++) {
            uint64_t share = (place + 1) * count[k];

            if (came[k] < share / n || came[k] > (share + n - 1) / n)
                fail_msg("seed %u: kind %u of %u came %llu times in %llu of %llu places", SEED, k,
                         kinds, (unsigned long long)came[k], (unsigned long long)place + 1,
                         (unsigned long long)n);
        }
    }
    stk_pattern_close(&p);
    free(out);
}

static void small_ones(void **state)
{
    (void)state;
    for (uint64_t a = 0; a <= 9; a++)
        for (uint64_t b = 0; b <= 9; b++)
            for (uint64_t c = 0; c <= 9; c++)
                check((uint64_t[]){ a, b, c }, 3);
}

static void random_ones(void **state)
{
    uint64_t count[KINDS];

    (void)state;
    for (uint64_t round = 0; round < 40; round++) {
        uint32_t kinds = 1 + (uint32_t)(stk_mix64(SEED + round) % KINDS);

        for (uint32_t k = 0; k < kinds; k++) {
            uint64_t h = stk_mix64(SEED + round * 1000 + k);

            count[k] = h % (h >> 60 ? 12 : 150);
        }
        check(count, kinds);
    }
}

/* Kinds of one size come once each in every turn, not always one after the other. */
static void turns_differ(void **state)
{
    uint64_t first[11];
    uint32_t out[1000], follows[100] = { 0 };
    stk_pattern *p = NULL;

    (void)state;
    for (uint64_t k = 0; k <= 10; k++)
        first[k] = k * 100;
    assert_int_equal(stk_pattern_open(&p, 10, NULL), 0);
    stk_pattern_make(p, first, 10, SEED, out);
    for (int i = 0; i + 1 < 1000; i++)
        follows[out[i] / 100 * 10 + out[i + 1] / 100]++;
    for (int i = 0; i < 100; i++)
        assert_true(follows[i] < 30); /* 10 or so, were it chance */
    stk_pattern_close(&p);
}

static void no_memory(void **state)
{
    stk_pattern *p = NULL;

    (void)state;
    for (uint64_t n = 1; n <= 4; n++) {
        stk_mem_fail_at(n);
        assert_int_equal(stk_pattern_open(&p, 5, NULL), STK_ENOMEM);
        assert_null(p);
    }
    stk_mem_fail_at(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_ones),
        cmocka_unit_test(random_ones),
        cmocka_unit_test(turns_differ),
        cmocka_unit_test(no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

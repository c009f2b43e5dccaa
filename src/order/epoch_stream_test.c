/* SPDX-License-Identifier: Apache-2.0 */
/* epoch_stream_test.c - epochs of any size over an order: the same sequence however it is cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "order/order.h"

#define SEED 17u
#define LEN 23u

static stk_sample_set set;

static int make_roster(void **state)
{
    static const uint64_t lens[] = { 10, 13 };

    (void)state;
    return stk_sample_set_init(&set, lens, 2, NULL);
}

static void make(stk_order *o, uint64_t epoch_size)
{
    stk_order inner;

    assert_int_equal(stk_order_exact(&inner, &set, SEED, 1, NULL), 0);
    assert_int_equal(stk_order_stream(o, &inner, epoch_size, NULL), 0);
    assert_int_equal(o->len(o->state), epoch_size);
}

static uint64_t id_at(const stk_order *o, uint64_t epoch, uint64_t position)
{
    stk_where w;

    o->at(o->state, epoch, &position, 1, &w);
    return set.start[w.dataset] + w.sample;
}

static void goes_on(void **state)
{
    stk_order inner, o;

    (void)state;
    assert_int_equal(stk_order_exact(&inner, &set, SEED, 1, NULL), 0);
    for (uint64_t size = 1; size <= 3 * LEN; size++) {
        make(&o, size);
        for (uint64_t g = 0; g < 6 * LEN; g++)
            assert_int_equal(id_at(&o, g / size, g % size), id_at(&inner, g / LEN, g % LEN));
        o.close(o.state);
    }
    inner.close(inner.state);
}

/* Many positions in one call, across inner epochs, in any order. */
static void in_runs(void **state)
{
    uint64_t at[200];
    stk_where w[200];
    stk_order o;

    (void)state;
    make(&o, 200);
    for (uint64_t i = 0; i < 200; i++)
        at[i] = i * 77 % 200;
    o.at(o.state, 3, at, 200, w);
    for (int i = 0; i < 200; i++)
        assert_int_equal(set.start[w[i].dataset] + w[i].sample, id_at(&o, 3, at[i]));
    o.close(o.state);
}

static void finds(void **state)
{
    static const uint64_t sizes[] = { 5, LEN - 1, LEN, LEN + 4, 60 };
    stk_order o;

    (void)state;
    for (int k = 0; k < 5; k++) {
        make(&o, sizes[k]);
        for (uint64_t e = 0; e < 9; e++)
            for (uint64_t id = 0; id < LEN; id++) {
                stk_where w = { id >= 10, id >= 10 ? id - 10 : id };
                uint64_t first = UINT64_MAX;

                for (uint64_t p = sizes[k]; p-- > 0;)
                    if (id_at(&o, e, p) == id)
                        first = p;
                assert_int_equal(o.find(o.state, e, &w), first);
            }
        assert_int_equal(o.find(o.state, 0, &(stk_where){ 1, 13 }), UINT64_MAX);
        o.close(o.state);
    }
}

static void far_away(void **state)
{
    stk_order o;

    (void)state;
    make(&o, (1ull << 48) - 1); /* epoch * epoch_size passes 2^64 */
    assert_true(id_at(&o, UINT32_MAX, (1ull << 48) - 2) < LEN);
    o.close(o.state);
}

/* Deals a batch from its end. */
static void backwards(const void *state, const stk_share *s, uint32_t row, uint32_t n,
                      uint64_t *position)
{
    (void)state;
    assert_true(s->start + s->count <= LEN);
    for (uint32_t i = 0; i < n; i++)
        position[i] = s->start + s->count - 1 - (s->item + row + i);
}

/* Every batch of a few epochs: a permutation of its positions, backwards unless an inner epoch
 * ends in it. */
static void deals(void **state)
{
    stk_order inner, o;

    (void)state;
    for (uint64_t size = 6; size <= 60; size += 9) {
        assert_int_equal(stk_order_exact(&inner, &set, SEED, 1, NULL), 0);
        inner.deal = backwards;
        assert_int_equal(stk_order_stream(&o, &inner, size, NULL), 0);
        for (uint64_t g = 0; g + 6 <= 5 * size; g++) {
            stk_share s = {
                .epoch = g / size, .start = g % size, .count = 6, .item = 1, .stride = 1, .rows = 5
            };
            int across = g / LEN != (g + 5) / LEN;
            uint64_t p[4];

            if (s.start + 6 > size)
                continue;
            stk_share_positions(&s, &o, 1, 4, p);
            for (uint64_t i = 0; i < 4; i++)
                assert_int_equal(p[i], across ? s.start + 2 + i : s.start + 3 - i);
        }
        o.close(o.state);
    }
}

static void no_memory(void **state)
{
    stk_order inner, o = { 0 };
    stk_error err;

    (void)state;
    assert_int_equal(stk_order_exact(&inner, &set, SEED, 1, NULL), 0);
    stk_mem_fail_at(1);
    assert_int_equal(stk_order_stream(&o, &inner, 5, &err), STK_ENOMEM);
    stk_mem_fail_at(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_on),  cmocka_unit_test(in_runs), cmocka_unit_test(finds),
        cmocka_unit_test(far_away), cmocka_unit_test(deals),   cmocka_unit_test(no_memory),
    };

    return cmocka_run_group_tests(tests, make_roster, NULL);
}

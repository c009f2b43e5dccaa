/* SPDX-License-Identifier: Apache-2.0 */
/* exclude_test.c - ids by rank against a plain list; orders over what is left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/hash.h"
#include "order/order.h"

#define SEED 11u

/* Every subset of small sets. */
static void every_subset(void **state)
{
    (void)state;
    for (unsigned n = 1; n <= 10; n++)
        for (unsigned out = 0; out < 1u << n; out++) {
            uint64_t id[10], rank = 0;
            stk_exclude x = { id, 0 };

            for (unsigned i = 0; i < n; i++)
                if (out >> i & 1)
                    id[x.n++] = i;
            for (unsigned i = 0; i < n; i++) {
                if (out >> i & 1) {
                    assert_true(stk_exclude_rank(&x, i) == UINT64_MAX);
                } else {
                    assert_true(stk_exclude_rank(&x, i) == rank);
                    assert_int_equal(stk_exclude_at(&x, rank++), i);
                }
            }
        }
}

static void settles(void **state)
{
    uint64_t id[] = { 9, 3, 3, 0, 9, 7, 0 };
    stk_exclude x = { id, 7 }, none = { NULL, 0 };

    (void)state;
    stk_exclude_settle(&x);
    assert_int_equal(x.n, 4);
    assert_int_equal(id[0] + 10 * id[1] + 100 * id[2] + 1000 * id[3], 9730);
    stk_exclude_settle(&none);
    assert_int_equal(stk_exclude_at(&none, 5), 5);
}

/* Two data sets, a third of the samples out: every epoch is a permutation of the rest. */
static void orders(void **state)
{
    static const uint64_t lens[] = { 700, 311 };
    static stk_sample_set c;
    uint64_t id[1011], n = 0;
    stk_order o;

    (void)state;
    for (uint64_t i = 0; i < 1011; i++)
        if (stk_mix64(i + SEED) % 3 == 0)
            id[n++] = i;
    for (int shuffle = 0; shuffle < 2; shuffle++) {
        assert_int_equal(stk_sample_set_init(&c, lens, 2, NULL), 0);
        c.exclude = (stk_exclude){ id, n };
        assert_int_equal(stk_order_exact(&o, &c, SEED, shuffle, NULL), 0);
        assert_int_equal(o.len(o.state), 1011 - n);
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            uint8_t seen[1011] = { 0 };
            uint64_t last = 0;

            for (uint64_t i = 0; i < 1011 - n; i++) {
                stk_where w;
                uint64_t at;

                o.at(o.state, epoch, &i, 1, &w);
                at = c.start[w.dataset] + w.sample;
                assert_true(w.sample < lens[w.dataset]);
                assert_int_equal(seen[at]++, 0);
                assert_true(shuffle || !i || at > last);
                last = at;
            }
            for (uint64_t k = 0; k < n; k++)
                assert_int_equal(seen[id[k]], 0);
        }
        o.close(o.state);
    }
}

/* run() is as far as neighbours go, by looking at each. */
static void check_runs(const stk_order *o, uint64_t epoch)
{
    uint64_t len = o->len(o->state), n;

    for (uint64_t p = 0; p < len; p++) {
        stk_where a, b;

        o->at(o->state, epoch, &p, 1, &a);
        for (n = 1; n < 40 && p + n < len; n++) {
            uint64_t at = p + n;

            o->at(o->state, epoch, &at, 1, &b);
            if (b.dataset != a.dataset || b.sample != a.sample + n)
                break;
        }
        assert_int_equal(o->run(o->state, epoch, p, (uint32_t)(len - p < 40 ? len - p : 40)), n);
        assert_int_equal(o->run(o->state, epoch, p, 1), 1);
    }
}

static void runs(void **state)
{
    uint64_t lens[] = { 50, 1, 0, 70 }, out[] = { 3, 4, 50, 60, 61, 120 },
             in[] = { 7, 8, 9, 60, 61, 3, 49, 50, 51, 52 };
    static stk_sample_set set;
    stk_order o, stream;

    (void)state;
    for (int kind = 0; kind < 5; kind++) {
        assert_int_equal(stk_sample_set_init(&set, lens, 4, NULL), 0);
        if (kind == 1)
            set.exclude = (stk_exclude){ out, 6 };
        if (kind == 2)
            set.select = in, set.n_select = 10;
        if (kind == 3)
            set.skip = 20, set.limit = 60, set.repeat = 3;
        assert_int_equal(stk_order_exact(&o, &set, SEED, 0, NULL), 0);
        if (kind == 4) {
            assert_int_equal(stk_order_stream(&stream, &o, 33, NULL), 0);
            o = stream;
        }
        check_runs(&o, 0);
        check_runs(&o, 5);
        o.close(o.state);
    }
    assert_int_equal(stk_order_exact(&o, &set, SEED, 1, NULL), 0);
    assert_null(o.run);
    o.close(o.state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_subset),
        cmocka_unit_test(settles),
        cmocka_unit_test(orders),
        cmocka_unit_test(runs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* block_test.c - the block order against plain lists: every epoch a permutation, dealing a plain
 * sort, ranks disjoint and complete, find the inverse of at; streams whole and near each other. */
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

#define SEED 20251u
#define MOST 4096

static uint64_t drawn;

static uint64_t draw(uint64_t n) /* [0, n) */
{
    return stk_mix64(SEED + ++drawn * 0x9E3779B97F4A7C15u) % n;
}

static uint32_t reverse(uint32_t v, uint32_t streams)
{
    uint32_t r = 0;

    for (uint32_t bit = 1; bit < streams; bit *= 2, v /= 2)
        r = r * 2 + (v & 1);
    return r;
}

static int forward; /* of the orders that are opened */

/* n samples in `shards` shards of any lengths. */
static void open_order(stk_order *o, stk_sample_set *r, uint64_t n, uint64_t shards,
                       uint32_t streams, uint64_t window)
{
    static uint64_t start[MOST];
    uint8_t begins[MOST] = { 1 };
    uint64_t k = 0;
    stk_block_plan p = {
        .seed = SEED, .streams = streams, .window = window, .shards = start, .forward = forward
    };

    assert_true(n <= MOST && shards <= n);
    assert_int_equal(stk_sample_set_init(r, &n, 1, NULL), 0);
    for (uint64_t i = 1; i < shards; i++)
        begins[draw(n)] = 1;
    for (uint64_t i = 0; i < n; i++)
        if (begins[i])
            start[k++] = i;
    p.n_shards = k;
    assert_int_equal(stk_order_block(o, r, &p, NULL), 0);
}

static void check_epoch(const stk_order *o, uint64_t n, uint64_t epoch)
{
    uint8_t seen[MOST] = { 0 };

    for (uint64_t p = 0; p < n; p++) {
        stk_where w;

        o->at(o->state, epoch, &p, 1, &w);
        assert_true(w.dataset == 0 && w.sample < n);
        assert_int_equal(seen[w.sample]++, 0);
        assert_true(o->find(o->state, epoch, &w) == p);
    }
}

static void every_small_epoch(void **state)
{
    static stk_sample_set r;
    stk_order o;

    (void)state;
    for (uint64_t n = 1; n <= 40; n++)
        for (uint32_t streams = 1; streams <= 64; streams *= 2)
            for (uint64_t shards = 1; shards <= n; shards += 1 + n / 5)
                for (uint64_t window = 1; window <= 256; window *= 4) {
                    open_order(&o, &r, n, shards, streams, window);
                    assert_int_equal(o.len(o.state), n);
                    for (uint64_t epoch = 0; epoch < 3; epoch++)
                        check_epoch(&o, n, epoch);
                    o.close(o.state);
                }
}

static void larger_epochs(void **state)
{
    static stk_sample_set r;
    stk_order o;

    (void)state;
    for (int i = 0; i < 60; i++) {
        uint64_t n = 1 + draw(MOST);

        open_order(&o, &r, n, 1 + draw(n < 50 ? n : 50), 1u << draw(11), 1 + draw(3 * MOST));
        check_epoch(&o, n, draw(1u << 30));
        o.close(o.state);
    }
}

/* With a large repeat the shards are listed once, and come in passes: every sample as often. */
static void passes(void **state)
{
    static uint64_t start[MOST];
    static stk_sample_set r;
    stk_order o, plain;

    (void)state;
    for (int i = 0; i < 200; i++) {
        uint64_t n = 1 + draw(60), times = 1 + draw(40), k = 0;
        stk_block_plan p = { .seed = SEED + (uint64_t)i,
                             .streams = 1u << draw(8),
                             .window = 1 + draw(2 * MOST),
                             .shards = start,
                             .passes = times };
        uint8_t seen[64] = { 0 };

        for (uint64_t at = 0; at < n; at += 1 + draw(9))
            start[k++] = at;
        p.n_shards = k;
        assert_int_equal(stk_sample_set_init(&r, &n, 1, NULL), 0);
        r.repeat = (uint32_t)times;
        assert_int_equal(stk_order_block(&o, &r, &p, NULL), 0);
        p.passes = 0;
        if (times == 1)
            assert_int_equal(stk_order_block(&plain, &r, &p, NULL), 0);
        for (uint64_t at = 0; at < n * times; at++) {
            stk_where w, same;

            o.at(o.state, 7, &at, 1, &w);
            seen[w.sample]++;
            if (times == 1) {
                plain.at(plain.state, 7, &at, 1, &same);
                assert_true(w.sample == same.sample && o.find(o.state, 7, &w) == at);
            }
        }
        for (uint64_t k2 = 0; k2 < n; k2++)
            assert_int_equal(seen[k2], times);
        if (times == 1)
            plain.close(plain.state);
        o.close(o.state);
    }
}

/* ---- dealing ---- */

typedef struct dealt {
    uint32_t stream;
    uint64_t position;
} dealt;

static int by_stream(const void *a, const void *b)
{
    const dealt *x = a, *y = b;

    if (x->stream != y->stream)
        return x->stream < y->stream ? -1 : 1;
    return x->position < y->position ? -1 : x->position > y->position;
}

static void check_deal(const stk_order *o, uint32_t streams, uint64_t start, uint64_t count)
{
    static dealt want[MOST];
    uint64_t got[MOST], one;
    stk_share s = { .start = start, .count = count, .stride = 1 };

    for (uint64_t i = 0; i < count; i++)
        want[i] = (dealt){ reverse((uint32_t)((start + i) % streams), streams), start + i };
    qsort(want, count, sizeof *want, by_stream);
    o->deal(o->state, &s, 0, (uint32_t)count, got);
    for (uint64_t i = 0; i < count; i++)
        assert_true(got[i] == want[i].position);
    s.item = draw(count); /* a rank's share, entered anywhere */
    s.stride = 1 + (uint32_t)draw(8);
    s.rows = (uint32_t)((count - s.item - 1) / s.stride + 1);
    o->deal(o->state, &s, s.rows / 2, 1, &one);
    assert_true(one == want[s.item + s.rows / 2 * s.stride].position);
}

static void dealing_is_sorting(void **state)
{
    static stk_sample_set r;
    stk_order o;

    (void)state;
    for (uint32_t streams = 1; streams <= 32; streams *= 2) {
        open_order(&o, &r, 200, 9, streams, 64);
        for (uint64_t start = 0; start < 70; start++)
            for (uint64_t count = 1; count <= 70; count++)
                check_deal(&o, streams, start, count);
        o.close(o.state);
    }
    for (int i = 0; i < 100; i++) {
        uint32_t streams = 1u << draw(15);

        open_order(&o, &r, MOST, 9, streams, 64);
        check_deal(&o, streams, draw(1ull << 40), 1 + draw(MOST));
        o.close(o.state);
    }
}

/* Ranks that take an epoch from anywhere have every position after it once. */
static void ranks_are_disjoint_and_complete(void **state)
{
    static stk_sample_set r;
    stk_order o;

    (void)state;
    for (int i = 0; i < 150; i++) {
        uint64_t n = 1 + draw(1500), from = draw(n);
        uint32_t local = (uint32_t)draw(5), world = (1 + (uint32_t)draw(5)) * (local ? local : 1);
        stk_rank_split d = {
            .samples = n, .global = world + draw(300), .world = world, .local = local
        };
        uint8_t seen[MOST] = { 0 };

        open_order(&o, &r, n, 1 + draw(n), 1u << draw(10), 1 + draw(n));
        for (uint64_t step = 0; step < stk_rank_split_steps(&d, from); step++)
            for (d.rank = 0; d.rank < world; d.rank++) {
                uint64_t position[400];
                stk_share s;

                stk_rank_split_step(&d, from, step, &s);
                stk_share_positions(&s, &o, 0, s.rows, position);
                for (uint32_t k = 0; k < s.rows && !s.filler; k++) {
                    assert_in_range(position[k], s.start, s.start + s.count - 1);
                    assert_int_equal(seen[position[k]]++, 0);
                }
            }
        for (uint64_t p = 0; p < n; p++)
            assert_int_equal(seen[p], p >= from);
        o.close(o.state);
    }
}

/* ---- what it is for ---- */

/* Rows of 8 ranks over 64 streams: a rank stays in its eighth of the data, in every epoch; in a
 * stream the next window's samples are not read before this one's. */
static void ranks_keep_their_shards(void **state)
{
    static stk_sample_set r;
    enum { N = 4096, SHARDS = 256, WORLD = 8 };
    uint64_t start[SHARDS];
    uint8_t owner[SHARDS][WORLD] = { { 0 } };
    stk_block_plan p = {
        .seed = SEED, .streams = 64, .window = 512, .shards = start, .n_shards = SHARDS
    };
    stk_rank_split d = { .samples = N, .global = 64, .world = WORLD };
    uint64_t n = N, shared = 0;
    stk_order o;

    (void)state;
    for (uint64_t i = 0; i < SHARDS; i++)
        start[i] = i * (N / SHARDS);
    assert_int_equal(stk_sample_set_init(&r, &n, 1, NULL), 0);
    assert_int_equal(stk_order_block(&o, &r, &p, NULL), 0);
    for (uint64_t epoch = 0; epoch < 4; epoch++)
        for (uint64_t step = 0; step < stk_rank_split_steps(&d, 0); step++)
            for (d.rank = 0; d.rank < WORLD; d.rank++) {
                uint64_t position[8];
                stk_where w[8];
                stk_share s;

                stk_rank_split_step(&d, 0, step, &s);
                stk_share_positions(&s, &o, 0, s.rows, position);
                o.at(o.state, epoch, position, s.rows, w);
                for (uint32_t k = 0; k < s.rows; k++)
                    owner[w[k].sample / (N / SHARDS)][d.rank] = 1;
            }
    for (int i = 0; i < SHARDS; i++) {
        int owners = 0;

        for (int k = 0; k < WORLD; k++)
            owners += owner[i][k];
        assert_in_range(owners, 1, 2);
        shared += owners == 2;
    }
    assert_in_range(shared, 0, WORLD - 1);
    o.close(o.state);
}

static void epochs_differ(void **state)
{
    static stk_sample_set r;
    uint64_t same = 0;
    stk_order o;

    (void)state;
    open_order(&o, &r, 4000, 100, 16, 1024);
    for (uint64_t p = 0; p < 4000; p++) {
        stk_where a, b;

        o.at(o.state, 0, &p, 1, &a);
        o.at(o.state, 1, &p, 1, &b);
        same += a.sample == b.sample;
    }
    assert_true(same < 200);
    o.close(o.state);
}

static void refusals(void **state)
{
    static stk_sample_set r;
    static const uint64_t good[] = { 0, 5 }, late[] = { 1, 5 }, twice[] = { 0, 0 },
                          far[] = { 0, 9 };
    stk_block_plan p = { .streams = 24, .window = 8, .shards = good, .n_shards = 2 };
    uint64_t n = 9;
    stk_order o;
    stk_error e;

    (void)state;
    assert_int_equal(stk_sample_set_init(&r, &n, 1, NULL), 0);
    assert_int_equal(stk_order_block(&o, &r, &p, &e), STK_EINVAL);
    assert_non_null(strstr(e.message, "take 16 or 32"));
    p.streams = 0;
    assert_int_equal(stk_order_block(&o, &r, &p, &e), STK_EINVAL);
    p.streams = 1u << 31;
    assert_int_equal(stk_order_block(&o, &r, &p, &e), STK_EINVAL);
    p.streams = 4;
    p.shards = late;
    assert_int_equal(stk_order_block(&o, &r, &p, &e), STK_EINVAL);
    p.shards = twice;
    assert_int_equal(stk_order_block(&o, &r, &p, &e), STK_EINVAL);
    p.shards = far;
    assert_int_equal(stk_order_block(&o, &r, &p, &e), STK_EINVAL);
    p.shards = good;
    for (uint64_t i = 1; i <= 4; i++) {
        stk_mem_fail_at(i);
        assert_int_equal(stk_order_block(&o, &r, &p, &e), STK_ENOMEM);
        stk_mem_fail_at(0);
    }
    assert_int_equal(stk_order_block(&o, &r, &p, &e), 0);
    o.close(o.state);
}

/* Forward: what a stream has comes as it is stored, but where it goes round; rows of one stream are
 * as far apart in a batch as they can be, and dealing leaves none out. */
static void forward_orders(void **state)
{
    static stk_sample_set r;
    stk_order o;

    (void)state;
    forward = 1;
    for (int i = 0; i < 60; i++) {
        uint32_t streams = 1u << draw(5);
        uint64_t n = 500 + draw(1000), breaks = 0, got[256], count = 1 + draw(256);
        stk_share s = { .count = count, .stride = 1, .rows = (uint32_t)count };
        uint8_t seen[256] = { 0 };

        open_order(&o, &r, n, 1 + draw(9), streams, 64);
        check_epoch(&o, n, (uint64_t)i);
        for (uint64_t at = streams; at < n; at++) {
            uint64_t before = at - streams;
            stk_where w, last;

            o.at(o.state, 3, &at, 1, &w);
            o.at(o.state, 3, &before, 1, &last);
            breaks += w.sample != last.sample + 1;
        }
        assert_true(breaks <= 2 * (streams + 10)); /* a shard's end, and going round */
        o.deal(o.state, &s, 0, (uint32_t)count, got);
        for (uint64_t k = 0; k < count; k++) {
            assert_true(got[k] < count && !seen[got[k]]++);
            for (uint64_t j = k + 1; j < count && count % streams == 0; j++)
                if (got[j] % streams == got[k] % streams) {
                    assert_true(got[j] == got[k] + streams && j - k == streams);
                    break;
                }
        }
        o.close(o.state);
    }
    forward = 0;
}

static void default_streams(void **state)
{
    (void)state;
    assert_int_equal(stk_block_streams(1, 1u << 20), 256);
    assert_int_equal(stk_block_streams(257, 1u << 20), 512);
    assert_int_equal(stk_block_streams(131072, 1u << 20), 16384);
    assert_int_equal(stk_block_streams(256, 100), 64);
    assert_int_equal(stk_block_streams(256, 0), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_small_epoch),
        cmocka_unit_test(larger_epochs),
        cmocka_unit_test(passes),
        cmocka_unit_test(dealing_is_sorting),
        cmocka_unit_test(ranks_are_disjoint_and_complete),
        cmocka_unit_test(ranks_keep_their_shards),
        cmocka_unit_test(epochs_differ),
        cmocka_unit_test(refusals),
        cmocka_unit_test(forward_orders),
        cmocka_unit_test(default_streams),
    };

    print_message("seed %u\n", SEED);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

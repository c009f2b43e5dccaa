/* SPDX-License-Identifier: Apache-2.0 */
/* taps_test.c - filter weights: exact sums, Pillow's windows, mirrored and black outputs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "kern/taps.h"

static const stk_axis shapes[] = {
    { 1, 1, 0, 1, 0 },          { 1, 7, 0, 7, 0 },        { 7, 1, 0, 1, 0 },
    { 2, 3, 0, 3, 0 },          { 3, 2, 0, 2, 1 },        { 5, 5, 0, 5, 1 },
    { 5, 5, -2, 9, 0 },         { 330, 224, 0, 224, 0 },  { 260, 224, 0, 224, 1 },
    { 100, 224, 0, 224, 0 },    { 500, 256, 16, 224, 0 }, { 448, 224, 0, 224, 0 },
    { 449, 224, 0, 224, 1 },    { 672, 224, 0, 224, 0 },  { 1000, 999, 3, 500, 0 },
    { 999, 1000, 990, 20, 0 },  { 65535, 1, 0, 1, 0 },    { 65535, 2, 0, 2, 1 },
    { 65535, 300, -4, 308, 0 }, { 3, 4000, 1000, 7, 0 },  { 9, 12, -20, 15, 0 },
    { 9, 12, 12, 3, 0 },        { 0, 0, 0, 4, 0 },        { 40, 10, -3, 16, 1 },
    { 3, 1, 0, 1, 0 },          { 6, 1, 0, 1, 0 },        { 1, 1, -1, 3, 1 },
};
#define SHAPES (sizeof shapes / sizeof *shapes)

static void *make(stk_taps *t, const stk_axis *a)
{
    void *memory = stk_alloc(stk_taps_bytes(a));

    assert_non_null(memory);
    stk_taps_make(t, a, memory);
    return memory;
}

/* The filter, written down again: share of input x in output i. */
static double share(const stk_axis *a, int64_t i, int64_t x)
{
    double scale = (double)a->in / a->res, s = scale < 1 ? 1 : scale, total = 0, mine = 0;
    double center = ((double)i + 0.5) * scale;

    for (int64_t k = 0; k < a->in; k++) {
        double d = ((double)k + 0.5 - center) / s, w = d < 0 ? 1 + d : 1 - d;

        w = w > 0 ? w : 0;
        total += w;
        if (k == x)
            mine = w;
    }
    return mine / total;
}

static void check_output(const stk_taps *t, const stk_axis *a, uint32_t j)
{
    const int16_t *w = t->weight + (size_t)j * t->stride;
    int64_t i = (int64_t)a->off + (a->flip ? a->n - 1 - j : j), sum = 0;

    for (uint32_t k = 0; k < t->stride; k++) {
        assert_true(w[k] >= 0);
        assert_true(k < t->count[j] || w[k] == 0);
        sum += w[k];
    }
    if (i < 0 || i >= a->res) {
        assert_int_equal(sum, 0);
        assert_int_equal(t->count[j], 0);
        assert_int_equal(t->first[j], 0);
        return;
    }
    assert_int_equal(sum, 1 << t->shift);
    assert_true(t->count[j] <= t->stride);
    assert_true(t->lo + t->first[j] + t->count[j] <= t->hi);
    for (uint32_t k = 0; k < t->count[j] && a->in < 2000; k++) {
        double want = share(a, i, t->lo + t->first[j] + k) * (1 << t->shift);

        assert_true(w[k] - want <= 1 && want - w[k] <= 1);
    }
}

static void test_weights(void **state)
{
    for (size_t s = 0; s < SHAPES; s++) {
        stk_taps t;
        void *memory = make(&t, &shapes[s]);

        assert_true(t.stride == 1 || t.stride % 2 == 0);
        assert_true(t.hi <= shapes[s].in);
        for (uint32_t j = 0; j < t.n; j++)
            check_output(&t, &shapes[s], j);
        stk_free(memory);
    }
    (void)state;
}

/* Every small pair of sizes: sums exact, nothing over 16 bits, nothing out of the span. */
static void test_sums(void **state)
{
    for (uint32_t in = 1; in < 130; in++)
        for (uint32_t res = 1; res < 40; res++) {
            stk_axis a = { in, res, 0, res, 0 };
            stk_taps t;
            void *memory = make(&t, &a);

            assert_int_equal(t.lo, 0);
            assert_int_equal(t.hi, in);
            for (uint32_t j = 0; j < res; j++) {
                int64_t sum = 0;

                for (uint32_t k = 0; k < t.stride; k++) {
                    assert_true(t.weight[j * t.stride + k] >= 0);
                    sum += t.weight[j * t.stride + k];
                }
                assert_int_equal(sum, 1 << t.shift);
                assert_true(t.first[j] + t.count[j] <= in);
            }
            stk_free(memory);
        }
    (void)state;
}

static void test_copy(void **state)
{
    stk_axis a = { 10, 10, 3, 5, 1 };
    stk_taps t;
    void *memory = make(&t, &a);

    assert_int_equal(t.stride, 1);
    assert_int_equal(t.lo, 3);
    assert_int_equal(t.hi, 8);
    for (uint32_t j = 0; j < 5; j++) {
        assert_int_equal(t.first[j], 4 - j);
        assert_int_equal(t.weight[j], 1 << 14);
    }
    stk_free(memory);
    (void)state;
}

/* A mirrored axis is the same outputs backwards. */
static void test_flip(void **state)
{
    for (size_t s = 0; s < SHAPES; s++) {
        stk_axis a = shapes[s], b = shapes[s];
        stk_taps ta, tb;
        void *ma, *mb;

        b.flip = !a.flip;
        ma = make(&ta, &a);
        mb = make(&tb, &b);
        for (uint32_t j = 0; j < ta.n; j++) {
            uint32_t k = ta.n - 1 - j;

            assert_int_equal(ta.first[j], tb.first[k]);
            assert_int_equal(ta.count[j], tb.count[k]);
            assert_memory_equal(ta.weight + (size_t)j * ta.stride,
                                tb.weight + (size_t)k * tb.stride, ta.stride * sizeof(int16_t));
        }
        stk_free(ma);
        stk_free(mb);
    }
    (void)state;
}

static int16_t weight_at(const stk_taps *t, uint32_t j, uint32_t x)
{
    if (x < t->first[j] || x - t->first[j] >= t->stride)
        return 0;
    return t->weight[(size_t)j * t->stride + (x - t->first[j])];
}

static void test_slide(void **state)
{
    for (size_t s = 0; s < SHAPES; s++) {
        stk_taps t, moved;
        void *memory = make(&t, &shapes[s]), *other = make(&moved, &shapes[s]);
        uint32_t span = t.hi - t.lo;

        stk_taps_slide(&moved);
        for (uint32_t j = 0; j < t.n; j++) {
            assert_true(moved.first[j] + moved.stride <= (span < t.stride ? t.stride : span));
            assert_true(moved.count[j] <= moved.stride);
            for (uint32_t x = 0; x < span; x++)
                assert_int_equal(weight_at(&t, j, x), weight_at(&moved, j, x));
        }
        stk_free(memory);
        stk_free(other);
    }
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights), cmocka_unit_test(test_sums),  cmocka_unit_test(test_copy),
        cmocka_unit_test(test_flip),    cmocka_unit_test(test_slide),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* pad_rows_test.c - rows of random shapes against a padding that knows nothing of runs; values of
 * every type; the row as a window; what is refused; memory that comes back. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "batch/stack.h"

#define SEED 20240611u
#define LIMIT ((uint64_t)8 << 20)

static stk_batch_plan *make(uint32_t batch, stk_spec spec, double value)
{
    stk_batch_plan *c = NULL;
    stk_error err;

    assert_int_equal(stk_batch_plan_open(&c, 1, NULL, 0, &err), 0);
    assert_int_equal(stk_pool_open(&c->pool, NULL, LIMIT, &err), 0);
    c->batch = batch;
    c->ragged_cap = LIMIT / 8;
    c->out[0].name = stk_strdup("x");
    c->out[0].spec = spec;
    c->out[0].pad = 1;
    c->out[0].pad_value = value;
    return c;
}

static stk_batch *fresh(stk_batch_plan *c, uint32_t rows)
{
    stk_batch *b = NULL;
    stk_error err;

    assert_int_equal(stk_batch_open(&b, c, rows, &err), 0);
    return b;
}

/* The logical strides of contiguous memory; channels last as batch.c has it. */
static void lay(const int64_t *shape, uint32_t n, int last, int64_t *strides)
{
    int64_t s = 1;

    for (uint32_t d = n; d-- > 0; s *= shape[d])
        strides[d] = s;
    if (last) {
        strides[0] = 1;
        strides[2] = shape[0];
        strides[1] = shape[0] * shape[2];
    }
}

static int32_t element(uint32_t row, const int64_t *at, uint32_t n)
{
    uint32_t v = row * 1000003u + 7;

    for (uint32_t d = 0; d < n; d++)
        v = v * 31 + (uint32_t)at[d];
    return (int32_t)(v & INT32_MAX);
}

/* Steps `at` through `shape`; 0 past the last. */
static int step(int64_t *at, const int64_t *shape, uint32_t n)
{
    for (uint32_t d = n; d-- > 0; at[d] = 0)
        if (++at[d] < shape[d])
            return 1;
    return 0;
}

static void put(stk_batch *b, uint32_t row, const int64_t *shape, uint32_t n, int last)
{
    stk_row_out *r = &b->out[0].row[row];
    int64_t at[STK_MAX_DIMS] = { 0 }, strides[STK_MAX_DIMS] = { 0 };
    size_t count = 1;
    int32_t *p;

    for (uint32_t d = 0; d < n; d++)
        count *= (size_t)shape[d];
    p = stk_batch_reserve(b, 0, row, count * sizeof *p, NULL);
    assert_non_null(p);
    r->ndim = n;
    memcpy(r->shape, shape, n * sizeof *shape);
    lay(shape, n, last, strides);
    do {
        int64_t i = 0;

        for (uint32_t d = 0; d < n; d++)
            i += at[d] * strides[d];
        if (count)
            p[i] = element(row, at, n);
    } while (count && step(at, shape, n));
}

static void check(const stk_batch *b, int32_t value)
{
    int64_t at[STK_MAX_DIMS] = { 0 };
    stk_tensor t, r;

    assert_int_equal(stk_batch_padded(b, 0), 1);
    assert_int_equal(stk_batch_dense(b, 0, &t), 0);
    assert_int_equal(t.shape[0], b->rows);
    assert_int_equal(t.dtype, STK_I32);
    for (uint32_t d = 1; d < t.ndim; d++)
        if (!t.shape[d])
            return;
    do {
        uint32_t row = (uint32_t)at[0];
        int64_t i = 0, k = 0;
        int inside = 1;

        assert_int_equal(stk_batch_row(b, 0, row, &r), 0);
        assert_int_equal(r.ndim, t.ndim - 1);
        for (uint32_t d = 0; d < t.ndim; d++)
            i += at[d] * t.strides[d];
        for (uint32_t d = 0; d < r.ndim; d++) {
            inside &= at[d + 1] < r.shape[d];
            k += at[d + 1] * r.strides[d];
        }
        assert_int_equal(((int32_t *)t.data)[i], inside ? element(row, at + 1, r.ndim) : value);
        assert_ptr_equal((int32_t *)r.data + k, (int32_t *)t.data + i);
    } while (step(at, t.shape, t.ndim));
}

static void put_any(stk_batch *b, uint32_t row, uint32_t n, int last, uint64_t *rng)
{
    int64_t shape[STK_MAX_DIMS] = { 0 };

    for (uint32_t d = 0; d < n; d++)
        shape[d] = (int64_t)(stk_mix64((*rng)++) % (n > 4 ? 4 : 7));
    if (last)
        shape[0] = 3;
    put(b, row, shape, n, last);
}

static void rows_of_any_shape(void **state)
{
    uint64_t rng = SEED;

    (void)state;
    print_message("seed %u\n", SEED);
    for (uint32_t n = 0; n < STK_MAX_DIMS; n++) {
        for (int last = 0; last <= (n == 3); last++) {
            stk_spec spec = { .kind = last ? STK_KIND_IMAGE : STK_KIND_VALUE,
                              .out = STK_OUT_DENSE,
                              .dtype = STK_I32,
                              .picture.layout = last ? STK_CHANNELS_LAST : 0 };
            int32_t value = n % 2 ? -100 : 0;
            stk_batch_plan *c = make(6, spec, value);

            for (int round = 0; round < 12; round++) {
                stk_batch *b = fresh(c, 1 + (uint32_t)round % 6);
                stk_error err;

                for (uint32_t row = 0; row < b->rows; row++)
                    put_any(b, row, n, last, &rng);
                assert_int_equal(stk_batch_pad(b, 0, &err), 0);
                assert_null(b->out[0].buffer); /* the rows' memory is back already */
                check(b, value);
                for (uint32_t row = 0; row < b->rows; row++) { /* made once more */
                    put_any(b, row, n, last, &rng);
                    assert_int_equal(stk_batch_pad_again(b, 0, row, &err), 0);
                    check(b, value);
                }
                stk_batch_settle(b);
                stk_batch_release(&b);
            }
            stk_batch_plan_unref(&c);
        }
    }
}

static void values_of_every_type(void **state)
{
    static const struct {
        stk_dtype dtype;
        double v;
        uint64_t bits;
    } good[] = { { STK_U8, 255, 0xff },          { STK_I8, -128, 0x80 },
                 { STK_U16, 65535, 0xffff },     { STK_I16, -2, 0xfffe },
                 { STK_I32, -100, 0xffffff9cu }, { STK_I64, -1, UINT64_MAX },
                 { STK_F16, -1.5, 0xbe00 },      { STK_BF16, -1.5, 0xbfc0 },
                 { STK_F16, NAN, 0x7e00 },       { STK_BF16, NAN, 0x7fc0 },
                 { STK_F16, INFINITY, 0x7c00 },  { STK_BF16, -INFINITY, 0xff80 },
                 { STK_F32, -1.5, 0xbfc00000u }, { STK_F64, -1.5, 0xbff8000000000000u } };
    static const struct {
        stk_dtype dtype;
        double v;
    } bad[] = { { STK_U8, -1 },   { STK_U8, 256 },     { STK_I8, 128 }, { STK_I32, 0.5 },
                { STK_I64, NAN }, { STK_I64, 9.3e18 }, { STK_U16, -1 }, { STK_I16, -INFINITY } };
    stk_error err;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        uint64_t bits = 0;

        assert_int_equal(stk_pad_value(good[i].v, good[i].dtype, (uint8_t *)&bits, &err), 0);
        assert_true(bits == good[i].bits);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t bits;

        assert_int_equal(stk_pad_value(bad[i].v, bad[i].dtype, (uint8_t *)&bits, &err), STK_EINVAL);
    }
}

static uint64_t used(stk_batch_plan *c)
{
    return atomic_load(&stk_pool_account(c->pool)->used);
}

static void what_does_not_go_together(void **state)
{
    stk_spec spec = { .kind = STK_KIND_VALUE, .out = STK_OUT_DENSE, .dtype = STK_I32 };
    stk_batch_plan *c = make(3, spec, 0);
    stk_batch *b = fresh(c, 3);
    stk_error err;

    (void)state;
    put(b, 0, (int64_t[]){ 4 }, 1, 0);
    put(b, 1, (int64_t[]){ 4 }, 1, 0);
    put(b, 2, (int64_t[]){ 2, 2 }, 2, 0);
    assert_int_equal(stk_batch_pad(b, 0, &err), STK_ECORRUPT);
    assert_non_null(strstr(err.message, "2 dimensions"));
    b->out[0].row[2].ndim = 1;
    b->out[0].row[2].dtype = STK_F32;
    assert_int_equal(stk_batch_pad(b, 0, &err), STK_ECORRUPT);
    stk_batch_release(&b);
    stk_batch_plan_unref(&c);
}

/* Small rows whose padded batch is past all memory. */
static void a_padded_batch_may_be_too_large(void **state)
{
    stk_spec spec = { .kind = STK_KIND_VALUE, .out = STK_OUT_DENSE, .dtype = STK_I32 };
    static const int64_t side[] = { 4000, (int64_t)1 << 40 };
    stk_batch_plan *c = make(2, spec, 0);

    (void)state;
    for (int k = 0; k < 2; k++) {
        stk_batch *b = fresh(c, 2);
        stk_error err;

        put(b, 0, (int64_t[]){ 4000, 1 }, 2, 0);
        put(b, 1, (int64_t[]){ 1, 4000 }, 2, 0);
        b->out[0].row[0].shape[0] = b->out[0].row[1].shape[1] = side[k];
        assert_int_equal(stk_batch_pad(b, 0, &err), STK_ENOMEM);
        assert_non_null(strstr(err.message, "memory_limit"));
        stk_batch_release(&b);
        assert_true(used(c) == 0);
    }
    stk_batch_plan_unref(&c);
}

static void memory_is_counted_and_comes_back(void **state)
{
    stk_spec spec = { .kind = STK_KIND_VALUE, .out = STK_OUT_DENSE, .dtype = STK_I32 };
    stk_batch_plan *c = make(4, spec, 0);
    stk_batch *b;
    stk_error err;

    (void)state;
    for (int64_t k = 1; k < 12; k++) {
        uint64_t now;

        b = fresh(c, 4);
        for (uint32_t row = 0; row < 4; row++)
            put(b, row, (int64_t[]){ row == 2 ? 16000 * k : 5 }, 1, 0);
        assert_int_equal(stk_batch_pad(b, 0, &err), 0);
        check(b, 0);
        stk_batch_settle(b);
        now = used(c);
        assert_true(now >= (uint64_t)16000 * 4 * 4 * (uint64_t)k && now <= LIMIT);
        stk_batch_release(&b);
    }
    stk_pool_shut(c->pool);
    assert_true(used(c) == 0);
    stk_batch_plan_unref(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_any_shape),
        cmocka_unit_test(values_of_every_type),
        cmocka_unit_test(what_does_not_go_together),
        cmocka_unit_test(a_padded_batch_may_be_too_large),
        cmocka_unit_test(memory_is_counted_and_comes_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

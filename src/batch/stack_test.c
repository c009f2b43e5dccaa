/* SPDX-License-Identifier: Apache-2.0 */
/* stack_test.c - batches: dense places and strides, ragged rows and what they plan, limits,
 * lives after the loader. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "batch/stack.h"

enum { DENSE, BYTES, PICTURE };

/* A dense f32 output of 3x5x7 channels last, a ragged one of bytes, a ragged one of pictures. */
static stk_batch_plan *make(uint32_t batch, uint64_t limit)
{
    stk_batch_plan *c = NULL;
    stk_error err;

    assert_int_equal(stk_batch_plan_open(&c, 3, NULL, 0, &err), 0);
    assert_int_equal(stk_pool_open(&c->pool, NULL, limit, &err), 0);
    c->batch = batch;
    c->ragged_cap = limit / 4;
    c->out[DENSE].name = stk_strdup("dense");
    c->out[DENSE].row_bytes = 3 * 5 * 7 * 4;
    c->out[DENSE].spec = (stk_spec){ .kind = STK_KIND_IMAGE,
                                     .out = STK_OUT_DENSE,
                                     .dtype = STK_F32,
                                     .ndim = 3,
                                     .shape = { 3, 5, 7 },
                                     .picture.layout = STK_CHANNELS_LAST };
    c->out[BYTES].name = stk_strdup("bytes");
    c->out[BYTES].spec = (stk_spec){ .kind = STK_KIND_BYTES, .out = STK_OUT_BYTES };
    c->out[PICTURE].name = stk_strdup("picture");
    c->out[PICTURE].spec = (stk_spec){ .kind = STK_KIND_IMAGE,
                                       .out = batch == 1 ? STK_OUT_DENSE : STK_OUT_LIST,
                                       .dtype = STK_U8,
                                       .ndim = 3,
                                       .picture.layout = STK_HWC };
    return c;
}

static stk_batch *fresh(stk_batch_plan *c, uint32_t rows)
{
    stk_batch *b = NULL;
    stk_error err;

    assert_int_equal(stk_batch_open(&b, c, rows, &err), 0);
    return b;
}

static void put(stk_batch *b, uint32_t row, size_t len)
{
    stk_row_out *r = &b->out[BYTES].row[row];
    void *p;

    stk_batch_unreserve(b, BYTES, row);
    p = stk_batch_reserve(b, BYTES, row, len, NULL);
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % 64, 0);
    memset(p, (int)row + 1, len);
    r->ndim = 1;
    r->shape[0] = (int64_t)len;
}

static void check(const stk_batch *b, uint32_t row, size_t len)
{
    stk_tensor t;

    assert_int_equal(stk_batch_row(b, BYTES, row, &t), 0);
    assert_int_equal(t.ndim, 1);
    assert_int_equal(t.dtype, STK_U8);
    assert_int_equal(t.strides[0], 1);
    assert_int_equal(t.shape[0], len);
    for (size_t i = 0; i < len; i++)
        assert_int_equal(((uint8_t *)t.data)[i], row + 1);
}

static uint64_t used(stk_batch_plan *c)
{
    return atomic_load(&stk_pool_account(c->pool)->used);
}

static void dense_places(void **state)
{
    stk_batch_plan *c = make(4, 1 << 20);
    stk_batch *b = fresh(c, 3); /* a short one */
    stk_tensor t, r;

    (void)state;
    assert_int_equal(stk_batch_rows(b), 3);
    assert_int_equal(stk_batch_outputs(b), 3);
    assert_string_equal(stk_batch_output_name(b, 0), "dense");
    assert_null(stk_batch_output_name(b, 3));
    assert_int_equal(stk_batch_dense(b, DENSE, &t), 0);
    assert_int_equal(t.ndim, 4);
    assert_int_equal(t.shape[0], 3);
    assert_int_equal(t.strides[0], 105);
    assert_int_equal(t.strides[1], 1); /* channels last */
    assert_int_equal(t.strides[2], 21);
    assert_int_equal(t.strides[3], 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(stk_batch_row(b, DENSE, i, &r), 0);
        assert_ptr_equal(r.data, stk_batch_place(b, DENSE, i));
        assert_ptr_equal(r.data, (float *)t.data + 105 * i);
        assert_int_equal(r.ndim, 3);
        assert_int_equal(r.strides[1], 21);
    }
    assert_int_equal(stk_batch_row(b, DENSE, 3, &r), STK_EINVAL);
    assert_int_equal(stk_batch_row(b, 9, 0, &r), STK_EINVAL);
    assert_int_equal(stk_batch_dense(b, BYTES, &r), STK_EINVAL);
    assert_int_equal(stk_batch_dense(b, 9, &r), STK_EINVAL);
    stk_batch_release(&b);
    assert_null(b);
    stk_batch_release(&b);
    stk_batch_plan_unref(&c);
}

/* The first batch knows nothing: every row has a buffer of its own.  The next one has one for
 * all. */
static void ragged_rows_plan_the_next_batch(void **state)
{
    stk_batch_plan *c = make(4, 8 << 20);
    stk_batch *b = fresh(c, 4);
    stk_tensor t;

    (void)state;
    assert_int_equal(stk_batch_plan_settled(c), 0);
    for (uint32_t i = 0; i < 4; i++)
        put(b, i, 30000 + i);
    put(b, 2, 100); /* another sample stands in */
    put(b, 3, 0);
    assert_int_equal(used(c), 30000 + 30001 + 100);
    stk_batch_settle(b);
    for (uint32_t i = 0; i < 4; i++)
        check(b, i, i < 2 ? 30000 + i : i == 2 ? 100 : 0);
    stk_batch_release(&b);
    assert_int_equal(used(c), 0);
    assert_int_equal(stk_batch_plan_settled(c), 1);
    b = fresh(c, 4);
    assert_true(b->out[BYTES].buffer->size >= 4 * 30000);
    for (uint32_t i = 0; i < 4; i++) {
        put(b, i, 30000);
        assert_null(b->out[BYTES].row[i].own);
    }
    put(b, 0, 200000); /* past its end: a buffer of its own */
    assert_non_null(b->out[BYTES].row[0].own);
    check(b, 0, 200000);
    check(b, 3, 30000);
    assert_int_equal(stk_batch_row(b, BYTES, 0, &t), 0);
    stk_buffer_ref(t.buffer); /* a row alone outlives its batch and its common */
    stk_batch_release(&b);
    stk_batch_plan_unref(&c);
    assert_int_equal(((uint8_t *)t.data)[199999], 1);
    stk_buffer_unref(t.buffer);
}

static void limits(void **state)
{
    stk_batch_plan *c = make(2, 400000);
    stk_batch *b = fresh(c, 2), *more = NULL;
    stk_error err;

    (void)state;
    put(b, 0, 300000);
    assert_null(stk_batch_reserve(b, BYTES, 1, 300000, NULL));
    assert_non_null(stk_batch_reserve(b, BYTES, 1, 1000, NULL));
    stk_batch_settle(b);
    stk_batch_release(&b);
    assert_int_equal(used(c), 0);
    b = fresh(c, 2); /* one huge row does not make the next batches impossible */
    assert_true(b->out[BYTES].buffer->size <= 100000);
    more = fresh(c, 2);
    stk_batch_release(&more);
    stk_batch_release(&b);
    stk_pool_shut(c->pool);
    assert_int_equal(stk_account_take(stk_pool_account(c->pool), 350000), 1);
    assert_int_equal(stk_batch_open(&more, c, 2, &err), STK_ELIMIT);
    assert_null(more);
    stk_account_give(stk_pool_account(c->pool), 350000);
    stk_batch_plan_unref(&c);
}

static void a_batch_of_one_picture(void **state)
{
    stk_batch_plan *c = make(1, 1 << 20);
    stk_batch *b = fresh(c, 1);
    stk_row_out *r = &b->out[PICTURE].row[0];
    stk_tensor t;

    (void)state;
    assert_non_null(stk_batch_reserve(b, PICTURE, 0, 4 * 6 * 3, NULL));
    r->ndim = 3;
    r->shape[0] = 4;
    r->shape[1] = 6;
    r->shape[2] = 3;
    assert_int_equal(stk_batch_dense(b, PICTURE, &t), 0);
    assert_int_equal(t.ndim, 4);
    assert_int_equal(t.shape[0], 1);
    assert_int_equal(t.shape[1], 4);
    assert_int_equal(t.shape[3], 3);
    assert_int_equal(t.strides[1], 18);
    stk_batch_release(&b);
    stk_batch_plan_unref(&c);
}

static void *release(void *arg)
{
    stk_batch *b = arg;

    stk_batch_release(&b);
    return NULL;
}

static void released_elsewhere(void **state)
{
    stk_batch_plan *c = make(4, 8 << 20);
    pthread_t t[4];

    (void)state;
    for (int i = 0; i < 4; i++) {
        stk_batch *b = fresh(c, 4);

        for (uint32_t k = 0; k < 4; k++)
            put(b, k, 20000);
        pthread_create(&t[i], NULL, release, b);
    }
    stk_batch_plan_unref(&c); /* the last holder frees it */
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
}

static void no_memory(void **state)
{
    stk_batch_plan *c = make(4, 1 << 20);
    stk_batch *b = NULL;
    int rc = STK_ENOMEM;
    stk_error err;

    (void)state;
    for (uint64_t n = 1; rc < 0; n++) {
        stk_mem_fail_at(n);
        rc = stk_batch_open(&b, c, 4, &err);
        stk_mem_fail_at(0);
        assert_true(rc == 0 || ((rc == STK_ENOMEM || rc == STK_ELIMIT) && !b && err.code == rc));
    }
    stk_mem_fail_at(1);
    assert_null(stk_batch_reserve(b, BYTES, 0, 100, NULL));
    stk_mem_fail_at(0);
    assert_int_equal(used(c), 0);
    stk_batch_release(&b);
    stk_batch_plan_unref(&c);
}

/* Small rows come off a worker's own piece; they lie apart, and another batch begins another
 * piece. */
static void pieces(void **state)
{
    stk_batch_plan *c = make(4, 1 << 20);
    stk_row_arena cut = { 0 };
    stk_batch *b;
    uint8_t *first, *second;

    (void)state;
    for (int round = 0; round < 3; round++) {
        b = fresh(c, 4);
        first = stk_batch_reserve(b, BYTES, 0, 100, &cut);
        second = stk_batch_reserve(b, BYTES, 1, 3000, &cut);
        assert_non_null(first);
        assert_non_null(second);
        memset(first, 1, 100);
        memset(second, 2, 3000);
        assert_true(second >= first + 100 || first >= second + 3000);
        assert_int_equal(first[99], 1);
        assert_non_null(stk_batch_reserve(b, BYTES, 2, 60000, &cut));
        stk_batch_settle(b);
        stk_batch_release(&b);
    }
    stk_batch_plan_unref(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_places),
        cmocka_unit_test(ragged_rows_plan_the_next_batch),
        cmocka_unit_test(limits),
        cmocka_unit_test(a_batch_of_one_picture),
        cmocka_unit_test(released_elsewhere),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(pieces),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

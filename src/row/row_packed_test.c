/* SPDX-License-Identifier: Apache-2.0 */
/* row_packed_test.c - pieces side by side in rows: values, those that come after them, positions,
 * documents, masks, what fills the rest; and rows that are not as long as was said. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "row/row.h"

#define BLOCK 8
#define ROWS 2

static stk_tokens tokens;
static stk_chain chain;
static stk_plan plan;
static stk_batch *batch;
static stk_maker maker;
static stk_row row;
static int32_t values[12];

static int setup(void **state)
{
    static char name[] = "ids";
    static stk_out_plan named = { .name = name };
    stk_batch_plan *c = NULL;
    stk_error err;

    (void)state;
    memset(&plan, 0, sizeof plan);
    memset(&chain, 0, sizeof chain);
    tokens = (stk_tokens){ .block = BLOCK, .pad = -1 };
    chain.pack = &tokens;
    chain.spec.dtype = STK_I64;
    plan.chains.chain = &chain;
    plan.chains.out = &named;
    assert_int_equal(stk_batch_plan_open(&c, 1, NULL, 0, &err), 0);
    assert_int_equal(stk_pool_open(&c->pool, NULL, 1 << 20, &err), 0);
    c->batch = ROWS;
    c->out[0].name = stk_strdup("ids");
    c->out[0].row_bytes = BLOCK * sizeof(int64_t);
    assert_int_equal(stk_batch_open(&batch, c, ROWS, &err), 0);
    stk_batch_plan_unref(&c);
    memset(stk_batch_place(batch, 0, 0), 0x55, ROWS * BLOCK * sizeof(int64_t));
    row = (stk_row){ .m = &maker, .plan = &plan, .batch = batch };
    for (int32_t i = 0; i < 12; i++)
        values[i] = 100 + i;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stk_batch_release(&batch);
    return 0;
}

static int put(const stk_piece_place *piece, int64_t len, stk_error *err)
{
    stk_value_row r = { .dtype = STK_I32, .ndim = 1, .shape = { len }, .data = values };

    row.piece = piece;
    return stk_packed_put(&row, &r, err);
}

static void holds(uint32_t r, const int64_t *want)
{
    assert_memory_equal(stk_batch_place(batch, 0, r), want, BLOCK * sizeof *want);
}

static void side_by_side(void **state)
{
    static const int64_t first[BLOCK] = { 100, 101, 102, 100, 101, -1, -1, -1 };
    static const int64_t second[BLOCK] = { 104, 105, 106, 107, -1, -1, -1, -1 };
    const stk_piece_place a = { .len = 3 }, b = { .at = 3, .number = 1, .len = 2 };
    const stk_piece_place part = { .row = 1, .from = 4, .len = 4, .after = 4 };
    const uint32_t used[ROWS] = { 5, 4 };
    stk_error err;

    (void)state;
    assert_int_equal(put(&a, 3, &err), 0);
    assert_int_equal(put(&b, 2, &err), 0);
    assert_int_equal(put(&part, 12, &err), 0); /* the second block of a sample of three */
    assert_int_equal(stk_packed_finish(&plan, batch, 0, used, &err), 0);
    holds(0, first);
    holds(1, second);
}

/* Targets: each value is the next one of the same sample, also over the end of a piece. */
static void shifted(void **state)
{
    static const int64_t first[BLOCK] = { 101, 102, -1, 101, -1, -1, -1, -1 };
    static const int64_t second[BLOCK] = { 105, 106, 107, 108, -1, -1, -1, -1 };
    const stk_piece_place a = { .len = 3 }, b = { .at = 3, .number = 1, .len = 2 };
    const stk_piece_place part = { .row = 1, .from = 4, .len = 4, .after = 4 };
    const uint32_t used[ROWS] = { 5, 4 };
    stk_error err;

    (void)state;
    tokens.shift = 1;
    assert_int_equal(put(&a, 3, &err), 0);
    assert_int_equal(put(&b, 2, &err), 0);
    assert_int_equal(put(&part, 12, &err), 0);
    assert_int_equal(stk_packed_finish(&plan, batch, 0, used, &err), 0);
    holds(0, first);
    holds(1, second);
}

static void numbers(stk_give give, uint64_t shift, const int64_t *want)
{
    const stk_piece_place a = { .len = 3 }, b = { .at = 3, .number = 1, .len = 2, .after = 1 };
    const uint32_t used[ROWS] = { 5, 0 };
    stk_error err;

    tokens.give = give;
    tokens.shift = shift;
    row.piece = &a;
    assert_int_equal(stk_packed_count(&row), 1);
    row.piece = &b;
    assert_int_equal(stk_packed_count(&row), 1);
    assert_int_equal(stk_packed_finish(&plan, batch, 0, used, &err), 0);
    holds(0, want);
}

static void positions_documents_and_masks(void **state)
{
    static const int64_t positions[BLOCK] = { 0, 1, 2, 0, 1, 0, 1, 2 };
    static const int64_t documents[BLOCK] = { 1, 1, 1, 2, 2, 0, 0, 0 };
    static const int64_t mask[BLOCK] = { 1, 1, 0, 1, 1, 0, 0, 0 };

    (void)state;
    row.piece = &(stk_piece_place){ .len = 3 };
    assert_int_equal(stk_packed_count(&row), 0); /* values are asked for */
    numbers(STK_GIVE_POSITIONS, 0, positions);
    numbers(STK_GIVE_DOCUMENTS, 0, documents);
    numbers(STK_GIVE_MASK, 1, mask);
}

static void rows_that_are_not_as_was_said(void **state)
{
    const stk_piece_place a = { .len = 3 };
    stk_value_row flat = { .dtype = STK_I32, .ndim = 2, .shape = { 1, 3 }, .data = values };
    stk_error err;

    (void)state;
    assert_int_equal(put(&a, 4, &err), STK_ECORRUPT);
    assert_non_null(strstr(err.message, "its row has 4 values, and lengths say 3"));
    row.piece = &a;
    assert_int_equal(stk_packed_put(&row, &flat, &err), STK_ECORRUPT);
    assert_non_null(strstr(err.message, "rows of one dimension, and this has 2"));
    chain.raw.max_len = 3; /* after truncate() it is */
    assert_int_equal(put(&a, 4, &err), 0);
    chain.raw.keep_last = 1;
    assert_int_equal(put(&a, 5, &err), 0);
    assert_int_equal(*(int64_t *)stk_batch_place(batch, 0, 0), 102);
}

static void values_that_do_not_fit(void **state)
{
    const stk_piece_place a = { .len = 3 };
    stk_error err;

    (void)state;
    chain.spec.dtype = STK_U8;
    values[1] = 256;
    assert_int_equal(put(&a, 3, &err), STK_ECORRUPT);
    assert_non_null(strstr(err.message, "a value is not a"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(side_by_side),
        TEST(shifted),
        TEST(positions_documents_and_masks),
        TEST(rows_that_are_not_as_was_said),
        TEST(values_that_do_not_fit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

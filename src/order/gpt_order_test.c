/* SPDX-License-Identifier: Apache-2.0 */
/* gpt_order_test.c - Megatron's order by itself: every token of every pass once, indexes that are
 * wrong or become wrong, memory that is refused.  That it is Megatron's is for
 * python/tests/test_megatron_order.py, where NumPy is available. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "order/gpt_order.h"

#define DOCS 9

static const int32_t sizes[DOCS] = { 7, 0, 1, 30, 2, 0, 11, 5, 4 }; /* 60 tokens */

typedef struct made {
    uint8_t idx[STK_MEGATRON_HEAD + DOCS * 12 + 16];
    stk_megatron m;
} made;

static void make(made *x)
{
    uint64_t n = DOCS, marks = 2, at[DOCS], version = 1, bytes = 0, doc[2] = { 0, DOCS };
    uint8_t *p = x->idx;

    memcpy(p, "MMIDIDX\0\0", 9);
    memcpy(p + 9, &version, 8);
    p[17] = 8;
    memcpy(p + 18, &n, 8);
    memcpy(p + 26, &marks, 8);
    for (int i = 0; i < DOCS; bytes += 2 * (uint64_t)sizes[i++])
        at[i] = bytes;
    memcpy(p + 34, sizes, sizeof sizes);
    memcpy(p + 34 + sizeof sizes, at, sizeof at);
    memcpy(p + 34 + sizeof sizes + sizeof at, doc, sizeof doc);
    assert_int_equal(stk_megatron_read((stk_bytes){ p, sizeof x->idx }, bytes, &x->m, NULL), 0);
}

/* Tokens of all samples together, of two equal shards. */
static void every_token_of_a_pass_once(void **state)
{
    made x;
    const stk_megatron *part[] = { &x.m, &x.m };
    stk_gpt_plan plan = { .part = part, .n_parts = 2, .seed = 7, .length = 5, .samples = 70 };
    uint32_t count[2][60] = { 0 };
    stk_order o;

    (void)state;
    make(&x);
    assert_int_equal(stk_order_gpt(&o, &plan, NULL), 0);
    assert_int_equal(o.len(o.state), 70);
    assert_int_equal(stk_gpt_numbers(&o), 72); /* 3 passes of 120 tokens */
    for (uint64_t p = 0; p < 70; p++) {
        uint64_t n = 5;
        stk_gpt_cursor c;
        stk_where w;

        o.at(o.state, 3, &p, 1, &w);
        assert_int_equal(o.find(o.state, 3, &w), p);
        stk_gpt_enter(&o, 3, w.sample, 0, &c);
        while (n) {
            stk_gpt_run run;

            stk_gpt_next(&c, n, &run);
            assert_true(run.n && run.n <= n && run.part < 2 && run.at + run.n <= 60);
            for (uint64_t k = 0; k < run.n; k++)
                count[run.part][run.at + k]++;
            n -= run.n;
        }
        stk_gpt_leave(&c);
    }
    for (uint32_t p = 0, missing = 0; p < 2; p++)
        for (uint32_t i = 0; i < 60; i++) {
            assert_true(count[p][i] <= 3);
            missing += 3 - count[p][i];
            assert_true(missing <= 10); /* the two samples that are not asked for */
        }
    o.close(o.state);
}

static void an_index_written_to_ends(void **state)
{
    made x;
    const stk_megatron *part[] = { &x.m };
    stk_gpt_plan plan = { .part = part, .n_parts = 1, .length = 5, .extra = 1, .samples = 11 };
    stk_gpt_cursor c;
    stk_gpt_run run = { .n = 1 };
    stk_order o;

    (void)state;
    make(&x);
    assert_int_equal(stk_order_gpt(&o, &plan, NULL), 0);
    memset(x.idx + 34, 0, sizeof sizes); /* no document has a token now */
    stk_gpt_enter(&o, 0, 0, 0, &c);
    stk_gpt_next(&c, 6, &run);
    assert_int_equal(run.n, 0);
    stk_gpt_leave(&c);
    o.close(o.state);
}

static void bounds(void **state)
{
    made x;
    const stk_megatron *part[] = { &x.m };
    stk_gpt_plan plan = { .part = part, .n_parts = 1, .length = 5, .extra = 1 };
    stk_error err;
    stk_order o;

    (void)state;
    make(&x);
    plan.samples = UINT64_MAX / 2;
    assert_int_equal(stk_order_gpt(&o, &plan, &err), STK_ELIMIT);
    plan.samples = (uint64_t)1 << 33;
    assert_int_equal(stk_order_gpt(&o, &plan, &err), STK_ELIMIT);
    plan.samples = 0;
    plan.length = 60;
    assert_int_equal(stk_order_gpt(&o, &plan, &err), STK_EINVAL);
    x.idx[34] = 8; /* the second sequence begins within the first */
    assert_int_equal(stk_order_gpt(&o, &plan, &err), STK_ECORRUPT);
    assert_int_equal(err.offset, 34 + 4 * DOCS + 8);
}

static void memory_may_fail(void **state)
{
    made x;
    const stk_megatron *part[] = { &x.m };
    stk_gpt_plan plan = { .part = part, .n_parts = 1, .length = 5, .samples = 3 };
    int rc = STK_ENOMEM;
    stk_order o;

    (void)state;
    make(&x);
    for (uint64_t n = 1; rc < 0 && n < 20; n++) {
        stk_mem_fail_at(n);
        rc = stk_order_gpt(&o, &plan, NULL);
        stk_mem_fail_at(0);
        assert_true(rc == 0 || rc == STK_ENOMEM);
    }
    assert_int_equal(rc, 0);
    o.close(o.state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_token_of_a_pass_once),
        cmocka_unit_test(an_index_written_to_ends),
        cmocka_unit_test(bounds),
        cmocka_unit_test(memory_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

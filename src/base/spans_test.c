/* SPDX-License-Identifier: Apache-2.0 */
/* spans_test.c - the last spans are there, in order, also while they are written. */
#include "base/spans.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static uint64_t copy(const stk_spans *s, stk_spans_row *out)
{
    uint64_t i, n = stk_spans_range(s, &i), done = 0;

    for (; i < n; i++)
        done += (uint64_t)stk_spans_get(s, i, &out[done]);
    return done;
}

static void test_keeps_the_last(void **state)
{
    stk_spans_row row[64];
    stk_spans *s = NULL;

    (void)state;
    assert_int_equal(stk_spans_open(&s, 9, NULL), 0); /* 16 cells, one of which may be written */
    assert_int_equal(copy(s, row), 0);
    for (uint64_t i = 0; i < 5; i++)
        stk_spans_note(s, i, 10 * i, 10 * i + 5);
    assert_int_equal(copy(s, row), 5);
    for (uint64_t i = 5; i < 100; i++)
        stk_spans_note(s, i, 10 * i, 10 * i + 5);
    assert_int_equal(copy(s, row), 15);
    for (uint64_t i = 0; i < 15; i++) {
        assert_int_equal(row[i].what, 85 + i);
        assert_int_equal(row[i].to - row[i].from, 5);
    }
    stk_spans_close(&s);
    assert_null(s);
    stk_spans_close(&s);
}

static void test_joins_what_goes_on(void **state)
{
    stk_spans_row row[8];
    stk_spans *s = NULL;

    (void)state;
    assert_int_equal(stk_spans_open(&s, 8, NULL), 0);
    stk_spans_note(s, 7, 0, 10);
    stk_spans_note(s, 7, 10, 30);
    stk_spans_note(s, 7, 31, 40); /* a gap */
    stk_spans_note(s, 8, 40, 50); /* another thing */
    assert_int_equal(copy(s, row), 3);
    assert_int_equal(row[0].to, 30);
    assert_int_equal(row[1].from, 31);
    stk_spans_close(&s);
}

#define MANY 300000

static void *write_many(void *spans)
{
    for (uint64_t i = 1; i <= MANY; i++)
        stk_spans_note(spans, i, 3 * i, 3 * i + 1);
    return NULL;
}

static void test_reads_while_it_writes(void **state)
{
    static stk_spans_row row[64];
    stk_spans *s = NULL;
    pthread_t writer;
    uint64_t n = 0, last = 0;

    (void)state;
    assert_int_equal(stk_spans_open(&s, 64, NULL), 0);
    assert_int_equal(pthread_create(&writer, NULL, write_many, s), 0);
    while (last < MANY) {
        n = copy(s, row);
        for (uint64_t i = 0; i < n; i++) {
            assert_int_equal(row[i].from, 3 * row[i].what); /* no half of another span */
            assert_int_equal(row[i].to, 3 * row[i].what + 1);
            assert_true(i == 0 || row[i].what > row[i - 1].what);
        }
        last = n ? row[n - 1].what : 0;
    }
    pthread_join(writer, NULL);
    stk_spans_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keeps_the_last),
        cmocka_unit_test(test_joins_what_goes_on),
        cmocka_unit_test(test_reads_while_it_writes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

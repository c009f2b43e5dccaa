/* SPDX-License-Identifier: Apache-2.0 */
/* tables_test.c - tables made at first sight: the right one, made once while it is kept, and never
 * changed under a reader. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/hash.h"
#include "base/mem.h"
#include "order/order.h"

#define WORDS 200u
#define THREADS 4
#define SEED 3u

static _Atomic uint32_t fills;

static void fill(void *cookie, uint64_t number, void *table)
{
    uint64_t *word = table;

    (void)cookie;
    atomic_fetch_add(&fills, 1);
    for (unsigned i = 0; i < WORDS; i++)
        word[i] = number * 1000 + i;
}

static int is_table(const uint64_t *word, uint64_t number)
{
    for (unsigned i = 0; i < WORDS; i++)
        if (word[i] != number * 1000 + i)
            return 0;
    return 1;
}

static void keeps_the_newest(void **state)
{
    stk_tables *t = NULL;

    (void)state;
    assert_int_equal(stk_tables_open(&t, 3, WORDS * 8, fill, NULL, NULL), 0);
    atomic_store(&fills, 0);
    for (int round = 0; round < 5; round++)
        for (uint64_t k = 7; k < 10; k++) {
            assert_true(is_table(stk_tables_pin(t, k), k));
            stk_tables_unpin(t, k);
        }
    assert_int_equal(fills, 3);
    assert_true(is_table(stk_tables_pin(t, 10), 10));
    stk_tables_unpin(t, 10);
    assert_true(is_table(stk_tables_pin(t, 9), 9));
    stk_tables_unpin(t, 9);
    assert_int_equal(fills, 4);
    stk_tables_forget(t);
    assert_true(is_table(stk_tables_pin(t, 9), 9));
    stk_tables_unpin(t, 9);
    assert_int_equal(fills, 5);
    stk_tables_close(&t);
    assert_null(t);
}

typedef struct reader {
    stk_tables *t;
    uint64_t seed, wrong;
} reader;

static void *read_all(void *cookie)
{
    reader *r = cookie;

    for (uint64_t i = 0; i < 4000; i++) {
        uint64_t k = i / 40 + stk_mix64(r->seed + i) % 4; /* moving on, out of step */

        r->wrong += !is_table(stk_tables_pin(r->t, k), k);
        stk_tables_unpin(r->t, k);
    }
    return NULL;
}

static void many_readers(void **state)
{
    reader r[THREADS];
    pthread_t thread[THREADS];
    stk_tables *t = NULL;

    (void)state;
    for (uint32_t n = 1; n <= 4; n++) { /* 1: they chase each other all the time */
        assert_int_equal(stk_tables_open(&t, n, WORDS * 8, fill, NULL, NULL), 0);
        for (int i = 0; i < THREADS; i++) {
            r[i] = (reader){ t, SEED + 100 * (uint64_t)i, 0 };
            assert_int_equal(pthread_create(&thread[i], NULL, read_all, &r[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            pthread_join(thread[i], NULL);
            assert_int_equal(r[i].wrong, 0);
        }
        stk_tables_close(&t);
    }
}

static void no_memory(void **state)
{
    stk_tables *t = NULL;

    (void)state;
    for (uint64_t n = 1; n <= 3; n++) {
        stk_mem_fail_at(n);
        assert_int_equal(stk_tables_open(&t, 2, 64, fill, NULL, NULL), STK_ENOMEM);
        assert_null(t);
    }
    stk_mem_fail_at(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_the_newest),
        cmocka_unit_test(many_readers),
        cmocka_unit_test(no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

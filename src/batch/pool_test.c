/* SPDX-License-Identifier: Apache-2.0 */
/* pool_test.c - buffers: used again, bounded, let go on any thread, and alive after their pool's
 * owner has gone. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "batch/pool.h"

static stk_pool *make(uint64_t limit)
{
    stk_pool *p = NULL;
    stk_error err;

    assert_int_equal(stk_pool_open(&p, NULL, limit, &err), 0);
    return p;
}

static uint64_t used(stk_pool *p)
{
    return atomic_load(&stk_pool_account(p)->used);
}

static void used_again(void **state)
{
    stk_pool *p = make(1 << 20);
    stk_buffer *a = stk_pool_get(p, 1000), *b;
    void *data = a->data;

    (void)state;
    assert_int_equal((uintptr_t)data % 64, 0);
    assert_int_equal(stk_pool_out(p), 1);
    stk_buffer_unref(a);
    assert_int_equal(stk_pool_out(p), 0);
    assert_int_equal(used(p), 1000); /* idle ones count */
    b = stk_pool_get(p, 900);
    assert_ptr_equal(b->data, data);
    a = stk_pool_get(p, 900); /* that one is out: another */
    assert_ptr_not_equal(a->data, data);
    stk_buffer_unref(b);
    b = stk_pool_get(p, 100); /* it would waste more than half */
    assert_ptr_not_equal(b->data, data);
    assert_int_equal(b->size, 100);
    stk_buffer_unref(a);
    stk_buffer_unref(b);
    stk_pool_close(&p);
    assert_null(p);
    stk_pool_close(&p);
}

static void bounded(void **state)
{
    stk_pool *p = make(4800); /* 3000 for buffers, the rest for reads */
    stk_buffer *a = stk_pool_get(p, 2000), *b = stk_pool_get(p, 1000), *c;

    (void)state;
    assert_non_null(b);
    assert_null(stk_pool_get(p, 1));
    assert_null(stk_pool_get(p, SIZE_MAX));
    stk_buffer_unref(a);
    c = stk_pool_get(p, 900); /* the idle one of another size makes room */
    assert_non_null(c);
    assert_int_equal(used(p), 1900);
    stk_buffer_unref(b);
    stk_buffer_unref(c);
    assert_int_equal(stk_account_take(stk_pool_account(p), 2500), 1);
    assert_null(stk_pool_get(p, 2500)); /* somebody else fills the account */
    stk_account_give(stk_pool_account(p), 2500);
    assert_true(atomic_load(&stk_pool_account(p)->peak) <= 4800);
    stk_pool_close(&p);
}

static void *let_go(void *arg)
{
    stk_buffer_unref(arg);
    return NULL;
}

static void outlive_the_owner(void **state)
{
    stk_pool *p = make(1 << 20);
    stk_buffer *a = stk_pool_get(p, 5000), *b = stk_pool_get(p, 6000);
    pthread_t t[2];

    (void)state;
    memset(a->data, 3, 5000);
    stk_pool_close(&p);
    assert_int_equal(((uint8_t *)a->data)[4999], 3);
    stk_buffer_ref(a);
    stk_buffer_unref(a);
    pthread_create(&t[0], NULL, let_go, a); /* two threads race to be the last */
    pthread_create(&t[1], NULL, let_go, b);
    pthread_join(t[0], NULL);
    pthread_join(t[1], NULL);
}

static void shut_frees_what_comes_back(void **state)
{
    stk_pool *p = make(1 << 20);
    stk_buffer *a = stk_pool_get(p, 5000), *b = stk_pool_get(p, 6000);

    (void)state;
    stk_buffer_unref(b);
    assert_int_equal(used(p), 11000);
    stk_pool_shut(p);
    assert_int_equal(used(p), 5000);
    stk_buffer_unref(a);
    assert_int_equal(used(p), 0);
    stk_pool_close(&p);
}

static void *churn(void *arg)
{
    for (size_t i = 0; i < 20000; i++) {
        stk_buffer *b = stk_pool_get(arg, 1000 + i % 7 * 500);

        if (!b)
            continue;
        *(size_t *)b->data = i;
        stk_buffer_unref(b);
    }
    return NULL;
}

static void many_threads(void **state)
{
    stk_pool *p = make(9000);
    pthread_t t[4];

    (void)state;
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, churn, p);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    assert_int_equal(stk_pool_out(p), 0);
    assert_true(atomic_load(&stk_pool_account(p)->peak) <= 9000);
    stk_pool_close(&p);
}

static void no_memory(void **state)
{
    stk_pool *p = make(1 << 20);
    stk_buffer *b = NULL;

    (void)state;
    for (uint64_t n = 1; !b; n++) {
        stk_mem_fail_at(n);
        b = stk_pool_get(p, 1000);
        stk_mem_fail_at(0);
        assert_int_equal(used(p), b ? 1000 : 0);
    }
    stk_buffer_unref(b);
    stk_pool_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(used_again),        cmocka_unit_test(bounded),
        cmocka_unit_test(outlive_the_owner), cmocka_unit_test(shut_frees_what_comes_back),
        cmocka_unit_test(many_threads),      cmocka_unit_test(no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

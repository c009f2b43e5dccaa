/* SPDX-License-Identifier: Apache-2.0 */
/* cache_test.c - blocks: one reader, many waiters, unpacked once, dropped oldest first,
 * forgotten when they fail. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fetch/cache.h"

static stk_account account;
static _Atomic unsigned unpacks;

/* Twice as long, every byte doubled; refuses a first byte of 255. */
static int twice(const stk_dataset *d, stk_unpack_job *job, stk_error *err)
{
    stk_bytes raw = job->raw;
    uint8_t *p = job->dst;

    (void)d;
    atomic_fetch_add(&unpacks, 1);
    if (raw.len && raw.data[0] == 255)
        return stk_fail(err, STK_ECORRUPT, "this block is bad");
    if (job->len < raw.len * 2)
        return stk_fail(err, STK_ECORRUPT, "more than was said");
    job->len = raw.len * 2;
    for (size_t i = 0; i < raw.len; i++)
        p[2 * i] = p[2 * i + 1] = raw.data[i];
    return 0;
}

/* The data set that blocks belong to: only its unpack() is called. */
static const stk_data_ops ops = { .name = "twice", .unpack = twice };
static stk_dataset data_set = { .ops = &ops };
static const stk_dataset *const data = &data_set;

static stk_cache *make(uint64_t bound)
{
    stk_cache *c = NULL;
    stk_error err;

    stk_account_init(&account, 1 << 20);
    atomic_store(&unpacks, 0);
    assert_int_equal(stk_cache_open(&c, bound, &account, &err), 0);
    return c;
}

static stk_block *get(stk_cache *c, uint64_t number, size_t len)
{
    stk_place place = {
        .offset = number * 1000, .len = len, .block = number, .shared = 1, .unpacked = 2 * len
    };
    stk_block *b = NULL;
    stk_error err;

    assert_int_equal(stk_cache_get(c, data, 0, &place, &b, &err), 0);
    return b;
}

static void fill(stk_block *b, uint8_t byte)
{
    stk_io *io = stk_block_io(b);

    memset(io->dst, byte, io->len);
    io->got = io->len;
    stk_block_arrived(b);
}

static void told(stk_waiter *w)
{
    ++*(unsigned *)w->cookie;
}

/* Get a block and see that it is what it should be; 1: it had to be read. */
static int use(stk_cache *c, uint64_t number, size_t len)
{
    stk_block *b = get(c, number, len);
    unsigned n = 0;
    stk_waiter w = { .arrived = told, .cookie = &n };
    int yours = stk_block_want(b, &w) == STK_BLOCK_YOURS;
    stk_bytes out;
    stk_error err;

    if (yours)
        fill(b, (uint8_t)number);
    assert_int_equal(stk_block_open(b, NULL, &out, &err), 0);
    assert_int_equal(out.len, 2 * len);
    assert_int_equal(out.data[2 * len - 1], (uint8_t)number);
    stk_block_put(c, b);
    return yours;
}

static void read_once_told_once(void **state)
{
    stk_cache *c = make(10000);
    stk_block *a = get(c, 7, 100), *b = get(c, 7, 100);
    unsigned n = 0;
    stk_waiter w[3] = { { told, &n, NULL }, { told, &n, NULL }, { told, &n, NULL } };
    stk_bytes out;
    stk_error err;

    (void)state;
    assert_ptr_equal(a, b);
    assert_int_equal(stk_block_want(a, &w[0]), STK_BLOCK_YOURS);
    assert_int_equal(stk_block_want(b, &w[1]), STK_BLOCK_COMING);
    assert_int_equal(stk_block_want(a, &w[2]), STK_BLOCK_COMING);
    assert_int_equal(stk_block_io(a)->offset, 7000);
    fill(a, 9);
    assert_int_equal(n, 2);
    assert_int_equal(stk_block_want(b, &w[0]), STK_BLOCK_HERE);
    for (int i = 0; i < 3; i++)
        assert_int_equal(stk_block_open(a, NULL, &out, &err), 0);
    assert_int_equal(unpacks, 1);
    assert_int_equal(out.len, 200);
    assert_int_equal(atomic_load(&account.used), 200); /* the read bytes are gone */
    stk_block_put(c, a);
    stk_block_put(c, b);
    stk_cache_close(&c);
    assert_int_equal(atomic_load(&account.used), 0);
}

static void oldest_goes_first(void **state)
{
    stk_cache *c = make(700); /* three of 200 */

    (void)state;
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(use(c, i, 100), 1);
    assert_int_equal(use(c, 0, 100), 0); /* now 1 is the oldest */
    assert_int_equal(use(c, 3, 100), 1);
    assert_int_equal(use(c, 1, 100), 1);
    assert_int_equal(use(c, 0, 100), 0);
    assert_int_equal(use(c, 3, 100), 0);
    assert_int_equal(use(c, 2, 100), 1);
    assert_true(atomic_load(&account.used) <= 700);
    assert_int_equal(stk_cache_trim(c), 1);
    assert_int_equal(atomic_load(&account.used), 0);
    assert_int_equal(stk_cache_trim(c), 0);
    stk_cache_close(&c);
}

static void used_ones_stay(void **state)
{
    stk_cache *c = make(0);
    stk_block *a = get(c, 1, 100), *b;
    stk_bytes out;
    stk_error err;

    (void)state;
    stk_block_want(a, &(stk_waiter){ 0 });
    fill(a, 1);
    assert_int_equal(use(c, 2, 5000), 1);
    stk_cache_trim(c);
    b = get(c, 1, 100);
    assert_ptr_equal(a, b);
    stk_block_put(c, b);
    assert_int_equal(stk_block_open(a, NULL, &out, &err), 0);
    assert_int_equal(out.data[199], 1);
    stk_block_put(c, a);
    assert_int_equal(atomic_load(&account.used), 0); /* a bound of nothing keeps nothing */
    stk_cache_close(&c);
}

static void failures_are_told_and_forgotten(void **state)
{
    stk_cache *c = make(10000);
    stk_block *b;
    stk_bytes out;
    stk_error err;

    (void)state;
    for (int k = 0; k < 3; k++) {
        b = get(c, 4, 100);
        assert_int_equal(stk_block_want(b, &(stk_waiter){ 0 }), STK_BLOCK_YOURS);
        if (k == 0) { /* a short read */
            stk_block_io(b)->got = 60;
            stk_block_arrived(b);
        } else if (k == 1) { /* a failed one */
            stk_block_io(b)->rc = STK_EIO;
            stk_block_io(b)->sys = 110;
            stk_block_arrived(b);
        } else {
            fill(b, 255); /* bad bytes */
        }
        for (int i = 0; i < 2; i++) {
            assert_int_equal(stk_block_open(b, NULL, &out, &err), k == 0   ? STK_ESTALE
                                                                  : k == 1 ? STK_EIO
                                                                           : STK_ECORRUPT);
            assert_int_equal(err.offset, 4000);
            assert_true(err.message[0]);
        }
        stk_block_put(c, b);
    }
    assert_int_equal(unpacks, 1); /* bad bytes are unpacked once, not for every user */
    assert_int_equal(atomic_load(&account.used), 0);
    assert_int_equal(use(c, 4, 100), 1); /* a later try finds it good */
    b = get(c, 5, 100);                  /* taken and put back unread */
    stk_block_put(c, b);
    stk_cache_close(&c);
    assert_int_equal(atomic_load(&account.used), 0);
}

static void limits(void **state)
{
    stk_cache *c = make(1 << 20);
    stk_place place = { .len = 2 << 20, .shared = 1 };
    stk_block *b = NULL;
    stk_bytes out;
    stk_error err;

    (void)state;
    assert_int_equal(stk_cache_get(c, data, 0, &place, &b, &err), STK_ELIMIT); /* never */
    assert_null(b);
    assert_int_equal(stk_account_take(&account, 900000), 1);
    place.len = 200000;
    assert_int_equal(stk_cache_get(c, data, 0, &place, &b, &err), STK_ELIMIT); /* not now */
    stk_account_give(&account, 900000);
    place.len = 700000; /* fits, but not with what it unpacks to: said before anything is read */
    place.unpacked = 700000;
    assert_int_equal(stk_cache_get(c, data, 0, &place, &b, &err), STK_ELIMIT);
    assert_int_equal(atomic_load(&account.used), 0);
    place.unpacked = UINT64_MAX;
    assert_int_equal(stk_cache_get(c, data, 0, &place, &b, &err), STK_ELIMIT);
    place.unpacked = 300000;
    assert_int_equal(stk_cache_get(c, data, 0, &place, &b, &err), 0);
    assert_int_equal(atomic_load(&account.used), 1000000); /* for both, before it is read */
    assert_int_equal(stk_cache_held(c), 1000000);
    stk_block_want(b, &(stk_waiter){ 0 });
    fill(b, 1);
    assert_int_equal(stk_block_open(b, NULL, &out, &err), STK_ECORRUPT);
    stk_block_put(c, b);
    assert_int_equal(atomic_load(&account.used), 0);
    assert_int_equal(stk_cache_held(c), 0);
    place.unpacked = 20;
    for (uint64_t n = 1; n < 3; n++) {
        stk_mem_fail_at(n);
        place.len = 10;
        assert_int_equal(stk_cache_get(c, data, 0, &place, &b, &err), STK_ENOMEM);
        stk_mem_fail_at(0);
        assert_int_equal(atomic_load(&account.used), 0);
    }
    stk_cache_close(&c);
}

/* Unpacking holds no lock: others who want the block meanwhile are not kept, but told. */
static _Atomic int unpacking, go_on;

static int slowly(const stk_dataset *d, stk_unpack_job *job, stk_error *err)
{
    atomic_store(&unpacking, 1);
    while (!atomic_load(&go_on)) {}
    return twice(d, job, err);
}

static void *open_slowly(void *block)
{
    stk_bytes out;
    stk_error err;

    return stk_block_open(block, NULL, &out, &err) == 0 && out.len == 200 ? NULL : block;
}

static void unpacking_keeps_nobody(void **state)
{
    static const stk_data_ops slow = { .name = "slow", .unpack = slowly };
    stk_cache *c = make(10000);
    stk_block *b = get(c, 7, 100);
    unsigned n = 0;
    stk_waiter w[2] = { { told, &n, NULL }, { told, &n, NULL } };
    stk_bytes out;
    stk_error err;
    pthread_t t;
    void *bad;

    (void)state;
    assert_int_equal(stk_block_want(b, &w[0]), STK_BLOCK_YOURS);
    fill(b, 9);
    atomic_store(&unpacking, 0);
    atomic_store(&go_on, 0);
    data_set.ops = &slow;
    pthread_create(&t, NULL, open_slowly, b);
    while (!atomic_load(&unpacking)) {}
    assert_int_equal(stk_block_open(b, &w[0], &out, &err), STK_PENDING);
    assert_int_equal(stk_block_want(b, &w[1]), STK_BLOCK_COMING);
    assert_int_equal(n, 0);
    atomic_store(&go_on, 1);
    pthread_join(t, &bad);
    data_set.ops = &ops;
    assert_null(bad);
    assert_int_equal(n, 2);
    assert_int_equal(stk_block_open(b, &w[0], &out, &err), 0);
    assert_int_equal(out.data[199], 9);
    assert_int_equal(unpacks, 1);
    stk_block_put(c, b);
    stk_cache_close(&c);
}

static void told_elsewhere(stk_waiter *w)
{
    atomic_store((_Atomic int *)w->cookie, 1);
}

static void *churn_waiting(void *arg)
{
    for (uint64_t i = 0; i < 4000; i++) {
        uint64_t number = i * 11 % 40;
        stk_block *b = get(arg, number, 100);
        _Atomic int here = 0;
        stk_waiter w = { .arrived = told_elsewhere, .cookie = (void *)&here };
        stk_bytes out;
        stk_error err;

        switch (stk_block_want(b, &w)) {
        case STK_BLOCK_YOURS: fill(b, (uint8_t)number); break;
        case STK_BLOCK_COMING:
            while (!atomic_load(&here)) {}
            break;
        case STK_BLOCK_HERE: break;
        }
        atomic_store(&here, 0);
        while (stk_block_open(b, &w, &out, &err) == STK_PENDING) {
            while (!atomic_load(&here)) {}
            atomic_store(&here, 0);
        }
        if (out.len != 200 || out.data[199] != (uint8_t)number)
            return arg;
        stk_block_put(arg, b);
    }
    return NULL;
}

static void many_threads(void **state)
{
    stk_cache *c = make(2000);
    pthread_t t[3];
    void *bad;

    (void)state;
    for (int i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, churn_waiting, c);
    for (int i = 0; i < 3; i++) {
        pthread_join(t[i], &bad);
        assert_null(bad);
    }
    stk_cache_close(&c);
    assert_int_equal(atomic_load(&account.used), 0);
}

static void *wait_for(void *block)
{
    stk_block_wait(block);
    return NULL;
}

/* A block that is made before it is wanted: by one thread, others can wait for it or go on. */
static void made_ahead(void **state)
{
    stk_place place = { .offset = 3000, .len = 100, .block = 3, .shared = 1, .unpacked = 200 };
    stk_cache *c = make(10000);
    stk_block *b, *same;
    pthread_t t;
    stk_bytes out;

    (void)state;
    for (int good = 1; good >= 0; good--, place.block++) {
        unsigned n = 0;
        stk_waiter w = { told, &n, NULL };

        assert_null(stk_cache_unpacking(c, data, 0, &place));
        assert_non_null(b = stk_cache_begin(c, data, 0, &place));
        assert_null(stk_cache_begin(c, data, 0, &place));
        assert_null(stk_cache_peek(c, data, 0, &place, &out));
        assert_ptr_equal(same = stk_cache_unpacking(c, data, 0, &place), b);
        assert_int_equal(stk_block_want(b, &w), STK_BLOCK_COMING);
        assert_int_equal(pthread_create(&t, NULL, wait_for, same), 0);
        memset(stk_block_io(b)->dst, 5, 100);
        stk_block_io(b)->got = good ? 100 : 99; /* cut short */
        stk_block_made(b);
        pthread_join(t, NULL);
        assert_int_equal(n, 1);
        stk_block_wait(same); /* it is over: nothing is waited for */
        stk_block_put(c, same);
        stk_block_put(c, b);
        b = stk_cache_peek(c, data, 0, &place, &out);
        assert_int_equal(b != NULL, good);
        if (b) {
            assert_int_equal(out.len, 200);
            assert_int_equal(out.data[199], 5);
            stk_block_put(c, b);
        }
    }
    stk_cache_close(&c);
    assert_int_equal(atomic_load(&account.used), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read_once_told_once),
        cmocka_unit_test(oldest_goes_first),
        cmocka_unit_test(used_ones_stay),
        cmocka_unit_test(failures_are_told_and_forgotten),
        cmocka_unit_test(limits),
        cmocka_unit_test(unpacking_keeps_nobody),
        cmocka_unit_test(many_threads),
        cmocka_unit_test(made_ahead),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

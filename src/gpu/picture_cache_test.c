/* SPDX-License-Identifier: Apache-2.0 */
/* picture_cache_test.c - entries of the arena: each is kept once, in a place of its own, for any
 * thread; bad ones never again. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "gpu/picture_cache.h"

enum { SAMPLES = 9000, OUTPUTS = 2, THREADS = 4, TRIES = 20000 };

static const char *say(int rc)
{
    return rc ? "out of memory" : "";
}

static int fake_alloc(int gpu, size_t size, void **out)
{
    *out = gpu ? NULL : malloc(size);
    return !*out;
}

static void fake_free(int gpu, void *p)
{
    (void)gpu;
    free(p);
}

static const stk_cuda cuda = { .say = say, .alloc = fake_alloc, .free = fake_free };

static stk_picture_cache *open_keep(uint64_t bytes)
{
    stk_picture_cache_options o = { bytes, SAMPLES, OUTPUTS };
    stk_error err;
    stk_picture_cache *k;

    assert_int_equal(stk_picture_cache_open(&k, &cuda, 0, &o, &err), 0);
    return k;
}

static uint64_t length(stk_cache_key of)
{
    return 1 + of.sample * 37 % 300 + of.output;
}

static void one_life(void **state)
{
    stk_picture_cache *k = open_keep(64 + 128 + 192);
    stk_cache_key a = { 4097, 1 }, b = { 3, 0 }, c = { 5, 1 }, none = { SAMPLES, 0 };
    stk_picture_cache_stats s;
    uint64_t at, len;

    (void)state;
    assert_non_null(stk_picture_cache_arena(k, &len));
    assert_int_equal(len, 64 + 128 + 192);
    assert_int_equal(stk_picture_cache_find(k, a), 0);
    assert_true(stk_picture_cache_wants(k, a, 100) && !stk_picture_cache_wants(k, a, 1000));
    assert_int_equal(stk_picture_cache_claim(k, a, 1000), 0);
    at = stk_picture_cache_claim(k, a, 80);
    assert_true(at && at % 64 == 0);
    assert_int_equal(stk_picture_cache_claim(k, a, 80), 0); /* it is coming */
    assert_int_equal(stk_picture_cache_find(k, a), 0);
    stk_picture_cache_undo(k, a);
    assert_int_equal(stk_picture_cache_claim(k, a, 80), at); /* its place is still its own */
    stk_picture_cache_there(k, a);
    assert_int_equal(stk_picture_cache_find(k, a), at);
    assert_false(stk_picture_cache_wants(k, a, 80));
    assert_true(stk_picture_cache_claim(k, b, 100) > at);
    stk_picture_cache_bad(k, b);
    assert_false(stk_picture_cache_wants(k, b, 1) || stk_picture_cache_claim(k, b, 1) ||
                 stk_picture_cache_find(k, b));
    assert_int_equal(stk_picture_cache_claim(k, c, 40), 0); /* full */
    assert_int_equal(stk_picture_cache_claim(k, none, 1), 0);
    assert_int_equal(stk_picture_cache_find(k, none), 0);
    stk_picture_cache_figures(k, &s);
    assert_true(s.entries == 1 && s.bytes == 320 && s.limit == 384);
    stk_picture_cache_bad(k, a);
    stk_picture_cache_figures(k, &s);
    assert_true(s.entries == 0 && !stk_picture_cache_find(k, a));
    stk_picture_cache_close(&k);
    assert_null(k);
}

typedef struct thread {
    stk_picture_cache *k;
    uint32_t number;
    uint64_t failures;
} thread;

/* What was claimed is marked, and must be so when it is found. */
static void *crowd(void *p)
{
    thread *t = p;
    uint64_t len;
    uint8_t *arena = stk_picture_cache_arena(t->k, &len);
    stk_rng rng;

    stk_rng_init(&rng, 1, t->number, 0, 0, 0);
    for (int i = 0; i < TRIES; i++) {
        stk_cache_key of = { stk_rng_below(&rng, SAMPLES), stk_rng_below(&rng, OUTPUTS) };
        uint64_t at = stk_picture_cache_find(t->k, of), n = length(of);
        uint8_t mark = (uint8_t)(of.sample * 2 + of.output);

        for (uint64_t j = 0; at && j < n; j++)
            t->failures += arena[at + j] != mark;
        if (at)
            continue;
        at = stk_picture_cache_claim(t->k, of, n);
        if (!at)
            continue;
        t->failures += at + n > len;
        memset(arena + at, mark, n);
        (stk_rng_below(&rng, 8) ? stk_picture_cache_there : stk_picture_cache_undo)(t->k, of);
    }
    return NULL;
}

static void many_at_once(void **state)
{
    stk_picture_cache *k = open_keep(1500000);
    thread t[THREADS];
    pthread_t id[THREADS];
    stk_picture_cache_stats s;

    (void)state;
    for (uint32_t i = 0; i < THREADS; i++) {
        t[i] = (thread){ k, i, 0 };
        assert_int_equal(pthread_create(&id[i], NULL, crowd, &t[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_join(id[i], NULL);
        assert_int_equal(t[i].failures, 0);
    }
    stk_picture_cache_figures(k, &s);
    assert_true(s.bytes <= s.limit && s.bytes > s.limit - 1000 && s.entries > 3000);
    stk_picture_cache_close(&k);
}

static void no_memory(void **state)
{
    stk_picture_cache_options o = { 1000, SAMPLES, OUTPUTS };
    stk_cache_key of = { 1, 1 };
    stk_error err;
    stk_picture_cache *k;

    (void)state;
    assert_int_equal(stk_picture_cache_open(&k, &cuda, 1, &o, &err), STK_ENOMEM);
    assert_non_null(strstr(err.message, "device_cache_limit"));
    k = open_keep(10000);
    stk_mem_fail_at(1);
    assert_int_equal(stk_picture_cache_claim(k, of, 1), 0);
    stk_mem_fail_at(0);
    assert_true(stk_picture_cache_claim(k, of, 1) > 0);
    stk_picture_cache_close(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(one_life), cmocka_unit_test(many_at_once),
                                        cmocka_unit_test(no_memory) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

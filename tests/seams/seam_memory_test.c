/* SPDX-License-Identifier: Apache-2.0 */
/* seam_memory_test.c - an allocator that counts and guards: large outputs come from it, buffers
 * outlive the loader. */
#include <pthread.h>
#include <stdatomic.h>

#include "seam.h"

#define GUARD 64
#define N 64

typedef struct counting {
    _Atomic int64_t blocks, bytes;
    _Atomic unsigned allocs, spoiled;
    unsigned fail_after; /* 0: never */
} counting;

static void *guarded_alloc(void *cookie, size_t size)
{
    counting *c = cookie;
    uint8_t *p;

    if (c->fail_after && atomic_load(&c->allocs) >= c->fail_after)
        return NULL;
    p = aligned_alloc(64, (size + 2 * GUARD + 63) / 64 * 64);
    memset(p, 0xa5, size + 2 * GUARD);
    atomic_fetch_add(&c->blocks, 1);
    atomic_fetch_add(&c->bytes, (int64_t)size);
    atomic_fetch_add(&c->allocs, 1);
    return p + GUARD;
}

static void guarded_free(void *cookie, void *data, size_t size)
{
    counting *c = cookie;
    uint8_t *p = (uint8_t *)data - GUARD;

    for (size_t i = 0; i < GUARD; i++)
        if (p[i] != 0xa5 || p[GUARD + size + i] != 0xa5)
            atomic_fetch_add(&c->spoiled, 1);
    atomic_fetch_sub(&c->blocks, 1);
    atomic_fetch_sub(&c->bytes, (int64_t)size);
    free(p);
}

/* grow: a row of 4,096 numbers from one: large enough to come from the allocator. */
static int grow_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    (void)state;
    (void)args;
    (void)err;
    spec->kind = STK_KIND_VALUE;
    spec->out = STK_OUT_DENSE;
    spec->dtype = STK_I32;
    spec->ndim = 1;
    spec->shape[0] = 4096;
    return 0;
}

static int grow_parse(const void *state, const stk_codec_work *work, stk_bytes in, void *dst,
                      stk_error *err)
{
    char text[32] = "";
    int32_t *out = dst;

    (void)state;
    (void)err;
    memcpy(text, in.data, in.len < 31 ? in.len : 31);
    for (int32_t i = 0; i < 4096; i++)
        out[i] = (int32_t)atoi(text) + i;
    return 0;
}

static const stk_codec grow = { .abi = STK_PLUGIN_ABI,
                                .size = sizeof(stk_codec),
                                .name = "grow",
                                .help = "4,096 from one",
                                .plan = grow_plan,
                                .parse = grow_parse };
static const stk_output outputs[] = { { "x", "from(cls) | grow" }, { "n", "from(cls) | int" } };
static stk_dataset *ds;

static int setup(void **state)
{
    stk_error err;

    (void)state;
    seam_shards("a", 1, N, 0);
    ds = seam_open("", "a-0.tar", NULL);
    return stk_plugin_add(STK_PLUGIN_CODEC, &grow, &err);
}

static int teardown(void **state)
{
    (void)state;
    stk_dataset_unref(&ds);
    return 0;
}

static stk_memory counting_memory(counting *c)
{
    return (stk_memory){ .abi = STK_PLUGIN_ABI,
                         .size = sizeof(stk_memory),
                         .name = "counting",
                         .cookie = c,
                         .alloc = guarded_alloc,
                         .free = guarded_free };
}

static stk_loader_options options(const stk_memory *m)
{
    return (stk_loader_options){ .size = sizeof(stk_loader_options),
                                 .outputs = outputs,
                                 .n_outputs = 2,
                                 .batch_size = 8,
                                 .num_workers = 2,
                                 .prefetch = 3,
                                 .memory = m };
}

static void check(const stk_tensor *t, uint64_t first)
{
    for (uint64_t r = 0; r < 8; r++)
        for (int32_t i = 0; i < 4096; i += 1365)
            assert_int_equal(((int32_t *)t->data)[r * 4096 + (uint64_t)i],
                             seam_number(first + r) + i);
}

static void *let_go(void *arg)
{
    seam_sleep_ms(5);
    stk_buffer_unref(arg);
    return NULL;
}

static void counted_guarded_and_outliving(void **state)
{
    counting c = { 0 };
    stk_memory m = counting_memory(&c);
    stk_loader_options o = options(&m);
    stk_loader *l = seam_loader(&ds, 1, &o);
    stk_tensor kept[3], small;
    stk_batch *b = NULL, *held = NULL;
    pthread_t thread;
    stk_error err;

    (void)state;
    memset(&m, 0, sizeof m); /* it was copied */
    for (int epoch = 0; epoch < 3; epoch++) {
        for (uint64_t step = 0; stk_loader_next(l, &b, 60000, &err) == 0; step++) {
            stk_tensor t;

            assert_int_equal(stk_batch_dense(b, 0, &t), 0);
            check(&t, step * 8);
            if (epoch == 2 && step < 3) {
                kept[step] = t;
                stk_buffer_ref(t.buffer);
            }
            if (epoch == 2 && step == 4) {
                held = b;
                b = NULL;
            }
            stk_batch_release(&b);
        }
    }
    assert_in_range(c.allocs, 3, 9); /* buffers are used over and over */
    assert_int_equal(stk_batch_dense(held, 1, &small), 0);
    stk_buffer_ref(small.buffer);
    stk_loader_close(&l);
    assert_int_equal(c.blocks, 4);
    for (int i = 0; i < 3; i++)
        check(&kept[i], (uint64_t)i * 8);
    stk_buffer_unref(kept[0].buffer);
    assert_int_equal(pthread_create(&thread, NULL, let_go, kept[1].buffer), 0);
    stk_buffer_unref(kept[2].buffer);
    pthread_join(thread, NULL);
    assert_int_equal(c.blocks, 1);
    stk_batch_release(&held); /* a whole batch after its loader */
    assert_int_equal(c.blocks, 0);
    assert_int_equal(c.bytes, 0);
    assert_int_equal(c.spoiled, 0);
    assert_int_equal(*(int64_t *)small.data, seam_number(32));
    stk_buffer_unref(small.buffer);
}

static void refusals_of_the_allocator(void **state)
{
    (void)state;
    for (unsigned n = 1; n < 5; n++) {
        counting c = { .fail_after = n };
        stk_memory m = counting_memory(&c);
        stk_loader_options o = options(&m);
        stk_loader *l = seam_loader(&ds, 1, &o);
        stk_batch *held[8] = { 0 };
        unsigned got = 0;
        stk_error err;

        while (got < 8 && stk_loader_next(l, &held[got], 60000, &err) == 0)
            got++;
        assert_int_equal(got, n);               /* each holds a buffer */
        assert_int_equal(err.code, STK_ENOMEM); /* memory_limit has nothing to do with it */
        assert_non_null(strstr(err.message, "the system gives no memory"));
        while (got)
            stk_batch_release(&held[--got]);
        for (unsigned i = n; i < 8; i++) { /* with one let go it goes on */
            seam_ok(stk_loader_next(l, &held[0], 60000, &err), &err);
            assert_int_equal(stk_batch_step(held[0]), i);
            stk_batch_release(&held[0]);
        }
        stk_loader_close(&l);
        assert_int_equal(c.blocks, 0);
    }
}

static void held_too_many(void **state)
{
    stk_loader_options o = options(NULL);
    stk_batch *held[64] = { 0 };
    stk_stats st = { .size = sizeof st };
    unsigned got = 0;
    stk_error err;
    stk_loader *l;
    int rc = 0;

    (void)state;
    o.memory_limit = 1 << 20; /* a batch is 128 KiB */
    l = seam_loader(&ds, 1, &o);
    while (got < 64 && (rc = stk_loader_next(l, &held[got], 60000, &err)) >= 0)
        got += rc == 0;
    assert_int_equal(rc, STK_ELIMIT);
    stk_loader_stats(l, &st);
    assert_int_equal(st.held, got);
    assert_in_range(got, 5, 8);
    assert_non_null(strstr(err.message, "you hold "));
    assert_true(st.memory_peak <= st.memory_limit);
    stk_batch_release(&held[0]);
    seam_ok(stk_loader_next(l, &held[0], 60000, &err), &err);
    for (unsigned i = 0; i < got; i++)
        stk_batch_release(&held[i]);
    stk_loader_stats(l, &st);
    assert_int_equal(st.held, 0);
    stk_loader_close(&l);
}

/* Whatever limit open() accepts, one batch can be held while the next one is made. */
static void two_fit_or_it_says_so(void **state)
{
    unsigned refused = 0, opened = 0;

    (void)state;
    for (uint64_t limit = 100000; limit < 700000; limit += 20011) {
        stk_loader_options o = options(NULL);
        stk_batch *b = NULL, *last = NULL;
        stk_loader *l = NULL;
        stk_error err;
        int rc;

        o.memory_limit = limit;
        if (stk_loader_open(&l, &ds, 1, &o, &err) < 0) {
            assert_int_equal(err.code, STK_EINVAL);
            assert_non_null(strstr(err.message, "a memory_limit of"));
            refused++;
            continue;
        }
        while ((rc = stk_loader_next(l, &b, 60000, &err)) == 0) {
            stk_batch_release(&last);
            last = b;
        }
        if (rc != STK_END)
            seam_ok(rc, &err);
        stk_batch_release(&last);
        stk_loader_close(&l);
        opened++;
    }
    assert_true(refused > 3 && opened > 3);
}

static void abi(void **state)
{
    stk_memory m = counting_memory(NULL);
    stk_loader_options o = options(&m);
    stk_loader *l = NULL;
    stk_error err;

    (void)state;
    m.abi = 7;
    assert_int_equal(stk_loader_open(&l, &ds, 1, &o, &err), STK_EINVAL);
    assert_string_equal(err.message, "memory counting was built for ABI 7, this is 4: rebuild it");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counted_guarded_and_outliving),
        cmocka_unit_test(refusals_of_the_allocator),
        cmocka_unit_test(held_too_many),
        cmocka_unit_test(two_fit_or_it_says_so),
        cmocka_unit_test(abi),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}

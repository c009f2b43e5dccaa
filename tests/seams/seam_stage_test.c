/* SPDX-License-Identifier: Apache-2.0 */
/* seam_stage_test.c - batch stages: at once, later by event from another thread, failing, two in
 * order. */
#include <pthread.h>
#include <stdatomic.h>

#include "seam.h"

#define N 120

/* A thread that ends stages some time after they began, the latest first. */
static struct {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct {
        stk_ticket *ticket;
        stk_batch *batch;
    } item[64];
    unsigned n;
    int stop, hold;
    _Atomic unsigned ended;
} later = { .lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER };

static int64_t *numbers(stk_batch *b)
{
    stk_tensor t;

    assert_int_equal(stk_batch_dense(b, 1, &t), 0);
    return t.data;
}

static void add(stk_batch *b, int64_t k)
{
    int64_t *n = numbers(b);

    for (uint32_t i = 0; i < stk_batch_rows(b); i++)
        n[i] = n[i] * 3 + k; /* the order of stages shows */
}

static void *later_main(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&later.lock);
    while (!later.stop || later.n) {
        stk_ticket *t;

        if (!later.n || later.hold) {
            pthread_cond_wait(&later.more, &later.lock);
            continue;
        }
        t = later.item[--later.n].ticket;
        add(later.item[later.n].batch, 1);
        pthread_mutex_unlock(&later.lock);
        seam_sleep_ms(2);
        atomic_fetch_add(&later.ended, 1);
        stk_ticket_done(t, 0, NULL);
        pthread_mutex_lock(&later.lock);
    }
    pthread_mutex_unlock(&later.lock);
    return NULL;
}

static void later_hold(int hold)
{
    pthread_mutex_lock(&later.lock);
    later.hold = hold;
    pthread_cond_broadcast(&later.more);
    pthread_mutex_unlock(&later.lock);
}

static int later_run(void *state, stk_batch *b, stk_ticket *t, stk_error *err)
{
    (void)state;
    (void)err;
    pthread_mutex_lock(&later.lock);
    later.item[later.n].batch = b;
    later.item[later.n++].ticket = t;
    pthread_cond_broadcast(&later.more);
    pthread_mutex_unlock(&later.lock);
    return STK_PENDING;
}

static int once_run(void *state, stk_batch *b, stk_ticket *t, stk_error *err)
{
    (void)state;
    (void)t;
    (void)err;
    add(b, 2);
    return 0;
}

static int fail_run(void *state, stk_batch *b, stk_ticket *t, stk_error *err)
{
    (void)state;
    if (stk_batch_step(b) % 3 != 1)
        return 0;
    if (stk_batch_step(b) % 2)
        return stk_fail(err, STK_ECORRUPT, "step %u is odd", (unsigned)stk_batch_step(b));
    stk_fail(err, STK_EIO, "later");
    stk_ticket_done(t, STK_EIO, stk_batch_step(b) == 4 ? NULL : err);
    return STK_PENDING;
}

/* Says it is through before run() has returned. */
static int hasty_run(void *state, stk_batch *b, stk_ticket *t, stk_error *err)
{
    (void)state;
    (void)err;
    add(b, 5);
    stk_ticket_done(t, 0, NULL);
    return STK_PENDING;
}

static const stk_stage later_stage = {
    .abi = STK_PLUGIN_ABI, .size = sizeof(stk_stage), .name = "later", .run = later_run
};
static const stk_stage once_stage = {
    .abi = STK_PLUGIN_ABI, .size = sizeof(stk_stage), .name = "once", .run = once_run
};
static const stk_stage fail_stage = {
    .abi = STK_PLUGIN_ABI, .size = sizeof(stk_stage), .name = "fail", .run = fail_run
};
static const stk_stage hasty_stage = {
    .abi = STK_PLUGIN_ABI, .size = sizeof(stk_stage), .name = "hasty", .run = hasty_run
};

static stk_dataset *ds;

static int setup(void **state)
{
    (void)state;
    seam_shards("a", 2, N / 2, 0);
    ds = seam_open("", "a-{0..1}.tar", NULL);
    return pthread_create(&later.thread, NULL, later_main, NULL);
}

static int teardown(void **state)
{
    (void)state;
    pthread_mutex_lock(&later.lock);
    later.stop = 1;
    pthread_cond_broadcast(&later.more);
    pthread_mutex_unlock(&later.lock);
    pthread_join(later.thread, NULL);
    stk_dataset_unref(&ds);
    return 0;
}

static void in_order(void **state)
{
    static const stk_stage *const stages[] = { &later_stage, &once_stage, &hasty_stage,
                                               &later_stage };
    static const int32_t workers[] = { STK_NONE, 1, 2, 8 };

    (void)state;
    for (int w = 0; w < 4; w++) {
        stk_loader_options o = seam_options(10, workers[w]);
        stk_batch *b = NULL;
        stk_error err;
        stk_loader *l;
        uint64_t at = 0;
        int rc;

        o.stages = stages;
        o.n_stages = 4;
        o.prefetch = 4;
        atomic_store(&later.ended, 0);
        l = seam_loader(&ds, 1, &o);
        while ((rc = stk_loader_next(l, &b, 60000, &err)) == 0) {
            int64_t *n = numbers(b);

            for (uint32_t i = 0; i < stk_batch_rows(b); i++, at++) {
                assert_int_equal(stk_batch_ids(b)[i], at);
                assert_int_equal(n[i], (((seam_number(at) * 3 + 1) * 3 + 2) * 3 + 5) * 3 + 1);
            }
            stk_batch_release(&b);
        }
        assert_int_equal(rc, STK_END);
        assert_int_equal(at, N);
        assert_true(atomic_load(&later.ended) >= 24);
        stk_loader_close(&l); /* the next epoch's batches are still on their way */
    }
}

static void failures_name_their_step(void **state)
{
    static const stk_stage *const stages[] = { &fail_stage, &once_stage };

    (void)state;
    for (int w = 0; w < 2; w++) {
        stk_loader_options o = seam_options(10, w ? 2 : STK_NONE);
        stk_batch *b = NULL;
        stk_error err;
        stk_loader *l;

        o.stages = stages;
        o.n_stages = 2;
        l = seam_loader(&ds, 1, &o);
        for (unsigned step = 0; step < 12; step++) {
            int rc = stk_loader_next(l, &b, 60000, &err);

            if (step % 3 != 1) {
                seam_ok(rc, &err);
                assert_int_equal(stk_batch_step(b), step);
            } else if (step % 2) {
                char line[32];

                snprintf(line, sizeof line, "step %u is odd", step);
                assert_int_equal(rc, STK_ECORRUPT);
                assert_string_equal(err.message, line);
            } else {
                assert_int_equal(rc, STK_EIO);
                assert_string_equal(err.message, step == 4 ? "a batch stage failed" : "later");
            }
            if (rc < 0) { /* nothing moved: it fails again, until one goes past it */
                assert_int_equal(stk_loader_position(l), step * 10);
                assert_int_equal(stk_loader_next(l, &b, 60000, &err), rc);
                seam_ok(stk_loader_seek(l, 0, step + 1, &err), &err);
            }
            stk_batch_release(&b);
        }
        assert_int_equal(stk_loader_next(l, &b, 60000, &err), STK_END);
        stk_loader_close(&l);
    }
}

/* A stage that takes its time: next() gives up when told to, seek() and close() wait for the
 * stage. */
static void stages_that_take_their_time(void **state)
{
    static const stk_stage *const stages[] = { &later_stage };

    (void)state;
    for (int w = 0; w < 2; w++) {
        stk_loader_options o = seam_options(10, w ? 2 : STK_NONE);
        stk_batch *b = NULL;
        stk_error err;
        stk_loader *l;

        o.stages = stages;
        o.n_stages = 1;
        later_hold(1);
        l = seam_loader(&ds, 1, &o);
        assert_int_equal(stk_loader_next(l, &b, 40, &err), STK_ETIMEOUT);
        assert_int_equal(stk_loader_next(l, &b, 0, &err), STK_ETIMEOUT);
        later_hold(0);
        seam_ok(stk_loader_next(l, &b, 60000, &err), &err);
        assert_int_equal(stk_batch_ids(b)[0], 0);
        stk_batch_release(&b);
        seam_ok(stk_loader_seek(l, 1, 3, &err), &err);
        seam_ok(stk_loader_next(l, &b, 60000, &err), &err);
        assert_int_equal(stk_batch_ids(b)[0], 30);
        stk_batch_release(&b);
        stk_loader_close(&l);
    }
}

static void abi(void **state)
{
    static const stk_stage old = { .size = sizeof old, .name = "old", .run = once_run };
    static const stk_stage *const stages[] = { &old };
    stk_loader_options o = seam_options(10, 1);
    stk_loader *l = NULL;
    stk_error err;

    (void)state;
    o.stages = stages;
    o.n_stages = 1;
    assert_int_equal(stk_loader_open(&l, &ds, 1, &o, &err), STK_EINVAL);
    assert_string_equal(err.message, "batch stage old was built for ABI 0, this is 4: rebuild it");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_order),
        cmocka_unit_test(failures_name_their_step),
        cmocka_unit_test(stages_that_take_their_time),
        cmocka_unit_test(abi),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}

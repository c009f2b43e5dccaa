/* SPDX-License-Identifier: Apache-2.0 */
/* seam_figures_test.c - figures are read by any thread while the consumer and the workers run, and
 * how many batches are made ahead is changed by any thread.
 *
 * TSan runs it too: nothing that a snapshot reads may be written without an atomic. */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "seam.h"

#define N 600

static stk_dataset *ds;

static int setup(void **state)
{
    (void)state;
    seam_shards("a", 3, N / 3, 0);
    ds = seam_open("", "a-{0..2}.tar", NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stk_dataset_unref(&ds);
    return 0;
}

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- a stage that ends when the test says so ---- */

static struct {
    pthread_mutex_t lock;
    stk_ticket *ticket[64];
    unsigned n;
    int open; /* batches pass at once */
} gate = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int gate_run(void *state, stk_batch *b, stk_ticket *t, stk_error *err)
{
    int rc = 0;

    (void)state;
    (void)b;
    (void)err;
    pthread_mutex_lock(&gate.lock);
    if (!gate.open) {
        gate.ticket[gate.n++] = t;
        rc = STK_PENDING;
    }
    pthread_mutex_unlock(&gate.lock);
    return rc;
}

static void gate_set(int open)
{
    pthread_mutex_lock(&gate.lock);
    gate.open = open;
    while (open && gate.n) {
        stk_ticket *t = gate.ticket[--gate.n];

        pthread_mutex_unlock(&gate.lock);
        stk_ticket_done(t, 0, NULL);
        pthread_mutex_lock(&gate.lock);
    }
    pthread_mutex_unlock(&gate.lock);
}

static const stk_stage gate_stage = {
    .abi = STK_PLUGIN_ABI, .size = sizeof gate_stage, .name = "gate", .run = gate_run
};
static const stk_stage *const gate_stages[] = { &gate_stage };

static void *take_all(void *loader)
{
    static uint64_t ids[N];

    seam_epoch(loader, N, ids);
    return NULL;
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static uint64_t times(const stk_stats *s, stk_stage_id stage)
{
    uint64_t sum = 0;

    for (int k = 0; k < STK_TIMES; k++)
        sum += s->stage_times[stage][k];
    return sum;
}

/* The consumer waits in next(); a snapshot says so, and does not wait. */
static void a_snapshot_does_not_wait(void **state)
{
    static uint64_t took[1000];
    stk_loader_options o = seam_options(20, 2);
    stk_stats st = { .size = sizeof st };
    pthread_t consumer;
    stk_loader *l;

    (void)state;
    o.prefetch = 3;
    o.stages = gate_stages;
    o.n_stages = 1;
    gate_set(0);
    l = seam_loader(&ds, 1, &o);
    stk_loader_stats(l, &st);
    assert_true(st.next_ns == 0 && st.wait_ns == 0 && st.waiting_ns == 0 && st.ring_open == 0);
    assert_int_equal(pthread_create(&consumer, NULL, take_all, l), 0);
    for (int i = 0; i < 60000 && st.waiting_ns < 20000000; i++, seam_sleep_ms(1))
        stk_loader_stats(l, &st);
    assert_true(st.waiting_ns >= 20000000 && st.ring_open > 0 && st.ring_ready == 0);
    seam_idle(l);
    for (uint32_t i = 0; i < 2; i++) { /* nothing is left to do but what the gate holds */
        stk_doing d;

        assert_int_equal(stk_loader_doing(l, i, &d), 0);
        assert_int_equal(d.stage, STK_STAGE_IDLE);
        assert_true(d.ns > 0 && d.ns < 60000000000u);
        assert_int_equal(stk_loader_doing(l, 2, &d), STK_END);
    }
    for (int i = 0; i < 1000; i++) {
        uint64_t from = now_ns();

        stk_loader_stats(l, &st);
        took[i] = now_ns() - from;
    }
    assert_int_equal(st.wait_ns, 0); /* it is not over */
    assert_int_equal(st.batches, 0);
    gate_set(1);
    pthread_join(consumer, NULL);
    stk_loader_stats(l, &st);
    assert_int_equal(st.batches, N / 20);
    /* Each once; but of each worker the last may be ready and not counted yet. */
    assert_in_range(times(&st, STK_STAGE_BATCH), N / 20 - 2, N / 20 + st.slots);
    assert_true(times(&st, STK_STAGE_VALUE) > 0 && times(&st, STK_STAGE_IDLE) > 0);
    assert_true(times(&st, STK_STAGE_DECODE) == 0 && st.tick_ns > 0);
    assert_int_equal(st.waiting_ns, 0);
    assert_true(st.wait_ns >= 20000000 && st.next_ns >= st.wait_ns);
    assert_true(st.repair_ns == 0 && st.ledger_ns == 0);
    qsort(took, 1000, sizeof *took, by_size);
    print_message("a snapshot: %u ns, and %u of 1,000\n", (unsigned)took[500], (unsigned)took[990]);
    assert_true(took[990] < 2000000); /* the machine has other work too */
    stk_loader_close(&l);
}

/* The consumer comes late: batches are ready, and nothing of next() is waiting. */
static void what_is_ready_is_not_waited_for(void **state)
{
    stk_loader_options o = seam_options(20, 2);
    stk_stats st = { .size = sizeof st }, before;
    stk_batch *b = NULL;
    stk_error err;
    stk_loader *l;

    (void)state;
    o.prefetch = 4;
    l = seam_loader(&ds, 1, &o);
    seam_ok(stk_loader_ledger(l, seam_path("ledger"), 0, 0, 0, &err), &err);
    seam_ok(stk_loader_next(l, &b, -1, &err), &err);
    stk_batch_release(&b);
    for (int i = 0; i < 60000 && st.ring_ready < 4; i++, seam_sleep_ms(1))
        stk_loader_stats(l, &st);
    assert_true(st.ring_ready == 4 && st.ring_open == 4 && st.ledger_ns > 0);
    before = st;
    seam_ok(stk_loader_next(l, &b, -1, &err), &err);
    stk_batch_release(&b);
    stk_loader_stats(l, &st);
    assert_int_equal(st.wait_ns, before.wait_ns);
    assert_true(st.next_ns > before.next_ns && st.ledger_ns > before.ledger_ns);
    assert_true(st.next_ns >= st.wait_ns + st.ledger_ns);
    stk_loader_close(&l);
}

/* ---- snapshots under load ---- */

static _Atomic int looking;

static void at_least(const stk_stats *now, const stk_stats *before)
{
    assert_true(now->samples >= before->samples && now->bytes >= before->bytes);
    assert_true(now->batches >= before->batches && now->next_ns >= before->next_ns);
    assert_true(now->wait_ns >= before->wait_ns);
    assert_true(now->ring_open <= now->slots && now->ring_ready <= now->slots);
    assert_true(now->memory <= now->memory_limit);
}

static void *look(void *loader)
{
    stk_stats before = { .size = sizeof before }, now = before;
    stk_error skipped;
    stk_doing d;

    while (atomic_load(&looking)) {
        stk_loader_stats(loader, &now);
        at_least(&now, &before);
        before = now;
        for (uint32_t i = 0; stk_loader_doing(loader, i, &d) == 0; i++)
            assert_true(d.stage < STK_STAGES);
        assert_int_equal(stk_loader_skipped(loader, 0, &skipped), STK_END);
    }
    return NULL;
}

static void snapshots_under_load(void **state)
{
    static uint64_t ids[N];
    stk_loader_options o = seam_options(7, 1);
    pthread_t thread[2];
    stk_error err;
    stk_loader *l;

    (void)state;
    o.shuffle = STK_SHUFFLE_EXACT;
    l = seam_loader(&ds, 1, &o);
    atomic_store(&looking, 1);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, look, l), 0);
    for (uint32_t i = 0; i < 12; i++) {
        seam_ok(stk_loader_set_workers(l, 1 + i % 5, &err), &err);
        seam_epoch(l, N, ids);
        if (i % 3 == 1)
            seam_ok(stk_loader_seek(l, i, 0, &err), &err);
    }
    atomic_store(&looking, 0);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    stk_loader_close(&l);
}

/* ---- how many are made ahead ---- */

static stk_loader *numbers_loader(uint32_t batch, uint32_t prefetch, int32_t workers)
{
    static const stk_output numbers = { "cls", "int" }; /* its first batch says nothing new */
    stk_loader_options o = seam_options(batch, workers);

    o.outputs = &numbers;
    o.n_outputs = 1;
    o.prefetch = prefetch;
    o.shuffle = STK_SHUFFLE_EXACT;
    return seam_loader(&ds, 1, &o);
}

static uint64_t take_one(stk_loader *l)
{
    stk_batch *b = NULL;
    uint64_t id;
    stk_error err;

    seam_ok(stk_loader_next(l, &b, 60000, &err), &err);
    id = stk_batch_ids(b)[0];
    stk_batch_release(&b);
    return id;
}

static stk_stats stats_of(const stk_loader *l)
{
    stk_stats st = { .size = sizeof st };

    stk_loader_stats(l, &st);
    return st;
}

static void fewer_are_open(void **state)
{
    stk_loader *l = numbers_loader(10, 8, 2);
    stk_error err;

    (void)state;
    assert_int_equal(stats_of(l).ring_ahead, 8);
    assert_int_equal(stk_loader_set_ahead(l, 0, &err), STK_EINVAL);
    assert_int_equal(stk_loader_set_ahead(l, 9, &err), STK_EINVAL);
    assert_non_null(strstr(err.message, "1 to 8 batches ahead"));
    seam_ok(stk_loader_set_ahead(l, 2, &err), &err);
    take_one(l);
    assert_int_equal(stats_of(l).ring_open, 2);
    seam_ok(stk_loader_set_ahead(l, 7, &err), &err);
    assert_int_equal(stats_of(l).ring_open, 2); /* the consumer opens them */
    take_one(l);
    assert_int_equal(stats_of(l).ring_open, 7);
    seam_ok(stk_loader_set_ahead(l, 1, &err), &err);
    for (uint32_t left = 6; left; left--) { /* what is open is not thrown away */
        take_one(l);
        assert_int_equal(stats_of(l).ring_open, left);
    }
    take_one(l);
    assert_int_equal(stats_of(l).ring_open, 1);
    stk_loader_close(&l);
}

static void *change(void *loader)
{
    uint64_t x = 88172645463325252u;
    stk_error err;

    while (atomic_load(&looking)) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        seam_ok(stk_loader_set_ahead(loader, 1 + (uint32_t)(x % 16), &err), &err);
        seam_sleep_ms(x % 3 == 0);
    }
    return NULL;
}

/* The same batches, whatever another thread sets meanwhile. */
static void batches_stay_the_same(void **state)
{
    static const int32_t workers[] = { STK_NONE, 1, 4 };

    (void)state;
    for (int w = 0; w < 3; w++) {
        stk_loader *want = numbers_loader(6, 16, workers[w]);
        stk_loader *got = numbers_loader(6, 16, workers[w]);
        pthread_t thread;
        stk_error err;

        atomic_store(&looking, 1);
        assert_int_equal(pthread_create(&thread, NULL, change, got), 0);
        for (uint64_t epoch = 0; epoch < 6; epoch++) {
            stk_batch *b = NULL;

            for (int i = 0; i < N / 6; i++)
                assert_int_equal(take_one(got), take_one(want));
            assert_int_equal(stk_loader_next(want, &b, -1, &err), STK_END);
            assert_int_equal(stk_loader_next(got, &b, -1, &err), STK_END);
        }
        atomic_store(&looking, 0);
        pthread_join(thread, NULL);
        stk_loader_close(&want);
        stk_loader_close(&got);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_snapshot_does_not_wait),
        cmocka_unit_test(what_is_ready_is_not_waited_for),
        cmocka_unit_test(snapshots_under_load),
        cmocka_unit_test(fewer_are_open),
        cmocka_unit_test(batches_stay_the_same),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}

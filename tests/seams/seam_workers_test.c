/* SPDX-License-Identifier: Apache-2.0 */
/* seam_workers_test.c - workers parked and added in the middle of an epoch, and counters that
 * add up. */
#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "seam.h"
#include "../support/sanitized.h"

#define N 3000

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

/* Threads of this process called stk-worker, and the clock ticks of the idlest `n` of them. */
static unsigned worker_threads(uint64_t *ticks, unsigned n)
{
    DIR *d = opendir("/proc/self/task");
    uint64_t all[64] = { 0 };
    struct dirent *e;
    unsigned k = 0;

    while (d && (e = readdir(d))) {
        unsigned long user = 0, sys = 0;
        char path[300], line[512];
        FILE *f;

        snprintf(path, sizeof path, "/proc/self/task/%s/stat", e->d_name);
        f = fopen(path, "r");
        if (f && fgets(line, sizeof line, f) && strstr(line, "(stk-worker)") &&
            sscanf(strrchr(line, ')') + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
                   &user, &sys) == 2)
            all[k++] = user + sys;
        if (f)
            fclose(f);
    }
    if (d)
        closedir(d);
    for (unsigned i = 0; i < k; i++) /* smallest first */
        for (unsigned j = i + 1; j < k; j++)
            if (all[j] < all[i]) {
                uint64_t t = all[i];

                all[i] = all[j];
                all[j] = t;
            }
    *ticks = 0;
    for (unsigned i = 0; i < n && i < k; i++)
        *ticks += all[i];
    return k;
}

static void parked_and_added(void **state)
{
    static const uint32_t plan[] = { 1, 8, 2, 4, 1, 3, 12, 1 };
    static uint64_t want[N];
    stk_loader_options o = seam_options(10, 1);
    stk_batch *b = NULL;
    uint64_t at = 0, step = 0, ticks;
    stk_stats st = { .size = sizeof st };
    stk_error err;
    stk_loader *l;
    int rc;

    (void)state;
    o.shuffle = STK_SHUFFLE_EXACT;
    o.prefetch = 2;
    l = seam_loader(&ds, 1, &o);
    seam_epoch(l, N, want);
    seam_ok(stk_loader_seek(l, 0, 0, &err), &err);
    while ((rc = stk_loader_next(l, &b, 60000, &err)) == 0) {
        for (uint32_t i = 0; i < stk_batch_rows(b); i++, at++)
            seam_check_row(b, i, want[at], want[at]);
        stk_batch_release(&b);
        if (step++ % 20 == 7) {
            uint32_t n = plan[step / 20 % 8];

            seam_ok(stk_loader_set_workers(l, n, &err), &err);
            stk_loader_stats(l, &st);
            assert_int_equal(st.workers, n);
        }
    }
    assert_int_equal(rc, STK_END);
    assert_int_equal(at, N);
    assert_int_equal(worker_threads(&ticks, 0), 12);
    assert_int_equal(stk_loader_set_workers(l, 0, &err), STK_EINVAL);
    assert_int_equal(stk_loader_set_workers(l, 100000, &err), STK_EINVAL);
    stk_loader_close(&l);
    assert_int_equal(worker_threads(&ticks, 0), 0);
}

/* Seven of eight are parked while the eighth works for a while. */
static void parked_workers_use_no_cpu(void **state)
{
    static uint64_t ids[N];
    stk_loader_options o = seam_options(32, 8);
    uint64_t before, after, from;
    stk_error err;
    stk_loader *l = seam_loader(&ds, 1, &o);

    (void)state;
    seam_epoch(l, N, ids);
    seam_ok(stk_loader_set_workers(l, 1, &err), &err);
    seam_epoch(l, N, ids);
    if (worker_threads(&before, 7) != 8)
        skip();
    for (from = seam_now_ms(); seam_now_ms() - from < 400;)
        seam_epoch(l, N, ids);
    worker_threads(&after, 7);
    print_message("7 parked workers used %u ticks of 10 ms in 400 ms\n",
                  (unsigned)(after - before));
    assert_in_range(after - before, 0, 6);
    stk_loader_close(&l);
}

/* In a child that fork() made: a clear error, a close that joins nobody, and single samples that
 * can be read. */
static void a_forked_child(void **state)
{
    static uint64_t ids[N];
    stk_loader_options o = seam_options(32, 2);
    stk_loader *l = seam_loader(&ds, 1, &o);
    int status = -1;
    pid_t child;

    (void)state;
    seam_epoch(l, N, ids);
    if (!TEST_FORKS_BESIDE_THREADS) {
        stk_loader_close(&l);
        skip();
    }
    child = fork();
    if (child == 0) {
        stk_batch *b = NULL;
        stk_sample *s = NULL;
        stk_error err;

        if (stk_loader_next(l, &b, 100, &err) != STK_ECLOSED ||
            !strstr(err.message, "open one in this process"))
            _exit(1);
        if (stk_loader_seek(l, 1, 0, &err) != STK_ECLOSED ||
            stk_loader_set_workers(l, 3, &err) != STK_ECLOSED)
            _exit(2);
        stk_loader_close(&l);
        if (l || stk_dataset_read(ds, 7, &s, &err) < 0)
            _exit(3);
        stk_sample_close(&s);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    seam_epoch(l, N, ids); /* the parent goes on */
    stk_loader_close(&l);
}

/* Signals are for the program's own threads. */
static void workers_take_no_signals(void **state)
{
    static uint64_t ids[N];
    stk_loader_options o = seam_options(32, 3);
    stk_loader *l = seam_loader(&ds, 1, &o);
    DIR *d = opendir("/proc/self/task");
    unsigned blocked = 0;
    struct dirent *e;

    (void)state;
    seam_epoch(l, N, ids);
    while (d && (e = readdir(d))) {
        unsigned long long mask = 0;
        char path[300], line[256];
        int worker = 0;
        FILE *f;

        snprintf(path, sizeof path, "/proc/self/task/%s/status", e->d_name);
        f = fopen(path, "r");
        while (f && fgets(line, sizeof line, f)) {
            worker |= strstr(line, "stk-worker") != NULL;
            sscanf(line, "SigBlk: %llx", &mask);
        }
        if (f)
            fclose(f);
        blocked += worker && mask >> (SIGINT - 1) & 1 && mask >> (SIGTERM - 1) & 1 &&
                   mask >> (SIGCHLD - 1) & 1;
    }
    if (d)
        closedir(d);
    assert_int_equal(blocked, 3);
    stk_loader_close(&l);
}

static void set_before_the_start(void **state)
{
    static uint64_t ids[N];
    stk_loader_options o = seam_options(32, 1);
    stk_stats st = { .size = sizeof st };
    stk_error err;
    stk_loader *l = seam_loader(&ds, 1, &o);

    (void)state;
    seam_ok(stk_loader_set_workers(l, 200, &err), &err);
    seam_epoch(l, N, ids);
    stk_loader_stats(l, &st);
    assert_int_equal(st.workers, 200);
    stk_loader_close(&l);
    o.num_workers = STK_NONE;
    l = seam_loader(&ds, 1, &o);
    assert_int_equal(stk_loader_set_workers(l, 2, &err), STK_EINVAL);
    stk_loader_close(&l);
}

/* Samples and bytes are exact; a worker's stages sum to the time it has lived. */
static void counters_add_up(void **state)
{
    static const int32_t workers[] = { STK_NONE, 1, 4 };
    static uint64_t ids[N];
    uint64_t bytes = 0;

    (void)state;
    for (uint64_t k = 0; k < N; k++)
        bytes += seam_bin_len(k) + (size_t)snprintf(NULL, 0, "%" PRId64 "\n", seam_number(k)) +
                 (size_t)snprintf(NULL, 0, "sample %u \xc3\xa9", (unsigned)k);
    for (int w = 0; w < 3; w++) {
        stk_loader_options o = seam_options(100, workers[w]);
        stk_stats st = { .size = sizeof st }, small = { .size = 16 };
        uint64_t sum = 0, from = seam_now_ms(), lived;
        stk_loader *l;

        o.prefetch = 1;
        l = seam_loader(&ds, 1, &o);
        seam_epoch(l, N, ids);
        if (workers[w] != STK_NONE)
            seam_idle(l);
        seam_sleep_ms(100); /* the consumer is elsewhere */
        lived = seam_now_ms() - from;
        seam_epoch(l, N, ids);
        stk_loader_stats(l, &st);
        assert_in_range(st.samples, 2 * N,
                        2 * N + 100); /* and perhaps the next epoch's first batch */
        assert_in_range(st.bytes, 2 * bytes, 2 * bytes + 100 * 600);
        assert_int_equal(st.batches, 2 * N / 100);
        assert_int_equal(st.skipped, 0);
        assert_int_equal(st.retried_reads, 0);
        assert_int_equal(st.held, 0);
        assert_true(st.first_batch_ns > 0 && st.first_batch_ns < 100000000000u);
        assert_int_equal(st.slots, 1);
        assert_int_equal(st.workers, w == 2 ? 4 : 1);
        for (int i = 0; i < STK_STAGES; i++)
            sum += st.stage_ns[i];
        lived = seam_now_ms() - from;
        assert_in_range(sum / 1000000, 90, (lived + 20) * st.workers);
        assert_true(st.stage_ns[STK_STAGE_IDLE] > 90 * 1000000u);
        assert_true(st.stage_ns[STK_STAGE_FETCH] / 1000000 < lived * st.workers);
        assert_true(st.stage_ns[STK_STAGE_VALUE] > 0 && st.stage_ns[STK_STAGE_BATCH] > 0);
        stk_loader_stats(l, &small); /* an older caller's struct is not written past its end */
        assert_int_equal(small.samples, 0);
        assert_int_equal(small.workers, st.workers);
        stk_loader_close(&l);
    }
    assert_string_equal(stk_stage_name(STK_STAGE_FETCH), "fetch");
    assert_string_equal(stk_stage_name(STK_STAGES), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parked_and_added),     cmocka_unit_test(parked_workers_use_no_cpu),
        cmocka_unit_test(a_forked_child),       cmocka_unit_test(workers_take_no_signals),
        cmocka_unit_test(set_before_the_start), cmocka_unit_test(counters_add_up),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}

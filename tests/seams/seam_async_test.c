/* SPDX-License-Identifier: Apache-2.0 */
/* seam_async_test.c - a source that answers later, out of order, and fails now and then:
 * slow://PATH.
 *
 * submit() only notes the read; drive() completes what is due, the latest first.  One read may
 * be told to take long, and reads at one offset may be told to fail. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "seam.h"

typedef struct slow_file {
    stk_file base;
    int fd, watched; /* told to be slow or to fail */
} slow_file;

#define MAX_PENDING 1024

static struct {
    pthread_mutex_t lock;
    struct {
        stk_io *io;
        uint64_t due;
    } item[MAX_PENDING];
    unsigned n, turn;
    uint64_t slow_from, slow_to, slow_ms; /* a read that touches this range takes so long */
    uint64_t fail_from, fail_to;          /* a read that touches this range fails ... */
    _Atomic int fail_times;               /* ... so many times; -1: always */
    _Atomic unsigned completed, began, meanwhile, most;
    int at_once;            /* answer in submit() */
    int fail_sys;           /* what a failed read says */
    uint64_t failed_ms[16]; /* when reads failed, the first of them */
    _Atomic unsigned n_failed, drives;
    unsigned blocking; /* read() calls */
} slow = { .lock = PTHREAD_MUTEX_INITIALIZER };

static const stk_source slow_source;

static int slow_open(const stk_open_info *o, stk_file **out, stk_error *err)
{
    slow_file *f = malloc(sizeof *f);

    f->base.source = &slow_source;
    f->fd = open(o->url + 7, O_RDONLY);
    f->watched = strstr(o->url, "a-0.tar") != NULL;
    if (f->fd < 0) {
        free(f);
        return stk_fail(err, STK_ENOTFOUND, "no such file");
    }
    *out = &f->base;
    return 0;
}

static int slow_ready(stk_file *f, int wait, stk_file_info *out, stk_error *err)
{
    struct stat st;

    (void)err;
    memset(out, 0, sizeof *out);
    fstat(((slow_file *)f)->fd, &st);
    out->size = (uint64_t)st.st_size;
    return 0;
}

static void fill(stk_io *io)
{
    ssize_t n = pread(((slow_file *)io->file)->fd, io->dst, io->len, (off_t)io->offset);

    io->rc = n < 0 ? STK_EIO : 0;
    io->sys = n < 0 ? errno : 0;
    io->got = n < 0 ? 0 : (size_t)n;
}

static int touches(const stk_io *io, uint64_t from, uint64_t to)
{
    return ((slow_file *)io->file)->watched && io->offset < to && io->offset + io->len > from;
}

static void answer_locked(stk_io *io)
{
    if (touches(io, slow.fail_from, slow.fail_to) && slow.fail_times) {
        slow.fail_times -= slow.fail_times > 0;
        io->rc = STK_EIO;
        io->sys = slow.fail_sys;
        io->got = 0;
        if (slow.n_failed < 16)
            slow.failed_ms[slow.n_failed] = seam_now_ms();
        slow.n_failed++;
    } else {
        fill(io);
    }
}

static int slow_read(stk_file *f, stk_io *io)
{
    io->file = f;
    pthread_mutex_lock(&slow.lock);
    slow.blocking++;
    fill(io);
    pthread_mutex_unlock(&slow.lock);
    return io->rc;
}

static int slow_submit(stk_file *f, stk_io *io)
{
    int rc = STK_PENDING;

    (void)f;
    pthread_mutex_lock(&slow.lock);
    if (slow.at_once) {
        answer_locked(io);
        rc = 0;
    } else {
        uint64_t wait = slow.turn++ % 3;

        if (slow.slow_ms && touches(io, slow.slow_from, slow.slow_to)) {
            wait = slow.slow_ms;
            slow.began = slow.completed;
        }
        slow.item[slow.n].io = io;
        slow.item[slow.n++].due = seam_now_ms() + wait;
        slow.most = slow.n > slow.most ? slow.n : slow.most;
    }
    pthread_mutex_unlock(&slow.lock);
    return rc;
}

static stk_io *due_locked(void)
{
    uint64_t now = seam_now_ms();

    for (unsigned i = slow.n; i--;) { /* the latest first */
        stk_io *io = slow.item[i].io;

        if (slow.item[i].due > now)
            continue;
        slow.item[i] = slow.item[--slow.n];
        answer_locked(io);
        if (slow.slow_ms && touches(io, slow.slow_from, slow.slow_to))
            slow.meanwhile = slow.completed - slow.began;
        slow.completed++;
        return io;
    }
    return NULL;
}

static void slow_drive(int timeout_ms)
{
    stk_io *io;
    int any = 0;

    slow.drives++;
    do {
        pthread_mutex_lock(&slow.lock);
        io = due_locked();
        pthread_mutex_unlock(&slow.lock);
        if (io)
            io->done(io);
        any |= io != NULL;
    } while (io);
    if (!any && timeout_ms)
        seam_sleep_ms(1);
}

static void slow_close(stk_file *f)
{
    close(((slow_file *)f)->fd);
    free(f);
}

static const stk_source slow_source = { .abi = STK_PLUGIN_ABI,
                                        .size = sizeof(stk_source),
                                        .name = "slow",
                                        .help = "answers later",
                                        .scheme = "slow",
                                        .open = slow_open,
                                        .ready = slow_ready,
                                        .read = slow_read,
                                        .submit = slow_submit,
                                        .drive = slow_drive,
                                        .close = slow_close };

static void reset(void)
{
    slow.slow_ms = 0;
    slow.fail_sys = ETIMEDOUT;
    slow.n_failed = 0;
    slow.fail_times = slow.at_once = 0;
    slow.completed = slow.began = slow.meanwhile = slow.most = slow.blocking = 0;
    assert_int_equal(slow.n, 0);
}

static stk_dataset *data(void)
{
    static int made;

    if (!made++) {
        stk_error err;

        seam_ok(stk_plugin_add(STK_PLUGIN_SOURCE, &slow_source, &err), &err);
        seam_shards("a", 2, 100, 0);
        seam_shards("b", 1, 50, 200);
    }
    reset();
    return seam_open("slow://", "a-{0..1}.tar", NULL);
}

/* Offset of sample k in a-0.tar: three members a sample. */
static uint64_t offset_of(uint64_t k)
{
    uint64_t at = 0;

    for (uint64_t i = 0; i < k; i++)
        at += 3 * 512 + (seam_bin_len(i) + 511) / 512 * 512 + 512 + 512;
    return at;
}

static void in_order_whatever_arrives(void **state)
{
    static const int32_t workers[] = { STK_NONE, 1, 2, 8 };
    uint64_t ids[200], first[200];

    (void)state;
    for (int w = 0; w < 4; w++) {
        stk_dataset *ds = data();
        stk_loader_options o = seam_options(16, workers[w]);
        stk_loader *l;

        o.shuffle = STK_SHUFFLE_EXACT;
        o.seed = 5;
        l = seam_loader(&ds, 1, &o);
        seam_epoch(l, 200, ids);
        if (w)
            assert_memory_equal(ids, first, sizeof ids);
        memcpy(first, ids, sizeof ids);
        assert_true(slow.most > 8); /* many reads are in flight, also with one worker or none */
        seam_epoch(l, 200, ids);
        stk_loader_close(&l);
        stk_dataset_unref(&ds);
    }
}

/* While one read takes a second, everything else that the ring has room for is made. */
static void one_slow_read_stalls_nobody(void **state)
{
    static const int32_t workers[] = { 1, 4, STK_NONE };
    uint64_t ids[200];

    (void)state;
    for (int w = 0; w < 3; w++) {
        stk_dataset *ds = data();
        stk_loader_options o = seam_options(8, workers[w]);
        stk_loader *l;

        o.prefetch = 4;
        slow.slow_from = offset_of(40); /* row 0 of step 5 */
        slow.slow_to = slow.slow_from + 600;
        slow.slow_ms = 1000; /* enough on a busy machine */
        l = seam_loader(&ds, 1, &o);
        seam_epoch(l, 200, ids);
        for (uint64_t i = 0; i < 200; i++)
            assert_int_equal(ids[i], i);
        assert_in_range(slow.meanwhile, 31,
                        31 + 3 * 8); /* 4 slots of 8 but for one row, and what was before it */
        stk_loader_close(&l);
        stk_dataset_unref(&ds);
    }
}

static void failures_are_retried(void **state)
{
    static const int32_t workers[] = { STK_NONE, 2 };
    uint64_t ids[200];

    (void)state;
    for (int k = 0; k < 4; k++) {
        stk_dataset *ds = data();
        stk_loader_options o = seam_options(10, workers[k % 2]);
        stk_stats st = { .size = sizeof st };
        stk_loader *l;

        o.prefetch = 4; /* less than an epoch: the next one's row 20 is not under way yet */
        slow.fail_from = offset_of(20);
        slow.fail_to = slow.fail_from + 700;
        slow.fail_times = 2;
        slow.at_once = k / 2;
        o.prefetch = 2; /* no further ahead than this epoch */
        l = seam_loader(&ds, 1, &o);
        seam_epoch(l, 200, ids);
        stk_loader_stats(l, &st);
        assert_int_equal(st.retried_reads, 2);
        assert_int_equal(slow.fail_times, 0);
        stk_loader_close(&l);
        stk_dataset_unref(&ds);
    }
}

/* After some tries it is raised, with its address; the skip policy is for bad data, not for bad
 * networks. */
static void failures_are_raised_in_the_end(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        stk_dataset *ds = data();
        stk_loader_options o = seam_options(10, k % 2 ? 2 : STK_NONE);
        stk_batch *b = NULL;
        stk_error err;
        stk_loader *l;

        o.on_error = STK_ON_ERROR_SKIP;
        slow.fail_from = offset_of(25);
        slow.fail_to = slow.fail_from + 700;
        slow.fail_times = -1;
        slow.at_once = k / 2;
        l = seam_loader(&ds, 1, &o);
        for (int i = 0; i < 2; i++) {
            seam_ok(stk_loader_next(l, &b, 60000, &err), &err);
            stk_batch_release(&b);
        }
        assert_int_equal(stk_loader_next(l, &b, 60000, &err), STK_EIO);
        assert_non_null(strstr(err.shard, "a-0.tar"));
        assert_in_range(err.offset, offset_of(25), offset_of(26));
        assert_string_equal(err.key, "000025");
        assert_int_equal(err.sample, 25);
        assert_non_null(strstr(err.message, strerror(ETIMEDOUT)));
        slow.fail_times = 0;
        assert_int_equal(stk_loader_position(l), 20);
        seam_ok(stk_loader_next(l, &b, 60000, &err), &err); /* it has passed: the same batch */
        seam_check_row(b, 0, 20, 20);
        stk_batch_release(&b);
        stk_loader_close(&l);
        stk_dataset_unref(&ds);
    }
}

/* A source that fails is not asked again at once: pauses grow, and no other row waits for them. */
static void pauses_grow(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        stk_dataset *ds = data();
        stk_loader_options o = seam_options(10, k % 2 ? 1 : STK_NONE);
        stk_batch *b = NULL;
        stk_error err;
        stk_loader *l;

        slow.fail_from = offset_of(5);
        slow.fail_to = slow.fail_from + 700;
        slow.fail_times = -1;
        slow.fail_sys = -503;
        slow.at_once = k / 2;
        l = seam_loader(&ds, 1, &o);
        assert_int_equal(stk_loader_next(l, &b, 60000, &err), STK_EIO);
        assert_non_null(strstr(err.message, "HTTP status 503"));
        assert_in_range(slow.n_failed, 5, 15);
        for (unsigned i = 1; i < 4; i++) /* 2, 8, 32 ms, less the clock's grain */
            assert_true(slow.failed_ms[i] - slow.failed_ms[i - 1] + 1 >= 2u << (2 * (i - 1)));
        slow.fail_times = 0;
        stk_loader_close(&l);
        stk_dataset_unref(&ds);
    }
}

/* A loader whose slots are full has nothing to drive. */
static void idle_drivers_sleep(void **state)
{
    stk_dataset *ds = data();
    stk_loader_options o = seam_options(10, 2);
    stk_batch *b = NULL;
    stk_loader *l;
    stk_error err;
    unsigned before = 0;

    (void)state;
    o.prefetch = 2;
    l = seam_loader(&ds, 1, &o);
    for (int i = 0; i < 3; i++) { /* and it wakes up each time */
        seam_ok(stk_loader_next(l, &b, 60000, &err), &err);
        stk_batch_release(&b);
        for (int k = 0; k < 200; k++) { /* the slots are full sooner or later */
            before = slow.drives;
            seam_sleep_ms(300);
            if (slow.drives == before)
                break;
        }
        assert_int_equal(slow.drives, before);
    }
    stk_loader_close(&l);
    stk_dataset_unref(&ds);
}

/* Close and seek while reads are in flight. */
static void reads_in_flight_are_waited_for(void **state)
{
    (void)state;
    for (int k = 0; k < 6; k++) {
        stk_dataset *ds = data();
        stk_loader_options o = seam_options(8, k % 3 == 2 ? STK_NONE : 1 + 3 * (k % 3));
        stk_batch *b = NULL;
        stk_error err;
        stk_loader *l;

        slow.slow_from = offset_of(9);
        slow.slow_to = slow.slow_from + 600;
        slow.slow_ms = 60;
        l = seam_loader(&ds, 1, &o);
        seam_ok(stk_loader_next(l, &b, 60000, &err), &err);
        stk_batch_release(&b);
        if (k > 2) {
            seam_ok(stk_loader_seek(l, 3, 5, &err), &err);
            seam_ok(stk_loader_next(l, &b, 60000, &err), &err);
            seam_check_row(b, 0, 40, 40);
            assert_int_equal(stk_batch_epoch(b), 3);
            assert_int_equal(stk_batch_step(b), 5);
            stk_batch_release(&b);
        }
        stk_loader_close(&l);
        stk_dataset_unref(&ds);
    }
}

static void time_runs_out(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        stk_dataset *ds = data();
        stk_loader_options o = seam_options(8, k ? 2 : STK_NONE);
        uint64_t from = seam_now_ms();
        stk_batch *b = NULL;
        stk_error err;
        stk_loader *l;

        slow.slow_from = 0;
        slow.slow_to = 600;
        slow.slow_ms = 600000;
        l = seam_loader(&ds, 1, &o);
        assert_int_equal(stk_loader_next(l, &b, 50, &err), STK_ETIMEOUT);
        assert_in_range(seam_now_ms() - from, 45, 60000);
        pthread_mutex_lock(&slow.lock);
        slow.slow_ms = 0;
        for (unsigned i = 0; i < slow.n; i++)
            slow.item[i].due = 0;
        pthread_mutex_unlock(&slow.lock);
        seam_ok(stk_loader_next(l, &b, -1, &err), &err); /* nothing was lost */
        seam_check_row(b, 0, 0, 0);
        stk_batch_release(&b);
        stk_loader_close(&l);
        stk_dataset_unref(&ds);
    }
}

/* The first shard is a plain file, the second one needs driving. */
static void sources_side_by_side(void **state)
{
    stk_dataset *ds = data();
    char a[600], b[600];
    const char *urls[] = { a, b };
    stk_dataset_options d = { .size = sizeof d, .cache_dir = seam_dir() };
    stk_loader_options o = seam_options(8, 2);
    uint64_t ids[200];
    stk_error err;
    stk_loader *l;

    (void)state;
    stk_dataset_unref(&ds);
    snprintf(a, sizeof a, "%s", seam_path("a-0.tar"));
    snprintf(b, sizeof b, "slow://%s", seam_path("a-1.tar"));
    seam_ok(stk_dataset_open(&ds, urls, 2, &d, &err), &err);
    l = seam_loader(&ds, 1, &o);
    seam_epoch(l, 200, ids);
    stk_loader_close(&l);
    stk_dataset_unref(&ds);
}

/* Far more could be in flight than memory_limit holds: reads wait for each other, nothing fails
 * and nothing is skipped. */
static void reads_wait_for_memory(void **state)
{
    static const int32_t workers[] = { STK_NONE, 1, 4 };
    static const stk_output out[] = { { "n", "from(cls) | int" }, { "t", "from(txt) | text" } };

    (void)state;
    for (int w = 0; w < 3; w++) {
        stk_dataset *ds = data();
        stk_loader_options o = { .size = sizeof o,
                                 .outputs = out,
                                 .n_outputs = 2,
                                 .batch_size = 40,
                                 .prefetch = 4,
                                 .num_workers = workers[w],
                                 .on_error = STK_ON_ERROR_SKIP,
                                 .memory_limit = 64 * 1024 };
        stk_loader *l = seam_loader(&ds, 1, &o);
        stk_stats st = { .size = sizeof st };
        stk_batch *b = NULL;
        uint64_t rows = 0;
        stk_error err;
        int rc = 0;

        for (int epoch = 0; epoch < 2; epoch++) {
            while ((rc = stk_loader_next(l, &b, 60000, &err)) == 0) {
                rows += stk_batch_rows(b);
                stk_batch_release(&b);
            }
            if (rc != STK_END)
                seam_ok(rc, &err);
        }
        assert_int_equal(rows, 400);
        stk_loader_stats(l, &st);
        assert_int_equal(st.skipped, 0);
        assert_in_range(st.memory_peak, 1, st.memory_limit);
        stk_loader_close(&l);
        stk_dataset_unref(&ds);
    }
}

static void single_samples_are_read_at_once(void **state)
{
    stk_dataset *ds = data();
    stk_sample *s = NULL;
    const void *bytes;
    stk_error err;
    size_t len;

    (void)state;
    seam_ok(stk_dataset_read(ds, 101, &s, &err), &err);
    assert_string_equal(stk_sample_field(s, 0, &bytes, &len), "bin");
    assert_int_equal(len, seam_bin_len(101));
    assert_int_equal(((const uint8_t *)bytes)[7], seam_bin_at(101, 7));
    stk_sample_close(&s);
    stk_dataset_unref(&ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_order_whatever_arrives),
        cmocka_unit_test(one_slow_read_stalls_nobody),
        cmocka_unit_test(failures_are_retried),
        cmocka_unit_test(failures_are_raised_in_the_end),
        cmocka_unit_test(pauses_grow),
        cmocka_unit_test(idle_drivers_sleep),
        cmocka_unit_test(reads_in_flight_are_waited_for),
        cmocka_unit_test(time_runs_out),
        cmocka_unit_test(sources_side_by_side),
        cmocka_unit_test(reads_wait_for_memory),
        cmocka_unit_test(single_samples_are_read_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* seam_names_test.c - rows that name files: the name is read first, then the file, from a source
 * that answers later, late://PATH.
 *
 * A list has the name of file k in a column and its number in another.  File k has one value over
 * and over, so that each row shows which file it is of. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "seam.h"

#define N 300
#define LARGEST 60000

typedef struct late_file {
    stk_file base;
    int fd;
} late_file;

static struct {
    pthread_mutex_t lock;
    stk_io *io[1024];
    unsigned n, turn;
    _Atomic unsigned reads, waited; /* read() calls, and those by submit() */
    _Atomic int open;
} late = { .lock = PTHREAD_MUTEX_INITIALIZER };

static const stk_source late_source;

static int late_open(const stk_open_info *o, stk_file **out, stk_error *err)
{
    late_file *f = malloc(sizeof *f);

    f->base.source = &late_source;
    f->fd = open(o->url + 7, O_RDONLY);
    if (f->fd < 0) {
        free(f);
        return stk_fail(err, STK_ENOTFOUND, "no such file");
    }
    atomic_fetch_add(&late.open, 1);
    *out = &f->base;
    return 0;
}

static int late_ready(stk_file *f, int wait, stk_file_info *out, stk_error *err)
{
    struct stat st;

    (void)err;
    (void)wait;
    memset(out, 0, sizeof *out);
    fstat(((late_file *)f)->fd, &st);
    out->size = (uint64_t)st.st_size;
    return 0;
}

static int fill(stk_io *io)
{
    ssize_t n = pread(((late_file *)io->file)->fd, io->dst, io->len, (off_t)io->offset);

    io->got = n < 0 ? 0 : (size_t)n;
    return io->rc = n < 0 ? STK_EIO : 0;
}

static int late_read(stk_file *f, stk_io *io)
{
    io->file = f;
    late.reads++;
    return fill(io);
}

static int late_submit(stk_file *f, stk_io *io)
{
    (void)f;
    late.waited++;
    pthread_mutex_lock(&late.lock);
    late.io[late.n++] = io;
    pthread_mutex_unlock(&late.lock);
    return STK_PENDING;
}

/* One of them, not in order. */
static stk_io *take(void)
{
    stk_io *io = NULL;

    pthread_mutex_lock(&late.lock);
    if (late.n) {
        unsigned i = late.turn++ * 7 % late.n;

        io = late.io[i];
        late.io[i] = late.io[--late.n];
    }
    pthread_mutex_unlock(&late.lock);
    return io;
}

static void late_drive(int timeout_ms)
{
    stk_io *io = take();

    if (!io && timeout_ms)
        seam_sleep_ms(1);
    for (; io; io = take()) {
        fill(io);
        io->done(io);
    }
}

static void late_close(stk_file *f)
{
    close(((late_file *)f)->fd);
    free(f);
    atomic_fetch_sub(&late.open, 1);
}

static const stk_source late_source = { .abi = STK_PLUGIN_ABI,
                                        .size = sizeof(stk_source),
                                        .name = "late",
                                        .help = "answers later",
                                        .scheme = "late",
                                        .open = late_open,
                                        .ready = late_ready,
                                        .read = late_read,
                                        .submit = late_submit,
                                        .drive = late_drive,
                                        .close = late_close };

static size_t size_of(unsigned k)
{
    return k % 10 == 9 ? LARGEST : 1 + k * 37 % 3000;
}

static int is_missing(unsigned k)
{
    return k % 50 == 31;
}

/* Files 0 ... N - 1, every other one in a folder; and lists that name them, with and without those
 * that are not there. */
static int setup(void **state)
{
    static uint8_t bytes[LARGEST];
    FILE *all, *good;
    stk_error err;

    (void)state;
    seam_ok(stk_plugin_add(STK_PLUGIN_SOURCE, &late_source, &err), &err);
    mkdir(seam_path("deep"), 0700);
    all = fopen(seam_path("all.csv"), "w");
    good = fopen(seam_path("good.csv"), "w");
    assert_true(all && good);
    fputs("where,n\n", all);
    fputs("where,n\n", good);
    for (unsigned k = 0; k < N; k++) {
        char name[64];
        FILE *f;

        snprintf(name, sizeof name, "%s%u.bin", k % 2 ? "deep/" : "", k);
        fprintf(all, "\"%s\",%u\n", name, k);
        if (is_missing(k))
            continue;
        fprintf(good, "%s,%u\n", name, k);
        memset(bytes, (int)(k % 251), sizeof bytes);
        f = fopen(seam_path(name), "wb");
        assert_true(f && fwrite(bytes, 1, size_of(k), f) == size_of(k) && fclose(f) == 0);
    }
    return fclose(all) | fclose(good);
}

static const stk_output outputs[] = { { "x", "from(where) | open | bytes" },
                                      { "n", "from(n) | int" },
                                      { "again", "from(where) | open | bytes" } };

static stk_loader_options options(int32_t workers)
{
    return (stk_loader_options){ .size = sizeof(stk_loader_options),
                                 .outputs = outputs,
                                 .n_outputs = 3,
                                 .batch_size = 8,
                                 .num_workers = workers,
                                 .shuffle = STK_SHUFFLE_EXACT,
                                 .seed = 9 };
}

static void check_bytes(const stk_batch *b, uint32_t output, uint32_t row, unsigned k)
{
    stk_tensor t;

    assert_int_equal(stk_batch_row(b, output, row, &t), 0);
    assert_int_equal(t.shape[0], size_of(k));
    for (size_t i = 0; i < size_of(k); i++)
        assert_int_equal(((const uint8_t *)t.data)[i], k % 251);
}

/* One epoch; the numbers of its rows, in order. */
static unsigned epoch(stk_loader *l, unsigned *numbers)
{
    unsigned n = 0;
    stk_error err;
    int rc;

    for (;;) {
        stk_batch *b = NULL;
        stk_tensor t;

        rc = stk_loader_next(l, &b, -1, &err);
        if (rc == STK_END)
            return n;
        seam_ok(rc, &err);
        assert_int_equal(stk_batch_dense(b, 1, &t), 0);
        for (uint32_t row = 0; row < stk_batch_rows(b); row++) {
            unsigned k = (unsigned)((const int64_t *)t.data)[row];

            assert_true(k < N && !is_missing(k));
            check_bytes(b, 0, row, k);
            check_bytes(b, 2, row, k);
            assert_true(n < N);
            numbers[n++] = k;
        }
        stk_batch_release(&b);
    }
}

static unsigned run(const char *scheme, const char *list, const stk_loader_options *o,
                    unsigned *numbers)
{
    stk_dataset *ds = seam_open(scheme, list, NULL);
    stk_loader *l = seam_loader(&ds, 1, o);
    unsigned n;

    late.reads = late.waited = 0; /* the index is read by now */
    n = epoch(l, numbers);
    assert_int_equal(epoch(l, numbers + n), n);
    stk_loader_close(&l);
    stk_dataset_unref(&ds);
    assert_int_equal(late.open, 0);
    return 2 * n;
}

static void both_stages_answer_later(void **state)
{
    static const int32_t workers[] = { 1, 2, 8, STK_NONE };
    unsigned want[2 * N], got[2 * N], n;
    stk_loader_options o = options(1);

    (void)state;
    n = run("", "good.csv", &o, want);
    assert_int_equal(n, 2 * (N - N / 50));
    for (unsigned w = 0; w < 4; w++) {
        o = options(workers[w]);
        assert_int_equal(run("late://", "good.csv", &o, got), n);
        assert_memory_equal(got, want, n * sizeof *want);
        assert_true(late.waited >= 2 * n); /* a name, then a file, for each row */
        assert_int_equal(late.reads, 0);
    }
}

/* A list that is here, and files that are not. */
static void far_files_of_a_list_here(void **state)
{
    static const int32_t workers[] = { 2, STK_NONE };
    unsigned want[2 * N], got[2 * N], n;
    stk_loader_options o = options(1);
    char chain[700];

    (void)state;
    n = run("", "good.csv", &o, want);
    snprintf(chain, sizeof chain, "from(where) | open(root=\"late://%s\") | bytes", seam_dir());
    for (unsigned w = 0; w < 2; w++) {
        const stk_output far[] = { { "x", chain }, outputs[1], { "again", chain } };

        o = options(workers[w]);
        o.outputs = far;
        assert_int_equal(run("", "good.csv", &o, got), n);
        assert_memory_equal(got, want, n * sizeof *want);
        assert_true(late.waited >= n && late.waited < 2 * n); /* one file for both outputs */
    }
}

/* Files that are not there are bad samples; others stand in for them. */
static void names_of_nothing_are_skipped(void **state)
{
    static const int32_t workers[] = { STK_NONE, 4 };
    unsigned want[2 * N], got[2 * N], n = 0;

    (void)state;
    for (unsigned w = 0; w < 2; w++) {
        stk_loader_options o = options(workers[w]);

        o.on_error = STK_ON_ERROR_SKIP;
        n = run(w ? "late://" : "", "all.csv", &o, w ? got : want);
        assert_int_equal(n, 2 * N);
    }
    assert_memory_equal(got, want, n * sizeof *want);
}

/* There is room for few rows at a time: those whose second stage finds none begin again. */
static void little_memory(void **state)
{
    static const uint64_t limits[] = { 8 << 20, 4 << 20, 3 << 20 };
    unsigned want[2 * N], got[2 * N], n;
    stk_loader_options o = options(2);

    (void)state;
    n = run("", "good.csv", &o, want);
    for (unsigned i = 0; i < 3; i++) {
        o = options(8);
        o.memory_limit = limits[i];
        o.prefetch = 1;
        assert_int_equal(run("late://", "good.csv", &o, got), n);
        assert_memory_equal(got, want, n * sizeof *want);
    }
}

/* Closed while names and files are on their way. */
static void closed_on_the_way(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 30; i++) {
        stk_dataset *ds = seam_open("late://", "good.csv", NULL);
        stk_loader_options o = options(4);
        stk_loader *l = seam_loader(&ds, 1, &o);
        stk_batch *b = NULL;
        stk_error err;

        for (unsigned k = 0; k < i % 3; k++) {
            seam_ok(stk_loader_next(l, &b, -1, &err), &err);
            stk_batch_release(&b);
        }
        seam_sleep_ms(i % 4);
        stk_loader_close(&l);
        stk_dataset_unref(&ds);
        assert_int_equal(late.open, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_stages_answer_later),
        cmocka_unit_test(far_files_of_a_list_here),
        cmocka_unit_test(names_of_nothing_are_skipped),
        cmocka_unit_test(little_memory),
        cmocka_unit_test(closed_on_the_way),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}

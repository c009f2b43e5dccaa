/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_test.c - open, find, build once, repair; stale and damaged data; read samples.  Over
 * real tar files. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#include "index/dataset_model.h"

static void open_and_read(void **state)
{
    stk_index_report r;
    stk_dataset *ds = NULL, *more;
    stk_sample *x = NULL;
    stk_error err;
    set d;
    char below[700];

    set_make(&d, "plain", 5, 40);
    hidden(&d, below, sizeof below);
    open_check(&d, below);
    assert_int_equal(test_count(below, "idx$"), 1);
    assert_int_equal(test_count(below, "lock\\|tmp"), 0);
    assert_int_equal(set_build(&d, 0, &r, &err), 0);
    assert_int_equal(r.built, 0);
    assert_int_equal(r.samples, 200);
    assert_int_equal(r.shards, 5);
    assert_int_equal(r.fields, 2);
    assert_int_equal(set_open(&d, &ds, &err), 0);
    assert_string_equal(r.path, stk_dataset_index_path(ds));
    assert_string_equal(stk_dataset_field(ds, 0), "txt");
    assert_string_equal(stk_dataset_field(ds, 1), "cls");
    assert_null(stk_dataset_field(ds, 2));
    more = stk_dataset_ref(ds);
    assert_int_equal(stk_dataset_read(ds, 7, &x, &err), 0);
    stk_dataset_unref(&ds);
    stk_dataset_unref(&more);
    assert_int_equal(stk_sample_fields(x), 2); /* a sample outlives the handles */
    assert_non_null(strstr(stk_sample_shard(x), "0000.tar"));
    stk_sample_close(&x);
    assert_int_equal(set_open(&d, &ds, &err), 0);
    assert_int_equal(stk_dataset_read(ds, 200, &x, &err), STK_EINVAL);
    assert_null(x);
    stk_dataset_unref(&ds);
}

static void moved_folder(void **state)
{
    stk_index_report r;
    stk_error err;
    char from[560];
    set d;

    set_make(&d, "before", 3, 10);
    open_check(&d, NULL);
    memcpy(from, d.folder, sizeof from);
    snprintf(d.folder, sizeof d.folder, "%s/after", dir);
    snprintf(d.pattern, sizeof d.pattern, "%s/after/*.tar", dir);
    assert_int_equal(rename(from, d.folder), 0);
    assert_int_equal(set_build(&d, 0, &r, &err), 0);
    assert_int_equal(r.built, 0);
    open_check(&d, d.folder);
}

static void growing_list(void **state)
{
    stk_index_report r;
    stk_error err;
    set d;

    set_make(&d, "grow", 6, 30);
    assert_int_equal(set_build(&d, 0, &r, &err), 0);
    assert_int_equal(r.built, 1);
    assert_int_equal(r.reused_shards, 0);
    set_grow(&d, 9);
    assert_int_equal(set_build(&d, 0, &r, &err), 0);
    assert_int_equal(r.built, 1);
    assert_int_equal(r.reused_shards, 6);
    assert_int_equal(r.samples, 270);
    open_check(&d, NULL);
    assert_int_equal(set_build(&d, 1, &r, &err), 0);
    assert_int_equal(r.built, 1);
    assert_int_equal(r.reused_shards, 0); /* force carries nothing over */
}

static void stale(void **state)
{
    stk_index_report r;
    stk_dataset *ds = NULL;
    stk_error err;
    char path[700];
    set d;

    set_make(&d, "stale", 4, 50);
    open_check(&d, NULL);
    shard_path(&d, 2, path, sizeof path);
    touch(path, 1000); /* same content: fine, also at first touch */
    open_check(&d, NULL);
    shard_write(path, 2, 50, 1); /* same size, other content */
    touch(path, 2000);
    assert_int_equal(set_open(&d, &ds, &err), STK_ESTALE);
    assert_non_null(strstr(err.shard, "0002.tar"));
    assert_non_null(strstr(err.message, "stoker index --force"));
    shard_write(path, 2, 49, 0); /* other size: both are named */
    assert_int_equal(set_open(&d, &ds, &err), STK_ESTALE);
    assert_null(ds);
    {
        struct stat st;
        char size[32];

        assert_int_equal(stat(path, &st), 0);
        snprintf(size, sizeof size, "%llu", (unsigned long long)st.st_size);
        assert_non_null(strstr(err.message, size));
    }
    shard_write(path, 2, 50, 0);
    touch(path, 3000);
    assert_int_equal(set_build(&d, 0, &r, &err), 0);
    assert_int_equal(r.built, 1); /* back to what it was, but not by its time */
    assert_int_equal(r.reused_shards, 3);
    assert_int_equal(set_build(&d, 0, &r, &err), 0);
    assert_int_equal(r.built, 0);
    shard_write(path, 2, 50, 1);
    touch(path, 4000);
    assert_int_equal(set_build(&d, 0, &r, &err), 0);
    assert_int_equal(r.built, 1);
    assert_int_equal(r.reused_shards, 3); /* the others were not scanned again */
    assert_int_equal(set_open(&d, &ds, &err), 0);
    stk_dataset_unref(&ds);
}

/* A shard that changes while the data set is open: an error with shard and offset. */
static void changed_underneath(void **state)
{
    stk_dataset *ds = NULL;
    stk_sample *x = NULL;
    stk_error err;
    char path[700];
    set d;

    set_make(&d, "under", 3, 50);
    assert_int_equal(set_open(&d, &ds, &err), 0);
    sample_check(ds, &d, 0);
    shard_path(&d, 0, path, sizeof path);
    assert_int_equal(truncate(path, 1024), 0); /* open already */
    assert_int_equal(stk_dataset_read(ds, 40, &x, &err), STK_ESTALE);
    assert_non_null(strstr(err.shard, "0000.tar"));
    assert_true(err.offset != STK_NO_OFFSET && err.sample == 40);
    assert_string_equal(err.key, "0-000040");
    shard_path(&d, 1, path, sizeof path);
    assert_int_equal(truncate(path, 1024), 0); /* not yet opened */
    assert_int_equal(stk_dataset_read(ds, 60, &x, &err), STK_ESTALE);
    assert_non_null(strstr(err.shard, "0001.tar"));
    shard_path(&d, 2, path, sizeof path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(stk_dataset_read(ds, 110, &x, &err), STK_ENOTFOUND);
    assert_null(x);
    stk_dataset_unref(&ds);
}

static void damaged_index(void **state)
{
    stk_index_report r;
    stk_dataset *ds = NULL;
    stk_error err;
    uint8_t *data;
    size_t len;
    set d;

    set_make(&d, "damaged", 3, 50);
    assert_int_equal(set_build(&d, 0, &r, &err), 0);
    data = test_slurp(r.path, &len);
    data[IDX_HEAD + 100] ^= 1; /* a block: found by who asks for all of it */
    test_spill(r.path, data, len);
    data[IDX_HEAD + 100] ^= 1;
    assert_int_equal(set_build(&d, 0, &r, &err), 0);
    assert_int_equal(r.built, 1);
    open_check(&d, NULL);
    for (int what = 0; what < 3; what++) {
        data[what == 0 ? 3 : len - 40] ^= 1; /* magic; a table; and cut off */
        test_spill(r.path, data, what == 2 ? len / 2 : len);
        data[what == 0 ? 3 : len - 40] ^= 1;
        assert_int_equal(set_open(&d, &ds, &err), STK_ECORRUPT);
        assert_non_null(strstr(err.message, ".idx"));
        assert_non_null(strstr(err.message, "stoker index --force"));
        assert_int_equal(set_build(&d, 0, &r, &err), 0);
        assert_int_equal(r.built, 1);
        open_check(&d, NULL);
    }
    free(data);
}

static void bad_shard(void **state)
{
    stk_dataset *ds = NULL;
    stk_error err;
    char path[700], below[700];
    set d;

    set_make(&d, "bad", 4, 50);
    hidden(&d, below, sizeof below);
    shard_path(&d, 2, path, sizeof path);
    assert_int_equal(truncate(path, 5 * 1024 + 100), 0);
    assert_int_equal(set_open(&d, &ds, &err), STK_ECORRUPT);
    assert_non_null(strstr(err.shard, "0002.tar"));
    assert_true(err.offset != STK_NO_OFFSET);
    assert_int_equal(access(below, F_OK), -1); /* nothing is left behind */
    d.urls[0] = "/nonexistent/{0..3}.tar";
    assert_int_equal(set_open(&d, &ds, &err), STK_ENOTFOUND);
    assert_int_equal(stk_dataset_open(&ds, d.urls, 0, NULL, &err), STK_ENOTFOUND);
}

static int count_stop(void *cookie, uint64_t done, uint64_t total)
{
    *(uint64_t *)cookie = done;
    assert_true(done <= total);
    return done == UINT64_MAX;
}

static int stop_now(void *cookie, uint64_t done, uint64_t total)
{
    return 1;
}

static void progress(void **state)
{
    uint64_t seen = 0;
    stk_index_options o = {
        .size = sizeof o, .progress = count_stop, .progress_cookie = &seen, .cache_dir = cache
    };
    stk_index_report r = { .size = sizeof r };
    stk_error err;
    set d;

    set_make(&d, "progress", 4, 50);
    assert_int_equal(stk_index_build(d.urls, 1, &o, &r, &err), 0);
    assert_int_equal(seen, r.data_bytes);
    o.progress = stop_now;
    o.force = STK_YES;
    assert_int_equal(stk_index_build(d.urls, 1, &o, &r, &err), STK_ECLOSED);
    open_check(&d, NULL); /* the old one is still there */
}

typedef struct watched {
    pthread_t caller;
    unsigned calls, stop_at;
} watched;

static int watch(void *cookie, uint64_t done, uint64_t total)
{
    watched *w = cookie;

    assert_true(pthread_equal(w->caller, pthread_self()));
    assert_true(done <= total);
    return ++w->calls == w->stop_at;
}

/* Always on the caller's thread, by data sets too; a stop leaves nothing behind. */
static void progress_of_open(void **state)
{
    char below[700];
    set d;

    set_make(&d, "watched", 6, 400);
    hidden(&d, below, sizeof below);
    for (uint32_t workers = 1; workers <= 4; workers += 3) {
        watched w = { pthread_self(), 0, 1 };
        stk_dataset_options o = { .size = sizeof o,
                                  .cache_dir = cache,
                                  .num_workers = workers,
                                  .progress = watch,
                                  .progress_cookie = &w };
        stk_dataset *ds = NULL;
        stk_error err;

        assert_int_equal(stk_dataset_open(&ds, d.urls, 1, &o, &err), STK_ECLOSED);
        assert_null(ds);
        assert_non_null(strstr(err.message, "stopped"));
        assert_int_equal(access(below, F_OK), -1);
        w.stop_at = 0;
        assert_int_equal(stk_dataset_open(&ds, d.urls, 1, &o, &err), 0);
        assert_true(w.calls > 1);
        assert_int_equal(remove(stk_dataset_index_path(ds)), 0);
        assert_int_equal(rmdir(below), 0);
        stk_dataset_unref(&ds);
    }
}

/* Another process has the lock: waiting for it can be given up. */
static void stop_while_waiting(void **state)
{
    watched w = { pthread_self(), 0, 3 };
    stk_dataset_options o = {
        .size = sizeof o, .cache_dir = cache, .progress = watch, .progress_cookie = &w
    };
    char path[1300];
    stk_dataset *ds = NULL;
    stk_error err;
    set d;
    int fd;

    set_make(&d, "locked", 1, 5);
    assert_int_equal(set_open(&d, &ds, &err), 0);
    snprintf(path, sizeof path, "%s", stk_dataset_index_path(ds));
    stk_dataset_unref(&ds);
    assert_int_equal(remove(path), 0);
    strcpy(strrchr(path, '.'), ".lock");
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    assert_true(fd >= 0 && flock(fd, LOCK_EX) == 0);
    assert_int_equal(stk_dataset_open(&ds, d.urls, 1, &o, &err), STK_ECLOSED);
    assert_int_equal(w.calls, 3);
    close(fd);
    open_check(&d, NULL);
}

static void by_memory(void **state)
{
    static const char *const urls[] = { "mem://a.tar" };
    char path[700];
    stk_dataset *ds = NULL;
    stk_error err;
    uint8_t *data;
    size_t len;
    set d;

    set_make(&d, "mem", 1, 20);
    shard_path(&d, 0, path, sizeof path);
    data = test_slurp(path, &len);
    assert_int_equal(stk_memory_put("a.tar", data, len, &err), 0);
    assert_int_equal(stk_dataset_open(&ds, urls, 1, NULL, &err), 0);
    assert_string_equal(stk_dataset_index_path(ds), "");
    set_check(ds, &d);
    stk_dataset_unref(&ds);
    assert_int_equal(stk_memory_put("a.tar", NULL, 0, &err), 0);
    free(data);
}

/* In the cache lie indexes of many folders: equal names, sizes and mtimes do not make shards
 * equal. */
static void cache_of_many(void **state)
{
    char block[700], path[700];
    stk_index_report r;
    stk_error err;
    set a, b;

    set_make(&a, "many-a", 3, 20);
    set_make(&b, "many-b", 3, 20);
    snprintf(block, sizeof block, "%s/.stoker", a.folder);
    test_spill(block, "", 0); /* a file where the folder should go: not even root can write */
    snprintf(block, sizeof block, "%s/.stoker", b.folder);
    test_spill(block, "", 0);
    for (unsigned i = 0; i < 3; i++) {
        shard_path(&b, i, path, sizeof path);
        shard_write(path, i, 20, 1);
        touch(path, 1000);
        shard_path(&a, i, path, sizeof path);
        touch(path, 1000);
    }
    assert_int_equal(set_build(&a, 0, &r, &err), 0);
    assert_int_equal(strncmp(r.path, cache, strlen(cache)), 0);
    assert_int_equal(set_build(&b, 0, &r, &err), 0);
    assert_int_equal(r.built, 1);
    assert_int_equal(r.reused_shards, 0);
    set_grow(&a, 5);
    assert_int_equal(set_build(&a, 0, &r, &err), 0);
    assert_int_equal(r.reused_shards, 3);
    open_check(&a, cache);
}

/* Run fn in a child that may not write where root could; its answer must be 0. */
static void as_nobody(void (*fn)(void *), void *arg)
{
    int status = -1;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        if (getuid() == 0 && (setgid(65534) || setuid(65534)))
            _exit(9);
        fn(arg);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void warn_count(void *cookie, stk_log_level level, const char *line)
{
    if (level == STK_LOG_WARN)
        ++*(int *)cookie;
}

typedef struct read_only {
    set *d;
    const char *cache;
    int in_memory;
} read_only;

static void open_read_only(void *arg)
{
    read_only *r = arg;
    int warned = 0;
    stk_dataset_options o = {
        .size = sizeof o, .cache_dir = r->cache, .log = warn_count, .log_cookie = &warned
    };
    stk_dataset *ds = NULL;
    stk_error err;

    if (stk_dataset_open(&ds, r->d->urls, 1, &o, &err) < 0)
        _exit(1);
    if (stk_dataset_len(ds) != (uint64_t)r->d->shards * r->d->samples || warned != r->in_memory)
        _exit(2);
    if (strncmp(stk_dataset_index_path(ds), r->in_memory ? "" : r->cache,
                r->in_memory ? 1 : strlen(r->cache)) != 0)
        _exit(3);
    stk_dataset_unref(&ds);
}

static void read_only_folder(void **state)
{
    char own[700], below[800];
    set d;
    read_only r = { &d, own, 0 };

    set_make(&d, "ro", 3, 10);
    snprintf(own, sizeof own, "%s/ro-cache", dir);
    chmod(d.folder, 0555);
    assert_int_equal(mkdir(own, 0777), 0);
    chmod(own, 0777);
    as_nobody(open_read_only, &r);
    snprintf(below, sizeof below, "%s/index", own);
    assert_int_equal(test_count(below, "idx$"), 1);
    as_nobody(open_read_only, &r); /* found there */
    snprintf(own, sizeof own, "%s/ro/no-cache", dir);
    r.in_memory = 1;
    as_nobody(open_read_only, &r);
    assert_int_equal(test_count(d.folder, "stoker\\|cache"), 0);
}

/* ---- several processes ---- */

static void count_builds(void *cookie, stk_log_level level, const char *line)
{
    if (!strncmp(line, "building the index", 18))
        atomic_fetch_add((_Atomic int *)cookie, 1);
}

static void eight_at_once(void **state)
{
    _Atomic int *builds = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                               0);
    pid_t pid[8];
    set d;
    char below[700];

    set_make(&d, "eight", 20, 200);
    hidden(&d, below, sizeof below);
    fflush(NULL);
    for (int i = 0; i < 8; i++) {
        pid[i] = fork();
        if (pid[i] == 0) {
            stk_dataset_options o = { .size = sizeof o,
                                      .log = count_builds,
                                      .log_cookie = (void *)builds };
            stk_dataset *ds = NULL;
            int rc = stk_dataset_open(&ds, d.urls, 1, &o, NULL);

            if (rc == 0 && stk_dataset_len(ds) != 4000)
                rc = -99;
            stk_dataset_unref(&ds);
            _exit(-rc);
        }
    }
    for (int i = 0; i < 8; i++) {
        int status = -1;

        waitpid(pid[i], &status, 0);
        assert_int_equal(status, 0);
    }
    assert_int_equal(*builds, 1);
    assert_int_equal(test_count(below, "lock\\|tmp"), 0);
    munmap((void *)builds, 4096);
    open_check(&d, NULL);
}

static int stall(void *cookie, uint64_t done, uint64_t total)
{
    int *fd = cookie;

    if (!total) /* shards are looked at, nothing is written yet */
        return 0;
    if (write(*fd, "x", 1) == 1) /* we are in the middle of it */
        for (;;)
            pause();
    return 1;
}

static void killed_builder(void **state)
{
    char below[700], byte;
    int pipefd[2], status;
    pid_t pid;
    set d;

    set_make(&d, "killed", 5, 100);
    hidden(&d, below, sizeof below);
    assert_int_equal(pipe(pipefd), 0);
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        stk_index_options o = { .size = sizeof o,
                                .progress = stall,
                                .progress_cookie = &pipefd[1] };

        _exit(stk_index_build(d.urls, 1, &o, NULL, NULL) ? 1 : 0);
    }
    assert_int_equal(read(pipefd[0], &byte, 1), 1);
    assert_int_equal(test_count(below, "tmp"), 1);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(test_count(below, "tmp"), 1);
    open_check(&d, below);
    assert_int_equal(test_count(below, "tmp\\|lock"), 0); /* the dead one's are swept away */
    close(pipefd[0]);
    close(pipefd[1]);
}

static void in_a_child(void **state)
{
    stk_dataset *ds = NULL;
    stk_error err;
    int status = -1;
    pid_t pid;
    set d;

    set_make(&d, "child", 3, 20);
    assert_int_equal(set_open(&d, &ds, &err), 0);
    sample_check(ds, &d, 1);
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        set_check(ds, &d);
        stk_dataset_unref(&ds);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    set_check(ds, &d);
    stk_dataset_unref(&ds);
}

static void *check_thread(void *arg)
{
    void **a = arg;

    set_check(a[0], a[1]);
    return NULL;
}

static void threads_read(void **state)
{
    stk_dataset *ds = NULL;
    pthread_t t[4];
    stk_error err;
    set d;
    void *arg[2];

    set_make(&d, "threads", 6, 100);
    assert_int_equal(set_open(&d, &ds, &err), 0);
    arg[0] = ds;
    arg[1] = &d;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&t[i], NULL, check_thread, arg), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    stk_dataset_unref(&ds);
}

/* Building, finding, reading: the n-th allocation fails, for every n. */
static void no_memory(void **state)
{
    stk_dataset_options o = { .size = sizeof o, .num_workers = 1, .cache_dir = cache };
    char below[700];
    set d;

    set_make(&d, "nomem", 3, 20);
    hidden(&d, below, sizeof below);
    for (int indexed = 0; indexed < 2; indexed++) {
        uint64_t n;

        for (n = 1;; n++) {
            stk_dataset *ds = NULL;
            stk_sample *x = NULL;
            stk_error err;
            int rc;

            stk_mem_fail_at(n);
            rc = stk_dataset_open(&ds, d.urls, 1, &o, &err);
            if (rc == 0)
                rc = stk_dataset_read(ds, 33, &x, &err);
            stk_mem_fail_at(0);
            stk_sample_close(&x);
            stk_dataset_unref(&ds);
            assert_int_equal(test_count(below, "tmp\\|lock"), 0);
            if (rc == 0)
                break;
            assert_int_equal(rc, STK_ENOMEM);
            if (!indexed)
                test_remove(below); /* a build that was through leaves its index */
        }
        print_message("%s: %u allocations, each failed once\n", indexed ? "open" : "build",
                      (unsigned)n - 1);
        assert_true(n > 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open_and_read),      cmocka_unit_test(moved_folder),
        cmocka_unit_test(growing_list),       cmocka_unit_test(stale),
        cmocka_unit_test(changed_underneath), cmocka_unit_test(damaged_index),
        cmocka_unit_test(bad_shard),          cmocka_unit_test(progress),
        cmocka_unit_test(by_memory),          cmocka_unit_test(in_a_child),
        cmocka_unit_test(threads_read),       cmocka_unit_test(read_only_folder),
        cmocka_unit_test(eight_at_once),      cmocka_unit_test(killed_builder),
        cmocka_unit_test(no_memory),          cmocka_unit_test(cache_of_many),
        cmocka_unit_test(progress_of_open),   cmocka_unit_test(stop_while_waiting),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}

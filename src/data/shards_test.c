/* SPDX-License-Identifier: Apache-2.0 */
/* shards_test.c - open files of shards: once while they are few, least recently used beyond the
 * cap, checked, after fork. */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "data/shard_data.h"
#include "index/index_model.h"

#define SHARDS 60u

static char dir[512];
static stk_index *ix;
static rlim_t files_before;

static void shard_path(unsigned i, char *out, size_t size)
{
    snprintf(out, size, "%s/%04u.bin", dir, i);
}

/* Shard i: 4 bytes of its number, one sample, one field. */
static void shard_write(unsigned i)
{
    char path[600];
    uint32_t v = i;

    shard_path(i, path, sizeof path);
    test_spill(path, &v, sizeof v);
}

static _Atomic int walks; /* through a whole shard */
static uint64_t field_size = 4;

static int four_probe(const char *name, stk_bytes head)
{
    (void)name;
    (void)head;
    return 0;
}

static int four_index(stk_file *file, uint64_t size, stk_scan *scan, stk_error *err)
{
    stk_field f = { .name = "bin", .name_len = 3, .offset = 0, .size = field_size };

    (void)file;
    (void)size;
    atomic_fetch_add(&walks, 1);
    return scan->sample(scan, (stk_bytes){ 0 }, 0, &f, 1, err);
}

static const stk_format four = { .abi = STK_PLUGIN_ABI,
                                 .size = sizeof(stk_format),
                                 .name = "four",
                                 .help = "a test",
                                 .suffixes = ".four",
                                 .probe = four_probe,
                                 .index = four_index };

static void index_make(void)
{
    stk_index_writer *w = NULL;
    stk_error err;

    assert_int_equal(stk_plugin_add(STK_PLUGIN_FORMAT, &four, &err), 0);
    assert_int_equal(stk_index_writer_open(&w, NULL, "four", SHARDS, &err), 0);
    for (unsigned i = 0; i < SHARDS; i++) {
        stk_field f = { .name = "bin", .name_len = 3, .offset = 0, .size = 4 };
        stk_shard_info info = { .etag = "" };
        stk_index_part *p = NULL;
        stk_file_info st;
        stk_file *file = NULL;
        char path[600];

        shard_write(i);
        shard_path(i, path, sizeof path);
        assert_int_equal(stk_url_open(STK_URL(path, NULL), &file, &err), 0);
        assert_int_equal(stk_file_stat(file, &st, &err), 0);
        assert_int_equal(stk_index_part_open(&p, &err), 0);
        assert_int_equal(stk_index_part_scan(p)->sample(stk_index_part_scan(p), (stk_bytes){ 0 }, 0,
                                                        &f, 1, &err),
                         0);
        info.name = path;
        info.size = st.size;
        info.mtime_ns = st.mtime_ns;
        assert_int_equal(stk_index_part_print(p, file, st.size, &info.print, &err), 0);
        assert_int_equal(stk_index_writer_add(w, i, &info, p, &err), 0);
        stk_index_part_close(&p);
        stk_file_close(&file);
    }
    assert_int_equal(stk_index_writer_commit(w, &err), 0);
    assert_int_equal(stk_index_open_fd(&ix, stk_index_writer_fd(w), "(memory)", &err), 0);
    stk_index_writer_close(&w);
}

static stk_shards *shards_open(unsigned soft_limit)
{
    struct rlimit r;
    stk_names names = { 0 };
    stk_shards *s = NULL;
    stk_error err;
    char path[600];

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &r), 0);
    r.rlim_cur = soft_limit;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &r), 0);
    for (unsigned i = 0; i < SHARDS; i++) {
        shard_path(i, path, sizeof path);
        assert_int_equal(stk_names_add(&names, path, strlen(path), &err), 0);
    }
    assert_int_equal(stk_shards_open(&s, ix, &stk_format_tar, &names, &err), 0);
    assert_int_equal(names.n, 0);
    return s;
}

static unsigned open_files(void)
{
    DIR *d = opendir("/proc/self/fd");
    unsigned n = 0;

    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static void read_one(stk_shards *s, unsigned i)
{
    stk_file *f = NULL;
    stk_error err;
    uint32_t v = 0;

    assert_int_equal(stk_shards_acquire(s, i, &f, &err), 0);
    assert_int_equal(stk_file_read(f, 0, &v, 4, &err), 0);
    assert_int_equal(v, i);
    stk_shards_release(s, i);
}

static void few(void **state)
{
    unsigned before = open_files();
    stk_shards *s = shards_open(1024);
    stk_file *a, *b;
    char path[600];

    for (unsigned round = 0; round < 3; round++)
        for (unsigned i = 0; i < SHARDS; i++)
            read_one(s, i);
    assert_int_equal(stk_shards_acquire(s, 3, &a, NULL), 0);
    assert_int_equal(stk_shards_acquire(s, 3, &b, NULL), 0);
    assert_ptr_equal(a, b);
    assert_int_equal(open_files(), before + SHARDS);
    assert_int_equal(stk_shards_acquire(s, SHARDS, &a, NULL), STK_EINVAL);
    shard_path(5, path, sizeof path);
    assert_string_equal(stk_shards_name(s, 5), path);
    assert_null(stk_shards_name(s, SHARDS));
    stk_shards_close(&s);
    assert_int_equal(open_files(), before);
}

static void many(void **state)
{
    unsigned before = open_files();
    stk_shards *s = shards_open(40); /* a cap of 20 files for 60 shards */
    stk_file *held, *again;

    assert_int_equal(stk_shards_acquire(s, 7, &held, NULL), 0);
    for (unsigned i = 0; i < 1000; i++) {
        read_one(s, (unsigned)(stk_mix64(i) % SHARDS));
        assert_true(open_files() <= before + 20);
    }
    assert_int_equal(stk_shards_acquire(s, 7, &again, NULL), 0);
    assert_ptr_equal(held, again); /* held files stay */
    stk_shards_release(s, 7);
    stk_shards_release(s, 7);
    stk_shards_close(&s);
    assert_int_equal(open_files(), before);
}

/* More held at once than the cap: they all stay open, and the surplus goes when released. */
static void held_beyond_cap(void **state)
{
    unsigned before = open_files();
    stk_shards *s = shards_open(60);
    stk_file *f;

    for (unsigned i = 0; i < 40; i++)
        assert_int_equal(stk_shards_acquire(s, i, &f, NULL), 0);
    assert_int_equal(open_files(), before + 40);
    for (unsigned i = 0; i < 40; i++)
        stk_shards_release(s, i);
    assert_int_equal(open_files(), before + 30);
    stk_shards_release(s, 3); /* one too many does no harm */
    stk_shards_close(&s);
}

static void *hammer(void *arg)
{
    static _Atomic unsigned seed;
    unsigned mine = atomic_fetch_add(&seed, 1);

    for (unsigned i = 0; i < 2000; i++)
        read_one(arg, (unsigned)(stk_mix64(mine * 100000 + i) % SHARDS));
    return NULL;
}

static void threads(void **state)
{
    for (int limit = 1024; limit >= 48; limit -= 976) {
        stk_shards *s = shards_open((unsigned)limit);
        pthread_t t[4];

        for (int i = 0; i < 4; i++)
            assert_int_equal(pthread_create(&t[i], NULL, hammer, s), 0);
        for (int i = 0; i < 4; i++)
            pthread_join(t[i], NULL);
        stk_shards_close(&s);
    }
}

static void after_fork(void **state)
{
    for (int limit = 1024; limit >= 48; limit -= 976) {
        stk_shards *s = shards_open((unsigned)limit);
        int status = -1;
        pid_t pid;

        for (unsigned i = 0; i < 10; i++)
            read_one(s, i);
        fflush(NULL);
        pid = fork();
        if (pid == 0) {
            for (unsigned i = 0; i < 200; i++)
                read_one(s, i % 15);
            stk_shards_close(&s);
            _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        for (unsigned i = 0; i < SHARDS; i++)
            read_one(s, i);
        stk_shards_close(&s);
    }
}

static void touch(const char *path, time_t t)
{
    struct timespec ts[2] = { { .tv_sec = t }, { .tv_sec = t } };

    assert_int_equal(utimensat(AT_FDCWD, path, ts, 0), 0);
}

static void checked(void **state)
{
    for (int limit = 1024; limit >= 48; limit -= 976) {
        stk_shards *s = shards_open((unsigned)limit);
        uint32_t other = 4711;
        char path[600];
        stk_file *f;
        stk_error err;

        shard_path(1, path, sizeof path);
        touch(path, 1000);
        atomic_store(&walks, 0);
        read_one(s, 1); /* touched: fine */
        read_one(s, 1);
        read_one(s, 3);
        assert_int_equal(atomic_load(&walks), 1); /* gone through once */
        shard_path(4, path, sizeof path);
        touch(path, 1000);
        field_size = 3; /* the bytes that are looked at are the same, but not the members */
        assert_int_equal(stk_shards_acquire(s, 4, &f, &err), STK_ESTALE);
        assert_non_null(strstr(err.message, "rewritten"));
        assert_string_equal(err.shard, path);
        field_size = 4;
        read_one(s, 4);
        shard_path(2, path, sizeof path);
        test_spill(path, &other, 4);
        touch(path, 1000);
        assert_int_equal(stk_shards_acquire(s, 2, &f, &err), STK_ESTALE);
        assert_string_equal(err.shard, path);
        assert_null(f);
        test_spill(path, "longer", 6);
        assert_int_equal(stk_shards_acquire(s, 2, &f, &err), STK_ESTALE);
        assert_non_null(strstr(err.message, "6 bytes"));
        assert_int_equal(unlink(path), 0);
        assert_int_equal(stk_shards_acquire(s, 2, &f, &err), STK_ENOTFOUND);
        shard_write(2);
        read_one(s, 2);
        stk_shards_close(&s);
    }
}

static void wrong_list(void **state)
{
    stk_names names = { 0 };
    stk_shards *s = NULL;
    stk_file *f = NULL;
    stk_error err;

    assert_int_equal(stk_names_add(&names, "x", 1, &err), 0);
    assert_int_equal(stk_shards_open(&s, ix, &stk_format_tar, &names, &err), STK_EINVAL);
    assert_int_equal(stk_url_open(STK_URL("gopher://x", NULL), &f, &err), STK_ENOTSUP);
    assert_string_equal(err.shard, "gopher://x");
    for (uint64_t n = 1; n <= 2; n++) {
        assert_int_equal(stk_names_add(&names, "x", 1, &err), 0);
        stk_mem_fail_at(n);
        assert_true(stk_shards_open(&s, ix, &stk_format_tar, &names, &err) < 0);
        stk_mem_fail_at(0);
    }
}

static int setup(void **state)
{
    struct rlimit r;

    getrlimit(RLIMIT_NOFILE, &r);
    files_before = r.rlim_cur;
    test_folder(dir, sizeof dir);
    index_make();
    return 0;
}

static int teardown(void **state)
{
    struct rlimit r;

    getrlimit(RLIMIT_NOFILE, &r);
    r.rlim_cur = files_before;
    setrlimit(RLIMIT_NOFILE, &r);
    stk_index_close(&ix);
    test_remove(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few),
        cmocka_unit_test(many),
        cmocka_unit_test(held_beyond_cap),
        cmocka_unit_test(threads),
        cmocka_unit_test(after_fork),
        cmocka_unit_test(checked),
        cmocka_unit_test(wrong_list),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* writer_test.c - writing: any order, carried-over shards, limits, and failures that leave
 * nothing behind. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "index/index_model.h"

static char dir[512];

static void at(char *path, size_t size, const char *name)
{
    snprintf(path, size, "%s/%s", dir, name);
}

static void same_bytes(const char *a, const char *b)
{
    size_t n, m;
    uint8_t *x = test_slurp(a, &n), *y = test_slurp(b, &m);

    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
}

/* The same bytes, names and schemas whatever the order of arrival. */
static void any_order(void **state)
{
    model m = { .seed = 21, .shards = 17, .per_shard = 100 };
    char a[600], b[600];
    stk_index *x = NULL, *y = NULL;
    stk_index_writer *w = NULL;
    stk_error err;

    at(a, sizeof a, "a.idx");
    at(b, sizeof b, "b.idx");
    model_write(&m, a);
    assert_int_equal(stk_index_writer_open(&w, b, "tar", m.shards, &err), 0);
    for (uint64_t i = 0; i < m.shards; i++)
        model_add(&m, w, (i * 5 + 2) % m.shards);
    assert_int_equal(stk_index_writer_commit(w, &err), 0);
    stk_index_writer_close(&w);
    same_bytes(a, b);
    assert_int_equal(stk_index_open(&x, a, &err), 0);
    assert_int_equal(stk_index_open(&y, b, &err), 0);
    model_check(&m, y);
    assert_int_equal(stk_index_names(x), stk_index_names(y));
    assert_int_equal(stk_index_schemas(x), stk_index_schemas(y));
    for (uint32_t i = 0; i < stk_index_names(x); i++)
        assert_string_equal(stk_index_name(x, i), stk_index_name(y, i));
    for (uint64_t i = 0; i < stk_index_samples(x); i++) {
        stk_entry e, f;

        assert_int_equal(stk_index_entry(x, i, &e, &err), 0);
        assert_int_equal(stk_index_entry(y, i, &f, &err), 0);
        assert_int_equal(e.schema, f.schema);
    }
    stk_index_close(&x);
    stk_index_close(&y);
}

static void carried_over(void **state)
{
    model small = { .seed = 22, .shards = 9, .per_shard = 300 },
          big = { .seed = 22, .shards = 14, .per_shard = 300 };
    char a[600], b[600], name[32];
    stk_index *old = NULL, *ix = NULL;
    stk_index_writer *w = NULL;
    stk_shard_info info;
    stk_error err;

    at(a, sizeof a, "small.idx");
    at(b, sizeof b, "big.idx");
    model_write(&small, a);
    assert_int_equal(stk_index_open(&old, a, &err), 0);
    assert_int_equal(stk_index_writer_open(&w, b, "tar", big.shards, &err), 0);
    for (uint64_t i = big.shards; i-- > 0;) {
        model_info(i, &info, name);
        if (i < small.shards)
            assert_int_equal(stk_index_writer_reuse(w, i, &info, old, i, &err), 0);
        else
            model_add(&big, w, i);
    }
    assert_int_equal(stk_index_writer_commit(w, &err), 0);
    stk_index_writer_close(&w);
    stk_index_close(&old);
    assert_int_equal(stk_index_open(&ix, b, &err), 0);
    model_check(&big, ix);
    stk_index_close(&ix);
    model_write(&big, a);
    same_bytes(a, b);
}

/* A damaged old segment is refused before anything is written; the shard can then be scanned. */
static void damaged_not_carried(void **state)
{
    model m = { .seed = 23, .shards = 1, .per_shard = 5000, .even = 1 };
    char a[600], name[32];
    stk_index *old = NULL, *ix = NULL;
    stk_index_writer *w = NULL;
    stk_shard_info info;
    stk_error err;
    uint8_t *data;
    size_t len;

    at(a, sizeof a, "dam.idx");
    model_write(&m, a);
    data = test_slurp(a, &len);
    data[IDX_HEAD + 70000] ^= 4;
    assert_int_equal(stk_index_open_mem(&old, data, len, &err), 0);
    assert_int_equal(stk_index_writer_open(&w, NULL, "tar", 1, &err), 0);
    model_info(0, &info, name);
    assert_int_equal(stk_index_writer_reuse(w, 0, &info, old, 0, &err), STK_ECORRUPT);
    model_add(&m, w, 0);
    assert_int_equal(stk_index_writer_fd(w), -1);
    assert_int_equal(stk_index_writer_commit(w, &err), 0);
    assert_int_equal(stk_index_open_fd(&ix, stk_index_writer_fd(w), "(memory)", &err), 0);
    stk_index_writer_close(&w);
    model_check(&m, ix);
    stk_index_close(&ix);
    stk_index_close(&old);
    free(data);
}

/* Samples that have no field at all. */
static void no_fields(void **state)
{
    stk_index_writer *w = NULL;
    stk_index_part *p = NULL;
    stk_index *ix = NULL, *copy = NULL;
    stk_shard_info info = { .name = "a", .etag = "" };
    stk_scan *scan;
    stk_error err;
    stk_entry e;

    assert_int_equal(stk_index_part_open(&p, &err), 0);
    scan = stk_index_part_scan(p);
    for (int i = 0; i < 3; i++)
        assert_int_equal(
            scan->sample(scan, (stk_bytes){ (const uint8_t *)"k", 1 }, 0, NULL, 0, &err), 0);
    assert_int_equal(stk_index_writer_open(&w, NULL, "tar", 1, &err), 0);
    assert_int_equal(stk_index_writer_add(w, 0, &info, p, &err), 0);
    assert_int_equal(stk_index_writer_commit(w, &err), 0);
    assert_int_equal(stk_index_open_fd(&ix, stk_index_writer_fd(w), "(memory)", &err), 0);
    stk_index_writer_close(&w);
    stk_index_part_close(&p);
    assert_int_equal(stk_index_writer_open(&w, NULL, "tar", 1, &err), 0);
    assert_int_equal(stk_index_writer_reuse(w, 0, &info, ix, 0, &err), 0);
    assert_int_equal(stk_index_writer_commit(w, &err), 0);
    assert_int_equal(stk_index_open_fd(&copy, stk_index_writer_fd(w), "(memory)", &err), 0);
    stk_index_writer_close(&w);
    stk_index_close(&ix);
    assert_int_equal(stk_index_entry(copy, 2, &e, &err), 0);
    assert_int_equal(e.n_fields, 0);
    assert_int_equal(stk_index_names(copy), 0);
    stk_index_close(&copy);
}

static void misuse(void **state)
{
    model m = { .seed = 24, .shards = 2, .per_shard = 5 };
    char a[600], name[32];
    stk_index_writer *w = NULL;
    stk_index_part *p = model_part(&m, 0);
    stk_shard_info info;
    stk_error err;

    at(a, sizeof a, "misuse.idx");
    model_info(0, &info, name);
    assert_int_equal(stk_index_writer_open(&w, a, "tar", 2, &err), 0);
    model_add(&m, w, 0);
    assert_int_equal(stk_index_writer_commit(w, &err), STK_EINVAL); /* shard 1 is missing */
    model_add(&m, w, 1);
    assert_int_equal(stk_index_writer_add(w, 0, &info, p, &err),
                     STK_EINVAL); /* twice: the whole is void */
    assert_int_equal(stk_index_writer_commit(w, &err), STK_EINVAL);
    stk_index_writer_close(&w);
    assert_int_equal(access(a, F_OK), -1);
    assert_int_equal(stk_index_writer_open(&w, a, "tar", 2, &err), 0);
    assert_int_equal(stk_index_writer_add(w, 2, &info, p, &err), STK_EINVAL);
    stk_index_writer_close(&w);
    assert_int_equal(stk_index_writer_open(&w, "/dev/null/a.idx", "tar", 2, &err), STK_EIO);
    assert_null(w);
    stk_index_part_close(&p);
    assert_int_equal(test_count(dir, "misuse"), 0);
}

static void limits(void **state)
{
    stk_index_part *p = NULL;
    stk_field f = { .name = "x", .name_len = 1 };
    stk_scan *scan;
    char name[16];
    stk_error err;
    int rc = 0;
    uint32_t n;

    assert_int_equal(stk_index_part_open(&p, &err), 0);
    scan = stk_index_part_scan(p);
    assert_int_equal(scan->sample(scan, (stk_bytes){ 0 }, IDX_MAX_OFFSET, &f, 1, &err), STK_ELIMIT);
    f.offset = UINT64_MAX;
    f.size = 1;
    assert_int_equal(scan->sample(scan, (stk_bytes){ 0 }, 0, &f, 1, &err), STK_ECORRUPT);
    f.offset = f.size = 0;
    f.name_len = 2;
    assert_int_equal(scan->sample(scan, (stk_bytes){ 0 }, 0, &f, 1, &err),
                     STK_ECORRUPT); /* "x\0" */
    f.name = name;
    for (n = 0; rc == 0; n++) {
        f.name_len = (size_t)snprintf(name, sizeof name, "%u", n);
        rc = scan->sample(scan, (stk_bytes){ 0 }, n, &f, 1, &err);
    }
    assert_int_equal(rc, STK_ELIMIT);
    assert_in_range(n, IDX_MAX_SCHEMAS, IDX_MAX_SCHEMAS + 1);
    assert_non_null(strstr(err.message, "65535"));
    stk_index_part_close(&p);
}

/* A full disk, played by the limit on file sizes: a clean error at any size, and nothing is
 * left. */
static void full_disk(void **state)
{
    model m = { .seed = 25, .shards = 3, .per_shard = 3000, .even = 1 };

    for (rlim_t limit = 0; limit < 400000; limit += 37000) {
        int status = -1;
        pid_t pid = fork();

        if (pid == 0) {
            struct rlimit r = { limit, limit };
            stk_index_writer *w = NULL;
            stk_error err;
            char a[600], name[32];
            int rc = 0;

            at(a, sizeof a, "full.idx");
            signal(SIGXFSZ, SIG_IGN);
            if (setrlimit(RLIMIT_FSIZE, &r) || stk_index_writer_open(&w, a, "tar", m.shards, &err))
                _exit(2);
            for (uint64_t i = 0; i < m.shards && rc == 0; i++) {
                stk_index_part *p = model_part(&m, i);
                stk_shard_info info;

                model_info(i, &info, name);
                rc = stk_index_writer_add(w, i, &info, p, &err);
                stk_index_part_close(&p);
            }
            err.message[0] = 0;
            rc = stk_index_writer_commit(w, &err); /* tells the failure again */
            stk_index_writer_close(&w);
            _exit(rc == STK_EIO && strstr(err.message, "full.idx") ? 0 : 1);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        assert_int_equal(test_count(dir, "full"), 0);
    }
}

static int write_once(const model *m, const char *path, const stk_index *old, stk_error *err)
{
    stk_index_writer *w = NULL;
    stk_index *ix = NULL;
    int rc = stk_index_writer_open(&w, path, "tar", m->shards, err);

    for (uint64_t i = 0; rc == 0 && i < m->shards; i++) {
        stk_index_part *p = NULL;
        stk_shard_info info;
        model_sample s;
        char name[32];

        model_info(i, &info, name);
        if (i == 0) {
            rc = stk_index_writer_reuse(w, 0, &info, old, 0, err);
            continue;
        }
        rc = stk_index_part_open(&p, err);
        for (uint64_t row = 0; rc == 0 && row < model_samples(m, i); row++) {
            stk_scan *scan = stk_index_part_scan(p);

            model_sample_get(m, i, row, &s);
            rc = scan->sample(scan, (stk_bytes){ (uint8_t *)s.key, s.key_len }, s.offset, s.f, s.n,
                              err);
        }
        if (rc == 0)
            rc = stk_index_writer_add(w, i, &info, p, err);
        stk_index_part_close(&p);
    }
    if (rc == 0)
        rc = stk_index_writer_commit(w, err);
    stk_index_writer_close(&w);
    if (rc == 0)
        rc = stk_index_open(&ix, path, err);
    if (rc == 0)
        model_check(m, ix);
    stk_index_close(&ix);
    return rc;
}

static void no_memory(void **state)
{
    model m = { .seed = 26, .shards = 4, .per_shard = 60 };
    stk_index *old = NULL;
    char a[600], b[600];
    stk_error err;
    uint64_t n;
    int rc;

    at(a, sizeof a, "old-nm.idx");
    at(b, sizeof b, "new-nm.idx");
    model_write(&m, a);
    assert_int_equal(stk_index_open(&old, a, &err), 0);
    for (n = 1;; n++) {
        stk_mem_fail_at(n);
        rc = write_once(&m, b, old, &err);
        stk_mem_fail_at(0);
        assert_int_equal(test_count(dir, "tmp"), 0);
        if (rc == 0)
            break;
        assert_int_equal(rc, STK_ENOMEM);
        assert_int_equal(err.code, STK_ENOMEM);
    }
    print_message("%u allocations, each failed once\n", (unsigned)n - 1);
    assert_true(n > 20);
    stk_index_close(&old);
}

static const model threads_model = { .seed = 27, .shards = 64, .per_shard = 200 };
static stk_index_writer *threads_writer;
static _Atomic uint64_t threads_next;

static void *add_some(void *arg)
{
    uint64_t i;

    while ((i = atomic_fetch_add(&threads_next, 1)) < threads_model.shards)
        model_add(&threads_model, threads_writer, i);
    return NULL;
}

static void *read_all(void *arg)
{
    model_check(&threads_model, arg);
    return NULL;
}

static void threads(void **state)
{
    pthread_t t[4];
    stk_index *ix = NULL;
    stk_error err;
    char a[600];

    at(a, sizeof a, "threads.idx");
    assert_int_equal(stk_index_writer_open(&threads_writer, a, "tar", threads_model.shards, &err),
                     0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&t[i], NULL, add_some, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    assert_int_equal(stk_index_writer_commit(threads_writer, &err), 0);
    stk_index_writer_close(&threads_writer);
    assert_int_equal(stk_index_open(&ix, a, &err), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&t[i], NULL, read_all, ix), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    stk_index_close(&ix);
}

static int setup(void **state)
{
    test_folder(dir, sizeof dir);
    return 0;
}

static int teardown(void **state)
{
    test_remove(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_order),
        cmocka_unit_test(carried_over),
        cmocka_unit_test(damaged_not_carried),
        cmocka_unit_test(misuse),
        cmocka_unit_test(limits),
        cmocka_unit_test(full_disk),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(threads),
        cmocka_unit_test(no_fields),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}

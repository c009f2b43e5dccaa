/* SPDX-License-Identifier: Apache-2.0 */
/* pack_test.c - packing and writing: what is read back, what is kept, what a kill or a full disk
 * leaves.  Over real tar files. */
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "index/dataset_model.h"

#include "base/mem.h"
#include "tools/shard_writer.h"

#define SEED 7u

static stk_dataset *must_open(const char *url)
{
    const char *urls[] = { url };
    stk_dataset *ds = NULL;
    stk_error err;
    char text[700];

    if (stk_dataset_open(&ds, urls, 1, NULL, &err) < 0) {
        stk_error_format(&err, text, sizeof text);
        fail_msg("%s", text);
    }
    return ds;
}

static int pack_to(stk_dataset *ds, const char *to, const stk_pack_options *o, stk_pack_report *r,
                   stk_error *err)
{
    char dst[700];

    snprintf(dst, sizeof dst, "%s/%s", dir, to);
    *r = (stk_pack_report){ .size = sizeof *r };
    return stk_pack(ds, dst, o, r, err);
}

static stk_pack_options by_samples(uint64_t n)
{
    return (stk_pack_options){ .size = sizeof(stk_pack_options), .samples = n, .num_workers = 3 };
}

/* Sample `b` of `back` is sample `a` of `ds`: key, fields and bytes. */
static void same_sample(stk_dataset *ds, uint64_t a, stk_dataset *back, uint64_t b)
{
    stk_sample *x = NULL, *y = NULL;
    const void *data[2];
    const char *key[2];
    size_t len[2];
    stk_error err;

    assert_int_equal(stk_dataset_read(ds, a, &x, &err), 0);
    assert_int_equal(stk_dataset_read(back, b, &y, &err), 0);
    key[0] = stk_sample_key(x, &len[0]);
    key[1] = stk_sample_key(y, &len[1]);
    assert_int_equal(len[0], len[1]);
    assert_memory_equal(key[0], key[1], len[0]);
    assert_int_equal(stk_sample_fields(x), stk_sample_fields(y));
    for (uint32_t k = 0; k < stk_sample_fields(x); k++) {
        assert_string_equal(stk_sample_field(x, k, &data[0], &len[0]),
                            stk_sample_field(y, k, &data[1], &len[1]));
        assert_int_equal(len[0], len[1]);
        assert_memory_equal(data[0], data[1], len[0]);
    }
    stk_sample_close(&x);
    stk_sample_close(&y);
}

static void same_data(stk_dataset *ds, const char *url)
{
    stk_dataset *back = must_open(url);

    assert_int_equal(stk_dataset_len(back), stk_dataset_len(ds));
    for (uint64_t i = 0; i < stk_dataset_len(ds); i++)
        same_sample(ds, i, back, i);
    stk_dataset_unref(&back);
}

static void comes_back_equal(void **state)
{
    stk_pack_options o = by_samples(30);
    stk_pack_report r;
    stk_dataset *ds;
    stk_error err;
    char text[800];
    set d;

    set_make(&d, "equal", 3, 50);
    ds = must_open(d.pattern);
    assert_int_equal(pack_to(ds, "equal-out/t-%03d.tar", &o, &r, &err), 0);
    assert_int_equal(r.shards, 5);
    assert_int_equal(r.samples, 150);
    assert_int_equal(r.kept_shards, 0);
    assert_int_equal(r.changed_keys, 0);
    snprintf(text, sizeof text, "%s/equal-out/t-{000..004}.tar", dir);
    assert_string_equal(r.pattern, text);
    same_data(ds, r.pattern);
    snprintf(text, sizeof text, "%s/equal-out", dir);
    assert_int_equal(test_count(text, "tmp"), 0);
    snprintf(text, sizeof text, "%s/equal-out/.stoker", dir);
    assert_int_equal(test_count(text, "idx$"), 1);
    assert_int_equal(test_count(text, "lock$"), 0);
    stk_dataset_unref(&ds);
}

/* By bytes: no shard but a lone sample's is over, and each could not take the next sample. */
static void by_bytes(void **state)
{
    stk_pack_options o = { .size = sizeof o, .bytes = 20000, .no_index = STK_YES };
    stk_pack_report r;
    stk_dataset *ds;
    stk_error err;
    struct stat st;
    char path[800];
    set d;

    set_make(&d, "bytes", 2, 60);
    ds = must_open(d.pattern);
    assert_int_equal(pack_to(ds, "bytes-out", &o, &r, &err), 0);
    assert_in_range(r.shards, 10, 30);
    for (unsigned i = 0; i < r.shards; i++) {
        snprintf(path, sizeof path, "%s/bytes-out/shard-%06u.tar", dir, i);
        assert_int_equal(stat(path, &st), 0);
        assert_in_range(st.st_size, i + 1 < r.shards ? 20000 - 3000 : 1024, 20000 + 1024);
    }
    snprintf(path, sizeof path, "%s/bytes-out", dir);
    same_data(ds, path);
    stk_dataset_unref(&ds);
}

/* The same permutation for any number of workers, every sample once. */
static void shuffled(void **state)
{
    stk_pack_report r;
    stk_dataset *ds, *a, *b;
    uint8_t seen[100] = { 0 };
    unsigned moved = 0;
    stk_error err;
    set d;

    set_make(&d, "shuffle", 2, 50);
    ds = must_open(d.pattern);
    for (uint32_t workers = 1; workers <= 4; workers += 3) {
        stk_pack_options o = {
            .size = sizeof o, .samples = 9, .shuffle = STK_YES, .seed = SEED, .num_workers = workers
        };

        assert_int_equal(
            pack_to(ds, workers == 1 ? "shuffle-1/x-%d.tar" : "shuffle-4/x-%d.tar", &o, &r, &err),
            0);
        assert_int_equal(r.shards, 12);
    }
    b = must_open(r.pattern);
    snprintf(r.pattern, sizeof r.pattern, "%s/shuffle-1/x-{0..11}.tar", dir);
    a = must_open(r.pattern);
    for (uint64_t i = 0; i < 100; i++) {
        stk_sample *x = NULL;
        unsigned shard, n;

        same_sample(a, i, b, i);
        assert_int_equal(stk_dataset_read(a, i, &x, &err), 0);
        assert_int_equal(sscanf(stk_sample_key(x, NULL), "%u-%6u", &shard, &n), 2);
        assert_int_equal(seen[shard * 50 + n]++, 0);
        moved += shard * 50 + n != i;
        stk_sample_close(&x);
    }
    assert_true(moved > 80);
    stk_dataset_unref(&a);
    stk_dataset_unref(&b);
    stk_dataset_unref(&ds);
}

static void twice_is_once(void **state)
{
    stk_pack_options o = by_samples(10), other = by_samples(20);
    stk_pack_report r;
    stk_dataset *ds;
    stk_error err;
    struct stat before, after;
    char path[800];
    set d;

    set_make(&d, "twice", 2, 20);
    ds = must_open(d.pattern);
    assert_int_equal(pack_to(ds, "twice-out/s-%d.tar", &o, &r, &err), 0);
    snprintf(path, sizeof path, "%s/twice-out/s-2.tar", dir);
    assert_int_equal(stat(path, &before), 0);
    assert_int_equal(pack_to(ds, "twice-out/s-%d.tar", &o, &r, &err), 0);
    assert_int_equal(r.kept_shards, 4);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);

    assert_int_equal(pack_to(ds, "twice-out/s-%d.tar", &other, &r, &err), STK_EINVAL);
    assert_non_null(strstr(err.message, "not of this pack"));
    other.force = STK_YES;
    assert_int_equal(pack_to(ds, "twice-out/s-%d.tar", &other, &r, &err), 0);
    assert_int_equal(r.shards, 2);
    assert_int_equal(access(path, F_OK), -1); /* beyond the last one: would mix in */
    same_data(ds, r.pattern);

    snprintf(path, sizeof path, "%s/twice-out/s-1.tar", dir);
    assert_int_equal(unlink(path), 0); /* one is gone: only that one is written */
    other.force = STK_UNSET;
    assert_int_equal(pack_to(ds, "twice-out/s-%d.tar", &other, &r, &err), 0);
    assert_int_equal(r.kept_shards, 1);
    assert_int_equal(truncate(path, 5000), 0); /* somebody changed one */
    assert_int_equal(pack_to(ds, "twice-out/s-%d.tar", &other, &r, &err), STK_EINVAL);
    stk_dataset_unref(&ds);
}

static void never_over_its_source(void **state)
{
    stk_pack_options o = by_samples(10);
    stk_pack_report r;
    stk_dataset *ds;
    stk_error err;
    set d;

    set_make(&d, "self", 2, 20);
    ds = must_open(d.pattern);
    o.force = STK_YES;
    assert_int_equal(pack_to(ds, "self/%04d.tar", &o, &r, &err), STK_EINVAL);
    assert_non_null(strstr(err.message, "is read and would be written over"));
    set_check(ds, &d);
    stk_dataset_unref(&ds);
}

static int stop_after(void *cookie, uint64_t done, uint64_t total)
{
    int *left = cookie;

    (void)done, (void)total;
    usleep(20000); /* a pause makes it be called again */
    return (*left)-- <= 0;
}

/* Killed at some point, then run again: the same as if nothing had happened. */
static void killed(void **state)
{
    stk_pack_options o = by_samples(5);
    stk_pack_report r;
    stk_dataset *ds;
    unsigned kills = 0;
    stk_error err;
    char text[800];
    int status = 1;
    set d;

    set_make(&d, "killed", 2, 400);
    ds = must_open(d.pattern);
    snprintf(text, sizeof text, "%s/killed-out", dir);
    for (unsigned ms = 4; ms <= 256 && status; ms *= 2) {
        pid_t child = fork();

        if (!child)
            _exit(pack_to(ds, "killed-out/s-%03d.tar", &o, &r, &err) ? 3 : 0);
        usleep(ms * 1000);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
        kills += WIFSIGNALED(status);
    }
    assert_true(kills > 0);
    assert_int_equal(pack_to(ds, "killed-out/s-%02d.tar", &o, &r, &err), STK_EINVAL);
    assert_string_equal(err.message, "160 shards need 3 digits in their name: write %03d");
    assert_int_equal(pack_to(ds, "killed-out/s-%03d.tar", &o, &r, &err), 0);
    print_message("%u kills, then %u of 160 shards were there\n", kills, (unsigned)r.kept_shards);
    same_data(ds, r.pattern);
    assert_int_equal(test_count(text, "tmp"), 0);
    stk_dataset_unref(&ds);
}

static void stopped(void **state)
{
    int left = 0;
    stk_pack_options o = by_samples(5);
    stk_pack_report r;
    stk_dataset *ds;
    stk_error err;
    char text[800];
    set d;

    set_make(&d, "stop", 1, 300);
    ds = must_open(d.pattern);
    o.progress = stop_after;
    o.progress_cookie = &left;
    assert_int_equal(pack_to(ds, "stop-out", &o, &r, &err), STK_ECLOSED);
    snprintf(text, sizeof text, "%s/stop-out", dir);
    assert_int_equal(test_count(text, "tmp"), 0);
    o.progress = NULL;
    assert_int_equal(pack_to(ds, "stop-out", &o, &r, &err), 0);
    same_data(ds, r.pattern);
    stk_dataset_unref(&ds);
}

/* A disk that takes no more than 40 KB a file stands for a full one. */
static void full_disk(void **state)
{
    stk_pack_options o = by_samples(100);
    struct rlimit was, small;
    stk_pack_report r;
    stk_dataset *ds;
    stk_error err;
    char text[800];
    set d;

    set_make(&d, "full", 1, 100);
    ds = must_open(d.pattern);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    small = was;
    small.rlim_cur = 40000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_equal(pack_to(ds, "full-out", &o, &r, &err), STK_EIO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    assert_non_null(strstr(err.message, "no room"));
    assert_non_null(strstr(err.shard, "shard-000000.tar"));
    snprintf(text, sizeof text, "%s/full-out", dir);
    assert_int_equal(test_count(text, "tar"), 0);
    assert_int_equal(pack_to(ds, "full-out", &o, &r, &err), 0);
    same_data(ds, r.pattern);
    stk_dataset_unref(&ds);
}

static void two_at_once(void **state)
{
    pid_t child[3];
    stk_dataset *ds;
    set d;
    int status;
    char path[800];

    set_make(&d, "both", 1, 200);
    ds = must_open(d.pattern);
    for (int i = 0; i < 3; i++) {
        child[i] = fork();
        if (!child[i]) {
            stk_pack_options o = by_samples(10);
            stk_pack_report r;
            stk_error err;

            _exit(pack_to(ds, "both-out", &o, &r, &err) ? 3 : 0);
        }
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_int_equal(status, 0);
    }
    snprintf(path, sizeof path, "%s/both-out", dir);
    same_data(ds, path);
    stk_dataset_unref(&ds);
}

/* ---- the writer, and names ---- */

static int add(stk_writer *w, const char *key, const char *field, const char *text, stk_error *err)
{
    stk_part part = { field, text, strlen(text) };

    return stk_writer_add(w, key, strlen(key), &part, 1, err);
}

/* Samples that belong together: the second's fault keeps the first out, and the one before is still
 * the last. */
static void writer_all_or_none(void **state)
{
    stk_part good = { "txt", "x", 1 }, bad = { "a/b", "x", 1 };
    const stk_new_sample a = { "a", 1, &good, 1 }, b = { "b", 1, &good, 1 },
                         wrong = { "c", 1, &bad, 1 };
    stk_writer_options o = { .size = sizeof o };
    uint64_t shards, samples, bytes;
    stk_writer *w = NULL;
    stk_error err;
    char path[800];

    (void)state;
    snprintf(path, sizeof path, "%s/all/w-%%02d.tar", dir);
    assert_int_equal(stk_writer_open(&w, path, &o, &err), 0);
    assert_int_equal(stk_writer_add_all(w, (const stk_new_sample[]){ b, a }, 2, &err), 0);
    assert_int_equal(stk_writer_add_all(w, (const stk_new_sample[]){ b, wrong }, 2, &err),
                     STK_EINVAL);
    assert_int_equal(stk_writer_add_all(w, (const stk_new_sample[]){ b, b }, 2, &err), STK_EINVAL);
    assert_int_equal(stk_writer_add_all(w, (const stk_new_sample[]){ a, b }, 2, &err), STK_EINVAL);
    assert_int_equal(stk_writer_add_all(w, (const stk_new_sample[]){ b, a, b }, 3, &err), 0);
    assert_int_equal(stk_writer_add_all(w, NULL, 0, &err), 0);
    stk_writer_counts(w, &shards, &samples, &bytes);
    assert_int_equal(samples, 5);
    assert_int_equal(stk_writer_commit(w, &err), 0);
    stk_writer_close(&w);
}

static void writer_names(void **state)
{
    static const char *const bad_keys[] = { "", "a.b", ".x", "d/.x", "__x__/a", "/a" };
    static const char *const bad_fields[] = { "", "a/b", "a\nb" };
    stk_writer_options o = { .size = sizeof o, .samples = 2 };
    stk_writer *w = NULL;
    stk_dataset *back;
    stk_sample *x = NULL;
    stk_error err;
    char path[800], name[700];
    size_t len;

    snprintf(path, sizeof path, "%s/names/w-%%02d.tar", dir);
    memset(name, 'n', 299);
    memcpy(name + 120, "/", 1);
    name[299] = 0;
    assert_int_equal(stk_writer_open(&w, path, &o, &err), 0);
    for (size_t i = 0; i < sizeof bad_keys / sizeof *bad_keys; i++)
        assert_int_equal(add(w, bad_keys[i], "txt", "x", &err), STK_EINVAL);
    for (size_t i = 0; i < sizeof bad_fields / sizeof *bad_fields; i++)
        assert_int_equal(add(w, "k", bad_fields[i], "x", &err), STK_EINVAL);
    assert_int_equal(add(w, "a.b/c", "seg.txt", "one", &err), 0);
    assert_int_equal(add(w, "a.b/c", "txt", "one", &err), STK_EINVAL); /* twice in a row */
    assert_int_equal(add(w, name, "txt", "two", &err), 0);
    assert_int_equal(add(w, "\xc3\xa9 \xff", "txt", "", &err), 0);
    assert_int_equal(stk_writer_commit(w, &err), 0);
    stk_writer_close(&w);
    snprintf(path, sizeof path, "%s/names", dir);
    assert_int_equal(test_count(path, "tmp"), 0);
    back = must_open(path);
    assert_int_equal(stk_dataset_shards(back), 2);
    assert_int_equal(stk_dataset_len(back), 3);
    assert_int_equal(stk_dataset_read(back, 1, &x, &err), 0);
    assert_memory_equal(stk_sample_key(x, &len), name, 299);
    assert_int_equal(len, 299);
    stk_sample_close(&x);
    stk_dataset_unref(&back);

    snprintf(path, sizeof path, "%s/names/w-%%02d.tar", dir);
    assert_int_equal(stk_writer_open(&w, path, &o, &err), 0);
    assert_int_equal(add(w, "k", "txt", "x", &err), STK_EINVAL); /* there is a w-00.tar */
    assert_non_null(strstr(err.shard, "w-00.tar"));
    stk_writer_close(&w);
    assert_int_equal(stk_writer_open(&w, "a-%d-%d.tar", &o, &err), STK_EINVAL);
    assert_int_equal(stk_writer_open(&w, "a-%s.tar", &o, &err), STK_EINVAL);
    assert_null(w);
}

/* A writer that was closed without commit leaves nothing of the shard in flight. */
static void writer_given_up(void **state)
{
    stk_writer_options o = { .size = sizeof o, .samples = 1 };
    stk_writer *w = NULL;
    uint64_t shards, samples, bytes;
    stk_error err;
    char path[800];

    snprintf(path, sizeof path, "%s/given/up-%%d.tar", dir);
    assert_int_equal(stk_writer_open(&w, path, &o, &err), 0);
    assert_int_equal(add(w, "a", "txt", "x", &err), 0);
    assert_int_equal(add(w, "b", "txt", "x", &err), 0);
    stk_writer_counts(w, &shards, &samples, &bytes);
    assert_int_equal(shards, 1);
    assert_int_equal(samples, 2);
    assert_int_equal(bytes, 2048);
    stk_writer_close(&w);
    snprintf(path, sizeof path, "%s/given", dir);
    assert_int_equal(test_count(path, "tar"), 1);
}

/* Every allocation fails once: a clean error, and the run after it ends well. */
static void no_memory(void **state)
{
    stk_pack_options o = by_samples(7);
    stk_pack_report r;
    stk_dataset *ds;
    stk_error err;
    uint64_t n = 0;
    int rc;
    set d;

    set_make(&d, "nomem", 1, 20);
    ds = must_open(d.pattern);
    o.num_workers = 1;
    o.force = STK_YES;
    do {
        stk_mem_fail_at(++n);
        rc = pack_to(ds, "nomem-out", &o, &r, &err);
        stk_mem_fail_at(0);
        assert_true(rc == 0 || rc == STK_ENOMEM);
    } while (rc < 0);
    print_message("%u allocations in vain\n", (unsigned)n);
    assert_true(n > 50);
    same_data(ds, r.pattern);
    stk_dataset_unref(&ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_back_equal),
        cmocka_unit_test(by_bytes),
        cmocka_unit_test(shuffled),
        cmocka_unit_test(twice_is_once),
        cmocka_unit_test(never_over_its_source),
        cmocka_unit_test(killed),
        cmocka_unit_test(stopped),
        cmocka_unit_test(full_disk),
        cmocka_unit_test(two_at_once),
        cmocka_unit_test(writer_all_or_none),
        cmocka_unit_test(writer_names),
        cmocka_unit_test(writer_given_up),
        cmocka_unit_test(no_memory),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* seam_cold_test.c - shards that are not in the page cache: the same rows come through io_uring,
 * through reader threads, and through reader threads because the kernel refuses the ring.
 *
 * A file system that can't drop its cache (one in memory) has nothing cold to test. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "seam.h"

#define SHARDS 4
#define PER 600
#define N (SHARDS * PER)

static stk_dataset *ds;
static unsigned lines; /* logged about threads */

static int setup(void **state)
{
    (void)state;
    seam_shards("cold", SHARDS, PER, 0);
    ds = seam_open("", "cold-{0..3}.tar", NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stk_dataset_unref(&ds);
    return 0;
}

static void drop_shards(void)
{
    for (unsigned i = 0; i < SHARDS; i++) {
        char name[32];
        int fd;

        snprintf(name, sizeof name, "cold-%u.tar", i);
        fd = open(seam_path(name), O_RDONLY);
        assert_true(fd >= 0);
        fdatasync(fd);
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        close(fd);
    }
}

static void count_lines(void *cookie, stk_log_level level, const char *line)
{
    (void)cookie;
    lines += level == STK_LOG_INFO && strstr(line, "cold files are read by") != NULL;
}

/* Two shuffled epochs, each from cold files, on `workers`; who read them. */
static const char *load_cold(int32_t workers, uint64_t *cold)
{
    stk_loader_options o = seam_options(32, workers);
    stk_stats s = { .size = sizeof s };
    uint64_t ids[N];
    stk_loader *l;
    stk_error err;

    o.shuffle = STK_SHUFFLE_EXACT;
    o.log = count_lines;
    lines = 0;
    l = seam_loader(&ds, 1, &o);
    for (unsigned epoch = 0; epoch < 2; epoch++) {
        drop_shards();
        seam_ok(stk_loader_seek(l, 3 * epoch, 0, &err), &err);
        seam_epoch(l, N, ids);
    }
    drop_shards();
    seam_ok(stk_loader_seek(l, 9, 0, &err), &err);
    stk_loader_stats(l, &s);
    *cold = s.cold_reads;
    stk_loader_close(&l); /* perhaps with reads in flight */
    return s.cold_by;
}

static void default_way(void **state)
{
    uint64_t cold;
    const char *by;

    (void)state;
    unsetenv("STK_URING");
    for (int32_t workers = 1; workers <= 4; workers++) {
        by = load_cold(workers, &cold);
        if (!cold)
            skip();
        assert_non_null(by);
        if (strcmp(by, "io_uring")) { /* a build without liburing, a kernel without rings */
            assert_string_equal(by, "threads");
            assert_int_equal(lines, 1);
        } else {
            assert_int_equal(lines, 0);
        }
    }
}

static void by_threads(void **state)
{
    uint64_t cold;
    const char *by;

    (void)state;
    setenv("STK_URING", "0", 1);
    by = load_cold(3, &cold);
    unsetenv("STK_URING");
    if (!cold)
        skip();
    assert_string_equal(by, "threads");
    assert_int_equal(lines, 1);
}

/* Without workers the caller waits for its reads itself. */
static void by_nobody(void **state)
{
    uint64_t cold;

    (void)state;
    assert_null(load_cold(STK_NONE, &cold));
    assert_int_equal(lines, 0);
}

/* io_uring_setup answers EPERM from here on, as in a container's sandbox. */
static int forbid_rings(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof code / sizeof *code, code };

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void in_a_sandbox(void **state)
{
    int status;
    pid_t pid;

    (void)state;
    pid = fork();
    if (pid == 0) {
        uint64_t cold;
        const char *by;

        if (forbid_rings())
            _exit(77);
        by = load_cold(2, &cold);
        _exit(cold ? strcmp(by, "threads") || lines != 1 : 77);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(default_way),
        cmocka_unit_test(by_threads),
        cmocka_unit_test(by_nobody),
        cmocka_unit_test(in_a_sandbox),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}

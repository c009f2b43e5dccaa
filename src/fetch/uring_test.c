/* SPDX-License-Identifier: Apache-2.0 */
/* uring_test.c - reads through the ring: random ranges, the file's end, failures, more reads than
 * places, stopping with reads in flight, fork, and kernels that refuse.
 *
 * Where this kernel refuses rings only the refusals are tested. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "fetch/uring.h"

#define SIZE (3u << 20)
#define SEED 20240607u

static char path[64] = "/tmp/stoker-uring-XXXXXX";
static uint8_t *content;
static stk_file *file;

static int setup(void **state)
{
    int fd = mkstemp(path);
    stk_error err;

    (void)state;
    content = malloc(SIZE);
    if (fd < 0 || !content)
        return -1;
    for (uint32_t i = 0; i < SIZE; i++)
        content[i] = (uint8_t)(i * 2654435761u >> 13);
    if (write(fd, content, SIZE) != SIZE || fsync(fd) || close(fd))
        return -1;
    return stk_source_local.open(STK_URL(path, NULL), &file, &err);
}

static int teardown(void **state)
{
    (void)state;
    stk_file_close(&file);
    free(content);
    return unlink(path);
}

/* ---- a ring with its thread ---- */

typedef struct ring {
    stk_uring *u;
    pthread_t thread;
    _Atomic uint64_t retried;
    _Atomic uint32_t done;
} ring;

static void *ring_main(void *arg)
{
    stk_uring_run(arg);
    return NULL;
}

static void ring_open(ring *r, uint32_t depth)
{
    stk_error err;

    memset(r, 0, sizeof *r);
    if (stk_uring_open(&r->u, depth, &r->retried, &err) < 0) {
        assert_int_equal(err.code, STK_ENOTSUP);
        print_message("%s\n", err.message);
        skip();
    }
    assert_int_equal(pthread_create(&r->thread, NULL, ring_main, r->u), 0);
}

static void ring_close(ring *r)
{
    stk_uring_stop(r->u);
    pthread_join(r->thread, NULL);
    stk_uring_close(&r->u);
    assert_null(r->u);
}

static void came(stk_io *io)
{
    ring *r = io->cookie;

    io->next = io; /* a second call would show */
    atomic_fetch_add(&r->done, 1);
}

static void nap(void)
{
    nanosleep(&(struct timespec){ 0, 200000 }, NULL);
}

static void wait_for(ring *r, uint32_t n)
{
    while (atomic_load(&r->done) < n)
        nap();
}

static stk_io make_io(ring *r, uint64_t offset, size_t len, void *dst)
{
    return (stk_io){
        .offset = offset, .len = len, .dst = dst, .file = file, .done = came, .cookie = r
    };
}

static void drop_cache(void)
{
    posix_fadvise(stk_file_fd(file), 0, 0, POSIX_FADV_DONTNEED);
}

static void check(const stk_io *io)
{
    size_t want = io->offset >= SIZE            ? 0
                  : SIZE - io->offset < io->len ? SIZE - io->offset
                                                : io->len;

    assert_int_equal(io->rc, 0);
    assert_ptr_equal(io->next, io);
    assert_int_equal(io->got, want);
    assert_memory_equal(io->dst, content + (want ? io->offset : 0), want);
}

/* ---- reads ---- */

typedef struct pusher {
    ring *r;
    stk_io *io;
    uint32_t n;
} pusher;

static void *push_main(void *arg)
{
    pusher *p = arg;

    for (uint32_t i = 0; i < p->n; i++) {
        stk_uring_push(p->r->u, &p->io[i]);
        if (i % 16 == 0)
            nap();
    }
    return NULL;
}

/* n reads of random ranges, some past the end, from three threads at once. */
static void random_reads(uint32_t depth, uint32_t n, int stop_at_once)
{
    stk_io *io = calloc(n, sizeof *io);
    unsigned seed = SEED + depth;
    pthread_t thread[3];
    pusher part[3];
    ring r;

    print_message("seed %u\n", seed);
    ring_open(&r, depth);
    drop_cache();
    for (uint32_t i = 0; i < n; i++) {
        uint64_t offset = (uint64_t)rand_r(&seed) % (SIZE + 5000);
        size_t len = (size_t)rand_r(&seed) % (i % 50 ? 60000 : 1500000);

        io[i] = make_io(&r, offset, len, malloc(len + 1));
    }
    for (uint32_t i = 0; i < 3; i++) {
        part[i] = (pusher){ &r, io + n * i / 3, n * (i + 1) / 3 - n * i / 3 };
        assert_int_equal(pthread_create(&thread[i], NULL, push_main, &part[i]), 0);
    }
    for (uint32_t i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    if (!stop_at_once)
        wait_for(&r, n);
    ring_close(&r);
    assert_int_equal(atomic_load(&r.done), n);
    for (uint32_t i = 0; i < n; i++) {
        check(&io[i]);
        free(io[i].dst);
    }
    free(io);
}

static void random_ranges(void **state)
{
    (void)state;
    random_reads(64, 300, 0);
}

static void more_reads_than_places(void **state)
{
    (void)state;
    random_reads(1, 60, 0);
    random_reads(3, 300, 0);
}

static void stop_with_reads_in_flight(void **state)
{
    (void)state;
    random_reads(64, 300, 1);
    random_reads(2, 100, 1);
}

/* What try_read() brought is not read again: it would be right here. */
static void goes_on_from_got(void **state)
{
    static uint8_t dst[5000];
    stk_io io;
    ring r;

    (void)state;
    ring_open(&r, 4);
    memset(dst, 0xEE, sizeof dst);
    io = make_io(&r, 700, sizeof dst, dst);
    io.got = 1000;
    stk_uring_push(r.u, &io);
    wait_for(&r, 1);
    assert_int_equal(io.got, sizeof dst);
    assert_int_equal(dst[999], 0xEE);
    assert_memory_equal(dst + 1000, content + 1700, sizeof dst - 1000);
    ring_close(&r);
}

static void idle_ring_stops(void **state)
{
    ring r;

    (void)state;
    ring_open(&r, 4);
    ring_close(&r);
    ring_open(&r, 4);
    nap();
    ring_close(&r);
}

/* ---- failures ---- */

static void bad_offset(void **state)
{
    uint8_t byte;
    stk_io io;
    ring r;

    (void)state;
    ring_open(&r, 4);
    io = make_io(&r, UINT64_MAX, 1, &byte);
    stk_uring_push(r.u, &io);
    wait_for(&r, 1);
    assert_int_equal(io.rc, STK_EIO);
    assert_int_equal(io.sys, EOVERFLOW);
    ring_close(&r);
}

/* A descriptor that can't be read fails every try; another file's reads go on meanwhile. */
static void bad_descriptor(void **state)
{
    int null = open("/dev/null", O_WRONLY);
    uint8_t a[10], b[10];
    stk_file *bad = NULL;
    stk_io io, good;
    stk_error err;
    ring r;

    (void)state;
    ring_open(&r, 2);
    assert_int_equal(stk_source_local.open(STK_URL(path, NULL), &bad, &err), 0);
    dup2(null, stk_file_fd(bad));
    io = make_io(&r, 0, sizeof a, a);
    io.file = bad;
    good = make_io(&r, 5, sizeof b, b);
    stk_uring_push(r.u, &io);
    stk_uring_push(r.u, &good);
    wait_for(&r, 1);
    check(&good);
    wait_for(&r, 2);
    assert_int_equal(io.rc, STK_EIO);
    assert_int_equal(io.sys, EBADF);
    assert_int_equal(atomic_load(&r.retried), 3);
    ring_close(&r);
    stk_file_close(&bad);
    close(null);
}

static void failure_that_passes(void **state)
{
    int null = open("/dev/null", O_WRONLY), again = open(path, O_RDONLY);
    uint8_t dst[1000];
    stk_file *bad = NULL;
    stk_io io;
    stk_error err;
    ring r;

    (void)state;
    ring_open(&r, 2);
    assert_int_equal(stk_source_local.open(STK_URL(path, NULL), &bad, &err), 0);
    dup2(null, stk_file_fd(bad));
    io = make_io(&r, 77, sizeof dst, dst);
    io.file = bad;
    stk_uring_push(r.u, &io);
    while (!atomic_load(&r.retried))
        nap();
    dup2(again, stk_file_fd(bad));
    wait_for(&r, 1);
    check(&io);
    ring_close(&r);
    stk_file_close(&bad);
    close(null);
    close(again);
}

static void no_memory(void **state)
{
    _Atomic uint64_t retried = 0;
    stk_uring *u = NULL;
    stk_error err;
    ring r;

    (void)state;
    ring_open(&r, 1);
    ring_close(&r);
    for (uint64_t n = 1; n <= 2; n++) {
        stk_mem_fail_at(n);
        assert_int_equal(stk_uring_open(&u, 8, &retried, &err), STK_ENOMEM);
        stk_mem_fail_at(0);
        assert_null(u);
    }
    stk_uring_close(&u);
}

/* ---- processes ---- */

/* How many descriptors of this process are rings, and how many of those an exec would inherit. */
static uint32_t count_rings(uint32_t *inherited)
{
    uint32_t n = 0;

    *inherited = 0;
    for (int fd = 0; fd < 256; fd++) {
        char link[64], name[64] = "";

        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        if (readlink(link, name, sizeof name - 1) < 0 || !strstr(name, "io_uring"))
            continue;
        n++;
        *inherited += !(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    }
    return n;
}

static int ring_is_mapped(void)
{
    FILE *f = fopen("/proc/self/maps", "r");
    char line[512];
    int found = 0;

    while (f && fgets(line, sizeof line, f))
        found |= strstr(line, "io_uring") != NULL;
    if (f)
        fclose(f);
    return found;
}

/* A child has neither the rings' memory nor a reason to use them; the parent reads on. */
static void fork_while_running(void **state)
{
    static uint8_t dst[100][4096];
    stk_io io[100];
    uint32_t inherited;
    int status, gate[2];
    char go;
    pid_t pid;
    ring r;

    (void)state;
    assert_int_equal(pipe(gate), 0);
    ring_open(&r, 8);
    assert_int_equal(count_rings(&inherited), 1);
    assert_int_equal(inherited, 0);
    assert_true(ring_is_mapped());
    drop_cache();
    for (uint32_t i = 0; i < 50; i++) {
        io[i] = make_io(&r, i * 60000, sizeof dst[i], dst[i]);
        stk_uring_push(r.u, &io[i]);
    }
    pid = fork();
    if (pid == 0) {
        close(gate[1]);
        _exit(read(gate[0], &go, 1) != 0 || ring_is_mapped());
    }
    assert_true(pid > 0);
    for (uint32_t i = 50; i < 100; i++) {
        io[i] = make_io(&r, i * 10000, sizeof dst[i], dst[i]);
        stk_uring_push(r.u, &io[i]);
    }
    wait_for(&r, 100);
    for (uint32_t i = 0; i < 100; i++)
        check(&io[i]);
    ring_close(&r); /* while the child lives */
    close(gate[0]);
    close(gate[1]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* Have one system call answer EPERM, as sandboxes do. */
static int forbid(unsigned call)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof code / sizeof *code, code };

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void kernels_that_refuse(void **state)
{
    static const unsigned calls[] = { SYS_io_uring_setup, SYS_io_uring_enter };

    (void)state;
    for (int i = 0; i < 2; i++) {
        pid_t pid = fork();
        int status;

        if (pid == 0) {
            _Atomic uint64_t retried = 0;
            stk_uring *u = NULL;
            stk_error err;
            uint32_t inherited;

            if (forbid(calls[i]))
                _exit(77);
            _exit(stk_uring_open(&u, 8, &retried, &err) != STK_ENOTSUP || u ||
                  !strstr(err.message, "the kernel refuses io_uring: ") || count_rings(&inherited));
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == 77)
            skip();
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_ranges),
        cmocka_unit_test(more_reads_than_places),
        cmocka_unit_test(stop_with_reads_in_flight),
        cmocka_unit_test(goes_on_from_got),
        cmocka_unit_test(idle_ring_stops),
        cmocka_unit_test(bad_offset),
        cmocka_unit_test(bad_descriptor),
        cmocka_unit_test(failure_that_passes),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(fork_while_running),
        cmocka_unit_test(kernels_that_refuse),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}

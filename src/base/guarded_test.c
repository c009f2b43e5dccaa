/* SPDX-License-Identifier: Apache-2.0 */
/* guarded_test.c - a file that is cut while it is mapped reads as zeros, in threads too, and is
 * known to be torn; faults elsewhere go to the handler that was there before. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/guarded.h"
#include "base/thread.h"

#define LEN ((size_t)64 << 10)

static sigjmp_buf back;

static void jump(int sig)
{
    (void)sig;
    siglongjmp(back, 1);
}

static int file_of(size_t len)
{
    char name[] = "/tmp/guarded_testXXXXXX";
    int fd = mkstemp(name);
    uint8_t *bytes = malloc(len);

    assert_true(fd >= 0 && bytes);
    unlink(name);
    for (size_t i = 0; i < len; i++)
        bytes[i] = 7;
    assert_int_equal(write(fd, bytes, len), len);
    free(bytes);
    return fd;
}

static unsigned sum(const volatile uint8_t *p, size_t n)
{
    unsigned all = 0;

    for (size_t i = 0; i < n; i++)
        all += p[i];
    return all;
}

static void *sum_all(void *g)
{
    return (void *)(uintptr_t)sum(stk_guarded_data(g), LEN);
}

static void cut_files(void)
{
    stk_guarded *g[3];
    uint64_t before = stk_guarded_tears();
    int fd[3];

    for (int i = 0; i < 3; i++) {
        fd[i] = file_of(LEN);
        assert_int_equal(stk_guarded_map(&g[i], fd[i], LEN), 0);
        assert_int_equal(sum(stk_guarded_data(g[i]), LEN), 7 * LEN);
    }
    assert_int_equal(ftruncate(fd[1], 8192), 0);
    assert_int_equal(sum(stk_guarded_data(g[1]), LEN), 7 * 8192);
    assert_true(stk_guarded_torn(g[1]) && !stk_guarded_torn(g[0]) && !stk_guarded_torn(g[2]));
    assert_int_equal(stk_guarded_tears(), before + 1);
    assert_int_equal(ftruncate(fd[1], LEN), 0); /* grown again: still torn */
    assert_true(stk_guarded_torn(g[1]));
    stk_guarded_close(&g[1]);
    assert_int_equal(stk_guarded_map(&g[1], fd[0], LEN), 0); /* the same entry */
    assert_false(stk_guarded_torn(g[1]));
    assert_int_equal(sum(stk_guarded_data(g[1]), LEN), 7 * LEN);
    for (int i = 0; i < 3; i++) {
        stk_guarded_close(&g[i]);
        close(fd[i]);
    }
}

static void in_a_thread(void)
{
    int fd = file_of(LEN);
    stk_guarded *g;
    pthread_t t;
    void *all;

    assert_int_equal(stk_guarded_map(&g, fd, LEN), 0);
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(stk_thread_start(&t, sum_all, g, "cut"), 0);
    pthread_join(t, &all);
    assert_int_equal((uintptr_t)all, 0);
    assert_true(stk_guarded_torn(g));
    stk_guarded_close(&g);
    close(fd);
}

/* A map of someone else. */
static void passed_on(void)
{
    uint64_t before = stk_guarded_tears();
    int fd = file_of(LEN);
    uint8_t *p = mmap(NULL, LEN, PROT_READ, MAP_SHARED, fd, 0);

    assert_true(p != MAP_FAILED);
    assert_int_equal(ftruncate(fd, 0), 0);
    if (!sigsetjmp(back, 1)) {
        sum(p, LEN);
        fail_msg("no signal");
    }
    assert_int_equal(stk_guarded_tears(), before);
    munmap(p, LEN);
    close(fd);
}

/* One test: cmocka has a handler of its own for each. */
static void all(void **state)
{
    (void)state;
    signal(SIGBUS, jump); /* before the first map: it is the one that was there */
    cut_files();
    in_a_thread();
    passed_on();
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(all) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

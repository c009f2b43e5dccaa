/* SPDX-License-Identifier: Apache-2.0 */
/* program.c - many test programs in one file: `units NAME` runs what was NAME's main(), `units`
 * alone all of them, one after another.
 *
 * Each links with the whole library, and linking them one by one took longer than running them.
 * Meson renames every main() to NAME_main and passes TESTS, a list of TEST(NAME).  Every test is
 * still a process of its own, with its own exit status: 77 skips.
 *
 * `units NAME single` also checks that the test starts no thread.  TSan has nothing to look for in
 * such a test, and its suite leaves it out; the check keeps that list true. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEST(name) int name##_main(void);
TESTS
#undef TEST

#define TEST(name) { #name, name##_main },
static const struct {
    const char *name;
    int (*run)(void);
} tests[] = { TESTS };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__clang__)
static const int threads = 0; /* pthread_create() belongs to the sanitizer */
#else
static atomic_int threads;

/* Takes the place of libc's in the whole program. */
int pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

    *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed);
    return real(t, attr, run, arg);
}
#endif

static int run(int (*test)(void), int single)
{
    int status = test();

    if (status == 0 && single && threads) {
        fprintf(
            stderr,
            "it starts threads: take it out of `single` in meson.build, so that TSan runs it\n");
        return 1;
    }
    return status;
}

/* Each in a child of its own.  The status: 1 if any failed. */
static int run_all(void)
{
    int failed = 0;

    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        int status = 0;
        pid_t child = fork();

        if (child == 0)
            _exit(run(tests[i].run, 0));
        if (child < 0 || waitpid(child, &status, 0) != child)
            return 1;
        if (status && !(WIFEXITED(status) && WEXITSTATUS(status) == 77)) {
            fprintf(stderr, "FAILED: %s, status %d\n", tests[i].name, status);
            failed = 1;
        }
    }
    return failed;
}

int main(int argc, char **argv)
{
    if (argc == 1)
        return run_all();
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (!strcmp(argv[1], tests[i].name))
            return run(tests[i].run, argc == 3 && !strcmp(argv[2], "single"));
    fprintf(stderr, "usage: %s [NAME [single]], NAME is one of:\n", argv[0]);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        fprintf(stderr, "  %s\n", tests[i].name);
    return 2;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* atomic_file_test.c - whole or not there, links not followed, leftovers, locks. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/atomic_file.h"
#include "base/mem.h"

static char dir[64];

static const char *at(const char *name)
{
    static char path[4][128];
    static int next;
    char *p = path[next++ % 4];

    snprintf(p, 128, "%s/%s", dir, name);
    return p;
}

static int entries(void)
{
    DIR *d = opendir(dir);
    int n = 0;

    while (readdir(d))
        n++;
    closedir(d);
    return n - 2;
}

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void holds(const char *path, const char *text)
{
    char got[64] = "";
    FILE *f = fopen(path, "r");

    assert_non_null(f);
    (void)!fread(got, 1, sizeof got - 1, f);
    fclose(f);
    assert_string_equal(got, text);
}

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/atomic_file_test.XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    char cmd[100];

    (void)state;
    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    return system(cmd);
}

static void whole_or_not_there(void **state)
{
    stk_atomic_file f;

    (void)state;
    assert_int_equal(stk_atomic_open(&f, at("a"), NULL), 0);
    assert_int_equal(stk_atomic_write(&f, "hello", 5, 0, NULL), 0);
    assert_int_equal(access(at("a"), F_OK), -1);
    assert_int_equal(stk_atomic_commit(&f, STK_COMMIT_SYNC, NULL), 0);
    stk_atomic_close(&f);
    holds(at("a"), "hello");
    assert_int_equal(stk_atomic_open(&f, at("a"), NULL), 0);
    assert_int_equal(stk_atomic_write(&f, "other", 5, 0, NULL), 0);
    stk_atomic_close(&f);
    holds(at("a"), "hello");
    assert_int_equal(entries(), 1);
}

static void no_replace(void **state)
{
    stk_atomic_file f;

    (void)state;
    put(at("a"), "first");
    assert_int_equal(stk_atomic_open(&f, at("a"), NULL), 0);
    assert_int_equal(stk_atomic_commit(&f, STK_COMMIT_NO_REPLACE, NULL), STK_EIO);
    assert_int_equal(f.sys, EEXIST);
    stk_atomic_close(&f);
    holds(at("a"), "first");
    assert_int_equal(stk_atomic_put(at("b"), "x", 1, STK_COMMIT_NO_REPLACE, NULL), 0);
    assert_int_equal(entries(), 2);
}

/* A link under the file's own name is replaced, what it names is left alone. */
static void links(void **state)
{
    struct stat st;

    (void)state;
    put(at("victim"), "precious");
    assert_int_equal(symlink("victim", at("a")), 0);
    assert_int_equal(stk_atomic_put(at("a"), "mine", 4, STK_COMMIT_FAST, NULL), 0);
    holds(at("victim"), "precious");
    assert_int_equal(lstat(at("a"), &st), 0);
    assert_true(S_ISREG(st.st_mode));
    holds(at("a"), "mine");
}

static void names_differ(void **state)
{
    stk_atomic_file f, g;

    (void)state;
    assert_int_equal(stk_atomic_open(&f, at("a"), NULL), 0);
    assert_int_equal(stk_atomic_open(&g, at("a"), NULL), 0);
    assert_string_not_equal(f.tmp, g.tmp);
    assert_int_equal(strncmp(f.tmp, at(".a.tmp."), strlen(at(".a.tmp."))), 0);
    stk_atomic_close(&f);
    stk_atomic_close(&g);
    assert_int_equal(entries(), 0);
}

static void sweeps(void **state)
{
    stk_atomic_file f;
    int status, fd;
    pid_t pid;

    (void)state;
    pid = fork();
    if (!pid) { /* dies in the middle */
        stk_atomic_file g;

        _exit(stk_atomic_open(&g, at("ab.x"), NULL) != 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    put(at(".other.tmp.0123456789abcdef"), "not ours");
    put(at(".ab.x.tmp.12"), "not such a name");
    put(at("victim"), "precious");
    assert_int_equal(symlink("victim", at(".ab.x.tmp.0123456789abcdef")), 0);
    assert_int_equal(stk_atomic_open(&f, at("ab.x"), NULL), 0);
    assert_int_equal(entries(), 6);
    stk_atomic_sweep_like(at("ab.idx"));
    assert_int_equal(entries(), 5); /* the dead one's is gone, the link and what is open are not */
    assert_int_equal(access(f.tmp, F_OK), 0);
    fd = open(at("victim"), O_RDONLY);
    assert_true(fd >= 0);
    close(fd);
    stk_atomic_close(&f);
}

static void full(void **state)
{
    stk_atomic_file f;
    stk_error err;

    (void)state;
    assert_int_equal(stk_atomic_open(&f, at("none/a"), &err), STK_EIO);
    assert_int_equal(f.sys, ENOENT);
    assert_non_null(strstr(err.message, "none/a"));
    f = (stk_atomic_file){ .path = stk_strdup("full"), .fd = open("/dev/full", O_WRONLY) };
    assert_int_equal(stk_atomic_write(&f, "x", 1, 0, &err), STK_EIO);
    assert_int_equal(f.sys, ENOSPC);
    assert_true(stk_unwritable(f.sys) && stk_unwritable(EROFS) && stk_unwritable(EDQUOT));
    assert_false(stk_unwritable(EIO) || stk_unwritable(0));
    close(f.fd);
    stk_atomic_close(&f);
}

static void locks(void **state)
{
    stk_lock_file a, b;

    (void)state;
    assert_int_equal(stk_lock_try(&a, at("l")), 0);
    assert_int_equal(stk_lock_try(&b, at("l")), STK_END);
    stk_lock_drop(&b);
    stk_lock_drop(&a);
    assert_int_equal(entries(), 0);
    assert_int_equal(stk_lock_try(&a, at("none/l")), STK_EIO);
    put(at("victim"), "precious");
    assert_int_equal(symlink("victim", at("l")), 0);
    assert_int_equal(stk_lock_try(&a, at("l")), STK_EIO);
    holds(at("victim"), "precious");
}

/* Of processes that take it in turns, two never have it at once. */
static void turns(void **state)
{
    int status, bad = 0;
    pid_t pid[4];

    (void)state;
    for (int p = 0; p < 4; p++) {
        pid[p] = fork();
        for (int i = 0; !pid[p] && i < 200;) {
            stk_lock_file l;
            int fd, rc = stk_lock_try(&l, at("l"));

            if (rc == STK_END)
                continue;
            fd = rc < 0 ? -1 : open(at("alone"), O_CREAT | O_EXCL, 0666);
            if (fd < 0)
                _exit(1);
            close(fd);
            unlink(at("alone"));
            stk_lock_drop(&l);
            i++;
        }
        if (!pid[p])
            _exit(0);
    }
    for (int p = 0; p < 4; p++) {
        waitpid(pid[p], &status, 0);
        bad |= status;
    }
    assert_int_equal(bad, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(whole_or_not_there, setup, teardown),
        cmocka_unit_test_setup_teardown(no_replace, setup, teardown),
        cmocka_unit_test_setup_teardown(links, setup, teardown),
        cmocka_unit_test_setup_teardown(names_differ, setup, teardown),
        cmocka_unit_test_setup_teardown(sweeps, setup, teardown),
        cmocka_unit_test_setup_teardown(full, setup, teardown),
        cmocka_unit_test_setup_teardown(locks, setup, teardown),
        cmocka_unit_test_setup_teardown(turns, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

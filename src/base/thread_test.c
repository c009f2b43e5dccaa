/* SPDX-License-Identifier: Apache-2.0 */
/* thread_test.c - a thread has its name, no signal reaches it, and its maker's mask is as
 * before. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/thread.h"

static void *look(void *arg)
{
    int *unblocked = arg;
    sigset_t set;

    pthread_sigmask(SIG_BLOCK, NULL, &set);
    for (int s = 1; s < 32; s++)
        *unblocked += s != SIGKILL && s != SIGSTOP && s != SIGBUS && !sigismember(&set, s);
    *unblocked += sigismember(&set, SIGBUS); /* its own faults: guarded.h */
    return arg;
}

static void signals_and_mask(void **state)
{
    sigset_t mine, before, after;
    int unblocked = 0;
    pthread_t t;
    void *back;

    (void)state;
    sigemptyset(&mine);
    sigaddset(&mine, SIGUSR1);
    pthread_sigmask(SIG_SETMASK, &mine, NULL);
    pthread_sigmask(SIG_BLOCK, NULL, &before);
    assert_int_equal(stk_thread_start(&t, look, &unblocked, "stk-look"), 0);
    assert_int_equal(pthread_join(t, &back), 0);
    pthread_sigmask(SIG_BLOCK, NULL, &after);
    assert_ptr_equal(back, &unblocked);
    assert_int_equal(unblocked, 0);
    for (int s = 1; s < 32; s++)
        assert_int_equal(sigismember(&before, s), sigismember(&after, s));
}

static void *wait_for(void *arg)
{
    pthread_mutex_lock(arg);
    pthread_mutex_unlock(arg);
    return NULL;
}

static void name(void **state)
{
    pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
    char text[32] = "";
    pthread_t t;

    (void)state;
    pthread_mutex_lock(&held);
    assert_int_equal(stk_thread_start(&t, wait_for, &held, "stk-named"), 0);
    assert_int_equal(pthread_getname_np(t, text, sizeof text), 0);
    pthread_mutex_unlock(&held);
    pthread_join(t, NULL);
    assert_string_equal(text, "stk-named");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals_and_mask),
        cmocka_unit_test(name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

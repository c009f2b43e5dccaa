/* SPDX-License-Identifier: Apache-2.0 */
/* thread.c - a thread with a name and with every signal blocked but SIGBUS.  A new thread inherits
 * the mask of its maker, so the mask is set before and put back after: there is no moment in which
 * a signal could reach it. */
#include "base/thread.h"

#include <signal.h>

#include <stoker/base.h>

int stk_thread_start(pthread_t *t, void *(*fn)(void *), void *arg, const char *name)
{
    sigset_t all, before;
    int rc;

    sigfillset(&all);
    sigdelset(&all, SIGBUS); /* its own faults: guarded.h */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(t, NULL, fn, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0)
        pthread_setname_np(*t, name);
    return rc == 0 ? 0 : STK_ENOMEM;
}

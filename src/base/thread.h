/* SPDX-License-Identifier: Apache-2.0 */
/* thread.h - the only place that makes threads.  Signals are for the program's own threads, so ours
 * block all of them. */
#ifndef STOKER_BASE_THREAD_H
#define STOKER_BASE_THREAD_H

#include <pthread.h>

/* `name`, at most 15 characters, is shown by debuggers.  0, or STK_ENOMEM: no thread could be
 * made. */
int stk_thread_start(pthread_t *t, void *(*fn)(void *), void *arg, const char *name);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* jobs.c - n jobs on a few threads, handed out in order by one counter.
 *
 * Of several failures the one with the lowest number is reported, so that the answer does not
 * depend on which thread was faster.  Threads block all signals: handlers belong to the caller's
 * threads.  Where no thread can be had, the caller's does the work. */
#include "pipe/jobs.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "base/cpu.h"
#include "base/mem.h"

#define MAX_WORKERS 256u

typedef struct jobs {
    int (*fn)(void *cookie, uint64_t i, stk_error *err);
    void *cookie;
    uint64_t n;
    _Atomic uint64_t next;
    _Atomic int stop;
    pthread_mutex_t lock;
    uint64_t failed; /* lock: lowest job that failed */
    int rc;          /* lock */
    stk_error err;   /* lock */
} jobs;

static void note_failure(jobs *j, uint64_t i, int rc, const stk_error *err)
{
    atomic_store_explicit(&j->stop, 1, memory_order_relaxed);
    pthread_mutex_lock(&j->lock);
    if (i < j->failed) {
        j->failed = i;
        j->rc = rc;
        j->err = *err;
    }
    pthread_mutex_unlock(&j->lock);
}

static void *work(void *arg)
{
    jobs *j = arg;
    stk_error err;

    while (!atomic_load_explicit(&j->stop, memory_order_relaxed)) {
        uint64_t i = atomic_fetch_add_explicit(&j->next, 1, memory_order_relaxed);
        int rc;

        if (i >= j->n)
            break;
        stk_error_clear(&err);
        rc = j->fn(j->cookie, i, &err);
        if (rc < 0)
            note_failure(j, i, rc, &err);
    }
    return NULL;
}

static uint32_t start(jobs *j, pthread_t *threads, uint32_t workers)
{
    sigset_t all, old;
    uint32_t n = 0;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* threads inherit the mask */
    while (n < workers && pthread_create(&threads[n], NULL, work, j) == 0)
        n++;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return n;
}

int stk_jobs_run(uint32_t workers, uint64_t n, int (*fn)(void *cookie, uint64_t i, stk_error *err),
                 void *cookie, stk_error *err)
{
    jobs j = { .fn = fn, .cookie = cookie, .n = n, .failed = UINT64_MAX };
    pthread_t threads[MAX_WORKERS];
    uint32_t started = 0;

    if (!workers)
        workers = stk_cpu_count();
    if (workers > MAX_WORKERS)
        workers = MAX_WORKERS;
    if (workers > n)
        workers = (uint32_t)n;
    pthread_mutex_init(&j.lock, NULL);
    if (workers > 1)
        started = start(&j, threads, workers);
    if (!started)
        work(&j);
    while (started)
        pthread_join(threads[--started], NULL);
    pthread_mutex_destroy(&j.lock);
    if (j.rc < 0 && err)
        *err = j.err;
    return j.rc;
}

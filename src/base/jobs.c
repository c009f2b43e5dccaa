/* SPDX-License-Identifier: Apache-2.0 */
/* jobs.c - n jobs on a few threads, handed out in order by one counter.
 *
 * Of several failures the one with the lowest number is reported, so that the answer does not
 * depend on which thread was faster.  Where no thread can be had, the caller's does the work. */
#include "base/jobs.h"

#include <stdatomic.h>
#include <time.h>

#include "base/cpu.h"
#include "base/halt.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/thread.h"

#define MAX_WORKERS 256u

typedef struct jobs {
    int (*fn)(void *cookie, uint64_t i, stk_error *err);
    void *cookie;
    uint64_t n;
    _Atomic uint64_t next;
    _Atomic int stop;
    int (*tick)(void *cookie); /* NULL: nothing but Ctrl-C is looked for */
    stk_halt halt;             /* of the threads */
    stk_mutex lock;
    pthread_cond_t ended;
    uint32_t running; /* lock: threads that are not through */
    uint64_t failed;  /* lock: lowest job that failed */
    int rc;           /* lock */
    stk_error err;    /* lock */
} jobs;

static void note_failure(jobs *j, uint64_t i, int rc, const stk_error *err)
{
    atomic_store_explicit(&j->stop, 1, memory_order_relaxed);
    stk_mutex_lock(&j->lock);
    if (i < j->failed) {
        j->failed = i;
        j->rc = rc;
        j->err = *err;
    }
    stk_mutex_unlock(&j->lock);
}

static void work(jobs *j)
{
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
}

static void *work_main(void *arg)
{
    jobs *j = arg;

    stk_halt_enter(&j->halt);
    work(j);
    stk_mutex_lock(&j->lock);
    j->running--;
    pthread_cond_signal(&j->ended);
    stk_mutex_unlock(&j->lock);
    return NULL;
}

static uint32_t start(jobs *j, pthread_t *threads, uint32_t workers)
{
    uint32_t n = 0;

    j->running = workers;
    while (n < workers && stk_thread_start(&threads[n], work_main, j, "stk-job") == 0)
        n++;
    stk_mutex_lock(&j->lock);
    j->running -= workers - n;
    stk_mutex_unlock(&j->lock);
    return n;
}

static int must_stop(const jobs *j)
{
    return (j->tick && j->tick(j->cookie)) || stk_halt_wanted();
}

/* Call tick() until all threads are through.  When it says stop, waits of the jobs in flight end
 * too. */
static void watch(jobs *j)
{
    static const stk_error stopped = { .code = STK_ECLOSED,
                                       .offset = STK_NO_OFFSET,
                                       .sample = UINT64_MAX,
                                       .message = "stopped by the caller" };
    struct timespec until;
    int busy = 1, stop = 0;

    while (busy) {
        if (!stop && must_stop(j)) {
            stop = 1;
            note_failure(j, 0, STK_ECLOSED, &stopped);
            stk_halt_set(&j->halt, 1);
        }
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += STK_TICK_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        stk_mutex_lock(&j->lock);
        while (j->running && stk_cond_timedwait(&j->ended, &j->lock, &until) == 0) {}
        busy = j->running != 0;
        stk_mutex_unlock(&j->lock);
    }
}

int stk_jobs_run(uint32_t workers, uint64_t n, int (*fn)(void *cookie, uint64_t i, stk_error *err),
                 void *cookie, stk_error *err)
{
    return stk_jobs_watch(workers, n, fn, NULL, cookie, err);
}

int stk_jobs_watch(uint32_t workers, uint64_t n,
                   int (*fn)(void *cookie, uint64_t i, stk_error *err), int (*tick)(void *cookie),
                   void *cookie, stk_error *err)
{
    jobs j = { .fn = fn,
               .tick = tick,
               .cookie = cookie,
               .n = n,
               .failed = UINT64_MAX,
               .halt = { .above = stk_halt_mine() } };
    pthread_t threads[MAX_WORKERS];
    pthread_condattr_t mono;
    uint32_t started = 0;

    if (!workers)
        workers = stk_cpu_count();
    if (workers > MAX_WORKERS)
        workers = MAX_WORKERS;
    if (workers > n)
        workers = (uint32_t)n;
    pthread_condattr_init(&mono);
    pthread_condattr_setclock(&mono, CLOCK_MONOTONIC);
    pthread_cond_init(&j.ended, &mono);
    pthread_condattr_destroy(&mono);
    stk_mutex_init(&j.lock);
    if (workers > 1)
        started = start(&j, threads, workers);
    if (started)
        watch(&j);
    else
        work(&j);
    while (started)
        pthread_join(threads[--started], NULL);
    pthread_cond_destroy(&j.ended);
    stk_mutex_destroy(&j.lock);
    if (j.rc < 0 && err)
        *err = j.err;
    return j.rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* iothread.c - threads that wait so that workers need not: one that runs an io_uring for cold local
 * files, readers that block for all other files (and for local ones where the kernel refuses the
 * ring), the drivers of async sources, and one in which failed reads of these wait for their next
 * try.
 *
 * Ring and readers start with the first read that would wait; a data set in the page cache never
 * has any. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "pipe/engine.h"

static void *reader_main(void *arg)
{
    stk_engine *e = arg;
    uint64_t retried;
    stk_io *io;

    stk_halt_enter(&e->io.halt);
    stk_mutex_lock(&e->io.lock);
    for (;;) {
        while (!e->io.head && !e->io.stop)
            stk_cond_wait(&e->io.work, &e->io.lock);
        if (!e->io.head)
            break;
        io = e->io.head;
        e->io.head = io->next;
        stk_mutex_unlock(&e->io.lock);
        retried = 0;
        stk_stall_at(&e->plan->policy.stall, STK_STALL_READ, io->offset);
        stk_io_read(io, &retried);
        if (retried)
            atomic_fetch_add_explicit(&e->retried, retried, memory_order_relaxed);
        io->done(io);
        stk_mutex_lock(&e->io.lock);
    }
    stk_mutex_unlock(&e->io.lock);
    return NULL;
}

static void *ring_main(void *arg)
{
    stk_uring_run(((stk_engine *)arg)->io.ring);
    return NULL;
}

static stk_ring_state ring_start_locked(stk_engine *e, stk_error *err) STK_REQUIRES(e->io.lock)
{
    const char *want = getenv("STK_URING");

    if (want && !strcmp(want, "0"))
        stk_fail(err, STK_ENOTSUP, "STK_URING is 0");
    else if (stk_uring_open(&e->io.ring, e->plan->io.depth, &e->retried, err) == 0) {
        if (stk_thread_start(&e->io.ring_thread, ring_main, e, "stk-uring") == 0)
            return STK_RING_RUNS;
        stk_uring_close(&e->io.ring);
        stk_fail(err, STK_ENOMEM, "no thread could be started for io_uring");
    }
    return STK_RING_REFUSED;
}

static stk_ring_state ring_start(stk_engine *e)
{
    stk_error err = { 0 };
    int state;

    stk_mutex_lock(&e->io.lock);
    state = atomic_load_explicit(&e->io.ring_state, memory_order_relaxed);
    if (state == STK_RING_UNTRIED) {
        state = ring_start_locked(e, &err);
        atomic_store_explicit(&e->io.ring_state, state, memory_order_release);
    }
    stk_mutex_unlock(&e->io.lock);
    if (err.code) /* only the thread that tried has one */
        stk_log_line(&e->plan->policy.log, STK_LOG_INFO, "cold files are read by %u threads: %s",
                     e->plan->io.threads, err.message);
    return state;
}

/* 1: the ring reads it. */
static int ring_takes(stk_engine *e, stk_io *io)
{
    int state = atomic_load_explicit(&e->io.ring_state, memory_order_acquire);

    if (state == STK_RING_REFUSED || stk_file_fd(io->file) < 0)
        return 0;
    if (state == STK_RING_UNTRIED)
        state = ring_start(e);
    if (state == STK_RING_RUNS)
        stk_uring_push(e->io.ring, io);
    return state == STK_RING_RUNS;
}

void stk_io_queue(void *engine, stk_io *io)
{
    stk_engine *e = engine;
    uint64_t retried = 0;

    if (ring_takes(e, io))
        return;
    io->next = NULL;
    stk_mutex_lock(&e->io.lock);
    while (e->io.running < e->plan->io.threads &&
           stk_thread_start(&e->io.thread[e->io.running], reader_main, e, "stk-io") == 0)
        e->io.running++;
    if (e->io.running) {
        *(e->io.head ? &e->io.tail->next : &e->io.head) = io;
        e->io.tail = io;
        pthread_cond_signal(&e->io.work);
        io = NULL;
    }
    stk_mutex_unlock(&e->io.lock);
    if (io) { /* no thread could be had: wait here */
        stk_io_read(io, &retried);
        io->done(io);
    }
}

/* ---- async sources ---- */

struct driver {
    stk_engine *engine;
    const stk_source *source;
};

static stk_engine *engine_of(stk_async *a)
{
    return (stk_engine *)((char *)a - offsetof(stk_engine, io.async));
}

/* Called after in_flight was raised, so that a driver either sees it or waits already. */
static void wake_drivers(stk_async *a)
{
    stk_engine *e = engine_of(a);

    stk_mutex_lock(&e->io.lock);
    pthread_cond_broadcast(&e->io.drive_work);
    stk_mutex_unlock(&e->io.lock);
}

/* Without a read in flight there is nothing to drive, and the thread sleeps. */
static void *driver_main(void *arg)
{
    struct driver d = *(struct driver *)arg;
    stk_engine *e = d.engine;

    stk_free(arg);
    stk_mutex_lock(&e->io.lock);
    while (!e->io.stop) {
        if (!atomic_load_explicit(&e->io.async.in_flight, memory_order_acquire)) {
            stk_cond_wait(&e->io.drive_work, &e->io.lock);
            continue;
        }
        stk_mutex_unlock(&e->io.lock);
        d.source->drive(20);
        stk_mutex_lock(&e->io.lock);
    }
    stk_mutex_unlock(&e->io.lock);
    return NULL;
}

/* Failed reads, by the end of their pause.  When the loader stops they are tried at once: a request
 * waits for each. */
static void *retry_main(void *arg)
{
    stk_engine *e = arg;

    stk_halt_enter(&e->io.halt);
    stk_mutex_lock(&e->io.lock);
    while (e->io.retry_head || !e->io.stop) {
        stk_io *io = e->io.retry_head;

        if (io && (e->io.stop || stk_now_ns() >= io->due_ns)) {
            e->io.retry_head = io->next;
            stk_mutex_unlock(&e->io.lock);
            stk_io_again(io);
            stk_mutex_lock(&e->io.lock);
        } else if (io) {
            struct timespec until = { (time_t)(io->due_ns / 1000000000u),
                                      (long)(io->due_ns % 1000000000u) };

            stk_cond_timedwait(&e->io.retry_work, &e->io.lock, &until);
        } else {
            stk_cond_wait(&e->io.retry_work, &e->io.lock);
        }
    }
    stk_mutex_unlock(&e->io.lock);
    return NULL;
}

/* Neither the worker nor the driver that sees the failure may sleep: a thread of its own does. */
static int retry_later(stk_async *a, stk_io *io, uint32_t failed)
{
    stk_engine *e = engine_of(a);
    stk_io **at = &e->io.retry_head;
    int taken;

    io->due_ns = stk_now_ns() + (uint64_t)stk_io_pause_ns(failed);
    stk_mutex_lock(&e->io.lock);
    if (!e->io.retrying && !e->io.stop)
        e->io.retrying = stk_thread_start(&e->io.retry_thread, retry_main, e, "stk-retry") == 0;
    taken = e->io.retrying && !e->io.stop;
    if (taken) {
        while (*at && (*at)->due_ns <= io->due_ns)
            at = &(*at)->next;
        io->next = *at;
        *at = io;
        pthread_cond_signal(&e->io.retry_work);
    }
    stk_mutex_unlock(&e->io.lock);
    return taken;
}

void stk_io_async(stk_engine *e)
{
    e->io.async.wake = wake_drivers;
    e->io.async.later = retry_later;
}

int stk_io_start(stk_engine *e, stk_error *err)
{
    for (uint32_t i = e->io.n_driving; i < e->plan->io.n_driven && !e->plan->io.inline_mode; i++) {
        struct driver *d = STK_NEW(struct driver);

        if (d)
            *d = (struct driver){ e, e->plan->io.driven[i] };
        if (!d || stk_thread_start(&e->io.drive_thread[i], driver_main, d, "stk-drive") < 0) {
            stk_free(d);
            return stk_fail(err, STK_ENOMEM, "no thread could be started for source %s",
                            e->plan->io.driven[i]->name);
        }
        e->io.n_driving++;
    }
    return 0;
}

void stk_io_stop(stk_engine *e)
{
    stk_mutex_lock(&e->io.lock);
    e->io.stop = 1;
    pthread_cond_broadcast(&e->io.work);
    pthread_cond_broadcast(&e->io.drive_work);
    pthread_cond_broadcast(&e->io.retry_work);
    stk_mutex_unlock(&e->io.lock);
    if (e->io.retrying)
        pthread_join(e->io.retry_thread, NULL);
    e->io.retrying = 0;
    for (uint32_t i = 0; i < e->io.running; i++)
        pthread_join(e->io.thread[i], NULL);
    for (uint32_t i = 0; i < e->io.n_driving; i++)
        pthread_join(e->io.drive_thread[i], NULL);
    e->io.running = e->io.n_driving = 0;
    if (e->io.ring) {
        stk_uring_stop(e->io.ring);
        pthread_join(e->io.ring_thread, NULL);
        stk_uring_close(&e->io.ring);
    }
}

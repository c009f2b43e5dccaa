/* SPDX-License-Identifier: Apache-2.0 */
/* io.h - the threads of a loader that wait for bytes, so that its workers can go on: one that
 * drives an io_uring for cold local files, some that block in read(), and one per remote source.
 * engine.c starts and stops them. */
#ifndef STOKER_IO_H
#define STOKER_IO_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/halt.h"
#include "base/lock.h"
#include "fetch/uring.h"
#include "row/plan.h"

typedef enum stk_ring_state { /* of the io_uring for cold local files */
                              STK_RING_UNTRIED,
                              STK_RING_RUNS,
                              STK_RING_REFUSED
} stk_ring_state;

typedef struct stk_io_threads {
    stk_mutex lock;
    pthread_cond_t work;
    stk_io *head, *tail; /* lock: reads for the blocking readers */
    pthread_t *thread;   /* blocking readers */
    uint32_t running;    /* lock */
    int stop;            /* lock */
    stk_halt halt; /* stop flag of all these threads: the loader is closed, no read is waited for */
    _Atomic int ring_state; /* stk_ring_state; changed under the lock */
    stk_uring *ring;        /* set with STK_RING_RUNS */
    pthread_t ring_thread;
    pthread_t drive_thread[STK_MAX_DRIVEN];
    uint32_t n_driving;
    stk_async async;
    uint32_t n_idle; /* the engine's lock: requests in its `idle` */
    /* bytes of remote reads whose rows are not made yet: in_flight.h */
    _Atomic uint64_t in_flight;
    pthread_cond_t drive_work; /* signalled when a read is in flight, or to stop */
    pthread_cond_t retry_work; /* timed waits on the monotonic clock */
    stk_io *retry_head;        /* lock: failed reads, by due_ns */
    pthread_t retry_thread;
    int retrying; /* lock: true while that thread runs */
} stk_io_threads;

struct stk_engine;
/* iothread.c */
void stk_io_queue(void *engine, stk_io *io);
void stk_io_async(struct stk_engine *e); /* once, before the first request */
/* starts the threads that drive async sources */
int stk_io_start(struct stk_engine *e, stk_error *err);
void stk_io_stop(struct stk_engine *e);

#endif

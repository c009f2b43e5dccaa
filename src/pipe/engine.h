/* SPDX-License-Identifier: Apache-2.0 */
/* engine.h - runs a plan: workers claim tickets, fill the ring of slots, and I/O threads read.
 * loader/loader.c opens one engine per loader and calls it.  docs/threads.md tells how it works.
 *
 * Ticket t is ticket t % tickets of the slot with sequence number t / tickets.  Workers claim
 * tickets in order with one compare-and-swap.  Everything a row needs follows from its ticket by
 * arithmetic, so there are no queues between stages.  A row whose bytes must be waited for leaves
 * its worker and comes back through `requests.arrived`, lowest ticket first. */
#ifndef STOKER_ENGINE_H
#define STOKER_ENGINE_H

#include <assert.h>
#include <pthread.h>
#include <stoker/stoker.h>

#include "pipe/io.h"
#include "ledger/ledger_write.h"
#include "pipe/slot.h"
#include "pipe/worker.h"

#define STK_LISTED_SKIPS 1000    /* bad samples of which stk_engine_skipped() can tell */
#define STK_EPOCHS STK_MAX_SLOTS /* most epochs that slots of the ring can belong to at once */
/* low bits of `claim`; the rest counts seeks, so that a claim from before a seek fails */
#define STK_TICKET_BITS 48

typedef struct stk_held { /* the batch that next() hands out, after it left the ring */
    int failed;           /* true if the slot at the tail failed and stays; the consumer was told */
    stk_batch *batch;     /* NULL: none */
    uint64_t epoch, step;
    uint64_t start, count; /* the global batch it belongs to: its first sample, and how many */
    uint32_t samples;      /* rows; documents if rows are packed */
    uint32_t skipped;      /* bad samples that were replaced by others */
} stk_held;

typedef struct stk_gpu_threads {
    pthread_t completion_thread; /* gives batches to the ring when the GPU has finished them */
    int completing;              /* true while that thread runs */
    stk_array_upload upload;     /* copies arrays to the GPU (plan.cache.arrays) */
} stk_gpu_threads;

typedef struct stk_tracing {       /* trace.c */
    uint32_t cells;                /* lock: spans kept per thread; 0: no trace */
    int on;                        /* written under the lock; the consumer reads it without */
    _Atomic uint64_t from;         /* ticks: earlier spans belong to a trace that was ended */
    _Atomic(stk_spans *) consumer; /* spans of next() */
} stk_tracing;

/* held_up.c: the wait for one batch, which may take several calls of next().  Fields before the
 * lock belong to the consumer */
typedef struct stk_wait_note {
    uint64_t from;   /* when this call began to wait; 0: it does not wait */
    uint64_t ns;     /* time waited in the calls before */
    uint64_t looked; /* when `is` was written */
    uint64_t told;   /* lines logged about this wait */
    stk_mutex lock;
    stk_waiting is; /* lock: what the consumer waits for; is.ns 0: not known */
} stk_wait_note;

/* Where the consumer's time went, and how full the ring is.  The consumer writes, any thread reads.
 * From `head` on, fields change under the lock; they have a cache line of their own. */
typedef struct stk_engine_figures {
    uint64_t opened_ns, opened_ticks; /* when the loader was opened; constant */
    uint64_t open_ns;                 /* how long opening took; constant */
    uint64_t looked; /* consumer only: 1 + the epoch whose files were checked for changes */
    uint64_t tears;  /* consumer only: stk_guarded_tears() at that time */
    _Alignas(64) _Atomic uint64_t batches, handed_out, first_batch_ns, first_wait_ns;
    _Atomic uint64_t consumer;     /* pthread_self() of the consumer, to notice another thread */
    _Atomic uint32_t consumer_tid; /* its thread id; 0: no consumer called yet */
    _Atomic uint64_t consumer_ns;  /* its run and ready time when it first called */
    _Atomic uint64_t next_ns;      /* all time in next() and peek(), of which: */
    _Atomic uint64_t data_wait_ns; /* ... waiting for a batch */
    _Atomic uint64_t repair_ns;    /* ... making rows again that the GPU could not make */
    _Atomic uint64_t ledger_ns;
    /* Times of stk_now_ns().  waiting_since: when the consumer began to wait for its batch, over
     * calls that timed out; 0: it does not wait.  paused_at: when the last of these calls ended; 0:
     * one is running. */
    _Atomic uint64_t waiting_since, paused_at;
    _Atomic uint64_t packed_tokens, packed_room; /* in the consumer's epoch */
    /* lock: sequence numbers of the next slot to open and to take */
    _Alignas(64) _Atomic uint64_t head, tail;
    _Atomic uint32_t ready; /* lock: number of READY slots */
    _Atomic uint32_t ahead; /* slots that may be open, 1..n_slots; any thread may change it */
    stk_tracing trace;
    stk_wait_note wait;
} stk_engine_figures;

typedef struct stk_tune_sums { /* ticks of all active workers, and the consumer's waiting */
    uint64_t busy, reads, idle, wait_ns;
} stk_tune_sums;

typedef struct stk_tune { /* tune.c: chooses workers and batches ahead; consumer only */
    int workers;          /* true if the loader chooses the number of workers */
    /* true if it chooses the batches ahead; any thread may clear it by choosing a number */
    _Atomic int ahead;
    _Atomic uint32_t depth;  /* reads to begin before arrived rows are made; any thread reads it */
    uint32_t least, most;    /* limits of the number of workers */
    uint64_t at_ns, batches; /* time of the last look, and batches handed out by then */
    stk_tune_sums last;      /* sums at that time */
    uint32_t was;            /* batches ahead before the last look raised them; 0: it did not */
    double before;           /* ns that a batch was waited for then */
    uint32_t calm;           /* looks in a row at which workers had too little to do */
    uint32_t tired; /* looks until more batches ahead are tried again, after they did not help */
    int skip;       /* true if the number of workers changed since the last look */
} stk_tune;

typedef struct stk_bad_samples { /* on_error="skip" */
    _Atomic uint64_t skipped;    /* consumer only: in batches that were handed out */
    _Atomic uint32_t of_epoch[STK_EPOCHS];
    uint32_t of_this; /* consumer only: in batches of this epoch that were handed out */
    stk_error *list;  /* the first STK_LISTED_SKIPS */
    /* grows under the lock with a release store; entries below it are constant */
    _Atomic uint32_t n;
} stk_bad_samples;

/* state of the thread in next(); only the first two fields are shared */
typedef struct stk_consumer {
    int wanted;                /* lock: it waits for the slot at the tail */
    uint64_t waits_from;       /* lock: when it went to sleep; 0: it is awake */
    uint64_t epoch, taken;     /* its epoch, and batches taken of it */
    stk_held held;             /* the batch that next() hands out */
    stk_worker *repair_worker; /* makes rows again that the GPU could not make; NULL: none so far */
    stk_ledger_writer *ledger; /* NULL: no ledger is written */
    int learn_told;            /* true once it was reported that seek points can't be stored */
} stk_consumer;

typedef struct stk_engine_requests { /* all fields: lock */
    stk_request **arrived;           /* heap by ticket with engine.n_arrived of at most `max` */
    stk_request *idle;               /* list of requests that no row uses */
    stk_request *all;                /* list of every request */
    uint32_t n, max;                 /* requests that were made, and the most there may be */
} stk_engine_requests;

typedef struct stk_worker_threads {
    stk_worker *worker[STK_MAX_WORKERS];
    _Atomic uint32_t n;      /* started threads; grows under the lock with a release store */
    uint32_t n_resting;      /* lock: threads that sleep because nothing is to do */
    _Atomic uint32_t active; /* threads that may claim rows; changed under the lock */
    uint32_t want;           /* threads that shall work after the next start */
} stk_worker_threads;

struct stk_engine {
    const stk_plan *plan;
    stk_schedule *schedule; /* the plan's; the consumer may change it while no slot is open */

    /* claims */
    /* copies of the plan's, in the cache line where they are used */
    uint32_t tickets, n_slots, claim_size;
    _Alignas(64) _Atomic uint64_t claim; /* seeks << 48 | next ticket */
    _Alignas(64) _Atomic uint64_t limit; /* tickets below it may be claimed */
    _Alignas(64) _Atomic uint32_t n_arrived, inflight;
    _Atomic int cold; /* the last claim had to wait for bytes: begin reads before decoding */
    /* rows that wait for memory; while there are any, workers keep none between rows */
    _Atomic int low_memory;
    _Atomic uint32_t n_short; /* workers that sleep until there is memory */
    _Atomic int draining;     /* during a seek or close: rows are marked done without being made */
    _Atomic uint64_t retried;
    stk_bad_samples bad;

    /* the ring and the threads */
    stk_mutex lock;
    pthread_cond_t work, parked, ready;
    stk_slot slot[STK_MAX_SLOTS];
    stk_cursor base;  /* lock: epoch and step of sequence number 0 */
    stk_cursor ahead; /* lock: epoch and step of the slot that is opened next */
    stk_consumer consumer;
    stk_engine_requests requests;
    stk_worker_threads workers;
    int stop; /* lock */

    stk_tune tune;
    stk_io_threads io;
    stk_gpu_threads gpu;
    stk_engine_figures figures;
};

/* engine.c */
/* Sets up an engine; no thread is started.  After a failure, call close() all the same. */
int stk_engine_open(stk_engine *e, const stk_plan *plan, stk_error *err);
/* Joins all threads.  STK_END: one stays in a decoder, so nothing was freed, nor may be. */
int stk_engine_close(stk_engine *e);
int stk_engine_start(stk_engine *e, stk_error *err);
/* 0: e->consumer.held has the next batch, which stays until next().  Other values: as next(). */
int stk_engine_peek(stk_engine *e, int timeout_ms, stk_error *err);
int stk_engine_next(stk_engine *e, stk_batch **out, int timeout_ms, stk_error *err);
/* Makes the next batches again; those that were made before are dropped. */
int stk_engine_again(stk_engine *e, stk_error *err);
int stk_engine_seek(stk_engine *e, uint64_t epoch, uint64_t position, stk_error *err);
/* samples of the epoch that the consumer received */
uint64_t stk_engine_position(const stk_engine *e);
int stk_engine_set_workers(stk_engine *e, uint32_t n, stk_error *err);
int stk_engine_set_ahead(stk_engine *e, uint32_t n, stk_error *err); /* Thread: any */
int stk_engine_ledger(stk_engine *e, const char *folder, const ldg_head *from, stk_error *err);

/* learn_save.c: stores seek points found while running.  The consumer's thread calls it */
void stk_learn_save(stk_engine *e, int wait);

/* room.c: rows that wait for memory */
typedef int (*stk_begin_fn)(stk_worker *w, stk_request *r, stk_error *err);
/* Calls begin() again after STK_ELIMIT, until there is room. */
int stk_room_begin(stk_worker *w, stk_request *r, stk_begin_fn begin, stk_error *err);
/* a stk_maker.wait_room */
int stk_room_row(stk_maker *m, uint64_t ticket, size_t room, stk_error *err);
int stk_room_pause(stk_engine *e); /* 1: others gave memory back, try again; 0: no one has any */

int stk_engine_workers(stk_engine *e, uint32_t n, stk_error *err); /* set_workers() for tune.c */

/* tune.c */
void stk_tune_open(stk_engine *e);
void stk_tune_look(stk_engine *e, uint64_t now); /* the consumer calls it before it takes a batch */

/* held_up.c: measures one wait for a batch, over calls that time out */
void stk_wait_begin(stk_engine *e, uint64_t now); /* a call begins to wait */
void stk_wait_pause(stk_engine *e);               /* the call timed out */
void stk_wait_end(stk_engine *e);                 /* the wait is over, with a batch or an error */
/* Finds out what is waited for and logs it when it is time.  Releases the lock meanwhile. */
void stk_wait_look_locked(stk_engine *e, uint64_t now) STK_REQUIRES(e->lock);
/* Thread: any.  0: the consumer does not wait */
uint64_t stk_wait_ns(const stk_engine *e, uint64_t now);
int stk_engine_waiting(stk_engine *e, stk_waiting *out); /* Thread: any */

/* ring.c: opens all slots that may be open; returns the last error */
int stk_ring_open_locked(stk_engine *e, stk_error *err) STK_REQUIRES(e->lock);
/* worker.c: a new worker, with a request from the engine's number of them */
int stk_worker_open_locked(stk_worker **out, stk_engine *e, uint32_t number, stk_error *err)
    STK_REQUIRES(e->lock);
/* engine.c, inline mode: makes a row, or waits shortly if there is none */
int stk_worker_step_locked(stk_engine *e) STK_REQUIRES(e->lock);

/* stats.c */
void stk_engine_stats(const stk_engine *e, stk_stats *out); /* Thread: any, before close */
int stk_engine_skipped(const stk_engine *e, uint64_t i,
                       stk_error *out);   /* Thread: any.  STK_END: there are fewer */
void stk_engine_note_fill(stk_engine *e); /* a new epoch: notes how full its packed rows are */
int stk_engine_doing(const stk_engine *e, uint32_t i, stk_doing *out); /* Thread: any */
/* ns per tick, as measured so far */
double stk_engine_tick_ns(const stk_engine *e, uint64_t ticks_now);

/* trace.c */
/* Notes the last `spans` stages of every thread from now on; 0: ends that.  The consumer's
 * thread. */
int stk_engine_trace(stk_engine *e, uint32_t spans, stk_error *err);
/* for a new worker */
void stk_trace_worker_locked(stk_engine *e, stk_worker *w) STK_REQUIRES(e->lock);
void stk_trace_worker_close(stk_worker *w);
void stk_trace_close(stk_engine *e);
void stk_trace_next(stk_engine *e, uint64_t from, uint64_t to); /* ticks */
/* Copies at most `cap` noted spans, by thread and time, and returns how many.  Thread: any. */
uint64_t stk_engine_spans(const stk_engine *e, stk_trace_span *out, uint64_t cap);

/* sight.c */
void stk_engine_sight(const stk_engine *e, stk_sight *out); /* Thread: any */
uint32_t stk_engine_held(const stk_engine *e);              /* batches that the consumer holds */

static inline uint64_t stk_head(const stk_engine *e)
{
    return atomic_load_explicit(&e->figures.head, memory_order_relaxed);
}

static inline uint64_t stk_tail(const stk_engine *e)
{
    return atomic_load_explicit(&e->figures.tail, memory_order_relaxed);
}

/* Number of open slots.  Any thread; exact only for the consumer. */
static inline uint32_t stk_open_slots(const stk_engine *e)
{
    uint64_t tail = stk_tail(e), head = stk_head(e);

    if (head <= tail) /* another thread may read both in the middle of a drain */
        return 0;
    return head - tail < e->n_slots ? (uint32_t)(head - tail) : e->n_slots;
}

static inline stk_slot *stk_tail_slot(stk_engine *e)
{
    return &e->slot[stk_tail(e) % e->n_slots];
}

/* Adds to the number of READY slots. */
static inline void stk_ready_locked(stk_engine *e, int more) STK_REQUIRES(e->lock)
{
    uint32_t n = atomic_load_explicit(&e->figures.ready, memory_order_relaxed);

    assert(more > 0 ? n < e->n_slots : n > 0);
    atomic_store_explicit(&e->figures.ready, n + (uint32_t)more, memory_order_relaxed);
}

/* Begins a named range for profilers; NULL ends it. */
static inline void stk_range(const stk_engine *e, const char *name)
{
    const stk_trace *t = &e->plan->rows.trace;

    if (t->range)
        t->range(t->cookie, name);
}

static inline stk_slot *stk_slot_of(stk_engine *e, uint64_t ticket)
{
    return &e->slot[ticket / e->tickets % e->n_slots];
}

#endif

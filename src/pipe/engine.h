/* SPDX-License-Identifier: Apache-2.0 */
/* engine.h - what runs a plan: claims of tickets, a ring of slots, workers, I/O threads.
 * docs/threads.md tells it as a story.
 *
 * Ticket t is ticket t % tickets of the slot with sequence number t / tickets.  They are claimed in
 * order with one compare-and-swap; everything a row needs follows from its ticket by arithmetic,
 * so there are no queues between stages. A row whose bytes must be waited for leaves its worker
 * and comes back through `arrived`, lowest ticket first. */
#ifndef STOKER_ENGINE_H
#define STOKER_ENGINE_H

#include <assert.h>
#include <pthread.h>
#include <stoker/stoker.h>

#include "pipe/io.h"
#include "ledger/ledger_write.h"
#include "pipe/slot.h"
#include "pipe/worker.h"

#define STK_LISTED_SKIPS 1000
#define STK_EPOCHS STK_MAX_SLOTS /* no more of them are in the ring at once */
#define STK_TICKET_BITS 48       /* of `claim`; the rest counts seeks, so that a late claim fails */

typedef struct stk_held { /* a batch that left the ring and is not handed out yet */
    int failed;           /* it did not leave: the slot at the tail failed, as the consumer knows */
    stk_batch *batch;     /* NULL: none */
    uint64_t epoch, step;
    uint64_t start, count; /* of its global batch */
    uint32_t samples;      /* rows, or documents where rows are packed */
    uint32_t skipped;      /* bad samples that others stand in for */
} stk_held;

typedef struct stk_gpu_threads {
    pthread_t completion_thread; /* receives batches that are there */
    int completing;              /* it runs */
    stk_array_upload upload;     /* fills plan.cache.arrays */
} stk_gpu_threads;

typedef struct stk_tracing {       /* trace.c */
    uint32_t cells;                /* spans of each thread; 0: no one asked for a trace; lock */
    int on;                        /* lock; and the consumer reads it */
    _Atomic uint64_t from;         /* ticks: spans before that are of a trace that was ended */
    _Atomic(stk_spans *) consumer; /* what next() took */
} stk_tracing;

typedef struct stk_wait_note { /* held_up.c: a wait for one batch, in one call or in several */
    uint64_t from;             /* the consumer's: since when, in this call; 0: it does not */
    uint64_t ns;               /* the consumer's: of the calls before, not counted yet */
    uint64_t looked;           /* the consumer's: when `is` was written */
    uint64_t told;             /* the consumer's: lines of the log */
    stk_mutex lock;
    stk_waiting is; /* lock; ns 0: nothing is known */
} stk_wait_note;

/* Where the consumer's time went, and how full the ring is.  The consumer writes, any thread reads.
 * The second part changes under the lock, in a cache line that the others do not share. */
typedef struct stk_engine_figures {
    uint64_t opened_ns, opened_ticks; /* never change */
    uint64_t open_ns;                 /* that opening took; never changes */
    uint64_t looked;                  /* the consumer's: 1 + epoch whose files were looked at */
    uint64_t tears;                   /* ... and stk_guarded_tears() then */
    _Alignas(64) _Atomic uint64_t batches, handed_out, first_batch_ns, first_wait_ns;
    _Atomic uint64_t consumer;     /* its pthread_self(), to see when it is another thread */
    _Atomic uint32_t consumer_tid; /* 0: none came yet */
    _Atomic uint64_t consumer_ns;  /* that it had run, or could have, when it came */
    _Atomic uint64_t next_ns;      /* all time in next() and peek(); of it: */
    _Atomic uint64_t data_wait_ns; /* no batch was ready */
    _Atomic uint64_t repair_ns;    /* rows that the GPU could not make */
    _Atomic uint64_t ledger_ns;
    /* on stk_now_ns(): since when the consumer waits for its batch, over calls that timed out; 0:
     * it does not.  And when the last of these calls ended; 0: one is running. */
    _Atomic uint64_t waiting_since, paused_at;
    _Atomic uint64_t packed_tokens, packed_room; /* of the consumer's epoch */
    _Alignas(64) _Atomic uint64_t head, tail;    /* lock: sequence numbers opened, taken */
    _Atomic uint32_t ready;                      /* lock: slots that are READY */
    _Atomic uint32_t ahead; /* slots that may be open, 1..n_slots; any thread changes it */
    stk_tracing trace;
    stk_wait_note wait;
} stk_engine_figures;

typedef struct stk_tune_sums { /* ticks of all workers that work; the consumer's waiting */
    uint64_t busy, reads, idle, wait_ns;
} stk_tune_sums;

typedef struct stk_tune {   /* tune.c; the consumer's */
    int workers;            /* how many work is left to the loader */
    _Atomic int ahead;      /* likewise; any thread ends that by choosing a number */
    _Atomic uint32_t depth; /* reads that are begun before rows that came are made; any reads it */
    uint32_t least, most;   /* workers */
    uint64_t at_ns, batches;
    stk_tune_sums last;
    uint32_t was;  /* batches ahead before the last look raised it; 0: it did not */
    double before; /* the wait for a batch then, in ns */
    uint32_t calm, tired;
    int skip; /* other workers worked in part of the time since */
} stk_tune;

typedef struct stk_bad_samples { /* on_error="skip" */
    _Atomic uint64_t skipped;    /* in batches that were handed out: the consumer's */
    _Atomic uint32_t of_epoch[STK_EPOCHS];
    uint32_t of_this;   /* the consumer's: in batches of its epoch that were handed out */
    stk_error *list;    /* the first STK_LISTED_SKIPS */
    _Atomic uint32_t n; /* grows under the lock, with release: what is below stays */
} stk_bad_samples;

typedef struct stk_consumer {  /* what only the thread in next() uses, but for the first two */
    int wanted;                /* lock: it has asked for the slot at the tail */
    uint64_t waits_from;       /* lock: since when it sleeps; 0: it does not */
    uint64_t epoch, taken;     /* where it stands */
    stk_held held;             /* what next() hands out */
    stk_worker *repair_worker; /* NULL: nothing had to be repaired so far */
    stk_ledger_writer *ledger; /* NULL: none is written */
    int learn_told;            /* it was reported that seek points can't be stored */
} stk_consumer;

typedef struct stk_engine_requests { /* lock */
    stk_request **arrived;           /* heap by ticket, engine.n_arrived of cap max */
    stk_request *idle;
    stk_request *all; /* every request there is */
    uint32_t n, max;
} stk_engine_requests;

typedef struct stk_worker_threads {
    stk_worker *worker[STK_MAX_WORKERS];
    _Atomic uint32_t n;      /* threads there are; grows under the lock, with release */
    uint32_t n_resting;      /* lock: of them, those with nothing to do */
    _Atomic uint32_t active; /* threads that work; changed under the lock */
    uint32_t want;           /* threads that shall work, from the next start on */
} stk_worker_threads;

struct stk_engine {
    const stk_plan *plan;
    stk_schedule *schedule; /* the plan's: the consumer's, while no slot is open */

    /* claims */
    uint32_t tickets, n_slots, claim_size; /* the plan's, beside what they are needed with */
    _Alignas(64) _Atomic uint64_t claim;   /* seeks << 48 | next ticket */
    _Alignas(64) _Atomic uint64_t limit;   /* tickets below it are open */
    _Alignas(64) _Atomic uint32_t n_arrived, inflight;
    _Atomic int cold;         /* the last claim had to wait: keep reads in flight before decoding */
    _Atomic int low_memory;   /* so many rows wait for memory: workers keep none between rows */
    _Atomic uint32_t n_short; /* workers that sleep meanwhile */
    _Atomic int draining;     /* a seek or close: rows are done without being made */
    _Atomic uint64_t retried;
    stk_bad_samples bad;

    /* the ring and the threads */
    stk_mutex lock;
    pthread_cond_t work, parked, ready;
    stk_slot slot[STK_MAX_SLOTS];
    stk_cursor base;                   /* lock: where sequence number 0 is */
    stk_cursor ahead;                  /* lock: where the slot at the head will be */
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
/* Set up what runs a plan; no thread is started.  What was set up when it fails is for close(). */
int stk_engine_open(stk_engine *e, const stk_plan *plan, stk_error *err);
void stk_engine_close(stk_engine *e); /* ends all threads */
int stk_engine_start(stk_engine *e, stk_error *err);
int stk_engine_peek(stk_engine *e, int timeout_ms,
                    stk_error *err); /* 0: e->consumer.held has a batch */
int stk_engine_next(stk_engine *e, stk_batch **out, int timeout_ms, stk_error *err);
/* What comes next is made once more, and nothing that was made before is handed out. */
int stk_engine_again(stk_engine *e, stk_error *err);
int stk_engine_seek(stk_engine *e, uint64_t epoch, uint64_t position, stk_error *err);
uint64_t stk_engine_position(const stk_engine *e); /* of the epoch: what the consumer received */
int stk_engine_set_workers(stk_engine *e, uint32_t n, stk_error *err);
int stk_engine_set_ahead(stk_engine *e, uint32_t n, stk_error *err); /* Thread: any */
int stk_engine_ledger(stk_engine *e, const char *folder, const ldg_head *from, stk_error *err);

/* learn_save.c: seek points found while running; the consumer's thread */
void stk_learn_save(stk_engine *e, int wait);

/* room.c: rows that wait for memory */
typedef int (*stk_begin_fn)(stk_worker *w, stk_request *r, stk_error *err);
/* begin() answered STK_ELIMIT: again, until there is room. */
int stk_room_begin(stk_worker *w, stk_request *r, stk_begin_fn begin, stk_error *err);
int stk_room_row(stk_maker *m, uint64_t ticket, size_t room, stk_error *err); /* wait_room() */
int stk_room_pause(stk_engine *e); /* 1: others had memory, try again; 0: that would be in vain */

int stk_engine_workers(stk_engine *e, uint32_t n, stk_error *err); /* as set_workers(), by tune.c */

/* tune.c */
void stk_tune_open(stk_engine *e);
void stk_tune_look(stk_engine *e, uint64_t now); /* the consumer's, before it takes a batch */

/* held_up.c: one clock for a wait, also where it is cut into calls that time out */
void stk_wait_begin(stk_engine *e, uint64_t now); /* the call begins to wait */
void stk_wait_pause(stk_engine *e);               /* it timed out */
void stk_wait_end(stk_engine *e);                 /* the batch is there, or will not come */
/* Find out what is waited for, and log it when it is time; lets the lock go meanwhile. */
void stk_wait_look_locked(stk_engine *e, uint64_t now) STK_REQUIRES(e->lock);
uint64_t stk_wait_ns(const stk_engine *e, uint64_t now); /* Thread: any; 0: it does not wait */
int stk_engine_waiting(stk_engine *e, stk_waiting *out); /* Thread: any */

/* ring.c: open what can be opened; the last failure */
int stk_ring_open_locked(stk_engine *e, stk_error *err) STK_REQUIRES(e->lock);
/* worker.c: a worker, with a request that counts among the engine's */
int stk_worker_open_locked(stk_worker **out, stk_engine *e, uint32_t number, stk_error *err)
    STK_REQUIRES(e->lock);
/* engine.c: of inline mode: a step, or a short wait when there is none */
int stk_worker_step_locked(stk_engine *e) STK_REQUIRES(e->lock);

/* stats.c */
void stk_engine_stats(const stk_engine *e, stk_stats *out); /* Thread: any, until close */
int stk_engine_skipped(const stk_engine *e, uint64_t i,
                       stk_error *out); /* likewise; STK_END: none */
void stk_engine_note_fill(
    stk_engine *e); /* the consumer's epoch is another: how full its rows are */
int stk_engine_doing(const stk_engine *e, uint32_t i, stk_doing *out); /* Thread: any */
double stk_engine_tick_ns(const stk_engine *e, uint64_t ticks_now);    /* of a tick, as known now */

/* trace.c */
/* Note the last `spans` stages of every thread from now on; 0: no more.  The consumer's thread. */
int stk_engine_trace(stk_engine *e, uint32_t spans, stk_error *err);
void stk_trace_worker_locked(stk_engine *e, stk_worker *w) STK_REQUIRES(e->lock); /* a new one */
void stk_trace_worker_close(stk_worker *w);
void stk_trace_close(stk_engine *e);
void stk_trace_next(stk_engine *e, uint64_t from, uint64_t to); /* ticks */
/* What was noted, by thread and time.  How many, at most `cap`.  Thread: any. */
uint64_t stk_engine_spans(const stk_engine *e, stk_trace_span *out, uint64_t cap);

/* sight.c */
void stk_engine_sight(const stk_engine *e, stk_sight *out); /* Thread: any */
uint32_t stk_engine_held(const stk_engine *e); /* batches whose memory the consumer has */

static inline uint64_t stk_head(const stk_engine *e)
{
    return atomic_load_explicit(&e->figures.head, memory_order_relaxed);
}

static inline uint64_t stk_tail(const stk_engine *e)
{
    return atomic_load_explicit(&e->figures.tail, memory_order_relaxed);
}

/* Slots that are open.  Any thread; exact for the consumer. */
static inline uint32_t stk_open_slots(const stk_engine *e)
{
    uint64_t tail = stk_tail(e), head = stk_head(e);

    if (head <= tail) /* another thread may look in the middle of a drain */
        return 0;
    return head - tail < e->n_slots ? (uint32_t)(head - tail) : e->n_slots;
}

static inline stk_slot *stk_tail_slot(stk_engine *e)
{
    return &e->slot[stk_tail(e) % e->n_slots];
}

/* Under the lock: how many slots are READY. */
static inline void stk_ready_locked(stk_engine *e, int more) STK_REQUIRES(e->lock)
{
    uint32_t n = atomic_load_explicit(&e->figures.ready, memory_order_relaxed);

    assert(more > 0 ? n < e->n_slots : n > 0);
    atomic_store_explicit(&e->figures.ready, n + (uint32_t)more, memory_order_relaxed);
}

/* A range that profilers show; NULL ends it. */
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

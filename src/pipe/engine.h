/* SPDX-License-Identifier: Apache-2.0 */
/* engine.h - the inside of a loader: slots, tickets, workers.  docs/threads.md tells it as a
 * story.
 *
 * Ticket t is row t % batch of the slot with sequence number t / batch.  Tickets are claimed in
 * order with one compare-and-swap; everything a row needs follows from its ticket by arithmetic,
 * so there are no queues between stages. A row whose bytes must be waited for leaves its worker
 * and comes back through `arrived`, lowest ticket first. */
#ifndef STOKER_ENGINE_H
#define STOKER_ENGINE_H

#include <pthread.h>
#include <stoker/stoker.h>
#include <sys/types.h>

#include <config.h>

#include "base/clock.h"
#include "base/rng.h"
#include "codec/jpeg_base.h"
#include "fetch/uring.h"
#include "kern/sample.h"
#include "order/schedule.h"
#include "pipe/row_docs.h"
#include "pipe/ledger_write.h"
#include "plan/plan.h"

#define STK_MAX_DECODERS 16
#define STK_KEPT_SKIPS 1000
#define STK_EPOCHS STK_MAX_SLOTS /* no more of them are in the ring at once */
#define STK_TICKET_BITS 48       /* of `claim`; the rest counts seeks, so that a late claim fails */

typedef enum stk_slot_state {
    STK_SLOT_FREE,
    STK_SLOT_FILLING,
    STK_SLOT_STAGES,
    STK_SLOT_READY
} stk_slot_state;

typedef enum stk_ring_state { /* of the io_uring for cold local files */
                              STK_RING_UNTRIED,
                              STK_RING_RUNS,
                              STK_RING_REFUSED
} stk_ring_state;

typedef struct stk_engine stk_engine;
typedef struct stk_slot stk_slot;

struct stk_ticket {
    stk_engine *engine;
    stk_slot *slot;
};

struct stk_slot {
    stk_slot_state state;  /* lock */
    _Atomic uint32_t left; /* rows not done */
    uint64_t seq, epoch, step;
    stk_share share;
    _Atomic uint32_t tickets; /* that stand for a sample; the others are done by being claimed */
    stk_ticket_list list;     /* what they are, where the schedule lists them */
    stk_batch *batch;
    uint32_t stage; /* the next one to run */
    stk_ticket ticket;
    int rc;           /* lock: failure of the lowest row */
    uint32_t err_row; /* lock */
    stk_error err;    /* lock */
};

typedef struct stk_held { /* a batch that left the ring and is not handed out yet */
    stk_batch *batch;     /* NULL: none */
    uint64_t epoch, step;
    uint64_t start, count; /* of its global batch */
} stk_held;

/* Where a worker's time went, in ticks.  Written by its worker only, read by anybody; its own
 * cache lines. */
typedef struct stk_counters {
    _Alignas(64) _Atomic uint64_t ticks[STK_STAGES];
    _Atomic uint64_t samples, bytes, cold;
    _Atomic uint64_t lane[STK_LANES]; /* pictures */
} stk_counters;

typedef struct stk_worker {
    stk_counters count;
    uint64_t last; /* tick of the last lap */
    stk_engine *engine;
    uint32_t number;
    pthread_t thread;
    stk_request *req; /* NULL: it is on its way */
    stk_cut cut;
    uint64_t rows, bytes; /* of the run under hand, counted at its end */
    stk_row_docs docs;    /* of the row under hand, where it is packed anew */
    uint64_t row_from;    /* tick at which the row that is timed began; 0: it is not timed */
    stk_scratch scratch;
    int alone; /* makes rows anew on the consumer's thread: reads wait, the CPU decodes */
    stk_bytes next; /* rows of arrays: what is left to prefetch of the row behind this one */
    void *decoder[STK_MAX_DECODERS]; /* contexts, opened at first use */
} stk_worker;

struct stk_engine {
    const stk_plan *plan;
    stk_schedule *schedule; /* the plan's: the consumer's, while no slot is open */
    pthread_t lander;      /* receives batches that are there */
    int landing;           /* it runs */
    pthread_t uploader;    /* fills plan.cache.arrays */
    _Atomic int uploading; /* 0: not begun; 1: it runs, or is through; 2: it must end */
    int learn_told;        /* the consumer's */
    pid_t pid;

    /* claims */
    uint32_t tickets, n_slots, claim_size; /* the plan's, beside what they are needed with */
    _Alignas(64) _Atomic uint64_t claim; /* seeks << 48 | next ticket */
    _Alignas(64) _Atomic uint64_t limit; /* tickets below it are open */
    _Alignas(64) _Atomic uint32_t n_arrived, inflight;
    _Atomic int cold;     /* the last claim had to wait: keep reads in flight before decoding */
    _Atomic int tight;    /* reads wait for memory: workers keep none between rows */
    _Atomic int draining; /* a seek or close: rows are done without being made */
    _Atomic uint64_t skipped, retried;
    _Atomic uint32_t epoch_skips[STK_EPOCHS];

    /* the ring and the threads */
    pthread_mutex_t lock;
    pthread_cond_t work, parked, ready;
    stk_slot slot[STK_MAX_SLOTS];
    uint64_t head, tail;               /* lock: sequence numbers opened, taken */
    stk_cursor base;                   /* lock: where sequence number 0 is */
    stk_cursor ahead;                  /* lock: where the slot at the head will be */
    uint64_t waits_from;               /* lock: since when the consumer waits; 0: it does not */
    uint64_t epoch, taken;             /* where the consumer stands */
    stk_held held;                     /* the consumer's; what next() hands out */
    stk_worker *mender;                /* the consumer's; NULL: nothing had to be mended so far */
    stk_ledger_writer *ledger;         /* the consumer's; NULL: none is kept */
    stk_request **arrived;             /* lock: heap by ticket, n_arrived of cap max_requests */
    stk_request *idle;                 /* lock */
    uint32_t n_requests, max_requests; /* lock */
    stk_worker *worker[STK_MAX_WORKERS];
    uint32_t n_workers;      /* lock: threads there are */
    _Atomic uint32_t active; /* threads that work; changed under the lock */
    uint32_t want_workers;
    int stop;         /* lock */
    stk_error *skips; /* lock: the first STK_KEPT_SKIPS */
    uint32_t n_skips;

    /* I/O threads */
    pthread_mutex_t io_lock;
    pthread_cond_t io_work;
    stk_io *io_head, *io_tail; /* io_lock */
    pthread_t *io_thread;
    uint32_t io_running;    /* io_lock */
    int io_stop;            /* io_lock */
    _Atomic int ring_state; /* stk_ring_state; changed under io_lock */
    stk_uring *ring;        /* with STK_RING_RUNS */
    pthread_t ring_thread;
    pthread_t drive_thread[STK_MAX_DRIVEN];
    uint32_t n_driving;

    /* figures */
    uint64_t opened_ns, opened_ticks, wait_ns, first_batch_ns, batches;
};

/* engine.c */
/* Set up what runs a plan; no thread is started.  What was set up when it fails is for close(). */
int stk_engine_open(stk_engine *e, const stk_plan *plan, stk_error *err);
void stk_engine_close(stk_engine *e); /* ends all threads */
int stk_engine_start(stk_engine *e, stk_error *err);
int stk_engine_peek(stk_engine *e, int timeout_ms, stk_error *err); /* 0: e->held has a batch */
int stk_engine_next(stk_engine *e, stk_batch **out, int timeout_ms, stk_error *err);
int stk_engine_seek(stk_engine *e, uint64_t epoch, uint64_t position, stk_error *err);
uint64_t stk_engine_position(const stk_engine *e); /* of the epoch: what the consumer received */
int stk_engine_set_workers(stk_engine *e, uint32_t n, stk_error *err);
int stk_engine_ledger(stk_engine *e, const char *folder, const ldg_head *from, stk_error *err);
struct timespec stk_in_ms(int ms); /* on the monotonic clock */

/* learn.c: seek points found while running */
void stk_learn_save(stk_engine *e, int wait); /* the consumer's thread */
/* The hint for an output's field, or that one is worth finding. */
void stk_learn_look(const stk_engine *e, stk_request *r, uint32_t output);
void stk_learn_from(stk_worker *w, const stk_request *r, uint32_t output,
                    const stk_decoder *decoder, void *ctx);

/* fingerprint.c */
int stk_engine_print(const stk_engine *e, stk_print *out, stk_error *err);

/* ring.c: slots */
int stk_ring_plan(stk_engine *e, stk_error *err); /* memory of slots that have positions */
int stk_ring_open_locked(stk_engine *e,
                         stk_error *err); /* open what can be opened; the last failure */
void stk_ring_fail(stk_engine *e, stk_slot *s, uint32_t row, int rc, const stk_error *err);
void stk_ring_done(stk_engine *e, stk_slot *s,
                   uint32_t rows);  /* rows are done; the last one runs the stages */
void stk_ring_drain(stk_engine *e); /* no claims left, all slots free, nothing held */

/* worker.c: the loop; row.c: one row */
int stk_worker_open(stk_worker **out, stk_engine *e, uint32_t number, stk_error *err);
void stk_worker_close(stk_worker **w);
int stk_worker_step(stk_worker *w); /* 1: something was done */
int stk_worker_step_locked(
    stk_engine *e); /* inline mode: a step, or a short wait when there is none */
void *stk_worker_main(void *worker);
/* A row of a READY slot once more, by the CPU; the consumer's thread.  A failure is the slot's. */
int stk_worker_remake(stk_worker *w, stk_slot *s, uint32_t row, stk_error *err);
void stk_row_aim(stk_worker *w, stk_request *r, stk_batch *b, uint32_t row); /* before its reads */
int stk_row_make(stk_worker *w, stk_request *r, stk_batch *b, uint32_t row, stk_error *err);

/* far_row.c: pictures that a GPU makes */
typedef struct stk_left { /* to the GPU to decode */
    void *ctx;            /* of the JPEG decoder, which has read the header */
    const stk_view *view;
    const stk_rect *need;
    int ycc;
    stk_where where; /* its sample */
} stk_left;
typedef struct stk_kept_picture { /* that is on the GPU already */
    const stk_jpeg_head *head;
    const stk_jpeg_seek *seek;
    uint64_t at; /* of the arena */
    const stk_view *view;
    int ycc;
} stk_kept_picture;
/* 1: its record is written; 0: the CPU must decode it (odd, or there is no room). */
int stk_row_record(stk_worker *w, stk_batch *b, uint32_t output, uint32_t row, const stk_left *l);
/* cache="device": find out which fields a GPU has, before their reads are planned. */
void stk_row_find_kept(const stk_worker *w, stk_request *r, const uint16_t *fields);
/* The row is made: of a sample whose pictures are kept, its small fields are too, here. */
void stk_row_keep_small(const stk_worker *w, const stk_request *r, const stk_batch *b,
                        uint32_t row);
int stk_row_was_kept(const stk_request *r); /* 1: some of them */
/* The record of a picture that is kept. */
int stk_row_kept(stk_worker *w, stk_batch *b, uint32_t output, uint32_t row,
                 const stk_kept_picture *p);
/* Room in a record for what job makes here; the job is changed to what fits there. */
int stk_row_plain(stk_worker *w, stk_batch *b, uint32_t output, uint32_t row, stk_sample_job *job,
                  stk_error *err);
/* packed_row.c: rows of several samples */
typedef struct stk_piece_of {
    uint64_t ticket;
    uint32_t output;
    stk_bytes in;
} stk_piece_of;
/* raw, bytes: what the sample says of itself. */
int stk_packed_make(stk_worker *w, const stk_piece_of *of, const stk_spec *raw, size_t bytes,
                    stk_error *err);
void stk_packed_finish(stk_engine *e, stk_slot *s); /* all pieces are there */

/* array_row.c: rows of arrays, done or failed when it returns */
void stk_array_rows(stk_worker *w, stk_slot *s, uint32_t row, uint32_t n, const uint64_t *position,
                    const stk_where *where);

/* array_keep.c: the thread that copies arrays to a GPU */
void *stk_array_keep_main(void *engine);

/* peek.c: rows whose bytes lie in memory */
typedef struct stk_peek {
    const stk_dataset *data; /* NULL: nothing is held */
    stk_file *file;
    uint64_t shard;
    uint32_t n; /* fields found */
    stk_bytes bytes[STK_PEEK_OUTPUTS];
} stk_peek;
void stk_peek_look(stk_engine *e, const stk_where *where, stk_peek *p);
/* The worker's request knows the position.  1: the row is made; 0: it must take the long way.
 * Lets go of what look() held either way. */
int stk_peek_make(stk_worker *w, stk_slot *s, uint32_t row, const stk_where *where, stk_peek *p);

/* iothread.c: reads that wait */
void stk_io_queue(void *engine, stk_io *io);
int stk_io_start(stk_engine *e, stk_error *err); /* drivers of async sources */
void stk_io_stop(stk_engine *e);
int stk_thread_start(pthread_t *t, void *(*fn)(void *), void *arg, const char *name);

/* stats.c */
void stk_engine_stats(const stk_engine *e, stk_stats *out);
uint32_t stk_engine_held(const stk_engine *e); /* batches whose memory the consumer has */

static inline void stk_count(_Atomic uint64_t *c, uint64_t n)
{
    atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/* The time since the last lap belongs to `stage`. */
static inline void stk_lap(stk_worker *w, stk_stage_id stage)
{
#if STK_COUNTERS
    uint64_t now = stk_ticks();

    stk_count(&w->count.ticks[stage], now - w->last);
    w->last = now;
#else
    (void)w;
    (void)stage;
#endif
}

static inline uint32_t stk_slot_tickets(const stk_slot *s)
{
    return atomic_load_explicit(&s->tickets, memory_order_relaxed);
}

/* A range that profilers show (NVTX), where there is a GPU; NULL ends it. */
static inline void stk_range(const stk_engine *e, const char *name)
{
    if (e->plan->gpu.device)
        stk_device_range(e->plan->gpu.device, name);
}

static inline stk_slot *stk_slot_of(stk_engine *e, uint64_t ticket)
{
    return &e->slot[ticket / e->tickets % e->n_slots];
}

#endif

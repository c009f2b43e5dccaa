/* SPDX-License-Identifier: Apache-2.0 */
/* worker.h - a worker thread: it claims the next row, has its bytes read, and makes the row.
 * engine.c starts as many as num_workers says; without workers the consumer's thread calls
 * stk_worker_step(). */
#ifndef STOKER_WORKER_H
#define STOKER_WORKER_H

#include <pthread.h>

#include "pipe/slot.h"

typedef struct stk_worker {
    stk_maker m;
    stk_engine *engine;
    uint32_t number;
    pthread_t thread;
    stk_request *req;     /* NULL: it is on its way */
    stk_request *polled;  /* of inline mode: its row waits, nothing of it is begun; or NULL */
    _Atomic uint32_t tid; /* of its thread; 0: it has none yet */
    /* for a trace, also of one that has ended; NULL: none was asked for */
    _Atomic(stk_spans *) spans;
    int synchronous;      /* the repair worker, on the consumer's thread: reads wait */
    uint64_t short_since; /* nanoseconds: no thread could give memory since then; 0: one can */
    int plugged;          /* remote reads are left in ... */
    stk_plug plug;        /* ... here, to be begun together */
} stk_worker;

/* worker.c: the loop */
void stk_worker_close(stk_worker **w);
int stk_worker_step(stk_worker *w); /* 1: something was done */
void *stk_worker_main(void *worker);
/* A row of a READY slot once more, by the CPU; the consumer's thread.  A failure is the slot's. */
int stk_worker_redecode(stk_worker *w, stk_slot *s, uint32_t row, stk_error *err);
int stk_worker_take_arrived(stk_worker *w); /* end a row whose bytes have come.  0: there is none */

/* until w->req is one: some are in flight, so one will arrive */
void stk_worker_wait_request(stk_worker *w);

#define STK_MAX_CHUNK 32
typedef struct stk_run { /* the rows of one claim */
    stk_slot *slot;
    uint64_t ticket; /* of its first row */
    uint32_t row, rows;
    uint64_t position[STK_MAX_CHUNK]; /* STK_RUN_SPANS: not set, and there may be more rows */
    stk_where where[STK_MAX_CHUNK];
} stk_run;
void stk_run_find(const stk_engine *e, stk_run *u); /* what its tickets are */
stk_row stk_run_start(stk_worker *w, const stk_run *u);
/* x becomes row i; the request is the worker's. */
static inline void stk_run_place(const stk_run *u, uint32_t i, stk_request *req, stk_row *x)
{
    x->req = req;
    x->req->attempt = 0;
    x->row = u->row + i;
    x->position = u->position[i];
    x->where = u->where[i];
}
/* 1: row i is done; 0: its bytes are on their way */
int stk_run_row(stk_worker *w, const stk_run *u, uint32_t i);

/* block_run.c: rows of tables, whose bytes are in blocks.  How many are done; the others are on
 * their way. */
uint32_t stk_run_blocks(stk_worker *w, const stk_run *u);
uint32_t stk_run_spans(stk_worker *w, const stk_run *u);

/* bad_sample.c: the row's sample is bad */
/* 1: it stays empty, and someone was told why. */
int stk_bad_leave(stk_worker *w, const stk_request *r, stk_slot *s, int rc, const stk_error *err);
/* 1: another one stands in, try again; 0: it is an error (*rc, *err). */
int stk_bad_stand_in(stk_worker *w, stk_request *r, stk_slot *s, int *rc, stk_error *err);

/* peek.c: rows whose bytes are in memory */
typedef struct stk_peek {
    const stk_dataset *data; /* NULL: nothing is held */
    stk_file *file;
    uint64_t shard;
    uint32_t n; /* fields found */
    stk_bytes bytes[STK_PEEK_OUTPUTS];
} stk_peek;
void stk_peek_look(stk_engine *e, const stk_where *where, stk_peek *p);
/* x->req is the worker's.  1: the row is made; 0: it must take the long way.  Lets go of what
 * look() held either way. */
int stk_peek_make(stk_row *x, stk_peek *p);

/* ... and rows of blocks that are unpacked */
typedef struct stk_held_block {
    stk_block *block; /* NULL: none, or the bytes are the field's */
    stk_bytes bytes;
    stk_place place;
    stk_field field;
} stk_held_block;

typedef struct stk_block_peek { /* Thread: worker.  Starts as zeros. */
    const stk_dataset *data;    /* NULL: nothing was found yet */
    uint64_t sample, left;      /* the last one; samples after it that are in the same blocks */
    stk_entry entry;
    uint32_t n; /* outputs */
    stk_held_block of[STK_PEEK_OUTPUTS];
    const stk_binding *lacks; /* the last look failed for want of a block, of this ... */
    stk_place lacked;         /* ... at this place; NULL: it did not */
} stk_block_peek;
/* 1: *p has all outputs of the row; 0: it must take the long way. */
int stk_block_look(stk_engine *e, const stk_where *where, stk_block_peek *h, stk_peek *p);
void stk_blocks_drop(stk_engine *e, stk_block_peek *h); /* let go of its blocks */

#endif

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
    stk_request *req; /* NULL: it is in flight */
    /* inline mode: a request whose row was not begun because its bytes must be waited for; or
     * NULL */
    stk_request *polled;
    _Atomic uint32_t tid; /* id of its thread; 0: not started yet */
    /* spans for a trace, also of one that has ended; NULL: no trace so far */
    _Atomic(stk_spans *) spans;
    int synchronous; /* true for the repair worker, on the consumer's thread: it waits for reads */
    uint64_t short_since; /* since when no thread could give memory back (ns); 0: one can */
    int plugged;          /* true if remote reads are collected in `plug` */
    stk_plug plug;        /* reads that are begun together */
} stk_worker;

/* worker.c: the loop */
void stk_worker_close(stk_worker **w);
int stk_worker_step(stk_worker *w); /* 1: it did something; 0: nothing to do */
void *stk_worker_main(void *worker);
/* Makes a row of a READY slot again on the CPU, in the consumer's thread.  An error is stored in
 * the slot. */
int stk_worker_redecode(stk_worker *w, stk_slot *s, uint32_t row, stk_error *err);
int stk_worker_take_arrived(stk_worker *w); /* makes a row whose bytes arrived.  0: there is none */

/* waits until w->req is set; some requests are in flight, so one arrives */
void stk_worker_wait_request(stk_worker *w);

#define STK_MAX_CHUNK 32
typedef struct stk_run { /* the rows that a worker claimed together */
    stk_slot *slot;
    uint64_t ticket; /* ticket of its first row */
    uint32_t row, rows;
    /* not set with STK_RUN_SPANS, when a run may have more rows */
    uint64_t position[STK_MAX_CHUNK];
    stk_where where[STK_MAX_CHUNK];
} stk_run;
void stk_run_find(const stk_engine *e, stk_run *u); /* finds the samples of its tickets */
/* what all rows of the run have in common */
stk_row stk_run_start(stk_worker *w, const stk_run *u);
/* Sets x to row i of the run, with the worker's request. */
static inline void stk_run_place(const stk_run *u, uint32_t i, stk_request *req, stk_row *x)
{
    x->req = req;
    x->req->row.attempt = 0;
    x->row = u->row + i;
    x->position = u->position[i];
    x->where = u->where[i];
}
/* 1: row i is done; 0: its bytes are in flight */
int stk_run_row(stk_worker *w, const stk_run *u, uint32_t i);

/* block_run.c: rows of tables, whose bytes are in blocks.  Returns how many are done; the rest is
 * in flight. */
uint32_t stk_run_blocks(stk_worker *w, const stk_run *u);
uint32_t stk_run_spans(stk_worker *w, const stk_run *u);

/* bad_sample.c: the row's sample is bad */
/* 1: the row stays empty, and the program was told why. */
int stk_bad_leave(stk_worker *w, const stk_request *r, stk_slot *s, int rc, const stk_error *err);
/* 1: another sample replaces it, try again; 0: it is an error (*rc, *err). */
int stk_bad_stand_in(stk_worker *w, stk_request *r, stk_slot *s, int *rc, stk_error *err);

/* peek.c: rows whose bytes are in memory */
typedef struct stk_peek {
    const stk_dataset *data; /* NULL: nothing was found */
    stk_file *file;
    uint64_t shard;
    uint32_t n; /* fields found */
    stk_bytes bytes[STK_PEEK_OUTPUTS];
} stk_peek;
void stk_peek_look(stk_engine *e, const stk_where *where, stk_peek *p);
/* x->req is the worker's.  1: the row is made; 0: make it with a request.  Releases what look()
 * acquired in both cases. */
int stk_peek_make(stk_row *x, stk_peek *p);

/* rows whose bytes are in blocks that are unpacked already */
typedef struct stk_held_block {
    stk_block *block; /* NULL: no block, `bytes` are the field's own */
    stk_bytes bytes;
    stk_place place;
    stk_field field;
} stk_held_block;

typedef struct stk_block_peek { /* Thread: worker.  Starts as zeros. */
    const stk_dataset *data;    /* NULL: nothing was found yet */
    /* the last sample found; how many samples after it are in the same blocks */
    uint64_t sample, left;
    stk_entry entry;
    uint32_t n; /* outputs */
    stk_held_block of[STK_PEEK_OUTPUTS];
    /* NULL: the last look succeeded.  Otherwise it needed a block of this field ... */
    const stk_binding *lacks;
    stk_place lacked; /* ... at this place */
} stk_block_peek;
/* 1: *p has all outputs of the row; 0: make it with a request. */
int stk_block_look(stk_engine *e, const stk_where *where, stk_block_peek *h, stk_peek *p);
void stk_blocks_drop(stk_engine *e, stk_block_peek *h); /* releases its blocks */

#endif

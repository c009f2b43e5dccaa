/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h - shards that are read from the first byte on: what lanes fill and rows take from.
 *
 * A rank's samples are numbered as they come in: sample k of lane s is number k * lanes + s.
 * Numbers are cut into blocks of whole windows.  A lane writes its samples to their places in the
 * blocks, at most one block past the one that is wanted; a row takes number n from the place that
 * the window's permutation says, waiting until it is there.  A block goes when all of it was taken,
 * or when rows are far past it.
 *
 * Where each lane stood at the beginning of a block is noted (marks).  A row that asks for a block
 * that is gone, or was never near, makes all lanes begin again at the last mark before it. */
#ifndef STOKER_STREAM_DATA_H
#define STOKER_STREAM_DATA_H

#include <stoker/stream.h>

#include "base/buf.h"
#include "base/halt.h"
#include "base/lock.h"
#include "data/data.h"

#define STK_STREAM_MARKS 1024u /* at most; then every other one goes */

typedef struct stk_stream_part { /* a field of a sample, in its buffer */
    uint64_t at, len;            /* len UINT64_MAX: the sample has none */
} stk_stream_part;

typedef struct stk_stream_sample {
    enum { STK_STREAM_NOTHING, STK_STREAM_READY, STK_STREAM_BAD } state;
    int taken;
    uint64_t shard; /* its name's number */
    uint64_t len;   /* in its shard */
    stk_buffer *bytes;
    stk_error *why; /* BAD */
} stk_stream_sample;

typedef struct stk_stream_block {
    struct stk_stream_block *next;
    uint64_t number;
    uint32_t pins; /* rows that use it */
    uint64_t taken;
    uint64_t filled, len;  /* samples that are in it, their bytes */
    uint32_t *order;       /* of its samples: the one for each number */
    stk_stream_part *part; /* by sample and field */
    stk_stream_sample sample[];
} stk_stream_block;

typedef struct stk_stream_mark {
    uint64_t block;
    uint32_t known;          /* of how many lanes */
    stk_stream_place *place; /* pass UINT64_MAX: not known */
} stk_stream_mark;

typedef struct stk_stream_wait { /* a row that waits for its sample */
    uint64_t number, stuck;      /* stuck: of the run, when it began to wait */
    int on;                      /* 0: none waits */
    int asked, back;             /* it has lanes that are stuck try again; lanes went back for it */
} stk_stream_wait;

typedef struct stk_stream_run stk_stream_run;

typedef struct stk_stream_lane { /* Thread: its own. */
    stk_stream_run *run;
    uint32_t number;
    stk_stream_place start; /* the run's lock: where it begins in this turn ... */
    uint64_t first;         /* ... and with which of its samples */
    uint64_t turn;          /* of the run, when it began */
    uint64_t next;          /* of its samples */
    stk_stream_place at;    /* ... and where that is */
    uint64_t *order;        /* of its shards in this pass */
    _Atomic uint64_t reads; /* the number of its shard's name.  Thread: any */
} stk_stream_lane;

typedef struct stk_stream { /* Thread: any. */
    stk_dataset base;
    stk_names names, fields;
    uint32_t rank, world, lanes, batch;
    int shuffle;
    uint64_t window, block, seed; /* block: samples of one, whole windows */
    /* samples past a block's end after which it goes: when it was taken, in any case */
    uint64_t keep, lag;
    stk_store *store;              /* held: lanes may read after the data set is closed */
    _Atomic uint64_t memory;       /* bytes of samples that are kept, about: stk_stream_limit() */
    _Atomic(stk_stream_run *) run; /* of this process; NULL: none yet */
} stk_stream;

struct stk_stream_run { /* Thread: any.  One per process: a forked child makes its own. */
    stk_stream *s;
    pid_t pid;
    stk_mutex lock;
    pthread_cond_t came, room; /* a sample; a block may be begun, or all begin again */
    int stop;                  /* lock, and all below */
    stk_halt halt;             /* of lanes, with stop */
    uint32_t started, live;    /* lanes: begun; not over */
    uint64_t turn;             /* how often lanes began again */
    uint64_t wanted, last;     /* the highest block asked for; the highest number */
    uint64_t low;              /* blocks below are gone */
    /* rows for which lanes went back: the others wait until these are served */
    uint32_t went_back;
    stk_stream_block *blocks;
    uint64_t filled, len; /* of all of them */
    stk_stream_mark *mark;
    uint32_t n_marks;
    uint64_t stride; /* blocks from a mark to the next */
    stk_stream_mark begin;
    stk_error failed; /* code 0: nothing */
    /* The store failed: rows that wait get this error, the lane tries again when a row asks. */
    stk_error stuck;
    uint64_t n_stuck, asked; /* how often; rows that began to wait */
    stk_stream_wait polled;  /* the row that waits in slices */
    stk_stream_lane lane[];
};

static inline uint64_t stk_stream_shards_of(const stk_stream *s, uint32_t lane)
{
    uint64_t all = (uint64_t)s->world * s->lanes, first = (uint64_t)lane * s->world + s->rank;

    return (s->names.n - first + all - 1) / all;
}

/* stream_blocks.c */
stk_stream_run *stk_stream_run_of(stk_stream *s, stk_error *err); /* of this process */
void stk_stream_close(stk_stream *s);
void stk_stream_leave(stk_stream_lane *l); /* a lane's last act */
/* Sample `number` of this rank, waiting; its block stays until release.  `poll`: STK_PENDING after
 * about STK_HALT_MS, and the next call with this number goes on waiting. */
int stk_stream_acquire(stk_stream *s, uint64_t number, int poll, stk_error *err);
void stk_stream_release(stk_stream *s, uint64_t number);
/* Lanes begin again before this sample of all ranks; what failed is forgotten. */
void stk_stream_retry(stk_stream *s, uint64_t sample);
/* For an acquired one: the field, or .data NULL. */
stk_bytes stk_stream_bytes(stk_stream *s, uint64_t number, uint32_t field);
/* The shard of a sample, while it is there; UINT64_MAX: it is not. */
uint64_t stk_stream_shard(stk_stream *s, uint64_t number);
/* The shard that is read for a sample which is not there; UINT64_MAX: not known. */
uint64_t stk_stream_awaited(stk_stream *s, uint64_t number);
/* A lane's next sample, waiting for room.  `part` by field.  STK_ECLOSED: the lane is to begin
 * again, or to end. */
int stk_stream_put(stk_stream_lane *l, const stk_stream_sample *x, const stk_stream_part *part,
                   stk_error *err);
/* Where the lane begins; STK_ECLOSED: it ends. */
int stk_stream_begin(stk_stream_lane *l);
int stk_stream_is_over(stk_stream_lane *l);  /* it is to begin again, or to end */
void stk_stream_give_up(stk_stream_lane *l); /* out of memory: rows get that error */
/* The lane can't read on where it is.  Returns when a row asks again, or the lane is over. */
void stk_stream_stuck(stk_stream_lane *l, const stk_error *why);

/* stream_data.c */
void stk_stream_free(stk_stream *s);

/* stream_lane.c */
void *stk_stream_lane_main(void *lane);
/* The names of fields that the first samples have, of the first shard that has any. */
int stk_stream_look(stk_stream *s, stk_error *err);

#endif

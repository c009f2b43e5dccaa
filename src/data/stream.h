/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h - streams: shards that threads ("lanes") read from the first byte on, and memory from
 * which rows take their samples.  The files stream_*.c of this folder share it; stream_data.c makes
 * it a kind of data.
 *
 * A rank's samples are numbered as they come in: sample k of lane s is number k * lanes + s.
 * Numbers are cut into blocks of whole windows.  A lane stores its samples at their places in the
 * blocks, at most one block past the wanted one.  A row takes number n from the place that the
 * window's permutation says, and waits until the sample has come.  A block is freed when all of it
 * was taken, or when rows are far past it.
 *
 * At the beginning of a block, the place of each lane is stored (marks).  If a row asks for a block
 * that was freed or is far away, all lanes begin again at the last mark before it. */
#ifndef STOKER_STREAM_DATA_H
#define STOKER_STREAM_DATA_H

#include <stoker/stream.h>

#include "base/buf.h"
#include "base/halt.h"
#include "base/lock.h"
#include "data/data.h"

#define STK_STREAM_MARKS 1024u /* most marks; at this number every other one is dropped */

typedef struct stk_stream_part { /* a field of a sample: a range of the sample's bytes */
    uint64_t at, len;            /* len UINT64_MAX: the sample does not have the field */
} stk_stream_part;

typedef struct stk_stream_sample {
    enum { STK_STREAM_NOTHING, STK_STREAM_READY, STK_STREAM_BAD } state;
    int taken;         /* true after a row took it */
    uint64_t shard;    /* number of the shard's name */
    uint64_t len;      /* bytes in its shard */
    stk_buffer *bytes; /* memory that holds it */
    stk_error *why;    /* BAD: why */
} stk_stream_sample;

typedef struct stk_stream_block {
    struct stk_stream_block *next;
    uint64_t number;
    uint32_t pins;         /* rows that use it */
    uint64_t taken;        /* samples that rows took */
    uint64_t filled, len;  /* samples that have come, and their bytes */
    uint32_t *order;       /* by number of a sample: its place, permuted by window */
    stk_stream_part *part; /* by sample and field */
    stk_stream_sample sample[];
} stk_stream_block;

typedef struct stk_stream_mark {
    uint64_t block;
    uint32_t known;          /* number of lanes whose place is known */
    stk_stream_place *place; /* by lane: where it was; pass UINT64_MAX: not known */
} stk_stream_mark;

typedef struct stk_stream_wait { /* a row that waits for its sample */
    uint64_t number, stuck;      /* stuck: the run's n_stuck when the row began to wait */
    int on;                      /* 0: no row waits */
    int asked;                   /* true once it had lanes that are stuck try again */
    int back;                    /* true once lanes went back for it */
} stk_stream_wait;

typedef struct stk_stream_run stk_stream_run;

typedef struct stk_stream_lane { /* Thread: its own. */
    stk_stream_run *run;
    uint32_t number;
    stk_stream_place start; /* the run's lock: where it begins in this turn */
    uint64_t first;         /* the run's lock: number of the sample that begins there */
    uint64_t turn;          /* the run's turn when the lane began */
    uint64_t next;          /* number of its next sample */
    stk_stream_place at;    /* where that sample is */
    uint64_t *order;        /* order of its shards in this pass */
    _Atomic uint64_t reads; /* number of the name of the shard that it reads.  Thread: any */
} stk_stream_lane;

typedef struct stk_stream { /* Thread: any. */
    stk_dataset base;
    stk_names names, fields;
    uint32_t rank, world, lanes, batch;
    int shuffle;
    uint64_t window, block, seed; /* samples of a window, and of a block, which is whole windows */
    /* A block is freed when rows are `keep` samples past its end, if all of it was taken, and
     * `lag` samples past it in any case. */
    uint64_t keep, lag;
    stk_store *store;        /* holds a reference: lanes may outlive the data set */
    _Atomic uint64_t memory; /* about how many bytes of samples are held: stk_stream_limit() */
    _Atomic(stk_stream_run *) run; /* the run of this process; NULL: none yet */
} stk_stream;

struct stk_stream_run { /* Thread: any.  One per process: a forked child makes its own. */
    stk_stream *s;
    pid_t pid;
    stk_mutex lock;
    pthread_cond_t came;    /* signalled when a sample has come */
    pthread_cond_t room;    /* signalled when a block may be begun, or lanes begin again */
    int stop;               /* lock; so are all fields below */
    stk_halt halt;          /* stop flag of the lanes' reads; set with `stop` */
    uint32_t started, live; /* lanes that were started; lanes that run */
    uint64_t turn;          /* how often lanes began again */
    uint64_t wanted, last;  /* highest block, and highest number, that was asked for */
    uint64_t low;           /* blocks below this one are freed */
    /* rows for which lanes went back; other rows wait until these have their samples */
    uint32_t went_back;
    stk_stream_block *blocks;
    uint64_t filled, len; /* sums over all blocks */
    stk_stream_mark *mark;
    uint32_t n_marks;
    uint64_t stride;       /* blocks from a mark to the next */
    stk_stream_mark begin; /* where all lanes begin in the first block */
    stk_error failed;      /* error that ends the run; code 0: none */
    /* Error of a store.  Rows that wait get it; the lane tries again when another row asks. */
    stk_error stuck;
    uint64_t n_stuck, asked; /* how often that was; how often a row had lanes try again */
    stk_stream_wait polled;  /* the row that waits by repeated calls (stk_wait_ops.poll) */
    stk_stream_lane lane[];
};

static inline uint64_t stk_stream_shards_of(const stk_stream *s, uint32_t lane)
{
    uint64_t all = (uint64_t)s->world * s->lanes, first = (uint64_t)lane * s->world + s->rank;

    return (s->names.n - first + all - 1) / all;
}

/* stream_blocks.c */
stk_stream_run *stk_stream_run_of(stk_stream *s, stk_error *err); /* the run of this process */
void stk_stream_close(stk_stream *s);
void stk_stream_leave(stk_stream_lane *l); /* a lane calls it last */
/* Waits for sample `number` of this rank; its block stays until release().  poll: returns
 * STK_PENDING after about STK_HALT_MS, and the next call with this number goes on waiting. */
int stk_stream_acquire(stk_stream *s, uint64_t number, int poll, stk_error *err);
void stk_stream_release(stk_stream *s, uint64_t number);
/* Makes lanes begin again before this sample, counted over all ranks, and forgets failures. */
void stk_stream_retry(stk_stream *s, uint64_t sample);
/* A field of an acquired sample; data NULL: the sample does not have it. */
stk_bytes stk_stream_bytes(stk_stream *s, uint64_t number, uint32_t field);
/* The shard of a sample that is in memory; UINT64_MAX: it is not. */
uint64_t stk_stream_shard(stk_stream *s, uint64_t number);
/* The shard that is being read for a sample that has not come yet; UINT64_MAX: not known. */
uint64_t stk_stream_awaited(stk_stream *s, uint64_t number);
/* Stores a lane's next sample; waits for room.  part: by field.  STK_ECLOSED: the lane has to begin
 * again, or to end. */
int stk_stream_put(stk_stream_lane *l, const stk_stream_sample *x, const stk_stream_part *part,
                   stk_error *err);
/* Takes the place where the lane begins in this turn.  STK_ECLOSED: the lane has to end. */
int stk_stream_begin(stk_stream_lane *l);
int stk_stream_is_over(stk_stream_lane *l);  /* 1: the lane has to begin again, or to end */
void stk_stream_give_up(stk_stream_lane *l); /* out of memory: rows get that error */
/* Call when the lane can't read on.  Returns when a row asks again, or the lane is over. */
void stk_stream_stuck(stk_stream_lane *l, const stk_error *why);

/* stream_data.c */
void stk_stream_free(stk_stream *s);

/* stream_lane.c */
void *stk_stream_lane_main(void *lane);
/* Sets s->fields to the names of the fields of the first samples, in the first shard that has
 * any. */
int stk_stream_look(stk_stream *s, stk_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h - everything a loader decides before its first thread runs, in parts.  loader/plan_*.c
 * make it; the engine and the rows read it.
 *
 * One file of the loader makes each part, from the options and the parts before it.  A part may
 * point to a service (pool, account, block cache, GPU): the pointer is constant, and the service is
 * thread-safe.  Not part of the plan: the schedule, which set_weights() and similar calls replace
 * while the ring is drained; sizes that are learned; numbers that change while threads run. */
#ifndef STOKER_PLAN_H
#define STOKER_PLAN_H

#include <stoker/stoker.h>

#include "base/log.h"
#include "base/stall.h"
#include "chain/chain.h"
#include "codec/written.h"
#include "batch/batch_ops.h"
#include "batch/stack.h"
#include "gpu/array_upload.h"
#include "gpu/device.h"
#include "gpu/pin.h"
#include "fetch/request.h"
#include "fetch/field_cache.h"
#include "index/seeklearn.h"
#include "kern/kern.h"
#include "order/schedule.h"
#include "row/plan_array.h"

#define STK_MAX_WORKERS 256
#define STK_MAX_SLOTS 256
#define STK_MAX_STAGES 16
#define STK_MAX_DRIVEN 8
#define STK_PEEK_OUTPUTS 4 /* rows with more outputs always use a request */

/* a function of the program that is called for bad samples, which are then not replaced */
typedef struct stk_leave {
    /* The worker that met the sample calls it.  The row stays empty, with valid 0. */
    void (*fn)(void *cookie, const stk_batch *batch, uint32_t row, const stk_error *why);
    void *cookie;
} stk_leave;

typedef struct stk_plan_policy { /* settings that hold for every row */
    uint64_t seed;               /* seed of the order and of random draws */
    uint64_t max_pixels;         /* larger pictures are bad samples */
    uint64_t skip_budget;        /* bad samples allowed per epoch; 0: any number */
    stk_on_error on_error;
    stk_leave leave;         /* with on_error="skip"; fn NULL: another sample replaces a bad one */
    stk_registry *registry;  /* ops, codecs and decoders for the chains; NULL: the process's */
    stk_draw_observer watch; /* called after each draw; watch.drawn NULL: there is none */
    stk_caller caller;       /* runs functions of the program; call NULL: there are none */
    stk_log log;
    uint64_t wait_ns; /* after this wait for a batch, the log says what is waited for */
    stk_stall stall;
} stk_plan_policy;

typedef struct stk_plan_ranks { /* this rank's share, from the options */
    stk_rank_split split;       /* `samples` is not set here: it depends on the schedule */
    /* most rows of a batch; with max_tokens 2, until the schedule knows the number */
    uint32_t rows;
} stk_plan_ranks;

typedef struct stk_plan_data {
    stk_dataset **set; /* holds a reference to each */
    uint32_t n;
    int immediate;   /* all data sets are arrays, so rows need no request; 0: none is */
    int remote;      /* some shards are remote */
    int unversioned; /* true if the index knows some remote shard by its size alone */
    int peeks;       /* some shards are in memory */
} stk_plan_data;

typedef struct stk_plan_gpu { /* all zero without a GPU */
    stk_device *device;
    int decode; /* true if the GPU decodes JPEGs and videos */
    int alone;  /* true if workers decode no video that the GPU can */
} stk_plan_gpu;

typedef struct stk_plan_chains {
    uint32_t n_out;
    stk_chain *chain;       /* by output */
    stk_out_plan *out;      /* by output; without what the GPU caches */
    stk_binding ***binding; /* [data set][output][schema] */
    /* [data set * n_out + output]: writes values with a type as bytes for a codec; NULL: none
     * needed */
    stk_written *written;
    const char **open_root; /* by output: folder of open(); NULL: no open() */
    stk_bytes *fallback;    /* by output: bytes for a missing field; data NULL: none */
    stk_array_plan *arrays; /* set if samples are rows of arrays, else NULL */
    uint64_t *start; /* data.n + 1: number of the first sample, window or row of each data set */
    int megatron;    /* true if samples are cut by Megatron's order */
} stk_plan_chains;

typedef struct stk_plan_batching {
    uint32_t rows;       /* most rows of a batch */
    uint32_t tickets;    /* tickets per slot: rows, or pieces of packed rows */
    uint32_t claim_size; /* tickets claimed at once */
    int spans; /* true if neighbours are made together, and claim_size is large for that */
    uint32_t n_stages;
    /* batch ops, then stages of the program; the copy to a GPU is the last */
    stk_stage stage[2 * STK_MAX_STAGES + 1];
    stk_batch_op **op; /* the batch ops among them */
    uint32_t n_ops;
} stk_plan_batching;

typedef struct stk_plan_memory {
    uint64_t limit;
    uint32_t slots;  /* slots of the ring */
    int slots_short; /* true if memory_limit allows fewer than were wanted */
    /* true if the loader chooses how many slots it uses */
    int slots_free;
    uint32_t open_slots; /* free slots that are collected before new ones open; 0: each at once */
    uint32_t wake_slots; /* slots that are claimed before a waiting consumer is woken; 0: at once */
    int pinned;          /* true if the pool's memory is page-locked */
    stk_pool *pool;      /* outputs.common owns it once that is made */
    /* page-locked memory for batches that stay on the host (the pool's); NULL: unlocked memory */
    stk_pins *pins;
    stk_account *reads; /* account of a quarter of the limit, so that reads leave room for rows */
    /* bytes of remote reads that may be in flight; 0: only their number is limited */
    uint64_t in_flight;
    stk_ration *ration; /* shares the limit among the scratch memories of workers */
    stk_cache *blocks;  /* blocks that samples share */
    size_t ragged_cap;  /* most bytes that are planned for a ragged output */
} stk_plan_memory;

typedef struct stk_array_place { /* where an array is on the GPU */
    int on_gpu;
    uint64_t at;
} stk_array_place;

typedef struct stk_plan_cache { /* cache="device" */
    /* host cache of fields of samples whose pictures are on the GPU; NULL: none */
    stk_field_cache *fields;
    uint32_t *keep;          /* by output: stk_out_plan.keep; NULL: no cache */
    uint32_t *clip;          /* by output: the same for clips, whose decoded frames are cached */
    stk_array_cache *arrays; /* arrays on the GPU (owned by the device); NULL: none */
    stk_out_gather *gather;  /* by output: how rows are gathered on the GPU; NULL: none are */
    stk_array_place *place;  /* [data set * n_out + output]; NULL: no array is on the GPU */
    stk_array_move *move;    /* the copies to the GPU, one per array */
    uint32_t n_moves;
} stk_plan_cache;

typedef struct stk_plan_outputs { /* what batches use, even after the loader is closed */
    stk_batch_plan *common;
} stk_plan_outputs;

typedef struct stk_plan_io {
    uint32_t workers;        /* workers at the start */
    int workers_free;        /* true if the loader chooses how many of them work */
    uint32_t threads, depth; /* threads for reads that block; reads in flight */
    int inline_mode;         /* num_workers=0: the consumer is the worker */
    int bound, node;         /* bound: workers run on NUMA node `node` (-1: unknown); 0: anywhere */
    uint32_t n_driven;       /* sources whose drive() runs in a thread of the engine */
    const stk_source *driven[STK_MAX_DRIVEN];
} stk_plan_io;

typedef struct stk_row_table stk_row_table; /* row/row.h */

typedef struct stk_trace { /* names ranges for profilers; range NULL: no profiler */
    void (*range)(const void *cookie, const char *name); /* name NULL: ends the range */
    const void *cookie;
} stk_trace;

/* How well the first boxes or keypoints of an output fit their pictures, before any op. */
typedef struct stk_box_fit {
    /* how many were looked at, and how many have their middle outside the picture */
    _Atomic uint32_t seen, outside;
    _Atomic uint32_t shares; /* how many have only numbers in 0..1 */
    _Atomic int told;        /* 1 after a misfit was logged */
} stk_box_fit;

/* Why workers make an output, as a sentence in two parts: `what`, which may be empty, then `why`.
 * why NULL: a GPU makes the output if it can decode the field. */
typedef struct stk_made {
    const char *what, *why;
} stk_made;

typedef struct stk_plan_rows { /* how rows are made; planned last, from all other parts */
    /* usual: for a batch.  resident: for a batch whose arrays are on the GPU.  repair: for rows
     * that are made again because the GPU could not.  They may be the same table. */
    const stk_row_table *usual, *resident, *repair;
    stk_row_table *table;   /* memory of these tables */
    struct stk_row_ops *op; /* memory of what they point to */
    uint32_t *order; /* order of outputs, if some follow others or share a decode; else NULL */
    /* by output: the first output with the same picture, if some share one; else NULL */
    uint32_t *share;
    /* by output: why its field is read whole; NULL: if the index has points for the field, only the
     * needed parts are read */
    const char **whole;
    _Atomic uint64_t *in_parts; /* by output: rows so far of whose field only parts were read */
    stk_made *made;             /* by output */
    char no_clips[240]; /* why workers decode the clips instead of NVDEC; "": NVDEC decodes them */
    const stk_kern *kern;
    uint32_t *measured; /* if set, rows are only measured, and their lengths are stored here */
    stk_learn **learn;  /* by data set: collects seek points; NULL: there are none to find */
    stk_box_fit *fit;   /* by output: for boxes and keypoints that follow a picture */
    stk_trace trace;
    /* by output: decoders that go on from one clip of a video to the next; NULL: each clip is
     * decoded by itself */
    struct stk_sessions **sessions;
} stk_plan_rows;

typedef struct stk_plan {
    stk_plan_policy policy;
    stk_plan_ranks ranks;
    stk_plan_data data;
    stk_plan_gpu gpu;
    stk_plan_chains chains;
    stk_schedule *schedule; /* the consumer changes it while no slot is open */
    stk_plan_batching batching;
    stk_plan_memory memory;
    stk_plan_cache cache;
    stk_plan_outputs outputs;
    stk_plan_io io;
    stk_plan_rows rows;
} stk_plan;

/* fingerprint.c: the fingerprint of the data and the chosen samples that a state stores */
int stk_plan_print(const stk_plan *p, const stk_schedule *s, stk_fingerprint *out, stk_error *err);

#endif

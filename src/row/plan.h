/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h - what a loader has decided before its first thread runs, in parts.
 *
 * Each part is made by one file of the loader from the options and the parts before it.  A part may
 * point to a service (pool, account, block cache, GPU): the pointer stays, the service is
 * thread-safe.  Not in here: the schedule, which set_weights() and similar calls replace while the
 * ring is drained, sizes that are learned, and numbers that change while threads run. */
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
#define STK_PEEK_OUTPUTS 4 /* more take the long way */

typedef struct stk_leave { /* who is told of a bad sample, in place of another one that stands in */
    /* Its row stays empty, with valid 0.  Called by the worker that met it. */
    void (*fn)(void *cookie, const stk_batch *batch, uint32_t row, const stk_error *why);
    void *cookie;
} stk_leave;

typedef struct stk_plan_policy { /* what holds for every row */
    uint64_t seed;               /* of order and draws */
    uint64_t max_pixels;         /* larger pictures are bad data */
    uint64_t skip_budget;        /* bad samples of an epoch; 0: no bound */
    stk_on_error on_error;
    stk_leave leave;         /* of on_error="skip"; fn NULL: another sample stands in */
    stk_registry *registry;  /* what chains may name, and decoders; NULL: the process's */
    stk_draw_observer watch; /* called after each draw; drawn NULL: none */
    stk_caller caller;       /* what `call` runs; call NULL: nothing */
    stk_log log;
    uint64_t wait_ns; /* a consumer that waits for longer is told for what, in the log */
    stk_stall stall;
} stk_plan_policy;

typedef struct stk_plan_ranks { /* this rank among the others, as asked for */
    stk_rank_split split;       /* its `samples` is not set: that is the schedule's */
    uint32_t rows;              /* a batch has at most so many; max_tokens: 2, not known yet */
} stk_plan_ranks;

typedef struct stk_plan_data {
    stk_dataset **set; /* a reference each */
    uint32_t n;
    int immediate; /* all are, as arrays: rows need no request; 0: none is */
    int remote;    /* some shards are far away */
    int peeks;     /* some shards are in memory */
} stk_plan_data;

typedef struct stk_plan_gpu { /* all zero without a GPU */
    stk_device *device;
    int decode; /* JPEGs are decoded there */
} stk_plan_gpu;

typedef struct stk_plan_chains {
    uint32_t n_out;
    stk_chain *chain;       /* of each output */
    stk_out_plan *out;      /* of each output, but for what the GPU keeps of it */
    stk_binding ***binding; /* [data set][output][schema] */
    /* [data set * n_out + output]: what turns into bytes; NULL: nothing does */
    stk_written *written;
    const char **open_root; /* of the chains */
    stk_bytes *fallback;    /* of the chains; no data: none */
    stk_array_plan *arrays; /* samples are rows of arrays; NULL: they are not */
    uint64_t *start;        /* data.n + 1: samples, windows or rows counted through all data sets */
    int megatron;           /* samples are cut as Megatron's order says */
} stk_plan_chains;

typedef struct stk_plan_batching {
    uint32_t rows;       /* of a batch, at most */
    uint32_t tickets;    /* of a slot: rows, or pieces of packed rows */
    uint32_t claim_size; /* tickets that are claimed at once */
    int spans;           /* ... so many because samples follow each other and are made together */
    uint32_t n_stages;
    /* batch_ops, then the caller's; with a GPU its own is the last */
    stk_stage stage[2 * STK_MAX_STAGES + 1];
    stk_batch_op **op; /* the batch_ops among them */
    uint32_t n_ops;
} stk_plan_batching;

typedef struct stk_plan_memory {
    uint64_t limit;
    uint32_t slots;  /* of the ring */
    int slots_short; /* memory_limit allows no more of them */
    /* their number is left to the loader: fewer are used while that is enough */
    int slots_free;
    uint32_t open_slots; /* so many are free before new ones open; 0: at once */
    uint32_t wake_slots; /* so many are claimed before a consumer that waits is woken; 0: at once */
    int pinned;          /* the pool's memory is page-locked */
    stk_pool *pool;      /* owned by outputs.common, once that is made */
    stk_pins *pins;     /* batches stay here in page-locked memory; the pool's; NULL: they do not */
    stk_account *reads; /* a quarter of the limit: what is read leaves room for what is made */
    uint64_t in_flight; /* bytes of remote reads in flight; 0: only their number counts */
    stk_ration *ration; /* of the workers' scratch */
    stk_cache *blocks;  /* that samples share */
    size_t ragged_cap;  /* the most that a ragged output plans for */
} stk_plan_memory;

typedef struct stk_array_place { /* of an array on the GPU */
    int on_gpu;
    uint64_t at;
} stk_array_place;

typedef struct stk_plan_cache { /* cache="device" */
    stk_field_cache *fields;    /* fields beside pictures that are on the GPU; NULL: none */
    uint32_t *keep;             /* by output: stk_out_plan.keep; NULL: none */
    stk_array_cache *arrays;    /* arrays that the GPU keeps (the device's); NULL: none */
    stk_out_gather *gather;     /* by output; NULL: none */
    stk_array_place *place;     /* [data set * n_out + output]; NULL: none */
    stk_array_move *move;       /* what is copied to the GPU, each array once */
    uint32_t n_moves;
} stk_plan_cache;

typedef struct stk_plan_outputs { /* what batches need, also after the loader is closed */
    stk_batch_plan *common;
} stk_plan_outputs;

typedef struct stk_plan_io {
    uint32_t workers;        /* at the start */
    int workers_free;        /* how many is left to the loader: fewer work while that is enough */
    uint32_t threads, depth; /* that block; reads in flight */
    int inline_mode;         /* num_workers=0: the consumer is the worker */
    int bound, node;         /* workers stay near this NUMA node (-1: not known); 0: anywhere */
    uint32_t n_driven;       /* sources whose drive() needs a thread */
    const stk_source *driven[STK_MAX_DRIVEN];
} stk_plan_io;

typedef struct stk_row_table stk_row_table; /* row/row.h */

typedef struct stk_trace { /* ranges that profilers show; range NULL: none */
    void (*range)(const void *cookie, const char *name); /* name NULL: it ends here */
    const void *cookie;
} stk_trace;

/* How boxes or keypoints of an output fit their pictures, as they are filed; of the first ones. */
typedef struct stk_box_fit {
    _Atomic uint32_t seen, outside; /* their middles are not in the picture */
    _Atomic uint32_t shares;        /* all their numbers are within 0..1 */
    _Atomic int told;
} stk_box_fit;

typedef struct stk_plan_rows { /* made last, from all the others */
    /* Of a batch, of one whose arrays are on the GPU, and of rows that are made again for the GPU:
     * the same table where nothing differs. */
    const stk_row_table *usual, *resident, *repair;
    stk_row_table *table;          /* the memory of all of them ... */
    const struct stk_row_ops **op; /* ... and of what they point to */
    uint32_t *order; /* of outputs, where some follow others or share a decode; or NULL */
    uint32_t *share; /* by output: the first of those that decode the same picture; or NULL */
    /* By output: why its field is read whole.  NULL: where it has points, only what is seen is */
    const char **whole;
    const stk_kern *kern;
    uint32_t *measured; /* lengths are stored here in place of rows; NULL: rows are made */
    stk_learn **learn;  /* by data set; NULL: nothing to learn there, or nowhere */
    stk_box_fit *fit;   /* by output: what workers found of those that follow a picture */
    stk_trace trace;
} stk_plan_rows;

typedef struct stk_plan {
    stk_plan_policy policy;
    stk_plan_ranks ranks;
    stk_plan_data data;
    stk_plan_gpu gpu;
    stk_plan_chains chains;
    stk_schedule *schedule; /* a service: the consumer changes it while no slot is open */
    stk_plan_batching batching;
    stk_plan_memory memory;
    stk_plan_cache cache;
    stk_plan_outputs outputs;
    stk_plan_io io;
    stk_plan_rows rows;
} stk_plan;

/* fingerprint.c: what a state remembers of the data and of the samples that take part */
int stk_plan_print(const stk_plan *p, const stk_schedule *s, stk_fingerprint *out, stk_error *err);

#endif

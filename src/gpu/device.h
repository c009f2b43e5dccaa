/* SPDX-License-Identifier: Apache-2.0 */
/* device.h - the last stage of a batch: its outputs to a GPU.
 *
 * The worker that does the last row of a batch queues everything on one of a few streams: one copy
 * a tensor, pictures as slabs (slab.h) with the kernels after them, and at the end a call that says
 * the batch is there.  So a batch that is handed out is whole and still, for whatever stream the
 * consumer likes; nothing ever waits for the device but for a free stream.  What of it the consumer
 * gets is in buffers of a pool (gpu_pool.h); where it was gathered is free as soon as the batch is
 * handed out. */
#ifndef STOKER_DEVICE_H
#define STOKER_DEVICE_H

#include "batch/stack.h"
#include "gpu/gpu_pool.h"
#include "gpu/picture_cache.h"
#include "gpu/array_cache.h"

#define STK_MAX_TRANSFERS 8

typedef struct stk_device stk_device;

typedef struct stk_device_options {
    const char *name;      /* "cuda", "cuda:1" */
    uint64_t memory_limit; /* bytes of the GPU; 0: a quarter of it */
    uint32_t sm_limit;     /* multiprocessors that pictures may keep busy; 0: all */
    uint32_t transfers;    /* batches on their way at once; 0: chosen */
    uint32_t outputs;      /* of a batch, at most */
} stk_device_options;

int stk_device_open(stk_device **out, const stk_device_options *o, stk_error *err);
/* No batch is on its way any more. */
void stk_device_close(stk_device **d);

uint32_t stk_device_gpu(const stk_device *d);  /* number + 1, as in stk_tensor */
int stk_device_node(const stk_device *d);      /* its NUMA node; -1: not known */
uint64_t stk_device_room(const stk_device *d); /* bytes there that batches may take */

/* There are so many slots: as many batches go together as leave others to be made meanwhile. */
void stk_device_group(stk_device *d, uint32_t slots);

/* Keep pictures there from now on, for outputs whose plan says so.  o->bytes 0: half of what is
 * free there; `most`: more than that is not needed; 0: not known.  Before the first batch. */
int stk_device_keep(stk_device *d, const stk_picture_cache_options *o, uint64_t most,
                    stk_error *err);
/* Room for arrays of so many bytes; *out NULL: that is more than `limit` (0: half of what is
 * free). */
int stk_device_array_cache(stk_device *d, uint64_t bytes, uint64_t limit, stk_array_cache **out,
                           stk_error *err);
stk_picture_cache *stk_device_picture_cache(const stk_device *d); /* NULL: none are cached */

/* Page-locked memory, for what goes over to that GPU. */
stk_memory stk_pinned_memory(int gpu);

/* Receive batches until stk_device_shut(): the life of one thread. */
void stk_device_complete(stk_device *d);
void stk_device_shut(stk_device *d);

/* The stage: answers STK_PENDING, and stk_ticket_done() follows.  `state` is the device. */
int stk_device_run(void *state, stk_batch *b, stk_ticket *ticket, stk_error *err);

/* Rows that the GPU could not make were made again here, in every output: bring row `row` over. */
int stk_device_repair(stk_device *d, stk_batch *b, uint32_t row, stk_error *err);

/* All such rows are there: what of the batch waited for them (stk_batch.mixes). */
int stk_device_repaired(stk_device *d, stk_batch *b, stk_error *err);

typedef struct stk_device_stats {
    uint64_t copy_ns, picture_ns; /* of the GPU's time */
    uint64_t copied;              /* bytes that went over */
    uint64_t pictures, redone;    /* decoded by the GPU; decoded again by the CPU */
    uint64_t memory, memory_peak, memory_limit;
    uint64_t hits, misses; /* pictures that were there already; that were sent */
    stk_picture_cache_stats cache;
} stk_device_stats;
void stk_device_figures(stk_device *d, stk_device_stats *out);

void stk_device_range(const stk_device *d, const char *name); /* NVTX: from here; NULL: to here */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* device.h - the last stage of a batch: it copies the outputs to a GPU.  The plan opens a device
 * (loader/plan_gpu.c), workers run the stage, and one thread of the engine completes batches.
 *
 * The worker that made the last row of a batch queues all work of the batch on one of a few
 * streams: one copy per tensor, slabs of pictures (slab.h) with the kernels that decode them, and
 * at the end a call that reports the batch as complete.  So a batch is handed out only when all of
 * it is on the GPU, and any stream may read it.  Nothing waits for the GPU except for a free
 * stream.  The outputs are in buffers of a pool (gpu_pool.h); staging memory is free again as soon
 * as the batch is complete. */
#ifndef STOKER_DEVICE_H
#define STOKER_DEVICE_H

#include "batch/stack.h"
#include "gpu/gpu_pool.h"
#include "gpu/picture_cache.h"
#include "gpu/array_cache.h"
#include "gpu/gpu_clips.h"

#define STK_MAX_TRANSFERS 8

typedef struct stk_device stk_device;

typedef struct stk_device_options {
    const char *name;      /* "cuda", "cuda:1" */
    uint64_t memory_limit; /* bytes of GPU memory; 0: a quarter of it */
    uint32_t sm_limit;     /* multiprocessors that decoding may use; 0: all */
    uint32_t transfers;    /* transfers in flight at once; 0: chosen */
    uint32_t outputs;      /* most outputs of a batch */
} stk_device_options;

int stk_device_open(stk_device **out, const stk_device_options *o, stk_error *err);
/* Call when no batch is in flight any more. */
void stk_device_close(stk_device **d);

uint32_t stk_device_gpu(const stk_device *d);  /* number + 1, as in stk_tensor */
int stk_device_node(const stk_device *d);      /* its NUMA node; -1: unknown */
uint64_t stk_device_room(const stk_device *d); /* bytes of GPU memory that batches may take */

/* Sets how many batches one transfer takes: as many as leave slots to be filled meanwhile. */
void stk_device_group(stk_device *d, uint32_t slots);

/* From now on caches pictures on the GPU, for outputs whose plan says so.  o->bytes 0: half of the
 * free memory.  most: bytes that are enough; 0: unknown.  Call before the first batch. */
int stk_device_keep(stk_device *d, const stk_picture_cache_options *o, uint64_t most,
                    stk_error *err);
/* GPU memory for arrays of `bytes` bytes.  *out is NULL if that is more than `limit` (0: half of
 * the free memory). */
int stk_device_array_cache(stk_device *d, uint64_t bytes, uint64_t limit, stk_array_cache **out,
                           stk_error *err);
typedef struct stk_device_clips_options {
    const stk_log *log; /* must live as long as the device; so must `host` */
    stk_account *host;  /* account of host memory of clips that wait for the GPU */
} stk_device_clips_options;

/* From now on clips of videos may be decoded on the GPU.  STK_ENOTSUP: there is no NVDEC.  Call
 * before the first batch. */
int stk_device_decode_clips(stk_device *d, const stk_device_clips_options *how, stk_error *err);
stk_gpu_clips *stk_device_clips(const stk_device *d); /* NULL: the GPU decodes no clips */
/* Counts a clip.  on_gpu 1: the GPU decodes it; 0: a worker does. */
void stk_device_count_clip(stk_device *d, int on_gpu);

stk_picture_cache *stk_device_picture_cache(const stk_device *d); /* NULL: no pictures are cached */

/* Page-locked host memory, for copies to that GPU. */
stk_memory stk_pinned_memory(int gpu);

/* Completes batches until stk_device_shut(); a thread of its own runs it. */
void stk_device_complete(stk_device *d);
void stk_device_shut(stk_device *d);

/* The batch stage: returns STK_PENDING, and stk_ticket_done() follows.  `state` is the device. */
int stk_device_run(void *state, stk_batch *b, stk_ticket *ticket, stk_error *err);

/* Copies row `row` of every output, which the CPU made again because the GPU could not. */
int stk_device_repair(stk_device *d, stk_batch *b, uint32_t row, stk_error *err);

/* Call after all rows of a batch were repaired: runs the batch ops that waited
 * (stk_batch.mixes). */
int stk_device_repaired(stk_device *d, stk_batch *b, stk_error *err);

typedef struct stk_device_stats {
    uint64_t copy_ns, picture_ns; /* time on the GPU */
    uint64_t copied;              /* bytes copied to the GPU */
    uint64_t pictures, redone;    /* pictures decoded by the GPU, and decoded again by the CPU */
    uint64_t clips, clips_by_workers; /* clips of videos decoded by the GPU, and by workers */
    uint64_t clip_queue_ns;           /* time in which some clip waited for NVDEC */
    uint64_t memory, memory_peak, memory_limit;
    uint64_t hits, misses; /* pictures found in the cache, and sent */
    stk_picture_cache_stats cache;
} stk_device_stats;
void stk_device_figures(stk_device *d, stk_device_stats *out);

/* begins an NVTX range; NULL ends it */
void stk_device_range(const stk_device *d, const char *name);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* cuda.h - the functions of libstoker_cuda, as one table that is found at run time (gpu/load.h).
 * The folder gpu/ calls them.
 *
 * Nothing else of Stoker links CUDA.  Calls return 0 or CUDA's error number, which say() puts into
 * words.  Streams and events are CUDA's own handles, so those of other libraries in the process
 * work, too.  A GPU is named by its number.  Every call names one, and leaves the calling thread's
 * current GPU as it was. */
#ifndef STOKER_CUDA_H
#define STOKER_CUDA_H

#include <stddef.h>
#include <stdint.h>

#include "cuda/gpu_gather.h"
#include "cuda/slab.h"
#include "kern/blend.h"

#define STK_CUDA_ABI 9

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stk_gpu_info {
    char name[64];
    uint64_t memory, free_memory;
    uint32_t sms;
    int32_t node; /* NUMA node; -1: not known */
} stk_gpu_info;

typedef enum stk_copy { STK_COPY_IN = 1, STK_COPY_OUT, STK_COPY_WITHIN } stk_copy;

typedef struct stk_cuda {
    uint32_t abi;
    const char *(*say)(int rc);
    int (*count)(int *n);
    int (*current)(int *gpu); /* the calling thread's current GPU */
    int (*bind)(int gpu);     /* makes it the current one, on a thread of the library */
    int (*info)(int gpu, stk_gpu_info *out);
    int (*pinned_alloc)(int gpu, size_t size, void **out); /* all GPUs may read it */
    void (*pinned_free)(void *p);
    int (*alloc)(int gpu, size_t size, void **out);
    void (*free)(int gpu, void *p);                   /* waits until no work uses it */
    int (*stream_open)(int gpu, int low, void **out); /* low: with low priority */
    void (*stream_close)(int gpu, void *stream);
    int (*stream_wait)(int gpu, void *stream,
                       void *event); /* until what the event was recorded after */
    int (*stream_sync)(int gpu, void *stream);
    int (*event_open)(int gpu, int timed, void **out);
    void (*event_close)(int gpu, void *event);
    int (*event_record)(int gpu, void *event, void *stream);
    int (*event_done)(int gpu, void *event,
                      int wait); /* 1: what it was recorded after is finished */
    int (*event_ms)(int gpu, void *from, void *to, float *out); /* call when both are finished */
    int (*copy)(int gpu, void *dst, const void *src, size_t size, stk_copy how, void *stream);
    int (*zero)(int gpu, void *dst, size_t size, void *stream);
    /* Calls fn on a thread of CUDA when the stream gets there, also after failed work (rc is its
     * error).  fn must make no CUDA calls. */
    int (*call)(int gpu, void *stream, void (*fn)(void *cookie, int rc), void *cookie);
    int (*pictures)(int gpu, const stk_pic_launch *l, void *stream);
    int (*gather)(int gpu, const stk_gpu_gather *g, void *stream);
    int (*blend)(int gpu, const stk_blend *m, void *stream);
    void (*range_push)(const char *name); /* NVTX, of the calling thread */
    void (*range_pop)(void);
} stk_cuda;

/* The one function that libstoker_cuda exports.  NULL: it was built for another ABI. */
typedef const stk_cuda *(*stk_cuda_table_fn)(uint32_t abi);

#ifdef __cplusplus
}
#endif
#endif

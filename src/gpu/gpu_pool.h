/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_pool.h - memory of a GPU for what batches become there: buffers that come back when their
 * last holder lets go, and are used again when the GPU is through with them.
 *
 * Letting go says only that the program has queued all its uses.  So the holder that lets go names
 * the stream they are queued on (stk_buffer_used), and the next user's stream waits for that place.
 * The pool outlives its loader while a buffer is out. */
#ifndef STOKER_GPU_POOL_H
#define STOKER_GPU_POOL_H

#include "base/buf.h"
#include "gpu/load.h"

typedef struct stk_gpu_pool stk_gpu_pool; /* Thread: any. */

int stk_gpu_pool_open(stk_gpu_pool **out, const stk_cuda *cuda, int gpu, uint64_t limit,
                      stk_error *err);
void stk_gpu_pool_close(
    stk_gpu_pool **f); /* the owner lets go; buffers that are out keep it alive */

/* A buffer of at least `size` bytes with one holder, for work on `stream`: earlier uses are through
 * before that goes on.  STK_ELIMIT: the limit is reached; STK_ENOMEM: the GPU has no more. */
int stk_gpu_pool_get(stk_gpu_pool *f, size_t size, void *stream, stk_buffer **out, stk_error *err);

uint64_t stk_gpu_pool_bytes(stk_gpu_pool *f, uint64_t *peak);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_pool.h - GPU memory for outputs of batches: buffers that return to the pool when their last
 * holder releases them, and are used again when the GPU has finished with them.  device.c owns it.
 *
 * Releasing a buffer means only that the program has queued all its uses.  So the holder names the
 * stream on which they are queued (stk_buffer_used), and the next user's stream waits for that
 * place.  The pool outlives its loader while a buffer is in use. */
#ifndef STOKER_GPU_POOL_H
#define STOKER_GPU_POOL_H

#include "base/buf.h"
#include "gpu/load.h"

typedef struct stk_gpu_pool stk_gpu_pool; /* Thread: any. */

int stk_gpu_pool_open(stk_gpu_pool **out, const stk_cuda *cuda, int gpu, uint64_t limit,
                      stk_error *err);
void stk_gpu_pool_close(stk_gpu_pool **f); /* the owner releases it; buffers in use keep it alive */

/* A buffer of at least `size` bytes with one holder, for work on `stream`, which waits for earlier
 * uses.  STK_ELIMIT: the limit is reached.  STK_ENOMEM: the GPU has no more memory. */
int stk_gpu_pool_get(stk_gpu_pool *f, size_t size, void *stream, stk_buffer **out, stk_error *err);

uint64_t stk_gpu_pool_bytes(stk_gpu_pool *f, uint64_t *peak);

#endif

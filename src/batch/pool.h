/* SPDX-License-Identifier: Apache-2.0 */
/* pool.h - memory for batches: buffers that return to the pool when their last holder releases
 * them. batch.c takes buffers; the loader owns the pool.
 *
 * The pool outlives its loader while a buffer is in use, so a tensor may be freed at any time, on
 * any thread. */
#ifndef STOKER_POOL_H
#define STOKER_POOL_H

#include "base/account.h"
#include "base/buf.h"
#include "base/err.h"

typedef struct stk_pool stk_pool; /* Thread: any. */

int stk_pool_open(stk_pool **out, const stk_memory *memory, uint64_t limit, stk_error *err);
/* no more batches are made: frees idle buffers now, the others when they return */
void stk_pool_shut(stk_pool *p);
void stk_pool_close(stk_pool **p); /* the owner releases it; buffers in use keep it alive */

int stk_pool_trim(stk_pool *p); /* frees idle buffers.  1: there were some */

/* A buffer of at least `size` bytes, with one holder.  NULL: the limit is reached, or there is no
 * memory. */
stk_buffer *stk_pool_get(stk_pool *p, size_t size);
/* The same; *no_memory is 1 if the system has no memory, 0 if the limit is reached. */
stk_buffer *stk_pool_try(stk_pool *p, size_t size, int *no_memory);
stk_account *stk_pool_account(stk_pool *p);
uint32_t stk_pool_out(const stk_pool *p); /* buffers in use.  Thread: any */

#endif

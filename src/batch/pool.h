/* SPDX-License-Identifier: Apache-2.0 */
/* pool.h - the memory of batches: buffers that come back when their last holder lets go.
 *
 * The pool outlives its loader while a buffer is out, so that a tensor may be freed at any time,
 * on any thread. */
#ifndef STOKER_POOL_H
#define STOKER_POOL_H

#include "base/account.h"
#include "base/buf.h"
#include "base/err.h"

typedef struct stk_pool stk_pool; /* Thread: any. */

int stk_pool_open(stk_pool **out, const stk_memory *memory, uint64_t limit, stk_error *err);
void stk_pool_shut(
    stk_pool *p); /* no more batches: idle buffers are freed now, the others when they come back */
void stk_pool_close(stk_pool **p); /* the owner lets go; buffers that are out keep it alive */

int stk_pool_trim(stk_pool *p); /* free idle buffers.  1: there were some */

/* A buffer of at least `size` bytes with one holder; NULL: the limit is reached or memory is
 * out. */
stk_buffer *stk_pool_get(stk_pool *p, size_t size);
/* The same; *no_memory tells the two apart: 1, the system has none. */
stk_buffer *stk_pool_try(stk_pool *p, size_t size, int *no_memory);
stk_account *stk_pool_account(stk_pool *p);
uint32_t stk_pool_out(const stk_pool *p); /* buffers that somebody holds.  Thread: any */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* far.h - memory of a GPU for what batches become there: buffers that come back when their last
 * holder lets go, and are used again when the GPU is through with them.
 *
 * Letting go says only that the program has queued all its uses.  So whoever lets go names the
 * stream they are queued on (stk_buffer_used), and the next user's stream waits for that place.  The
 * pool outlives its loader while a buffer is out. */
#ifndef STOKER_FAR_H
#define STOKER_FAR_H

#include "base/buf.h"
#include "gpu/load.h"

typedef struct stk_far stk_far; /* Thread: any. */

int stk_far_open(stk_far **out, const stk_cuda *cuda, int gpu, uint64_t limit, stk_error *err);
void stk_far_close(stk_far **f); /* the owner lets go; buffers that are out keep it alive */

/* A buffer of at least `size` bytes with one holder, for work on `stream`: earlier uses are through
 * before that goes on.  STK_ELIMIT: the limit is reached; STK_ENOMEM: the GPU has no more. */
int stk_far_get(stk_far *f, size_t size, void *stream, stk_buffer **out, stk_error *err);

uint64_t stk_far_bytes(stk_far *f, uint64_t *peak);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* buf.h - the one shared type: bytes with a count of holders and a function that frees them.
 * Batches, caches, the pool and the GPU's memory all use it. */
#ifndef STOKER_BASE_BUF_H
#define STOKER_BASE_BUF_H

#include <stdatomic.h>
#include <stoker/batch.h>

struct stk_buffer {
    _Atomic uint32_t refs;
    void *data;
    size_t size;
    void (*free)(stk_buffer *b); /* frees data and b itself; any thread */
    /* called when work that uses the buffer was queued on a GPU stream; NULL: host memory */
    void (*used)(stk_buffer *b, void *stream);
    void *cookie;
};

/* A heap buffer with one holder; its data follow the header.  NULL: no memory. */
stk_buffer *stk_buffer_new(size_t size);

#endif

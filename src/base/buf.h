/* SPDX-License-Identifier: Apache-2.0 */
/* buf.h - the one shared type: bytes with a count of holders and a way to free them. */
#ifndef STOKER_BASE_BUF_H
#define STOKER_BASE_BUF_H

#include <stdatomic.h>
#include <stoker/batch.h>

struct stk_buffer {
    _Atomic uint32_t refs;
    void *data;
    size_t size;
    void (*free)(stk_buffer *b);               /* frees data and b itself; any thread */
    void (*used)(stk_buffer *b, void *stream); /* NULL: host memory, uses are over when they are */
    void *cookie;
};

/* A heap buffer with one holder, its data after the header; NULL: no memory. */
stk_buffer *stk_buffer_new(size_t size);

#endif

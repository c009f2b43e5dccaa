/* SPDX-License-Identifier: Apache-2.0 */
/* buf.c - reference counts.  Release pairs with acquire so that the last holder sees all writes. */
#include "base/buf.h"

#include "base/mem.h"

static void heap_free(stk_buffer *b)
{
    stk_large_free(b, 64 + b->size);
}

stk_buffer *stk_buffer_new(size_t size)
{
    stk_buffer *b = size < SIZE_MAX / 4 ? stk_large_alloc(64 + size) : NULL;

    _Static_assert(sizeof(stk_buffer) <= 64, "data begins on its own cache line");
    if (!b)
        return NULL;
    atomic_init(&b->refs, 1);
    b->data = (char *)b + 64;
    b->size = size;
    b->free = heap_free;
    b->used = NULL;
    b->cookie = NULL;
    return b;
}

void stk_buffer_ref(stk_buffer *b)
{
    atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
}

void stk_buffer_used(stk_buffer *b, void *stream)
{
    if (b && b->used)
        b->used(b, stream);
}

void stk_buffer_unref(stk_buffer *b)
{
    if (b && atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) == 1)
        b->free(b);
}

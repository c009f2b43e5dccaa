/* SPDX-License-Identifier: Apache-2.0 */
/* array_cache.c - two page-locked chunks by turns, on a stream of low priority. */
#include "gpu/array_cache.h"

#include <assert.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "base/size.h"

struct stk_array_cache {
    const stk_cuda *cuda;
    int gpu;
    uint8_t *arena;
    uint64_t size;
    void *stream, *chunk[2], *sent[2]; /* sent: events after the copies */
    unsigned turn;
    _Atomic uint64_t filled;
    _Atomic int ready;
};

int stk_array_cache_open(stk_array_cache **out, const stk_cuda *cuda, int gpu, uint64_t bytes,
                         stk_error *err)
{
    stk_array_cache *s = STK_NEW(stk_array_cache);
    void *arena = NULL;
    int rc;

    *out = s;
    if (!s)
        return stk_fail_nomem(err, sizeof *s);
    s->cuda = cuda;
    s->gpu = gpu;
    s->size = bytes;
    rc = cuda->alloc(gpu, (size_t)bytes, &arena);
    s->arena = arena;
    if (!rc)
        rc = cuda->stream_open(gpu, 1, &s->stream);
    for (int i = 0; i < 2 && !rc; i++) {
        rc = cuda->event_open(gpu, 0, &s->sent[i]);
        if (!rc)
            rc = cuda->pinned_alloc(gpu, STK_ARRAY_CHUNK, &s->chunk[i]);
    }
    if (!rc)
        return 0;
    stk_array_cache_close(out);
    return stk_fail(err, STK_ENOMEM,
                    "cache=device: GPU %d gives no %" PRIu64 " MB: %s: lower device_cache_limit",
                    gpu, stk_size_mb(bytes), cuda->say(rc));
}

void stk_array_cache_close(stk_array_cache **sp)
{
    stk_array_cache *s = *sp;

    if (!s)
        return;
    *sp = NULL;
    if (s->stream) {
        s->cuda->stream_sync(s->gpu, s->stream);
        s->cuda->stream_close(s->gpu, s->stream);
    }
    for (int i = 0; i < 2; i++) {
        if (s->sent[i])
            s->cuda->event_close(s->gpu, s->sent[i]);
        if (s->chunk[i])
            s->cuda->pinned_free(s->chunk[i]);
    }
    if (s->arena)
        s->cuda->free(s->gpu, s->arena);
    stk_free(s);
}

void *stk_array_cache_room(stk_array_cache *s)
{
    unsigned i = s->turn % 2;

    return s->turn < 2 || s->cuda->event_done(s->gpu, s->sent[i], 1) ? s->chunk[i] : NULL;
}

int stk_array_cache_put(stk_array_cache *s, uint64_t at, size_t len)
{
    unsigned i = s->turn % 2;
    int rc = at > s->size || len > s->size - at;

    assert(len <= STK_ARRAY_CHUNK);
    assert(!stk_array_cache_there(s)); /* rows point into it once it is ready */
    if (!rc && len)
        rc = s->cuda->copy(s->gpu, s->arena + at, s->chunk[i], len, STK_COPY_IN, s->stream);
    if (!rc)
        rc = s->cuda->event_record(s->gpu, s->sent[i], s->stream);
    s->turn++;
    atomic_fetch_add_explicit(&s->filled, len, memory_order_relaxed);
    return rc ? STK_EIO : 0;
}

int stk_array_cache_ready(stk_array_cache *s)
{
    if (s->cuda->stream_sync(s->gpu, s->stream))
        return STK_EIO;
    atomic_store_explicit(&s->ready, 1, memory_order_release);
    return 0;
}

int stk_array_cache_there(const stk_array_cache *s)
{
    return atomic_load_explicit(&s->ready, memory_order_acquire);
}

const uint8_t *stk_array_cache_arena(const stk_array_cache *s, uint64_t *len)
{
    *len = s->size;
    return s->arena;
}

uint64_t stk_array_cache_filled(const stk_array_cache *s)
{
    return atomic_load_explicit(&s->filled, memory_order_relaxed);
}

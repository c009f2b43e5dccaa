/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_pool.c - one lock, one list of idle buffers, an event for each.
 *
 * An event is recorded after the last uses that were named.  Several streams are waited for one
 * after the other: the one that is named last waits for the event before it is recorded again. */
#include "gpu/gpu_pool.h"

#include <assert.h>

#include "base/lock.h"
#include "base/mem.h"
#include "base/size.h"

typedef struct gpu_buffer {
    stk_buffer b;
    stk_gpu_pool *pool;
    void *event; /* after the uses that were named; NULL: none were */
    int waits;   /* lock: the event was recorded since the buffer was taken */
    struct gpu_buffer *next;
} gpu_buffer;

struct stk_gpu_pool {
    const stk_cuda *cuda;
    int gpu;
    stk_mutex lock;
    gpu_buffer *idle;            /* lock */
    uint32_t out;                /* lock */
    int closed;                  /* lock */
    uint64_t bytes, peak, limit; /* lock */
};

int stk_gpu_pool_open(stk_gpu_pool **out, const stk_cuda *cuda, int gpu, uint64_t limit,
                      stk_error *err)
{
    stk_gpu_pool *f = STK_NEW(stk_gpu_pool);

    *out = f;
    if (!f)
        return stk_fail_nomem(err, sizeof *f);
    f->cuda = cuda;
    f->gpu = gpu;
    f->limit = limit;
    stk_mutex_init(&f->lock);
    return 0;
}

/* Freeing waits for the GPU, so never with the lock held: others would wait for it too. */
static void destroy_list(const stk_cuda *cuda, int gpu, gpu_buffer *x)
{
    while (x) {
        gpu_buffer *next = x->next;

        if (x->event)
            cuda->event_close(gpu, x->event);
        cuda->free(gpu, x->b.data);
        stk_free(x);
        x = next;
    }
}

/* All idle buffers leave the pool. */
static gpu_buffer *drop_idle_locked(stk_gpu_pool *f) STK_REQUIRES(f->lock)
{
    gpu_buffer *all = f->idle;

    for (const gpu_buffer *x = all; x; x = x->next) {
        assert(f->bytes >= x->b.size);
        f->bytes -= x->b.size;
    }
    f->idle = NULL;
    return all;
}

static void destroy(stk_gpu_pool *f)
{
    stk_mutex_destroy(&f->lock);
    stk_free(f);
}

static void buffer_back(stk_buffer *b)
{
    gpu_buffer *x = (gpu_buffer *)b;
    stk_gpu_pool *f = x->pool;
    int closed, last;

    stk_mutex_lock(&f->lock);
    assert(f->out && f->bytes >= b->size); /* a buffer comes back once */
    f->out--;
    closed = f->closed;
    x->next = closed ? NULL : f->idle;
    if (closed)
        f->bytes -= b->size;
    else
        f->idle = x;
    last = closed && !f->out;
    stk_mutex_unlock(&f->lock);
    if (closed)
        destroy_list(f->cuda, f->gpu, x);
    if (last)
        destroy(f);
}

static void buffer_used(stk_buffer *b, void *stream)
{
    gpu_buffer *x = (gpu_buffer *)b;
    stk_gpu_pool *f = x->pool;
    int rc = 0;

    stk_mutex_lock(&f->lock);
    if (!x->event)
        rc = f->cuda->event_open(f->gpu, 0, &x->event);
    if (!rc && x->waits)
        rc = f->cuda->stream_wait(f->gpu, stream, x->event);
    if (!rc)
        rc = f->cuda->event_record(f->gpu, x->event, stream);
    if (!rc)
        x->waits = 1;
    else
        f->cuda->stream_sync(f->gpu, stream); /* no event: be through with it before it is let go */
    stk_mutex_unlock(&f->lock);
}

void stk_gpu_pool_close(stk_gpu_pool **fp)
{
    stk_gpu_pool *f = *fp;
    gpu_buffer *idle;
    int last;

    if (!f)
        return;
    *fp = NULL;
    stk_mutex_lock(&f->lock);
    assert(!f->closed);
    idle = drop_idle_locked(f);
    f->closed = 1;
    f->out++; /* not gone before its buffers are */
    stk_mutex_unlock(&f->lock);
    destroy_list(f->cuda, f->gpu, idle);
    stk_mutex_lock(&f->lock);
    last = !--f->out;
    stk_mutex_unlock(&f->lock);
    if (last)
        destroy(f);
}

/* The idle buffer that fits without wasting more than half of itself. */
static gpu_buffer *take_idle_locked(stk_gpu_pool *f, size_t size) STK_REQUIRES(f->lock)
{
    for (gpu_buffer **at = &f->idle; *at; at = &(*at)->next) {
        gpu_buffer *x = *at;

        if (x->b.size >= size && x->b.size / 2 <= size) {
            *at = x->next;
            return x;
        }
    }
    return NULL;
}

/* Room for a new buffer is counted first; *dropped: buffers of other sizes that filled the
 * limit. */
static int count_locked(stk_gpu_pool *f, size_t size, gpu_buffer **dropped, stk_error *err)
    STK_REQUIRES(f->lock)
{
    if (f->bytes + size > f->limit)
        *dropped = drop_idle_locked(f);
    if (f->bytes + size > f->limit)
        return stk_fail(err, STK_ELIMIT,
                        "device_memory_limit is reached: %" PRIu64 " MB are in use, %zu MB more do "
                        "not fit into %" PRIu64 " MB: let batches go, lower prefetch, or raise it",
                        stk_size_mb(f->bytes), (size_t)stk_size_mb(size), stk_size_mb(f->limit));
    f->bytes += size;
    assert(f->bytes <= f->limit);
    f->peak = f->bytes > f->peak ? f->bytes : f->peak;
    f->out++;
    return 0;
}

static int make(stk_gpu_pool *f, size_t size, gpu_buffer **out, stk_error *err)
{
    gpu_buffer *x = STK_NEW(gpu_buffer);
    int rc;

    *out = NULL;
    if (!x)
        return stk_fail_nomem(err, sizeof *x);
    rc = f->cuda->alloc(f->gpu, size, &x->b.data);
    if (rc) {
        stk_free(x);
        return stk_fail(err, STK_ENOMEM, "GPU %d gives no %zu MB: %s", f->gpu,
                        (size_t)stk_size_mb(size), f->cuda->say(rc));
    }
    x->b.size = size;
    x->b.free = buffer_back;
    x->b.used = buffer_used;
    x->pool = f;
    *out = x;
    return 0;
}

static void uncount(stk_gpu_pool *f, size_t size)
{
    stk_mutex_lock(&f->lock);
    assert(f->out && f->bytes >= size); /* it was counted */
    f->bytes -= size;
    f->out--;
    stk_mutex_unlock(&f->lock);
}

int stk_gpu_pool_get(stk_gpu_pool *f, size_t size, void *stream, stk_buffer **out, stk_error *err)
{
    gpu_buffer *x, *dropped = NULL;
    int rc = 0, wait = 0;

    *out = NULL;
    stk_mutex_lock(&f->lock);
    x = take_idle_locked(f, size);
    if (x)
        f->out++;
    else
        rc = count_locked(f, size, &dropped, err);
    stk_mutex_unlock(&f->lock);
    destroy_list(f->cuda, f->gpu, dropped);
    STK_TRY(rc);
    if (!x && (rc = make(f, size, &x, err)) < 0) {
        uncount(f, size);
        return rc;
    }
    atomic_store_explicit(&x->b.refs, 1, memory_order_relaxed);
    if (x->waits)
        wait = f->cuda->stream_wait(f->gpu, stream, x->event);
    x->waits = 0;
    if (wait) {
        stk_buffer_unref(&x->b);
        return stk_fail(err, STK_EIO, "GPU %d: %s", f->gpu, f->cuda->say(wait));
    }
    *out = &x->b;
    return 0;
}

uint64_t stk_gpu_pool_bytes(stk_gpu_pool *f, uint64_t *peak)
{
    uint64_t n;

    stk_mutex_lock(&f->lock);
    n = f->bytes;
    *peak = f->peak;
    stk_mutex_unlock(&f->lock);
    return n;
}

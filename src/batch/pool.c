/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c - one lock, one list of idle buffers.  Taken a few times a batch, never per sample, and
 * never held while memory is made or freed or a GPU is waited for. */
#include "batch/pool.h"

#include <assert.h>

#include "base/lock.h"
#include "base/mem.h"
#include "base/table.h"

typedef struct pooled {
    stk_buffer b;
    stk_pool *pool;
    void *mark;          /* of stk_memory.leave(); NULL: no one reads it any more */
    struct pooled *next; /* lock: idle list */
} pooled;

struct stk_pool {
    stk_mutex lock;
    pooled *idle;         /* lock */
    _Atomic uint32_t out; /* changes under the lock */
    int shut;             /* lock: buffers that come back are freed */
    int closed;           /* lock: the owner has let go */
    uint64_t bytes;       /* lock: of all buffers */
    uint64_t bound; /* of bytes: five eighths of the limit, so that reads and odd rows have room */
    stk_memory memory;
    stk_account account;
};

uint32_t stk_pool_out(const stk_pool *p)
{
    return atomic_load_explicit(&p->out, memory_order_relaxed);
}

static void out_add_locked(stk_pool *p, int n) STK_REQUIRES(p->lock)
{
    atomic_store_explicit(&p->out, stk_pool_out(p) + (uint32_t)n, memory_order_relaxed);
}

static void *heap_alloc(void *cookie, size_t size)
{
    (void)cookie;
    return stk_pages_alloc(size);
}

static void heap_release(void *cookie, void *p, size_t size)
{
    (void)cookie;
    stk_pages_free(p, size);
}

static const stk_memory heap = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_memory),
    .name = "heap",
    .alloc = heap_alloc,
    .free = heap_release,
};

int stk_pool_open(stk_pool **out, const stk_memory *memory, uint64_t limit, stk_error *err)
{
    stk_memory own = heap;
    stk_pool *p;

    *out = NULL;
    if (memory)
        STK_TRY(stk_table_take(&own, sizeof own, memory, "memory", err));
    p = STK_NEW(stk_pool);
    if (!p)
        return stk_fail_nomem(err, sizeof *p);
    stk_mutex_init(&p->lock);
    p->memory = own;
    p->bound = limit / 8 * 5;
    stk_account_init(&p->account, limit);
    *out = p;
    return 0;
}

/* Off the books; buffers_free() does the rest with no lock held, since a GPU may be waited for. */
static void leave_locked(stk_pool *p, pooled *x, pooled **gone) STK_REQUIRES(p->lock)
{
    assert(x->pool == p && p->bytes >= x->b.size); /* counted when it was made */
    p->bytes -= x->b.size;
    x->next = *gone;
    *gone = x;
}

static void buffers_free(pooled *gone)
{
    while (gone) {
        pooled *x = gone;
        stk_pool *p = x->pool;

        gone = x->next;
        if (x->mark) {
            (void)p->memory.ready(p->memory.cookie, x->mark, 1);
            p->memory.forget(p->memory.cookie, x->mark);
        }
        p->memory.free(p->memory.cookie, x->b.data, x->b.size);
        stk_account_give(&p->account, x->b.size);
        stk_free(x);
    }
}

static pooled *drop_idle_locked(stk_pool *p) STK_REQUIRES(p->lock)
{
    pooled *gone = NULL;

    while (p->idle) {
        pooled *x = p->idle;

        p->idle = x->next;
        leave_locked(p, x, &gone);
    }
    return gone;
}

int stk_pool_trim(stk_pool *p)
{
    pooled *gone;

    stk_mutex_lock(&p->lock);
    gone = drop_idle_locked(p);
    stk_mutex_unlock(&p->lock);
    buffers_free(gone);
    return gone != NULL;
}

static void pool_destroy(stk_pool *p)
{
    if (p->memory.close)
        p->memory.close(p->memory.cookie);
    stk_account_fini(&p->account);
    stk_mutex_destroy(&p->lock);
    stk_free(p);
}

/* The last holder of a buffer lets go. */
static void buffer_back(stk_buffer *b)
{
    pooled *x = (pooled *)b, *gone = NULL;
    stk_pool *p = x->pool;
    int shut, last;

    if (p->memory.leave)
        x->mark = p->memory.leave(p->memory.cookie, x->mark);
    stk_mutex_lock(&p->lock);
    assert(stk_pool_out(p) > 0); /* a buffer comes back once */
    shut = p->shut;
    if (shut) {
        leave_locked(p, x, &gone);
    } else {
        out_add_locked(p, -1);
        x->next = p->idle;
        p->idle = x;
    }
    last = !shut && p->closed && !stk_pool_out(p);
    stk_mutex_unlock(&p->lock);
    if (shut) { /* it counts as out until it is gone: the pool must live so long */
        buffers_free(gone);
        stk_mutex_lock(&p->lock);
        out_add_locked(p, -1);
        last = p->closed && !stk_pool_out(p);
        stk_mutex_unlock(&p->lock);
    }
    if (last)
        pool_destroy(p);
}

void stk_pool_shut(stk_pool *p)
{
    pooled *gone;

    stk_mutex_lock(&p->lock);
    gone = drop_idle_locked(p);
    p->shut = 1;
    stk_mutex_unlock(&p->lock);
    buffers_free(gone);
}

void stk_pool_close(stk_pool **pp)
{
    stk_pool *p = *pp;
    int last;

    if (!p)
        return;
    *pp = NULL;
    stk_pool_shut(p);
    stk_mutex_lock(&p->lock);
    p->closed = 1;
    last = !stk_pool_out(p);
    stk_mutex_unlock(&p->lock);
    if (last)
        pool_destroy(p);
}

static int fits(const pooled *x, size_t size)
{
    return x->b.size >= size && x->b.size / 2 <= size; /* without wasting more than half of it */
}

/* The idle buffer that fits, and that no one reads any more; `late`: that somebody may read
 * still. */
static pooled *take_idle_locked(stk_pool *p, size_t size, int late) STK_REQUIRES(p->lock)
{
    for (pooled **at = &p->idle; *at; at = &(*at)->next) {
        pooled *x = *at;

        if (fits(x, size) && (late || !x->mark || p->memory.ready(p->memory.cookie, x->mark, 0))) {
            *at = x->next;
            return x;
        }
    }
    return NULL;
}

/* A ragged output's buffers grow with its largest batch: a new, larger one takes the place of
 * one that was outgrown. */
static pooled *drop_outgrown_locked(stk_pool *p, size_t size) STK_REQUIRES(p->lock)
{
    pooled *gone = NULL;

    for (pooled **at = &p->idle; *at; at = &(*at)->next) {
        pooled *x = *at;

        if (x->b.size < size && x->b.size >= size / 4) {
            *at = x->next;
            leave_locked(p, x, &gone);
            break;
        }
    }
    return gone;
}

static int room_for(const stk_pool *p, size_t size)
{
    return size <= p->bound && p->bytes <= p->bound - size;
}

/* Room for a new buffer is on the books: 1.  Takes the lock. */
static int book(stk_pool *p, size_t size)
{
    int room;

    stk_mutex_lock(&p->lock);
    room = room_for(p, size) && stk_account_take(&p->account, size);
    if (room) {
        p->bytes += size;
        out_add_locked(p, 1);
    }
    stk_mutex_unlock(&p->lock);
    return room;
}

static void unbook(stk_pool *p, size_t size)
{
    stk_mutex_lock(&p->lock);
    p->bytes -= size;
    out_add_locked(p, -1);
    stk_mutex_unlock(&p->lock);
    stk_account_give(&p->account, size);
}

/* A new buffer; no lock is held while memory is freed or made. */
static pooled *make(stk_pool *p, size_t size, int *no_memory)
{
    pooled *x, *gone;

    stk_mutex_lock(&p->lock);
    gone = drop_outgrown_locked(p, size);
    stk_mutex_unlock(&p->lock);
    buffers_free(gone);
    if (!book(p, size)) {
        (void)stk_pool_trim(p); /* idle buffers of other sizes may be what fills the limit */
        if (!book(p, size))
            return NULL;
    }
    x = STK_NEW(pooled);
    if (x)
        x->b.data = p->memory.alloc(p->memory.cookie, size);
    if (!x || !x->b.data) {
        unbook(p, size);
        stk_free(x);
        *no_memory = 1;
        return NULL;
    }
    x->b.size = size;
    x->b.free = buffer_back;
    x->pool = p;
    return x;
}

static pooled *take_idle(stk_pool *p, size_t size)
{
    pooled *x;

    stk_mutex_lock(&p->lock);
    x = take_idle_locked(p, size, 0);
    if (!x && p->memory.leave && !room_for(p, size))
        x = take_idle_locked(p, size, 1); /* better to wait than to free what is only late */
    out_add_locked(p, x != NULL);
    stk_mutex_unlock(&p->lock);
    if (x && x->mark) /* it is ours now: others need not wait with us */
        (void)p->memory.ready(p->memory.cookie, x->mark, 1);
    return x;
}

stk_buffer *stk_pool_try(stk_pool *p, size_t size, int *no_memory)
{
    pooled *x = take_idle(p, size);

    *no_memory = 0;
    if (!x)
        x = make(p, size, no_memory);
    if (!x)
        return NULL;
    atomic_store_explicit(&x->b.refs, 1, memory_order_relaxed);
    x->next = NULL;
    return &x->b;
}

stk_buffer *stk_pool_get(stk_pool *p, size_t size)
{
    int no_memory;

    return stk_pool_try(p, size, &no_memory);
}

stk_account *stk_pool_account(stk_pool *p)
{
    return &p->account;
}

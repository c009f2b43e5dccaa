/* SPDX-License-Identifier: Apache-2.0 */
/* cache.c - a chained hash table of blocks under one lock; each block has a lock of its own for
 * its bytes.
 *
 * NEW -> READING -> RAW -> UNPACKING -> READY, or FAILED.  Neither lock is held while a block is
 * read or unpacked: a request that wants it meanwhile is told when that is over.  Memory for both
 * is taken before the block is made.  A failed block stays until its users let go, then it is
 * forgotten, so that a later epoch may try again. */
#include "fetch/cache.h"

#include <assert.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/lock.h"

#define BUCKETS 4096
/* what is read, up to so many bytes, comes from the heap: it is needed for a moment only, and the
 * heap has such memory soon, where the system would fill it with zeros each time */
#define BRIEF ((size_t)4 << 20)

enum state { NEW, READING, RAW, UNPACKING, READY, FAILED };

struct stk_block {
    const stk_dataset *data;
    uint64_t shard;
    stk_place place;
    uint32_t users;           /* cache lock */
    stk_block *chain;         /* cache lock */
    stk_block *older, *newer; /* cache lock: the list of idle blocks */
    stk_mutex lock;
    enum state state;    /* lock */
    stk_waiter *waiters; /* lock */
    stk_io io;
    void *raw, *unpacked;
    size_t raw_len;
    size_t room, unpacked_len; /* bytes of `unpacked`, taken; in use */
    stk_cache *cache;
    int rc;
    stk_error err;
};

struct stk_cache {
    pid_t pid; /* that made it */
    stk_mutex lock;
    stk_account *account;
    _Atomic uint64_t held;      /* bytes of all blocks */
    uint64_t bound, idle_bytes; /* lock */
    stk_block *oldest, *newest; /* lock: idle blocks */
    stk_block *bucket[BUCKETS]; /* lock */
};

int stk_cache_open(stk_cache **out, uint64_t bound, stk_account *account, stk_error *err)
{
    stk_cache *c = STK_NEW(stk_cache);

    *out = c;
    if (!c)
        return stk_fail_nomem(err, sizeof *c);
    stk_mutex_init(&c->lock);
    c->account = account;
    c->bound = bound;
    c->pid = getpid();
    return 0;
}

int stk_cache_of_process(_Atomic(stk_cache *) *slot, uint64_t bound, stk_cache **out,
                         stk_error *err)
{
    stk_cache *have = atomic_load_explicit(slot, memory_order_acquire);

    *out = have;
    if (have && have->pid == getpid())
        return 0;
    STK_TRY(stk_cache_open(out, bound, NULL, err));
    if (!atomic_compare_exchange_strong_explicit(slot, &have, *out, memory_order_acq_rel,
                                                 memory_order_acquire)) {
        stk_cache_close(out);
        *out = have; /* another thread of this process was first */
    }
    return 0;
}

static uint64_t block_bytes(const stk_block *b)
{
    return b->raw_len + b->room;
}

/* Not block_bytes(): another thread may drop what was read while it is unpacked. */
uint64_t stk_block_size(const stk_block *b)
{
    return b->place.len + b->place.unpacked;
}

uint64_t stk_cache_held(const stk_cache *c)
{
    return atomic_load_explicit(&c->held, memory_order_relaxed);
}

static void give(stk_cache *c, uint64_t bytes)
{
    assert(stk_cache_held(c) >= bytes); /* what is given was taken */
    atomic_fetch_sub_explicit(&c->held, bytes, memory_order_relaxed);
    stk_account_give(c->account, bytes);
}

static void drop_raw(stk_block *b)
{
    size_t len = b->raw_len;

    if (len < BRIEF)
        stk_free(b->raw);
    else
        stk_large_free(b->raw, len);
    b->raw = NULL;
    b->raw_len = 0;
    give(b->cache, len);
}

static void drop_unpacked(stk_block *b)
{
    size_t room = b->room;

    stk_large_free(b->unpacked, room);
    b->unpacked = NULL;
    b->room = b->unpacked_len = 0;
    give(b->cache, room);
}

static void block_free(stk_block *b)
{
    drop_raw(b);
    drop_unpacked(b);
    stk_mutex_destroy(&b->lock);
    stk_free(b);
}

void stk_cache_close(stk_cache **c)
{
    if (!*c || (*c)->pid != getpid())
        return;
    for (size_t i = 0; i < BUCKETS; i++)
        while ((*c)->bucket[i]) {
            stk_block *b = (*c)->bucket[i];

            (*c)->bucket[i] = b->chain;
            block_free(b);
        }
    stk_mutex_destroy(&(*c)->lock);
    stk_free(*c);
    *c = NULL;
}

static stk_block **slot_of(stk_cache *c, const stk_dataset *data, uint64_t shard, uint64_t number)
{
    uint64_t h = stk_mix64((uint64_t)(uintptr_t)data ^ stk_mix64(shard ^ stk_mix64(number)));

    return &c->bucket[h % BUCKETS];
}

static int block_new(stk_block **out, stk_cache *c, const stk_dataset *data, uint64_t shard,
                     const stk_place *place, stk_error *err)
{
    uint64_t bytes = place->len + place->unpacked;
    uint64_t limit = c->account ? c->account->limit : UINT64_MAX;
    stk_block *b;

    *out = NULL;
    if (bytes < place->len || bytes > limit)
        return stk_fail(err, STK_ELIMIT,
                        "a block of %" PRIu64 " bytes that unpacks to %" PRIu64
                        " does not fit under memory_limit, which leaves %" PRIu64 " to reads",
                        place->len, place->unpacked, limit);
    if (!stk_account_take(c->account, bytes))
        return stk_fail(err, STK_ELIMIT, "a block of %" PRIu64 " bytes has no room now", bytes);
    b = STK_NEW(stk_block);
    if (b)
        b->raw = place->len < BRIEF ? stk_alloc(place->len) : stk_large_alloc(place->len);
    if (!b || !b->raw) {
        stk_account_give(c->account, bytes);
        stk_free(b);
        return stk_fail_nomem(err, place->len);
    }
    atomic_fetch_add_explicit(&c->held, bytes, memory_order_relaxed);
    stk_mutex_init(&b->lock);
    b->data = data;
    b->shard = shard;
    b->place = *place;
    b->cache = c;
    b->raw_len = place->len;
    b->room = place->unpacked;
    b->io = (stk_io){ .offset = place->offset, .len = place->len, .dst = b->raw };
    *out = b;
    return 0;
}

static void unlist_locked(stk_cache *c, stk_block *b) STK_REQUIRES(c->lock)
{
    assert(c->idle_bytes >= block_bytes(b)); /* a block that no one uses does not change */
    *(b->older ? &b->older->newer : &c->oldest) = b->newer;
    *(b->newer ? &b->newer->older : &c->newest) = b->older;
    b->older = b->newer = NULL;
    c->idle_bytes -= block_bytes(b);
}

static void list_locked(stk_cache *c, stk_block *b) STK_REQUIRES(c->lock)
{
    assert(!b->users && !b->older && !b->newer && c->newest != b);
    b->older = c->newest;
    *(c->newest ? &c->newest->newer : &c->oldest) = b;
    c->newest = b;
    c->idle_bytes += block_bytes(b);
}

static stk_block *find_locked(stk_cache *c, const stk_dataset *data, uint64_t shard,
                              uint64_t number) STK_REQUIRES(c->lock)
{
    stk_block *b = *slot_of(c, data, shard, number);

    while (b && (b->data != data || b->shard != shard || b->place.block != number))
        b = b->chain;
    return b;
}

static void use_locked(stk_cache *c, stk_block *b) STK_REQUIRES(c->lock)
{
    if (b->users++ == 0 && (b->older || b->newer || c->oldest == b))
        unlist_locked(c, b);
}

int stk_cache_get(stk_cache *c, const stk_dataset *data, uint64_t shard, const stk_place *place,
                  stk_block **out, stk_error *err)
{
    stk_block **head, *b;
    int rc = 0;

    stk_mutex_lock(&c->lock);
    head = slot_of(c, data, shard, place->block);
    b = find_locked(c, data, shard, place->block);
    if (!b) {
        rc = block_new(&b, c, data, shard, place, err);
        if (rc == 0) {
            b->chain = *head;
            *head = b;
        }
    }
    if (b)
        use_locked(c, b);
    stk_mutex_unlock(&c->lock);
    *out = b;
    return rc;
}

static void forget_locked(stk_cache *c, stk_block *b) STK_REQUIRES(c->lock)
{
    stk_block **p = slot_of(c, b->data, b->shard, b->place.block);

    assert(!b->users);
    while (*p != b) {
        assert(*p); /* it is in its bucket */
        p = &(*p)->chain;
    }
    *p = b->chain;
    block_free(b);
}

static int shrink_locked(stk_cache *c, uint64_t bound) STK_REQUIRES(c->lock)
{
    int any = 0;

    for (; c->idle_bytes > bound; any = 1) {
        stk_block *old = c->oldest;

        assert(old && !old->users); /* what is counted as idle is in the list */
        unlist_locked(c, old);
        forget_locked(c, old);
    }
    return any;
}

int stk_cache_trim(stk_cache *c)
{
    int any;

    stk_mutex_lock(&c->lock);
    any = shrink_locked(c, 0);
    stk_mutex_unlock(&c->lock);
    return any;
}

void stk_block_put(stk_cache *c, stk_block *b)
{
    stk_mutex_lock(&c->lock);
    assert(b->users > 0);  /* a block is put as often as it was taken */
    if (--b->users == 0) { /* no one else can touch its state now */
        if (b->state == FAILED || b->state == NEW)
            forget_locked(c, b);
        else
            list_locked(c, b);
    }
    shrink_locked(c, c->bound);
    stk_mutex_unlock(&c->lock);
}

/* The block, held, if it is in that state; else NULL. */
static stk_block *hold_in(stk_cache *c, const stk_dataset *data, uint64_t shard,
                          const stk_place *place, enum state state)
{
    stk_block *b;
    int is;

    stk_mutex_lock(&c->lock);
    b = find_locked(c, data, shard, place->block);
    if (b)
        use_locked(c, b);
    stk_mutex_unlock(&c->lock);
    if (!b)
        return NULL;
    stk_mutex_lock(&b->lock);
    is = b->state == state;
    stk_mutex_unlock(&b->lock);
    if (is)
        return b;
    stk_block_put(c, b);
    return NULL;
}

stk_block *stk_cache_peek(stk_cache *c, const stk_dataset *data, uint64_t shard,
                          const stk_place *place, stk_bytes *out)
{
    stk_block *b = hold_in(c, data, shard, place, READY);

    if (b)
        *out = (stk_bytes){ b->unpacked, b->unpacked_len };
    return b;
}

stk_block *stk_cache_unpacking(stk_cache *c, const stk_dataset *data, uint64_t shard,
                               const stk_place *place)
{
    return hold_in(c, data, shard, place, UNPACKING);
}

stk_block_need stk_block_want(stk_block *b, stk_waiter *w)
{
    stk_block_need need = STK_BLOCK_HERE;

    stk_mutex_lock(&b->lock);
    if (b->state == NEW) {
        b->state = READING;
        need = STK_BLOCK_YOURS;
    } else if (b->state == READING || b->state == UNPACKING) {
        w->next = b->waiters;
        b->waiters = w;
        need = STK_BLOCK_COMING;
    }
    stk_mutex_unlock(&b->lock);
    return need;
}

stk_io *stk_block_io(stk_block *b)
{
    return &b->io;
}

static int raw_check(stk_block *b)
{
    char text[STK_REASON_MAX];

    if (b->io.rc < 0)
        return stk_fail(&b->err, b->io.rc, "reading a block failed: %s",
                        stk_io_reason(&b->io, text, sizeof text));
    if (b->io.got < b->io.len)
        return stk_fail(&b->err, STK_ESTALE,
                        "the shard ends inside this block: it was cut after it was indexed");
    return b->io.file ? stk_file_unchanged(b->io.file, 0, &b->err) : 0;
}

/* Set the state and tell those who wait for it. */
static void settle(stk_block *b, enum state state)
{
    stk_waiter *w, *next;

    stk_mutex_lock(&b->lock);
    b->state = state;
    w = b->waiters;
    b->waiters = NULL;
    stk_mutex_unlock(&b->lock);
    for (; w; w = next) {
        next = w->next;
        w->arrived(w);
    }
}

void stk_block_arrived(stk_block *b)
{
    b->rc = raw_check(b);
    if (b->rc < 0)
        stk_error_at(&b->err, NULL, b->io.offset, (stk_bytes){ 0 });
    settle(b, b->rc < 0 ? FAILED : RAW);
}

/* By the one who set UNPACKING, with no lock held. */
static enum state unpack(stk_block *b)
{
    /* io.dst: b->raw, or what the source has in memory already */
    stk_unpack_job job = { b->shard, &b->place, { b->io.dst, b->raw_len }, NULL, b->room };

    job.dst = b->unpacked = stk_large_alloc(b->room);
    b->rc = b->unpacked ? b->data->ops->unpack(b->data, &job, &b->err)
                        : stk_fail_nomem(&b->err, b->room);
    b->unpacked_len = job.len;
    if (b->rc == 0 && b->unpacked_len > b->room)
        b->rc = stk_fail(&b->err, STK_ECORRUPT, "a block unpacks to %zu bytes, and %zu were said",
                         b->unpacked_len, b->room);
    drop_raw(b);
    if (b->rc == 0)
        return READY;
    drop_unpacked(b);
    stk_error_at(&b->err, NULL, b->io.offset, (stk_bytes){ 0 });
    return FAILED;
}

stk_block *stk_cache_begin(stk_cache *c, const stk_dataset *data, uint64_t shard,
                           const stk_place *place)
{
    stk_block *b;
    int mine;

    if (stk_cache_get(c, data, shard, place, &b, NULL) < 0)
        return NULL;
    stk_mutex_lock(&b->lock);
    mine = b->state == NEW;
    if (mine)
        b->state = UNPACKING;
    stk_mutex_unlock(&b->lock);
    if (mine)
        return b;
    stk_block_put(c, b);
    return NULL;
}

void stk_block_made(stk_block *b)
{
    b->rc = raw_check(b);
    if (b->rc < 0)
        stk_error_at(&b->err, NULL, b->io.offset, (stk_bytes){ 0 });
    settle(b, b->rc < 0 ? FAILED : unpack(b));
}

typedef struct sleeper { /* a thread, for another to unpack a block */
    stk_waiter waiter;
    stk_mutex lock;
    pthread_cond_t cond;
    int over; /* lock */
} sleeper;

static void sleeper_wake(stk_waiter *w)
{
    sleeper *s = w->cookie;

    stk_mutex_lock(&s->lock);
    s->over = 1;
    pthread_cond_signal(&s->cond);
    stk_mutex_unlock(&s->lock);
}

void stk_block_wait(stk_block *b)
{
    sleeper s = { .lock = STK_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER };

    s.waiter = (stk_waiter){ sleeper_wake, &s, NULL };
    stk_mutex_lock(&b->lock);
    s.over = b->state != UNPACKING;
    if (!s.over) {
        s.waiter.next = b->waiters;
        b->waiters = &s.waiter;
    }
    stk_mutex_unlock(&b->lock);
    stk_mutex_lock(&s.lock);
    while (!s.over)
        stk_cond_wait(&s.cond, &s.lock);
    stk_mutex_unlock(&s.lock);
}

int stk_block_open(stk_block *b, stk_waiter *w, stk_bytes *out, stk_error *err)
{
    enum state was;

    stk_mutex_lock(&b->lock);
    was = b->state;
    if (was == RAW)
        b->state = UNPACKING;
    if (was == UNPACKING) {
        w->next = b->waiters;
        b->waiters = w;
    }
    stk_mutex_unlock(&b->lock);
    if (was == UNPACKING)
        return STK_PENDING;
    if (was == RAW)
        settle(b, unpack(b));
    if (b->rc < 0 && err)
        *err = b->err;
    *out = (stk_bytes){ b->unpacked, b->unpacked_len };
    return b->rc;
}

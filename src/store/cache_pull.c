/* SPDX-License-Identifier: Apache-2.0 */
/* cache_pull.c - reads of remote files through the host cache.
 *
 * A read is cut at the borders of chunks.  A chunk that is not there is fetched whole, once, for
 * all who want a piece of it; they have their bytes as soon as it has come, and a second thread
 * brings it to disk.  Where the cache has no room, a piece is read from the server alone.
 *
 * One thread, the puller's, decides everything, so chunks on their way have no lock: others hand it
 * pieces, chunks that came and chunks that were written, through lists.  One process fetches a
 * chunk and the others of the host wait: they look again every few milliseconds.  fork(): the child
 * forgets the puller of its parent and makes its own. */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/thread.h"
#include "store/http.h"
#include "store/remote.h"
#include "store/store_cache.h"

#define CHUNKS_AT_ONCE 24u /* in memory: on their way here and to disk */
#define LOOK_AGAIN_NS 4000000u

typedef struct pull { /* one read.  Thread: the last one that is done with a piece ends it. */
    stk_io *io;
    stk_pull_from from;
    _Atomic uint32_t left;
    _Atomic int rc, sys;
} pull;

typedef struct piece { /* of a read, in one chunk */
    struct piece *next;
    pull *of;
    uint64_t offset;
    size_t len;
    uint8_t *dst;   /* NULL: it is wanted on disk, and waits until it is there */
    stk_transfer t; /* where it is read alone */
} piece;

typedef struct chunk { /* on its way */
    struct chunk *next, *event;
    struct puller *by;
    stk_cache_object *object;
    uint64_t number;
    size_t len;
    uint8_t *buf;         /* NULL: not begun */
    int came;             /* buf is whole */
    int written;          /* or given up: it ends */
    int lost;             /* it could not be written */
    int claimed;          /* no other process fetches it */
    uint64_t patience_ns; /* the end of waiting for another process; 0: it was not tried yet */
    stk_halt halt; /* someone who wants a piece is told to end: what is asked for may be his */
    piece *wait;
    stk_transfer t;
} chunk;

typedef struct puller {
    stk_mutex lock;
    pthread_cond_t work, disk_work;
    piece *in, **in_end; /* lock */
    chunk *events;       /* lock: those that came or are written */
    chunk *to_disk;      /* lock */
    int stop, stop_disk; /* lock */
    int look;            /* lock: a halt was set */
    pthread_t thread, disk_thread;
    /* of the puller's thread */
    chunk *all, **all_end;
    uint32_t in_memory;
} puller;

static stk_mutex lock = STK_MUTEX_INITIALIZER;
static puller *the STK_GUARDED(lock);
static uint32_t holders STK_GUARDED(lock);

/* ---- the end of a piece ---- */

static void pull_end(pull *p)
{
    stk_io *io = p->io;

    if (atomic_fetch_sub_explicit(&p->left, 1, memory_order_acq_rel) != 1)
        return;
    io->rc = atomic_load_explicit(&p->rc, memory_order_relaxed);
    io->sys = atomic_load_explicit(&p->sys, memory_order_relaxed);
    io->got = io->rc < 0 ? 0 : io->got;
    stk_free(p);
    io->done(io);
}

static void piece_end(piece *x)
{
    pull *p = x->of;

    stk_free(x);
    pull_end(p);
}

static void piece_failed(piece *x, const stk_transfer *t)
{
    pull *p = x->of;

    atomic_store_explicit(&p->rc, t->rc, memory_order_relaxed);
    atomic_store_explicit(&p->sys, -(t->status ? t->status : 1), memory_order_relaxed);
    stk_mutex_lock(&stk_store_lock);
    memcpy(p->from.why, t->why, STK_WHY_MAX);
    stk_mutex_unlock(&stk_store_lock);
    piece_end(x);
}

static void piece_came(stk_transfer *t)
{
    piece *x = t->cookie;

    stk_transfer_fini(t);
    if (t->rc == 0 && t->got < x->len) {
        t->rc = STK_ESTALE;
        snprintf(t->why, sizeof t->why, "it is shorter than it was when it was indexed");
    }
    if (t->rc < 0)
        piece_failed(x, t);
    else
        piece_end(x);
}

static void ask_for(stk_transfer *t, const stk_pull_from *from)
{
    t->to = from->to;
    t->method = "GET";
    t->size = from->object->size;
    t->etag = from->etag;
    t->halt = from->halt;
}

static void piece_halted(piece *x)
{
    piece_failed(x, &(stk_transfer){ .rc = STK_ECLOSED, .why = "interrupted" });
}

static void no_room(piece *x)
{
    piece_failed(x, &(stk_transfer){ .rc = STK_ELIMIT, .why = "the cache has no room for it" });
}

static void read_alone(piece *x)
{
    if (!x->dst) {
        no_room(x);
        return;
    }
    x->t = (stk_transfer){
        .offset = x->offset, .len = x->len, .dst = x->dst, .done = piece_came, .cookie = x
    };
    ask_for(&x->t, &x->of->from);
    stk_http_start(&x->t);
}

/* ---- the puller's thread ---- */

static void put(puller *p, chunk **list, pthread_cond_t *work, chunk *c)
{
    stk_mutex_lock(&p->lock);
    c->event = *list;
    *list = c;
    pthread_cond_signal(work);
    stk_mutex_unlock(&p->lock);
}

static void post(puller *p, chunk *c)
{
    put(p, &p->events, &p->work, c);
}

static void chunk_came(stk_transfer *t)
{
    chunk *c = t->cookie;

    post(c->by, c);
}

static chunk *find(const puller *p, const stk_cache_object *o, uint64_t number)
{
    chunk *c = p->all;

    while (c && (c->object != o || c->number != number))
        c = c->next;
    return c;
}

static void copy_out(const chunk *c, piece *x)
{
    memcpy(x->dst, c->buf + (x->offset - c->number * STK_CHUNK), x->len);
    piece_end(x);
}

static piece *take_waiting(chunk *c)
{
    piece *x = c->wait;

    c->wait = NULL;
    return x;
}

static void put_waiting(chunk *c, piece *x)
{
    x->next = c->wait;
    c->wait = x;
}

/* on_disk: that too. */
static void serve(chunk *c, int on_disk)
{
    for (piece *x = take_waiting(c), *next; x; x = next) {
        next = x->next;
        if (x->dst)
            copy_out(c, x);
        else if (on_disk)
            piece_end(x);
        else
            put_waiting(c, x);
    }
}

static void chunk_end(puller *p, chunk *c)
{
    chunk **at = &p->all;

    assert(!c->wait);
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    if (!*at)
        p->all_end = at;
    if (c->claimed)
        stk_cache_object_unclaim(c->object, c->number);
    if (c->buf) {
        stk_large_free(c->buf, c->len);
        p->in_memory--;
    }
    stk_cache_object_unref(&c->object);
    stk_free(c);
}

/* The cache can't have it: everyone reads what he wants. */
static void give_up(puller *p, chunk *c)
{
    piece *x = take_waiting(c), *next;

    chunk_end(p, c);
    for (; x; x = next) {
        next = x->next;
        read_alone(x);
    }
}

/* It is on disk already: written by another process, or before the machine was started.  1: its
 * pieces are served. */
static int from_disk(puller *p, chunk *c, stk_chunk_state is)
{
    if (is == STK_CHUNK_ABSENT || !stk_cache_object_check(c->object, c->number, c->buf))
        return 0;
    serve(c, 1);
    chunk_end(p, c);
    return 1;
}

static void fetch(chunk *c)
{
    c->t = (stk_transfer){ .offset = c->number * STK_CHUNK,
                           .len = c->len,
                           .dst = c->buf,
                           .done = chunk_came,
                           .cookie = c };
    ask_for(&c->t, &c->wait->of->from);
    stk_halt_set(&c->halt, 0);
    c->t.halt = &c->halt;
    stk_http_start(&c->t);
}

/* With another process that fetches the chunk: it has the same limit, and some time to write. */
static uint64_t patience_ns(const chunk *c)
{
    return (uint64_t)stk_store_patience(c->wait->of->from.to->store, 0) * 1250000u;
}

/* Begin with a chunk.  It may be gone after this. */
static void begin(puller *p, chunk *c)
{
    stk_cache_object *o = c->object;

    if (!c->claimed)
        c->claimed = stk_cache_object_claim(o, c->number);
    if (!c->claimed && stk_cache_object_has(o, c->number) == STK_CHUNK_ABSENT) {
        uint64_t now = stk_now_ns();

        if (!c->patience_ns)
            c->patience_ns = now + patience_ns(c);
        if (now >= c->patience_ns)
            give_up(p, c);
        return;
    }
    c->buf = stk_large_alloc(c->len);
    p->in_memory += c->buf != NULL;
    if (!c->buf) {
        give_up(p, c);
        return;
    }
    if (from_disk(p, c, stk_cache_object_has(o, c->number)))
        return;
    if (c->claimed && stk_cache_folder_take(o->folder, o->group, c->len))
        fetch(c);
    else
        give_up(p, c);
}

static void begin_waiting(puller *p)
{
    chunk *c = p->all, *next;

    for (; c && p->in_memory < CHUNKS_AT_ONCE; c = next) {
        next = c->next;
        if (!c->buf)
            begin(p, c);
    }
}

static void take_piece(puller *p, piece *x)
{
    stk_cache_object *o = x->of->from.object;
    uint64_t number = x->offset / STK_CHUNK;
    chunk *c = find(p, o, number);

    if (stk_halt_is(x->of->from.halt)) {
        piece_halted(x);
        return;
    }
    if (!c && stk_cache_object_has(o, number) == STK_CHUNK_HERE &&
        (!x->dst || stk_file_read(o->local, x->offset, x->dst, x->len, NULL) == 0)) {
        piece_end(x);
        return;
    }
    if (!c && (c = STK_NEW(chunk))) {
        c->by = p;
        c->object = stk_cache_object_ref(o);
        c->number = number;
        c->len = stk_cache_chunk_len(o, number);
        *p->all_end = c;
        p->all_end = &c->next;
    }
    if (!c) {
        read_alone(x);
    } else if (c->came && x->dst) {
        copy_out(c, x);
    } else {
        put_waiting(c, x);
    }
}

/* Pieces that are told to end do.  1: others are left. */
static int end_halted(chunk *c)
{
    for (piece *x = take_waiting(c), *next; x; x = next) {
        next = x->next;
        if (stk_halt_is(x->of->from.halt))
            piece_halted(x);
        else
            put_waiting(c, x);
    }
    return c->wait != NULL;
}

static int any_halted(const chunk *c)
{
    const piece *x = c->wait;

    while (x && !stk_halt_is(x->of->from.halt))
        x = x->next;
    return x != NULL;
}

/* A chunk that is being fetched is cut off, since the address may be that of the one who ends; if
 * others want it too it is asked for again. */
static void look_at_halts(puller *p)
{
    int cut = 0;

    for (chunk *c = p->all, *next; c; c = next) {
        next = c->next;
        if (!any_halted(c))
            continue;
        if (c->buf && !c->came) {
            stk_halt_set(&c->halt, 1);
            cut = 1;
        } else if (!end_halted(c) && !c->buf) {
            chunk_end(p, c);
        }
    }
    if (cut)
        stk_http_look();
}

static void take_event(puller *p, chunk *c)
{
    if (c->written) {
        if (c->lost)
            give_up(p, c);
        else {
            serve(c, 1);
            chunk_end(p, c);
        }
        return;
    }
    stk_transfer_fini(&c->t);
    if (c->t.rc == 0 && c->t.got < c->len) {
        c->t.rc = STK_ESTALE;
        snprintf(c->t.why, sizeof c->t.why, "it is shorter than it was when it was indexed");
    }
    if (c->t.rc == 0) {
        c->came = 1;
        serve(c, 0);
        put(p, &p->to_disk, &p->disk_work, c);
        return;
    }
    if (c->t.rc == STK_ECLOSED && end_halted(c)) {
        fetch(c);
        return;
    }
    for (piece *x = take_waiting(c), *next; x; x = next) {
        next = x->next;
        piece_failed(x, &c->t);
    }
    stk_cache_folder_give(c->object->folder, c->len);
    chunk_end(p, c);
}

/* A chunk that another process fetches is looked for again soon. */
static int must_look_again(const puller *p)
{
    const chunk *c = p->all;

    while (c && (c->buf || !c->patience_ns))
        c = c->next;
    return c != NULL && p->in_memory < CHUNKS_AT_ONCE;
}

static void wait_locked(puller *p) STK_REQUIRES(p->lock)
{
    struct timespec until;
    uint64_t ns;

    if (!must_look_again(p)) {
        stk_cond_wait(&p->work, &p->lock);
        return;
    }
    ns = stk_now_ns() + LOOK_AGAIN_NS;
    until = (struct timespec){ (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };
    (void)stk_cond_timedwait(&p->work, &p->lock, &until);
}

static void *puller_main(void *arg)
{
    puller *p = arg;
    int stop = 0, look;

    while (!stop) {
        piece *x;
        chunk *c;

        stk_mutex_lock(&p->lock);
        if (!p->in && !p->events && !p->look && !(p->stop && !p->all))
            wait_locked(p);
        look = p->look;
        p->look = 0;
        x = p->in;
        p->in = NULL;
        p->in_end = &p->in;
        c = p->events;
        p->events = NULL;
        stop = p->stop && !x && !c && !p->all;
        stk_mutex_unlock(&p->lock);
        for (piece *next; x; x = next) {
            next = x->next;
            take_piece(p, x);
        }
        for (chunk *next; c; c = next) {
            next = c->event;
            take_event(p, c);
        }
        if (look)
            look_at_halts(p);
        begin_waiting(p);
    }
    return NULL;
}

/* ---- the thread that writes ---- */

static int is_first(const chunk *list, const chunk *c)
{
    for (; list != c; list = list->event)
        if (list->object == c->object && list->written > 0)
            return 0;
    return 1;
}

/* One fsync for all chunks of an object. */
static void sync_chunks(chunk *list)
{
    for (chunk *c = list; c; c = c->event) {
        int sys = c->written > 0 && is_first(list, c) ? stk_cache_object_sync(c->object) : 0;

        for (chunk *d = c; sys && d; d = d->event)
            if (d->object == c->object)
                d->written = -sys;
    }
}

static void write_chunks(chunk *list)
{
    for (chunk *c = list; c; c = c->event) {
        int sys = stk_cache_object_write(c->object, c->number, c->buf);

        c->written = sys ? -sys : 1;
    }
    sync_chunks(list);
    for (chunk *c = list; c; c = c->event) {
        int sys = c->written < 0 ? -c->written
                                 : stk_cache_object_mark(c->object, c->number, c->buf);

        if (sys) {
            stk_cache_folder_failed(c->object->folder, sys);
            stk_cache_folder_give(c->object->folder, c->len);
        }
        c->lost = sys != 0;
        c->written = 1;
    }
}

static void *disk_main(void *arg)
{
    puller *p = arg;

    stk_mutex_lock(&p->lock);
    while (!p->stop_disk || p->to_disk) {
        chunk *list = p->to_disk, *next;

        if (!list) {
            stk_cond_wait(&p->disk_work, &p->lock);
            continue;
        }
        p->to_disk = NULL;
        stk_mutex_unlock(&p->lock);
        write_chunks(list);
        for (; list; list = next) {
            next = list->event;
            post(p, list);
        }
        stk_mutex_lock(&p->lock);
    }
    stk_mutex_unlock(&p->lock);
    return NULL;
}

/* ---- one puller a process ---- */

static void puller_close(puller *p)
{
    stk_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->work);
    pthread_cond_destroy(&p->disk_work);
    stk_free(p);
}

static void end_disk(puller *p)
{
    stk_mutex_lock(&p->lock);
    p->stop_disk = 1;
    pthread_cond_signal(&p->disk_work);
    stk_mutex_unlock(&p->lock);
    pthread_join(p->disk_thread, NULL);
}

static int puller_open(puller **out, stk_error *err)
{
    puller *p = STK_NEW(puller);
    pthread_condattr_t monotonic;

    *out = NULL;
    if (!p)
        return stk_fail_nomem(err, sizeof *p);
    p->in_end = &p->in;
    p->all_end = &p->all;
    stk_mutex_init(&p->lock);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&p->work, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_cond_init(&p->disk_work, NULL);
    if (stk_thread_start(&p->disk_thread, disk_main, p, "stk-cache-disk") < 0) {
        puller_close(p);
        return stk_fail(err, STK_ENOMEM, "no thread could be started for the cache");
    }
    if (stk_thread_start(&p->thread, puller_main, p, "stk-cache") < 0) {
        end_disk(p);
        puller_close(p);
        return stk_fail(err, STK_ENOMEM, "no thread could be started for the cache");
    }
    *out = p;
    return 0;
}

int stk_puller_hold(stk_error *err)
{
    int rc;

    stk_mutex_lock(&lock);
    rc = the ? 0 : puller_open(&the, err);
    holders += rc == 0;
    stk_mutex_unlock(&lock);
    return rc;
}

void stk_puller_drop(void)
{
    puller *p = NULL;

    stk_mutex_lock(&lock);
    assert(holders > 0);
    if (!--holders) {
        p = the;
        the = NULL;
    }
    stk_mutex_unlock(&lock);
    if (!p)
        return;
    stk_mutex_lock(&p->lock);
    p->stop = 1;
    pthread_cond_signal(&p->work);
    stk_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    end_disk(p);
    puller_close(p);
}

void stk_puller_look(void)
{
    stk_mutex_lock(&lock);
    if (the) {
        stk_mutex_lock(&the->lock);
        the->look = 1;
        pthread_cond_signal(&the->work);
        stk_mutex_unlock(&the->lock);
    }
    stk_mutex_unlock(&lock);
}

void stk_puller_before_fork(void) STK_UNCHECKED /* given back after it */
{
    stk_mutex_lock(&lock);
}

/* The parent's threads are not in the child. */
void stk_puller_after_fork(int child) STK_UNCHECKED
{
    if (child)
        the = NULL;
    stk_mutex_unlock(&lock);
}

/* ---- reads ---- */

static int add_pieces(pull *p, uint64_t end, piece **list)
{
    uint8_t *dst = p->io->dst;
    uint32_t n = 1;

    for (uint64_t at = p->io->offset; at < end;) {
        uint64_t stop = (at / STK_CHUNK + 1) * STK_CHUNK;
        piece *x = STK_NEW(piece);

        if (!x)
            return STK_ENOMEM;
        x->of = p;
        x->offset = at;
        x->len = (size_t)((stop < end ? stop : end) - at);
        x->dst = dst ? dst + (at - p->io->offset) : NULL;
        x->next = *list;
        *list = x;
        at += x->len;
        n++;
    }
    atomic_init(&p->left, n);
    return 0;
}

static void hand_over(puller *p, piece *list)
{
    stk_mutex_lock(&p->lock);
    *p->in_end = list;
    while (*p->in_end)
        p->in_end = &(*p->in_end)->next;
    pthread_cond_signal(&p->work);
    stk_mutex_unlock(&p->lock);
}

int stk_pull_start(const stk_pull_from *from, stk_io *io)
{
    uint64_t size = from->object->size, end = io->offset + io->len;
    pull *p = STK_NEW(pull);
    piece *list = NULL, *next;
    puller *by;
    int rc = p ? 0 : STK_ENOMEM;

    if (end > size || end < io->offset)
        end = size > io->offset ? size : io->offset;
    io->got = (size_t)(end - io->offset);
    io->rc = io->sys = 0;
    if (p) {
        *p = (pull){ .io = io, .from = *from };
        rc = add_pieces(p, end, &list);
    }
    stk_mutex_lock(&lock);
    if (rc == 0 && !the)
        rc = puller_open(&the, NULL); /* in a forked child */
    by = the;
    stk_mutex_unlock(&lock);
    if (rc < 0) {
        for (; list; list = next) {
            next = list->next;
            stk_free(list);
        }
        stk_free(p);
        return rc;
    }
    hand_over(by, list);
    pull_end(p);
    return STK_PENDING;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* request.c - locate the fields of one sample, do their reads now or later, check them. */
#include "fetch/reads.h"

#include <assert.h>
#include <string.h>

#include "base/cpu.h"
#include "base/lock.h"

#define LARGE (64 * 1024) /* bytes next to which a look at the file is nothing */
#define LOOK_EVERY 16u

int stk_request_open(stk_request **out, uint32_t fields, stk_cache *cache, stk_account *account,
                     stk_error *err)
{
    uint32_t pieces = fields * STK_MEDIA_RANGES;
    size_t each = sizeof(stk_wanted) + sizeof(stk_ranged) + sizeof(stk_seek_room) +
                  sizeof(stk_bytes) +
                  STK_MEDIA_RANGES * (sizeof(stk_io) + sizeof(uint32_t) + sizeof(uint8_t));
    stk_request *r = stk_zalloc(1, sizeof *r + fields * each);

    *out = r;
    if (!r)
        return stk_fail_nomem(err, sizeof *r + fields * each);
    r->cache = cache;
    r->account = account;
    r->memory.most = account ? 0 : stk_memory_total() / 4;
    r->cap_want = fields;
    r->want = (stk_wanted *)(r + 1);
    r->ranged = (stk_ranged *)(r->want + fields);
    r->hint_room = (stk_seek_room *)(r->ranged + fields);
    r->reads.io = (stk_io *)(r->hint_room + fields);
    r->scratch = (stk_bytes *)(r->reads.io + pieces);
    r->reads.order = (uint32_t *)(r->scratch + fields);
    r->reads.missing = (uint8_t *)(r->reads.order + pieces);
    return 0;
}

void stk_request_close(stk_request **rp)
{
    stk_request *r = *rp;

    if (!r)
        return;
    *rp = NULL;
    stk_request_trim(r);
    stk_request_files_close(r);
    for (uint32_t i = 0; i < r->cap_want; i++) {
        stk_seek_room_fini(&r->hint_room[i]);
        stk_buffer_unref(r->want[i].hint_shared);
    }
    stk_free(r);
}

void stk_request_free_buffer(stk_request *r)
{
    stk_large_free(r->memory.buf, r->memory.cap);
    stk_account_give(r->account, r->memory.cap);
    r->memory.buf = NULL;
    r->memory.cap = 0;
}

int stk_request_trim(stk_request *r)
{
    size_t had = r->memory.cap + r->memory.other_cap;

    stk_request_free_buffer(r);
    stk_request_swap_buffers(r);
    stk_request_free_buffer(r);
    return stk_request_files_trim(r) || had != 0;
}

/* Bytes of the blocks that it has got so far. */
static uint64_t held(const stk_request *r)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < r->n; i++) {
        uint32_t j = 0;

        while (j < i && r->want[j].block != r->want[i].block)
            j++;
        if (r->want[i].block && j == i)
            bytes += stk_block_size(r->want[i].block);
    }
    return bytes;
}

static int reserve(stk_request *r, uint64_t need, stk_error *err)
{
    size_t cap = (size_t)(need + need / 4 + 4096); /* grows to the largest sample soon */

    stk_request_free_buffer(r); /* never both at once */
    r->memory.lacks = need;
    if (need <= SIZE_MAX / 4 && !stk_account_take(r->account, cap)) {
        cap = (size_t)need;
        if (!stk_account_take(r->account, cap))
            cap = 0;
    }
    if (need > SIZE_MAX / 4 || !cap)
        return stk_fail(err, STK_ELIMIT,
                        "its fields are %" PRIu64
                        " bytes, more than memory_limit leaves: raise memory_limit",
                        need);
    r->memory.buf = stk_large_alloc(cap);
    if (!r->memory.buf) {
        stk_account_give(r->account, cap);
        return stk_fail_nomem(err, cap);
    }
    r->memory.cap = cap;
    return 0;
}

/* Ranges come from the index, which may be wrong.  Without an account nothing else bounds what is
 * allocated for them. */
static int check_range(const stk_request *r, const stk_wanted *w, stk_error *err)
{
    uint64_t size = r->memory.shard_size;

    if (w->place.offset <= size && w->place.len <= size - w->place.offset)
        return 0;
    stk_fail(err, STK_ECORRUPT,
             "field %s has %" PRIu64 " bytes and ends past the shard's %" PRIu64
             "; run: stoker index --force ...",
             w->field.name, w->place.len, size);
    stk_error_at(err, NULL, w->place.offset, (stk_bytes){ 0 });
    return STK_ECORRUPT;
}

/* The data says that the sample has no value here. */
static int take_absent(const stk_request *r, stk_wanted *w, stk_error *err)
{
    const stk_bytes *fallback = r->fallback ? &r->fallback[w - r->want] : NULL;

    w->file = NULL;
    w->unpack = NULL; /* what stands in is the chain's own text */
    w->place = (stk_place){ .absent = 1 };
    if (!fallback) /* the caller is told */
        return 0;
    if (!fallback->data)
        return stk_fail(
            err, STK_ECORRUPT,
            "it has no value in field %s: say what stands in, as in from(%s, default=0)",
            w->field.name, w->field.name);
    w->place.here = *fallback;
    return 0;
}

static int locate(stk_request *r, stk_wanted *w, stk_error *err)
{
    const stk_dataset *d = r->data;
    uint32_t field = w->number;

    if (field == UINT16_MAX && r->fallback) { /* not in this sample */
        stk_buffer_unref(w->hint_shared);
        *w = (stk_wanted){ .number = UINT16_MAX, .place.here = r->fallback[w - r->want] };
        return 0;
    }
    r->index_failed = d->ops->field(d, &r->entry, field, &w->field, err);
    if (r->index_failed)
        return r->index_failed;
    w->block = NULL;
    w->file = r->file;
    w->own = 0;
    if (w->gpu_cached || w->cached_bytes.data) {
        w->file = NULL;
        w->place = (stk_place){ .offset = w->field.offset, .here = w->cached_bytes };
        return 0;
    }
    if (d->can & STK_DATA_RANGES) {
        w->place = (stk_place){ .offset = w->field.offset, .len = w->field.size };
        return r->account ? 0 : check_range(r, w, err);
    }
    w->place = (stk_place){ 0 };
    r->memory.lacks = 0; /* what it refuses is the sample's */
    STK_TRY(d->ops->locate(d, &r->entry, &w->field, stk_wanted_root(r, w) != NULL, &w->place, err));
    if (w->place.offset > INT64_MAX || w->place.len > INT64_MAX)
        return stk_fail(err, STK_ECORRUPT,
                        "field %s is said to be at %" PRIu64 " with %" PRIu64 " bytes",
                        w->field.name, w->place.offset, w->place.len);
    if (w->place.absent)
        return take_absent(r, w, err);
    if (w->place.here.data && stk_wanted_root(r, w))
        w->place = (stk_place){ .whole = 1, .name = w->place.here };
    if (w->place.here.data)
        w->file = NULL;
    else if (w->place.name.data)
        return stk_wanted_open(r, w, err);
    else if (!r->account)
        STK_TRY(check_range(r, w, err));
    if (stk_wanted_root(r, w) && w->file) /* its bytes are the name */
        stk_request_defer(r, (uint32_t)(w - r->want));
    r->unpacks |= w->place.unpacked != 0;
    if (!w->place.shared)
        return 0;
    r->blocks = 1;
    if (__builtin_add_overflow(w->place.len, w->place.unpacked, &r->memory.lacks))
        r->memory.lacks = UINT64_MAX;
    return stk_cache_get(r->cache, d, r->entry.shard, &w->place, &w->block, err);
}

void stk_reads_place(stk_request *r, uint8_t *dst)
{
    r->reads.bytes = dst;
    for (uint32_t i = 0; i < r->reads.n; dst += r->reads.io[i++].len)
        r->reads.io[i].dst = dst;
}

/* 0: all of it is available, or a GPU has it, and the shard need not even be open. */
static int reads_any(const stk_request *r, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (r->want[i].number == UINT16_MAX ||
            (!r->want[i].gpu_cached && !r->want[i].cached_bytes.data))
            return 1;
    return !n;
}

/* Even if all others let go, there is no room for it: a bad sample.  Without an account no one
 * waits for room, so that what it takes is looked at here. */
int stk_request_size_check(stk_request *r, int rc, stk_error *err)
{
    uint64_t most = r->account ? r->account->limit : r->memory.most;
    uint64_t need, have = held(r);
    /* ds[i] copies its values out of blocks */
    uint64_t lacks = rc == STK_ELIMIT ? r->memory.lacks
                                      : r->reads.total + (have < most ? have : most);

    if (__builtin_add_overflow(have, lacks, &need) || need > most)
        r->memory.lacks = 0;
    else
        return rc;
    return rc < 0 ? rc
                  : stk_fail(err, STK_ELIMIT,
                             "its fields take %" PRIu64 " bytes, and a sample may take a quarter "
                             "of the memory, which is %" PRIu64,
                             need, most);
}

int stk_request_give_up(stk_request *r, int rc, stk_error *err)
{
    rc = rc == STK_ELIMIT ? stk_request_size_check(r, rc, err) : rc;
    stk_request_end(r);
    return rc;
}

static int acquire(stk_request *r, stk_error *err)
{
    const stk_data_ops *ops = r->data->ops;

    return r->polls && ops->wait.poll ? ops->wait.poll(r->data, r->entry.shard, &r->file, err)
                                      : ops->acquire(r->data, r->entry.shard, &r->file, err);
}

int stk_request_locate(stk_request *r, uint32_t n, stk_error *err)
{
    stk_shard_info shard;
    int rc = 0;

    assert(n <= r->cap_want && !r->n);
    r->n = 0;
    r->reads.n = 0;
    r->reads.in_parts = 0;
    r->blocks = 0;
    r->unpacks = 0;
    r->reads.files = 0;
    r->late = 0;
    r->memory.lacks = 0;
    r->file = NULL;
    atomic_store_explicit(&r->retries, 0, memory_order_relaxed);
    if (!r->account) {
        STK_TRY(r->data->ops->shard(r->data, r->entry.shard, &shard, err));
        r->memory.shard_size = shard.size;
    }
    if (!r->cached || reads_any(r, n))
        rc = acquire(r, err);
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        rc = locate(r, &r->want[i], err);
        r->ranged[i].n = 0;
        r->n += rc == 0;
    }
    if (rc == 0 && r->reads.stage == STK_REQUEST_FIRST && !r->account)
        rc = stk_request_read_first(r, err);
    return rc < 0 ? stk_request_give_up(r, rc, err) : rc;
}

/* More memory than it has; without an account the caller has it. */
__attribute__((noinline)) static int make_room(stk_request *r, stk_error *err)
{
    int rc = r->account ? reserve(r, r->reads.total, err) : stk_request_size_check(r, 0, err);

    if (rc < 0)
        return stk_request_give_up(r, rc, err);
    if (r->account)
        stk_reads_place(r, r->memory.buf);
    return 0;
}

static int place_planned(stk_request *r, stk_error *err)
{
    if (!r->account || r->reads.total > r->memory.cap)
        return make_room(r, err);
    stk_reads_place(r, r->memory.buf);
    return 0;
}

int stk_request_plan(stk_request *r, stk_error *err)
{
    stk_reads_plan(r, 0);
    return place_planned(r, err);
}

/* Room for what comes after the first stage, if it had none when this row was begun before. */
static int reserve_second(stk_request *r, stk_error *err)
{
    int rc = 0;

    stk_request_swap_buffers(r);
    if (r->memory.cap < r->memory.second)
        rc = reserve(r, r->memory.second, err);
    stk_request_swap_buffers(r);
    if (rc == 0)
        rc = stk_request_files_room(r, r->reads.named.lacks, err);
    return rc < 0 ? stk_request_give_up(r, rc, err) : 0;
}

int stk_request_plan_parts(stk_request *r, stk_error *err)
{
    int second, rc;

    stk_reads_plan(r, 1);
    if (r->reads.stage == STK_REQUEST_FIRST)
        STK_TRY(reserve_second(r, err));
    second = r->reads.stage == STK_REQUEST_SECOND;
    rc = place_planned(r, err);
    if (second)
        r->memory.second = rc == STK_ELIMIT && r->memory.lacks ? r->reads.total : 0;
    return rc;
}

int stk_request_begin(stk_request *r, uint32_t n, stk_error *err)
{
    int rc = stk_request_locate(r, n, err);

    return rc ? rc : stk_request_plan(r, err);
}

stk_io *stk_request_own_io(stk_request *r, uint32_t i)
{
    if (r->reads.in_parts)
        return NULL;
    for (uint32_t k = 0; k < r->n; k++)
        if (k != i && stk_wanted_is_read(&r->want[k]) && r->want[k].io == r->want[i].io)
            return NULL;
    return stk_wanted_is_read(&r->want[i]) && !r->want[i].place.unpacked
               ? &r->reads.io[r->want[i].io]
               : NULL;
}

void stk_request_end(stk_request *r)
{
    if (r->blocks || r->reads.files)
        stk_request_let_go(r);
    r->n = 0;
    r->reads.in_parts = 0;
    if (r->file)
        r->data->ops->release(r->data, r->entry.shard);
    r->file = NULL;
}

int stk_io_try(stk_io *io, stk_file *f)
{
    const void *here = f->source->peek ? f->source->peek(f, io->offset, io->len) : NULL;

    if (here) {
        io->dst = (void *)(uintptr_t)here; /* read-only from here on */
        io->got = io->len;
        return 1;
    }
    return f->source->try_read && f->source->try_read(f, io) == 0;
}

int stk_request_try(stk_request *r, stk_error *err)
{
    int rc = 0;

    (void)err;
    for (uint32_t i = 0; i < r->reads.n; i++) {
        r->reads.missing[i] = !stk_io_try(&r->reads.io[i], r->reads.io[i].file);
        if (r->reads.missing[i])
            rc = STK_PENDING;
    }
    for (uint32_t i = 0; r->blocks && i < r->n; i++)
        if (r->want[i].block)
            rc = STK_PENDING; /* submit() finds out; blocks that are here cost it one lock each */
    return rc;
}

static int count_down(stk_request *r)
{
    return atomic_fetch_sub_explicit(&r->pending, 1, memory_order_acq_rel) == 1;
}

static int may_retry(const stk_io *io)
{
    return io->rc == STK_EIO && !(io->file->source->can & STK_SOURCE_RETRIES);
}

/* One more try for a read of this request?  Which one that is, from 1; 0: no more. */
static uint32_t try_again(stk_request *r)
{
    uint32_t before = atomic_fetch_add_explicit(&r->retries, 1, memory_order_relaxed);

    if (before < STK_IO_TRIES)
        return before + 1;
    atomic_fetch_sub_explicit(&r->retries, 1, memory_order_relaxed);
    return 0;
}

/* What the drivers of async sources sleep by. */
static void in_flight(stk_request *r)
{
    stk_async *a = r->async;

    if (a && atomic_fetch_add_explicit(&a->in_flight, 1, memory_order_acq_rel) == 0)
        a->wake(a);
}

static void read_ended(stk_request *r)
{
    if (r->async)
        atomic_fetch_sub_explicit(&r->async->in_flight, 1, memory_order_acq_rel);
}

/* A read failed.  0: for good, or the pause is over; STK_PENDING: stk_io_again() comes. */
static int wait_to_retry(stk_request *r, stk_io *io, uint32_t failed)
{
    stk_async *a = r->async;

    return a && failed && a->later(a, io, failed < STK_IO_TRIES ? failed : STK_IO_TRIES - 1)
               ? STK_PENDING
               : 0;
}

/* Begin a read.  0: it is finished (io->rc says how); STK_PENDING: io->done() comes. */
static int submit(stk_request *r, stk_io *io)
{
    uint32_t failed;
    int rc;

    do {
        io->got = 0;
        io->rc = io->sys = 0;
        in_flight(r);
        rc = io->file->source->submit(io->file, io);
        if (rc == STK_PENDING)
            return rc; /* it may be over by now: hands off */
        read_ended(r);
        if (rc < 0)
            io->rc = rc;
        failed = may_retry(io) ? try_again(r) : 0;
        if (wait_to_retry(r, io, failed))
            return STK_PENDING;
    } while (failed);
    return 0;
}

/* A read came back.  1: that was all; 0: it failed and is tried again. */
static int through(stk_request *r, stk_io *io)
{
    uint32_t failed;

    if (!io->file->source->submit)
        return 1;
    read_ended(r);
    failed = may_retry(io) ? try_again(r) : 0;
    if (!failed)
        return 1;
    return !wait_to_retry(r, io, failed) && submit(r, io) != STK_PENDING;
}

static void finished(stk_request *r)
{
    if (count_down(r))
        r->arrived(r);
}

static void io_done(stk_io *io)
{
    stk_request *r = io->cookie;

    if (through(r, io))
        finished(r);
}

/* The request that began to read the block waits for it, so it is there to be asked. */
static void block_done(stk_io *io)
{
    stk_wanted *w = io->cookie;

    if (through(w->waiter.cookie, io))
        stk_block_arrived(w->block);
}

void stk_io_again(stk_io *io)
{
    stk_wanted *w = io->cookie;

    if (io->done == io_done) {
        if (submit(io->cookie, io) != STK_PENDING)
            finished(io->cookie);
    } else if (submit(w->waiter.cookie, io) != STK_PENDING) {
        stk_block_arrived(w->block);
    }
}

static void waiter_done(stk_waiter *w)
{
    finished(w->cookie);
}

/* ---- reads that are begun together ---- */

static stk_request *owner_of(const stk_io *io)
{
    return io->done == io_done ? io->cookie : ((stk_wanted *)io->cookie)->waiter.cookie;
}

static void begin_together(stk_io **io, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        io[i]->next = i + 1 < n ? io[i + 1] : NULL;
        in_flight(owner_of(io[i]));
    }
    if (n > 1 && io[0]->file->source->submit_all(io[0]->file, io[0]) == STK_PENDING)
        return; /* they may have finished: their memory is not ours any more */
    for (uint32_t i = 0; i < n; i++) {
        read_ended(owner_of(io[i]));
        stk_io_again(io[i]);
    }
}

void stk_plug_flush(stk_plug *p)
{
    uint32_t first = 0, n = p->n;

    p->n = 0;
    for (uint32_t i = 1; i <= n; i++)
        if (i == n || p->io[i]->file != p->io[first]->file) {
            begin_together(p->io + first, i - first);
            first = i;
        }
}

static int plug_add(stk_plug *p, stk_io *io)
{
    uint32_t i;

    if (p->n == STK_PLUG_MAX)
        stk_plug_flush(p);
    for (i = p->n++; i; i--) {
        const stk_io *o = p->io[i - 1];

        if (o->file == io->file ? o->offset <= io->offset
                                : (uintptr_t)o->file < (uintptr_t)io->file)
            break;
        p->io[i] = p->io[i - 1];
    }
    p->io[i] = io;
    return STK_PENDING;
}

static int start(stk_request *r, stk_io *io, void (*queue)(void *cookie, stk_io *io), void *cookie)
{
    uint64_t retried = 0;

    if (io->file->source->submit && r->account)
        return r->plug && io->len && io->file->source->submit_all ? plug_add(r->plug, io)
                                                                  : submit(r, io);
    if (queue) {
        queue(cookie, io);
        return STK_PENDING;
    }
    stk_io_read(io, &retried);
    atomic_fetch_add_explicit(&r->retries, (uint32_t)retried, memory_order_relaxed);
    return 0;
}

static void start_block(stk_request *r, stk_wanted *w, void (*queue)(void *cookie, stk_io *io),
                        void *cookie)
{
    stk_io *io = stk_block_io(w->block);
    stk_block_need need;

    w->waiter.arrived = waiter_done;
    w->waiter.cookie = r;
    atomic_fetch_add_explicit(&r->pending, 1, memory_order_relaxed);
    need = stk_block_want(w->block, &w->waiter);
    if (need == STK_BLOCK_YOURS) {
        io->done = block_done;
        io->file = r->file;
        io->cookie = w;
        /* Wait for it like the others; the thread that completes the io tells us. */
        if (stk_block_want(w->block, &w->waiter) == STK_BLOCK_COMING &&
            (stk_io_try(io, r->file) || start(r, io, queue, cookie) == 0))
            stk_block_arrived(w->block);
    } else if (need == STK_BLOCK_HERE) {
        count_down(r); /* cannot reach zero: submit() holds one */
    }
}

int stk_request_submit(stk_request *r, void (*queue)(void *cookie, stk_io *io), void *cookie,
                       stk_error *err)
{
    (void)err;
    r->late = 1;
    atomic_store_explicit(&r->pending, 1, memory_order_relaxed);
    for (uint32_t i = 0; i < r->reads.n; i++) {
        if (!r->reads.missing[i])
            continue;
        r->reads.io[i].done = io_done;
        atomic_fetch_add_explicit(&r->pending, 1, memory_order_relaxed);
        if (start(r, &r->reads.io[i], queue, cookie) == 0)
            count_down(r);
    }
    for (uint32_t i = 0; i < r->n; i++)
        if (r->want[i].block)
            start_block(r, &r->want[i], queue, cookie);
    return count_down(r) ? 0 : STK_PENDING;
}

static int check_io(const stk_io *io, const stk_wanted *w, uint64_t end, stk_error *err)
{
    char text[STK_REASON_MAX];

    if (io->rc < 0)
        return stk_fail(err, io->rc, "reading failed: %s", stk_io_reason(io, text, sizeof text));
    if (io->offset + io->got < end)
        return stk_fail(err, STK_ESTALE,
                        "the %s ends at %" PRIu64 ", field %s reaches to %" PRIu64
                        ": it was cut after it was indexed",
                        w->own ? "file" : "shard", io->offset + io->got, w->field.name, end);
    return 0;
}

/* STK_PENDING: another one unpacks the block, and r may be another worker's by now. */
static int take_block(stk_request *r, stk_wanted *w, stk_error *err)
{
    int rc;

    if (w->place.absent) { /* found before another block was waited for */
        w->bytes = w->place.here;
        return 0;
    }
    w->waiter.arrived = waiter_done;
    w->waiter.cookie = r;
    atomic_store_explicit(&r->pending, 1, memory_order_relaxed);
    rc = stk_block_open(w->block, &w->waiter, &w->bytes, err);
    if (rc == 0)
        rc = r->data->ops->pick(r->data, &r->entry, &w->field, &w->place, &w->bytes, err);
    if (rc == STK_ENOTFOUND) { /* null, which only the block says */
        rc = take_absent(r, w, err);
        w->bytes = w->place.here;
    }
    return rc;
}

static int unpack(stk_request *r, stk_wanted *w, stk_error *err)
{
    stk_unpack_job job = { r->entry.shard, &w->place, w->bytes, r->reads.bytes + w->room,
                           (size_t)w->place.unpacked };

    if (w->made == UINT64_MAX) { /* else before a block was waited for */
        STK_TRY(r->data->ops->unpack(r->data, &job, err));
        if (job.len > w->place.unpacked)
            return stk_fail(err, STK_ECORRUPT,
                            "field %s unpacks to %zu bytes, and %" PRIu64 " were said",
                            w->field.name, job.len, w->place.unpacked);
        w->made = job.len;
    }
    w->bytes = (stk_bytes){ job.dst, (size_t)w->made };
    return 0;
}

static int take_parts(stk_request *r, stk_wanted *w, stk_error *err)
{
    stk_ranged *g = &r->ranged[w - r->want];

    w->bytes = (stk_bytes){ 0 };
    g->later = 0;
    for (uint32_t k = 0; k < g->n; k++) {
        const stk_io *io = &r->reads.io[g->io[k]];
        uint64_t at = w->place.offset + g->range[k].offset;

        STK_TRY(check_io(io, w, at + g->range[k].len, err));
        g->part[k] = (stk_media_part){ g->range[k].offset,
                                       { (const uint8_t *)io->dst + (at - io->offset),
                                         (size_t)g->range[k].len } };
    }
    return 0;
}

static int take_whole(stk_request *r, stk_wanted *w, stk_error *err)
{
    const stk_io *io = &r->reads.io[w->io];

    STK_TRY(check_io(io, w, w->place.offset + w->place.len, err));
    w->bytes.data = (const uint8_t *)io->dst + (w->place.offset - io->offset);
    w->bytes.len = (size_t)w->place.len;
    return r->unpacks && w->place.unpacked ? unpack(r, w, err) : 0;
}

/* Is the file that was read still the one that was opened?  Of small rows each 16th asks: a look at
 * the clock for every one is 4 % of what a row costs. */
static int look(stk_request *r, stk_error *err)
{
    return r->reads.n && r->file ? stk_file_unchanged(r->file, 1, err) : 0;
}

int stk_request_finish(stk_request *r, stk_error *err)
{
    for (uint32_t i = 0; i < r->n; i++) {
        stk_wanted *w = &r->want[i];
        int rc;

        if (w->block) {
            rc = take_block(r, w, err);
            if (rc == STK_PENDING)
                return rc;
        } else if (!w->file) {
            rc = 0;
            w->bytes = w->place.here;
        } else {
            rc = r->reads.in_parts && r->ranged[i].n ? take_parts(r, w, err)
                                                     : take_whole(r, w, err);
        }
        if (rc < 0) {
            stk_error_at(err, NULL, w->place.offset, (stk_bytes){ 0 });
            return rc;
        }
    }
    return ++r->reads.samples % LOOK_EVERY && r->reads.total < LARGE ? 0 : look(r, err);
}

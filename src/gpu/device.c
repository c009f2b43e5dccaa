/* SPDX-License-Identifier: Apache-2.0 */
/* device.c - batches on their way to a GPU: queued, copying, decoding, ready.
 *
 * The worker that makes a batch's last row queues the batch and starts a transfer, if one is free.
 * Each transfer has a CUDA stream.  If all transfers are busy the batch stays queued, and the next
 * free transfer takes several queued batches at once: many pictures fill a GPU, few do not.  The
 * host callback at the end of the stream puts the transfer on a list; the completion thread
 * (stk_device_complete) takes it from there, reports its batches as ready and starts it again. */
#include "gpu/device.h"

#include <assert.h>
#include <string.h>

#include "base/lock.h"
#include "base/mem.h"
#include "base/size.h"
#include "gpu/padded.h"

#define TRANSFERS 4
#define GROUP_ROWS 1024 /* of all batches of a transfer: about what fills a GPU */
#define BLOCKS_PER_SM 6 /* of 128 threads, that decode at once */

/* ---- open and close ---- */

int stk_device_fail(const stk_device *d, int rc, const char *what, stk_error *err)
{
    return stk_fail(err, STK_EIO, "GPU %d (%s): %s: %s", d->gpu, d->info.name, what,
                    d->cuda->say(rc));
}

static int transfer_open(stk_device *d, stk_gpu_transfer *f, stk_error *err)
{
    const stk_cuda *c = d->cuda;
    int rc;

    f->device = d;
    f->pictures = stk_zalloc(d->n_out, sizeof *f->pictures);
    if (!f->pictures)
        return stk_fail_nomem(err, d->n_out * sizeof *f->pictures);
    rc = c->stream_open(d->gpu, 1, &f->stream);
    if (!rc)
        rc = c->event_open(d->gpu, 1, &f->begin);
    if (!rc)
        rc = c->event_open(d->gpu, 1, &f->copied);
    if (!rc)
        rc = c->event_open(d->gpu, 1, &f->made);
    return rc ? stk_device_fail(d, rc, "no stream could be made", err) : 0;
}

static void transfer_close(stk_device *d, stk_gpu_transfer *f)
{
    const stk_cuda *c = d->cuda;
    void *const event[] = { f->begin, f->copied, f->made };

    if (f->stream) {
        c->stream_sync(d->gpu, f->stream);
        c->stream_close(d->gpu, f->stream);
    }
    for (size_t i = 0; i < sizeof event / sizeof *event; i++)
        if (event[i])
            c->event_close(d->gpu, event[i]);
    for (uint32_t i = 0; f->pictures && i < d->n_out; i++) {
        if (f->pictures[i].host.data)
            c->pinned_free(f->pictures[i].host.data);
        if (f->pictures[i].gpu.data)
            c->free(d->gpu, f->pictures[i].gpu.data);
    }
    stk_free(f->pictures);
    if (f->slab.data)
        c->free(d->gpu, f->slab.data);
    if (f->scratch.data)
        c->free(d->gpu, f->scratch.data);
    if (f->places.data)
        c->free(d->gpu, f->places.data);
    if (f->mixes.data)
        c->free(d->gpu, f->mixes.data);
}

int stk_device_open(stk_device **out, const stk_device_options *o, stk_error *err)
{
    stk_device *d = STK_NEW(stk_device);
    int rc;

    *out = NULL;
    if (!d)
        return stk_fail_nomem(err, sizeof *d);
    stk_mutex_init(&d->lock);
    pthread_cond_init(&d->wake, NULL);
    d->done_tail = &d->done;
    rc = stk_cuda_load(&d->cuda, err);
    if (rc == 0)
        rc = stk_cuda_find(d->cuda, o->name, &d->gpu, err);
    if (rc == 0 && (rc = d->cuda->info(d->gpu, &d->info)) != 0)
        rc = stk_fail(err, STK_ENOTSUP, "device %s: GPU %d can't be used: %s", o->name, d->gpu,
                      d->cuda->say(rc));
    if (rc == 0) {
        d->limit = o->memory_limit ? o->memory_limit : d->info.memory / 4;
        d->blocks = o->sm_limit && o->sm_limit < d->info.sms ? o->sm_limit * BLOCKS_PER_SM : 0;
        rc = stk_gpu_pool_open(&d->pool, d->cuda, d->gpu, stk_device_room(d), err);
    }
    d->group = 1;
    d->n_out = o->outputs;
    d->n_transfers = o->transfers ? o->transfers : TRANSFERS;
    d->n_transfers = d->n_transfers < STK_MAX_TRANSFERS ? d->n_transfers : STK_MAX_TRANSFERS;
    for (uint32_t i = 0; i < d->n_transfers && rc == 0; i++)
        rc = transfer_open(d, &d->transfer[i], err);
    if (rc == 0)
        rc = transfer_open(d, &d->redo, err);
    *out = d;
    if (rc < 0)
        stk_device_close(out);
    return rc;
}

void stk_device_close(stk_device **dp)
{
    stk_device *d = *dp;

    if (!d)
        return;
    *dp = NULL;
    stk_gpu_clips_close(&d->clips); /* its threads send batches */
    for (uint32_t i = 0; i < STK_MAX_TRANSFERS; i++)
        if (d->transfer[i].device)
            transfer_close(d, &d->transfer[i]);
    if (d->redo.device)
        transfer_close(d, &d->redo);
    stk_picture_cache_close(&d->keep);
    stk_array_cache_close(&d->arrays);
    stk_gpu_pool_close(&d->pool);
    pthread_cond_destroy(&d->wake);
    stk_mutex_destroy(&d->lock);
    stk_free(d);
}

uint32_t stk_device_gpu(const stk_device *d)
{
    return (uint32_t)d->gpu + 1;
}

int stk_device_node(const stk_device *d)
{
    return d->info.node;
}

uint64_t stk_device_room(const stk_device *d)
{
    return d->limit / 2;
}

void stk_device_group(stk_device *d, uint32_t slots)
{
    uint32_t n = slots / (2 * d->n_transfers);

    d->group = n < 1 ? 1 : n > STK_PIC_BATCHES ? STK_PIC_BATCHES : n;
}

int stk_device_keep(stk_device *d, const stk_picture_cache_options *given, uint64_t most,
                    stk_error *err)
{
    stk_picture_cache_options o = *given;

    assert(!d->keep); /* once, before the first batch */
    if (!o.bytes)
        o.bytes = d->info.free_memory / 2;
    if (most && most < o.bytes)
        o.bytes = most;
    return stk_picture_cache_open(&d->keep, d->cuda, d->gpu, &o, err);
}

int stk_device_array_cache(stk_device *d, uint64_t bytes, uint64_t limit, stk_array_cache **out,
                           stk_error *err)
{
    assert(!d->arrays); /* likewise */
    *out = NULL;
    if (bytes > (limit ? limit : d->info.free_memory / 2))
        return 0;
    STK_TRY(stk_array_cache_open(&d->arrays, d->cuda, d->gpu, bytes, err));
    *out = d->arrays;
    return 0;
}

stk_picture_cache *stk_device_picture_cache(const stk_device *d)
{
    return d->keep;
}

/* ---- memory ---- */

/* The cookie is the GPU's number, so that nothing has to live as long as the memory. */
static void *pinned_alloc(void *cookie, size_t size)
{
    const stk_cuda *cuda;
    void *p = NULL;

    if (stk_cuda_load(&cuda, NULL) < 0 || cuda->pinned_alloc((int)(intptr_t)cookie, size, &p) != 0)
        return NULL;
    return p;
}

static void pinned_free(void *cookie, void *p, size_t size)
{
    const stk_cuda *cuda;

    (void)cookie, (void)size;
    if (stk_cuda_load(&cuda, NULL) == 0)
        cuda->pinned_free(p);
}

stk_memory stk_pinned_memory(int gpu)
{
    return (stk_memory){ .abi = STK_PLUGIN_ABI,
                         .size = sizeof(stk_memory),
                         .name = "pinned",
                         .cookie = (void *)(intptr_t)gpu,
                         .alloc = pinned_alloc,
                         .free = pinned_free };
}

int stk_staging_grow(stk_device *d, stk_room *r, size_t size, stk_error *err)
{
    int rc;

    if (size <= r->size)
        return 0;
    if (r->data)
        d->cuda->pinned_free(r->data);
    *r = (stk_room){ 0 };
    size += size / 4;
    rc = d->cuda->pinned_alloc(d->gpu, size, &r->data);
    if (rc)
        return stk_fail(err, STK_ENOMEM, "no %zu MB of page-locked memory: %s",
                        (size_t)stk_size_mb(size), d->cuda->say(rc));
    r->size = size;
    return 0;
}

int stk_gpu_scratch_grow(stk_device *d, stk_room *r, size_t size, stk_error *err)
{
    int rc;

    if (size <= r->size)
        return 0;
    if (r->data)
        d->cuda->free(d->gpu, r->data);
    atomic_fetch_sub_explicit(&d->rooms, r->size, memory_order_relaxed);
    *r = (stk_room){ 0 };
    size += size / 4;
    rc = d->cuda->alloc(d->gpu, size, &r->data);
    if (rc)
        return stk_fail(err, STK_ENOMEM, "GPU %d (%s) gives no %zu MB to work in: %s", d->gpu,
                        d->info.name, (size_t)stk_size_mb(size), d->cuda->say(rc));
    r->size = size;
    atomic_fetch_add_explicit(&d->rooms, size, memory_order_relaxed);
    return 0;
}

/* ---- transfers ---- */

static void start_copies(stk_gpu_transfer *f);

static void take_times(stk_device *d, stk_gpu_transfer *f)
{
    float copy = 0, make = 0;

    if (!f->timed)
        return;
    f->timed = 0;
    if (d->cuda->event_ms(d->gpu, f->begin, f->copied, &copy) ||
        d->cuda->event_ms(d->gpu, f->copied, f->made, &make))
        return;
    stk_mutex_lock(&d->lock);
    d->figures.copy_ns += (uint64_t)(copy * 1e6f);
    d->figures.picture_ns += (uint64_t)(make * 1e6f);
    stk_mutex_unlock(&d->lock);
}

/* Queued batches, as many as make a good launch, into a free transfer.  0: none is queued. */
static int take_queued_locked(stk_device *d, stk_gpu_transfer *f) STK_REQUIRES(d->lock)
{
    uint32_t rows = 0;

    assert(d->group && d->group <= STK_PIC_BATCHES && d->end - d->first <= STK_MAX_WAITING);
    f->n = 0;
    while (d->first != d->end && f->n < d->group) {
        const stk_queued_batch *p = &d->waiting[d->first % STK_MAX_WAITING];

        if (f->n && rows + p->batch->rows > GROUP_ROWS)
            break;
        rows += p->batch->rows;
        f->on[f->n++] = *p;
        d->first++;
    }
    f->busy = f->n != 0;
    return f->busy;
}

/* The stream is finished with a transfer.  Runs on a thread of CUDA's, which must never wait for
 * us: calls that free memory wait for it, whatever locks their callers hold. */
static void stream_done(void *cookie, int rc)
{
    stk_gpu_transfer *f = cookie;
    stk_device *d = f->device;

    stk_mutex_lock(&d->lock);
    assert(f->busy && f->n && f != &d->redo);
    f->rc = rc;
    f->next = NULL;
    *d->done_tail = f;
    d->done_tail = &f->next;
    pthread_cond_signal(&d->wake);
    stk_mutex_unlock(&d->lock);
}

/* Report the batches of a transfer as ready, or as failed. */
static void report_done(const stk_queued_batch *on, uint32_t n, int rc, const stk_error *err)
{
    for (uint32_t i = 0; i < n; i++) {
        stk_gpu_clips_drop(on[i].batch); /* what they made is in the batch, or lost */
        stk_ticket_done(on[i].ticket, rc, err);
    }
}

/* The batches of a transfer that failed will never be whole on the GPU. */
static void lost(stk_gpu_transfer *f)
{
    for (uint32_t i = 0; i < f->device->n_out; i++)
        stk_pictures_lost(f, i);
}

/* ---- rows that are mixed with each other ---- */

static size_t mix_bytes(const stk_batch *b)
{
    size_t n = 0;

    for (const stk_deferred_mix *m = b->mixes; m; m = m->next)
        n += m->rows * sizeof *m->row;
    return n;
}

static int mix_part(const stk_gpu_transfer *f, const stk_batch *b, const stk_deferred_mix *m,
                    uint32_t part, const void *row)
{
    stk_blend launch = m->part[part];

    launch.data = b->out[m->output[part]].gpu_memory->data;
    launch.row = m->rows ? row : NULL;
    launch.rows = b->rows;
    return f->device->cuda->blend(f->device->gpu, &launch, f->stream);
}

/* Every row of the batch is there.  What rows get goes to `at` and after it. */
static int mix_batch(stk_gpu_transfer *f, const stk_batch *b, uint8_t *at)
{
    const stk_cuda *c = f->device->cuda;
    int rc = 0;

    for (const stk_deferred_mix *m = b->mixes; m && !rc; m = m->next) {
        size_t bytes = m->rows * sizeof *m->row;

        if (bytes)
            rc = c->copy(f->device->gpu, at, m->row, bytes, STK_COPY_IN, f->stream);
        for (uint32_t i = 0; i < m->n_parts && !rc; i++)
            rc = mix_part(f, b, m, i, at);
        at += bytes;
    }
    return rc;
}

/* STK_PENDING: batches of the transfer are being mixed.  Those with rows to be made again wait for
 * them. */
static int mix_all(stk_gpu_transfer *f, stk_error *err)
{
    stk_device *d = f->device;
    size_t bytes = 0, at = 0;
    int rc = 0, any = 0;

    for (uint32_t k = 0; k < f->n; k++) {
        any |= f->on[k].batch->mixes && !f->on[k].batch->bad;
        bytes += mix_bytes(f->on[k].batch);
    }
    if (!any)
        return 0;
    STK_TRY(stk_gpu_scratch_grow(d, &f->mixes, bytes + 64, err));
    for (uint32_t k = 0; k < f->n && !rc; k++) {
        const stk_batch *b = f->on[k].batch;

        if (!b->bad)
            rc = mix_batch(f, b, (uint8_t *)f->mixes.data + at);
        at += mix_bytes(b);
    }
    if (!rc)
        rc = d->cuda->call(d->gpu, f->stream, stream_done, f);
    if (!rc)
        return STK_PENDING;
    d->cuda->stream_sync(d->gpu, f->stream);
    return stk_device_fail(d, rc, "rows could not be mixed", err);
}

int stk_device_repaired(stk_device *d, stk_batch *b, stk_error *err)
{
    stk_gpu_transfer *f = &d->redo;
    int rc, over;

    if (!b->mixes)
        return 0;
    STK_TRY(stk_gpu_scratch_grow(d, &f->mixes, mix_bytes(b) + 64, err));
    rc = mix_batch(f, b, f->mixes.data);
    over = d->cuda->stream_sync(d->gpu, f->stream);
    rc = rc ? rc : over;
    return rc ? stk_device_fail(d, rc, "rows could not be mixed", err) : 0;
}

/* ---- arrivals ---- */

/* Copies and pictures are through: what they say of each, then what is done to whole batches. */
static int settle(stk_gpu_transfer *f, stk_error *err)
{
    stk_device *d = f->device;
    int rc = 0;

    if (f->rc)
        rc = stk_device_fail(d, f->rc, "a batch did not arrive", err);
    for (uint32_t i = 0; !rc && i < d->n_out; i++)
        if (f->pictures[i].n && stk_pictures_done(f, i) < 0)
            rc = stk_fail_nomem(err, 1);
    lost(f); /* where it failed: else everything is settled */
    take_times(d, f);
    return rc ? rc : mix_all(f, err);
}

/* A transfer is finished: start it again with queued batches, then report the ones it had. */
static void arrive(stk_gpu_transfer *f)
{
    stk_queued_batch on[STK_PIC_BATCHES];
    stk_device *d = f->device;
    uint32_t n = f->n;
    stk_error err;
    int rc = 0, again;

    stk_error_clear(&err);
    if (!f->mixing)
        rc = settle(f, &err);
    else if (f->rc)
        rc = stk_device_fail(d, f->rc, "rows could not be mixed", &err);
    f->mixing = rc == STK_PENDING;
    if (f->mixing)
        return;
    memcpy(on, f->on, sizeof on);
    stk_mutex_lock(&d->lock);
    assert(f->busy && n && n <= STK_PIC_BATCHES);
    again = take_queued_locked(d, f);
    stk_mutex_unlock(&d->lock);
    if (again)
        start_copies(f);
    report_done(on, n, rc, &err);
}

void stk_device_complete(stk_device *d)
{
    stk_mutex_lock(&d->lock);
    while (d->done || !d->shut) {
        stk_gpu_transfer *f = d->done;

        if (!f) {
            stk_cond_wait(&d->wake, &d->lock);
            continue;
        }
        d->done = f->next;
        if (!d->done)
            d->done_tail = &d->done;
        stk_mutex_unlock(&d->lock);
        arrive(f);
        stk_mutex_lock(&d->lock);
    }
    stk_mutex_unlock(&d->lock);
}

void stk_device_shut(stk_device *d)
{
    stk_mutex_lock(&d->lock);
    d->shut = 1;
    pthread_cond_signal(&d->wake);
    stk_mutex_unlock(&d->lock);
}

/* ---- outputs ---- */

static int send(stk_gpu_transfer *f, void *dst, const void *src, size_t size, stk_error *err)
{
    stk_device *d = f->device;
    int rc = size ? d->cuda->copy(d->gpu, dst, src, size, STK_COPY_IN, f->stream) : 0;

    if (rc)
        return stk_device_fail(d, rc, "a copy to it failed", err);
    stk_mutex_lock(&d->lock);
    d->figures.copied += size;
    stk_mutex_unlock(&d->lock);
    return 0;
}

static int send_dense(stk_gpu_transfer *f, stk_batch_out *o, const stk_buffer *from, size_t size,
                      stk_error *err)
{
    STK_TRY(stk_gpu_pool_get(f->device->pool, size ? size : 1, f->stream, &o->gpu_memory, err));
    return send(f, o->gpu_memory->data, from->data, size, err);
}

/* ---- rows of arrays that are there ---- */

static size_t place_bytes(const stk_batch *b)
{
    return (b->rows * sizeof(uint64_t) + 63) & ~(size_t)63;
}

/* Room for the places of all rows: growing it waits for the GPU, so once for all that may come. */
static int make_places(stk_gpu_transfer *f, stk_error *err)
{
    const stk_batch_plan *c = f->on[0].batch->common;

    f->places_used = 0;
    if (!f->device->arrays)
        return 0;
    return stk_gpu_scratch_grow(f->device, &f->places,
                                (c->batch * sizeof(uint64_t) + 64) * f->device->group * c->n_out,
                                err);
}

static int send_gathered(stk_gpu_transfer *f, stk_batch *b, uint32_t i, stk_error *err)
{
    const stk_out_plan *p = &b->common->out[i];
    stk_device *d = f->device;
    stk_batch_out *o = &b->out[i];
    uint8_t *places = (uint8_t *)f->places.data + f->places_used;
    stk_gpu_gather g = { .count = p->gather.count,
                         .rows = b->rows,
                         .in = p->gather.in,
                         .made = p->gather.made,
                         .sign = p->gather.sign };
    int rc;

    f->places_used += place_bytes(b);
    STK_TRY(stk_gpu_pool_get(d->pool, p->row_bytes * b->rows + !b->rows, f->stream, &o->gpu_memory,
                             err));
    STK_TRY(send(f, places, o->buffer->data, b->rows * sizeof(uint64_t), err));
    g.arena = stk_array_cache_arena(d->arrays, &g.arena_len);
    g.at = (const uint64_t *)(const void *)places;
    g.out = o->gpu_memory->data;
    rc = d->cuda->gather(d->gpu, &g, f->stream);
    return rc ? stk_device_fail(d, rc, "rows could not be gathered", err) : 0;
}

static void count_gathered(stk_gpu_transfer *f, const stk_batch *b)
{
    stk_device *d = f->device;

    stk_mutex_lock(&d->lock);
    if (b->gathered)
        d->figures.hits += b->rows;
    else
        d->figures.misses += b->rows;
    stk_mutex_unlock(&d->lock);
}

/* Rows of different sizes: the buffer that most of them share, after it those that stand alone. */
static int send_list(stk_gpu_transfer *f, stk_batch *b, stk_batch_out *o, stk_error *err)
{
    size_t used = atomic_load_explicit(&o->used, memory_order_relaxed), size;

    used = !o->buffer ? 0 : used < o->buffer->size ? used : o->buffer->size;
    size = (used + 63) & ~(size_t)63;
    for (uint32_t r = 0; r < b->rows; r++) {
        stk_row_out *row = &o->row[r];

        row->gpu_at = row->own ? size : (size_t)(row->data - (uint8_t *)o->buffer->data);
        size += row->own ? (row->len + 63) & ~(size_t)63 : 0;
    }
    STK_TRY(stk_gpu_pool_get(f->device->pool, size ? size : 1, f->stream, &o->gpu_memory, err));
    if (used)
        STK_TRY(send(f, o->gpu_memory->data, o->buffer->data, used, err));
    for (uint32_t r = 0; r < b->rows; r++)
        if (o->row[r].own)
            STK_TRY(send(f, (uint8_t *)o->gpu_memory->data + o->row[r].gpu_at, o->row[r].data,
                         o->row[r].len, err));
    return 0;
}

static int send_output(stk_gpu_transfer *f, stk_batch *b, uint32_t i, stk_error *err)
{
    const stk_out_plan *p = &b->common->out[i];
    stk_batch_out *o = &b->out[i];

    if (p->gpu_made)
        return 0; /* pictures come after all plain copies */
    if (p->shared && p->shared - 1 < i) {
        o->gpu_memory = b->out[p->shared - 1].gpu_memory;
        stk_buffer_ref(o->gpu_memory);
        return 0;
    }
    if (o->padded)
        return send_dense(f, o, o->dense, stk_padded_bytes(b, o), err);
    if (p->gather.count)
        count_gathered(f, b);
    if (p->gather.count && b->gathered)
        return send_gathered(f, b, i, err);
    if (p->row_bytes)
        return send_dense(f, o, o->buffer, p->row_bytes * b->rows, err);
    if (p->spec.out == STK_OUT_LIST || p->spec.out == STK_OUT_DENSE)
        return send_list(f, b, o, err);
    return 0; /* strings stay here */
}

static int queue(stk_gpu_transfer *f, stk_error *err)
{
    stk_device *d = f->device;
    const stk_cuda *c = d->cuda;
    const stk_batch_plan *common = f->on[0].batch->common; /* one loader's, so all have it */
    int rc = 0;

    assert(f->n && f->n <= STK_PIC_BATCHES && common->n_out <= d->n_out);
    STK_TRY(make_places(f, err));
    c->event_record(d->gpu, f->begin, f->stream);
    stk_device_range(d, "stoker copy");
    for (uint32_t k = 0; k < f->n && rc == 0; k++)
        for (uint32_t i = 0; i < common->n_out && rc == 0; i++)
            rc = send_output(f, f->on[k].batch, i, err);
    stk_device_range(d, NULL);
    c->event_record(d->gpu, f->copied, f->stream);
    stk_device_range(d, "stoker decode");
    if (rc == 0)
        rc = stk_pictures_send(f, err);
    stk_device_range(d, NULL);
    STK_TRY(rc);
    f->timed = !c->event_record(d->gpu, f->made, f->stream);
    rc = c->call(d->gpu, f->stream, stream_done, f);
    return rc ? stk_device_fail(d, rc, "a batch could not be sent", err) : 0;
}

/* Queue the copies and kernels of a transfer.  If that fails, its batches are reported as failed
 * and the next queued ones are taken. */
static void start_copies(stk_gpu_transfer *f)
{
    stk_device *d = f->device;
    int rc, again = 1;

    while (again) {
        stk_queued_batch on[STK_PIC_BATCHES];
        uint32_t n = f->n;
        stk_error err;

        stk_error_clear(&err);
        rc = queue(f, &err);
        if (rc == 0)
            return;
        d->cuda->stream_sync(d->gpu, f->stream); /* what was queued uses the batches' memory */
        lost(f);
        memcpy(on, f->on, sizeof on);
        stk_mutex_lock(&d->lock);
        again = take_queued_locked(d, f);
        stk_mutex_unlock(&d->lock);
        report_done(on, n, rc, &err);
    }
}

void stk_device_queue(stk_device *d, stk_batch *b, stk_ticket *ticket)
{
    stk_gpu_transfer *f = NULL;

    stk_mutex_lock(&d->lock);
    assert(d->end - d->first < STK_MAX_WAITING && !d->shut); /* a slot is queued once */
    d->waiting[d->end++ % STK_MAX_WAITING] = (stk_queued_batch){ b, ticket };
    for (uint32_t i = 0; i < d->n_transfers && !f; i++)
        f = d->transfer[i].busy ? NULL : &d->transfer[i];
    if (f)
        take_queued_locked(d, f);
    stk_mutex_unlock(&d->lock);
    if (f)
        start_copies(f);
}

int stk_device_run(void *state, stk_batch *b, stk_ticket *ticket, stk_error *err)
{
    stk_device *d = state;

    (void)err;
    b->gpu = stk_device_gpu(d);
    if (!b->clips || !stk_gpu_clips_hold(d->clips, b, ticket))
        stk_device_queue(d, b, ticket);
    return STK_PENDING;
}

/* ---- rows made again ---- */

/* A row that may have another size now gets a place behind all others. */
static int move_rows(stk_gpu_transfer *f, stk_batch *b, uint32_t i, uint32_t row, stk_error *err)
{
    stk_device *d = f->device;
    stk_batch_out *o = &b->out[i];
    stk_buffer *old = o->gpu_memory, *made = NULL;
    size_t at = (old->size + 63) & ~(size_t)63;
    int rc;

    STK_TRY(stk_gpu_pool_get(d->pool, at + stk_row_out_bytes(b, i, row), f->stream, &made, err));
    rc = d->cuda->copy(d->gpu, made->data, old->data, old->size, STK_COPY_WITHIN, f->stream);
    if (!rc)
        rc = d->cuda->stream_sync(d->gpu, f->stream);
    o->gpu_memory = made;
    o->row[row].gpu_at = at;
    stk_buffer_unref(old);
    return rc ? stk_device_fail(d, rc, "rows could not be moved", err) : 0;
}

/* Picture i of a row whose channels are apart. */
static int send_apart(stk_gpu_transfer *f, const stk_spec *spec, uint8_t *row, uint32_t i,
                      const stk_pic *record, stk_error *err)
{
    const uint8_t *data = (const uint8_t *)record + record->data_at;
    size_t plane = record->data_len / 3;

    for (uint32_t c = 0; c < 3; c++)
        STK_TRY(send(f, row + stk_apart_at(spec, i, c) * plane, data + c * plane, plane, err));
    return 0;
}

/* Records of the output as it must be: one, or one for each of its pictures. */
static int redo_picture(stk_gpu_transfer *f, stk_batch *b, uint32_t i, uint32_t row, stk_error *err)
{
    const stk_out_plan *p = &b->common->out[i];
    const stk_batch_out *o = &b->out[i];
    const uint8_t *at = o->row[row].data;
    uint8_t *row_at, *to;

    if (o->padded)
        return stk_padded_redo(f, b, i, row, err);
    if (!p->gpu_bytes)
        STK_TRY(move_rows(f, b, i, row, err));
    to = row_at = (uint8_t *)o->gpu_memory->data + o->row[row].gpu_at;
    if (p->spec.picture.several)
        return send(f, to, at, o->row[row].len, err);
    for (uint32_t v = 0; v < stk_spec_times(&p->spec); v++) {
        const stk_pic *record = (const stk_pic *)(const void *)at;

        if (p->spec.picture.channels_first)
            STK_TRY(send_apart(f, &p->spec, row_at, v, record, err));
        else
            STK_TRY(send(f, to, at + record->data_at, record->data_len, err));
        to += record->data_len;
        at += record->size;
    }
    return 0;
}

static int redo_output(stk_gpu_transfer *f, stk_batch *b, uint32_t i, uint32_t row, stk_error *err)
{
    const stk_out_plan *p = &b->common->out[i];
    stk_batch_out *o = &b->out[i];

    if (o->pictures)
        STK_TRY(stk_batch_regrid(b, i, row, err));
    if (!p->gpu_made && o->padded)
        STK_TRY(stk_batch_pad_again(b, i, row, err));
    if (p->gpu_made)
        return redo_picture(f, b, i, row, err);
    if (p->row_bytes)
        return send(f, (uint8_t *)o->gpu_memory->data + row * p->row_bytes,
                    (uint8_t *)o->buffer->data + row * p->row_bytes, p->row_bytes, err);
    stk_buffer_unref(o->gpu_memory); /* the row may have another size now */
    o->gpu_memory = NULL;
    return o->padded ? send_dense(f, o, o->dense, stk_padded_bytes(b, o), err)
                     : send_list(f, b, o, err);
}

int stk_device_repair(stk_device *d, stk_batch *b, uint32_t row, stk_error *err)
{
    stk_gpu_transfer *f = &d->redo;
    int rc = 0, over;

    assert(row < b->rows && b->gpu == stk_device_gpu(d));
    for (uint32_t i = 0; i < b->common->n_out && rc == 0; i++)
        if (b->out[i].gpu_memory)
            rc = redo_output(f, b, i, row, err);
    over = d->cuda->stream_sync(d->gpu, f->stream);
    if (rc == 0 && over)
        rc = stk_device_fail(d, over, "a row did not arrive", err);
    stk_mutex_lock(&d->lock);
    d->figures.redone++;
    stk_mutex_unlock(&d->lock);
    return rc;
}

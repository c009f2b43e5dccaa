/* SPDX-License-Identifier: Apache-2.0 */
/* pictures.c - the pictures of the batches on board of a flight: records over in one copy a batch, then
 * the kernels, once for all of them, and what they say of each picture back.
 *
 * Where they need more scratch memory than there may be, several launches follow each other and use
 * it in turn.  Records that found no room in the slab are copied after it, one by one. */
#include <string.h>

#include "base/lock.h"
#include "base/mem.h"
#include "gpu/transfer.h"

/* What is in `near`: items (for the host), status words, then the lists; there: status, lists. */
typedef struct tables {
    stk_pic_item *item;
    uint8_t *lists;
    size_t lists_at, lists_room; /* in both memories from lists_at on */
} tables;

static size_t align(size_t n)
{
    return (n + 63) & ~(size_t)63;
}

/* ---- slabs ---- */

static size_t slab_used(const stk_batch_out *o)
{
    size_t used = atomic_load_explicit(&o->used, memory_order_relaxed);

    return !o->buffer ? 0 : used < o->buffer->size ? used : o->buffer->size;
}

/* Records of a row, side by side: one for each of its views. */
static uint32_t views_of(const stk_batch *b, uint32_t output)
{
    uint32_t n = b->common->out[output].spec.views;

    return n ? n : 1;
}

/* Where each record of a batch will be, from `at` on; what is after all of them. */
static size_t place_records(const stk_batch *b, uint32_t output, size_t at, stk_pic_item *item)
{
    const stk_batch_out *o = &b->out[output];
    const stk_pic_share *share = (const stk_pic_share *)(const void *)o->note;
    uint32_t views = views_of(b, output);
    size_t base = at;

    at += align(slab_used(o));
    for (uint32_t r = 0; r < b->rows; r++) {
        const stk_row_out *row = &o->row[r];
        size_t from = row->own ? at : base + (size_t)(row->data - (uint8_t *)o->buffer->data);

        for (uint32_t v = 0; v < views; v++, item++, share++) {
            *item = (stk_pic_item){ .share = *share, .row = r * views + v, .at = from };
            from += share->size;
        }
        at += row->own ? align(row->len) : 0;
    }
    return at;
}

static void place_all(stk_transfer *f, uint32_t output, stk_pic_item *item)
{
    size_t at = 0;

    for (uint32_t k = 0; k < f->n; k++) {
        const stk_batch *b = f->on[k].batch;

        f->slab_at[k] = at;
        at = place_records(b, output, at, item);
        for (uint32_t r = 0; r < b->rows * views_of(b, output); r++)
            (item++)->batch = k;
    }
    f->slab_bytes = at;
}

static int put(stk_transfer *f, void *dst, const void *src, size_t size)
{
    stk_device *d = f->device;

    return size ? d->cuda->copy(d->gpu, dst, src, size, STK_COPY_IN, f->stream) : 0;
}

static int send_slabs(stk_transfer *f, uint32_t output, const stk_pic_item *item)
{
    uint8_t *slab = f->slab.data;
    int rc = 0;

    for (uint32_t k = 0; k < f->n && !rc; k++) {
        const stk_batch *b = f->on[k].batch;
        const stk_batch_out *o = &b->out[output];

        if (o->buffer)
            rc = put(f, slab + f->slab_at[k], o->buffer->data, slab_used(o));
        for (uint32_t r = 0; r < b->rows && !rc; r++, item += views_of(b, output))
            if (o->row[r].own)
                rc = put(f, slab + item->at, o->row[r].data, o->row[r].len);
    }
    return rc;
}

/* ---- what is kept there ---- */

static stk_cache_key whose(const stk_transfer *f, uint32_t output, const stk_pic_item *i)
{
    const stk_batch *b = f->on[i->batch].batch;

    return (stk_cache_key){ b->ids[i->row], b->common->out[output].keep - 1 };
}

/* Pictures that came with their whole scan get a place, unless they have one. */
static void claim_places(stk_transfer *f, uint32_t output)
{
    stk_picture_cache *k = f->on[0].batch->common->out[output].keep ? f->device->keep : NULL;
    stk_pictures *p = &f->pictures[output];

    p->claimed = k != NULL;
    for (uint32_t i = 0; k && i < p->n; i++)
        if (p->item[i].share.scan)
            p->item[i].keep = stk_picture_cache_claim(k, whose(f, output, &p->item[i]),
                                             p->item[i].share.scan);
}

void stk_pictures_lost(stk_transfer *f, uint32_t output)
{
    stk_pictures *p = &f->pictures[output];

    for (uint32_t i = 0; p->claimed && i < p->n; i++)
        if (p->item[i].keep)
            stk_picture_cache_undo(f->device->keep, whose(f, output, &p->item[i]));
    p->claimed = 0;
}

/* They are made, well or not.  How many were there before. */
static uint64_t settle(stk_transfer *f, uint32_t output)
{
    stk_pictures *p = &f->pictures[output];
    uint64_t hits = 0;

    for (uint32_t i = 0; p->claimed && i < p->n; i++) {
        const stk_pic_item *x = &p->item[i];

        hits += x->share.kept;
        if (p->status[i] && (x->keep || x->share.kept))
            stk_picture_cache_bad(f->device->keep, whose(f, output, x));
        else if (x->keep)
            stk_picture_cache_there(f->device->keep, whose(f, output, x));
    }
    p->claimed = 0;
    return hits;
}

/* ---- kernels ---- */

static void describe(stk_pic_launch *l, const stk_transfer *f, uint32_t output)
{
    const stk_out_plan *p = &f->on[0].batch->common->out[output];

    *l = (stk_pic_launch){ .slab = f->slab.data,
                           .slab_len = f->slab.size,
                           .scratch = f->scratch.data,
                           .row_bytes = p->far_bytes / (p->spec.views ? p->spec.views : 1),
                           .dtype = stk_pic_dtype_of(p->spec.dtype),
                           .packed = p->spec.layout != STK_CHW,
                           .blocks = f->device->blocks };
    for (uint32_t k = 0; k < f->n; k++)
        l->out[k] = f->on[k].batch->out[output].far->data;
    if (f->device->keep)
        l->arena = stk_picture_cache_arena(f->device->keep, &l->arena_len);
    memcpy(l->mul, p->spec.mul, sizeof l->mul);
    memcpy(l->add, p->spec.add, sizeof l->add);
}

/* One launch after the other, until all pictures are in one. */
static int launch(stk_transfer *f, uint32_t output, const tables *t, stk_error *err)
{
    stk_device *d = f->device;
    const stk_pictures *p = &f->pictures[output];
    uint8_t *far = p->far.data;
    stk_pic_launch l;
    size_t at = 0;
    int rc = 0;

    describe(&l, f, output);
    for (uint32_t done = 0, n; done < p->n && !rc; done += n) {
        stk_pic_lists lists = { .memory = t->lists + at,
                                .room = t->lists_room - at,
                                .scratch_room = f->scratch.size };

        n = stk_pic_plan(&lists, t->item + done, p->n - done);
        if (!n)
            return stk_fail(err, STK_ELIMIT,
                            "a picture needs more than device_memory_limit leaves to decode it");
        stk_pic_launch_lists(&l, &lists, far + t->lists_at + at);
        l.status = (uint32_t *)(void *)far + done;
        rc = put(f, far + t->lists_at + at, t->lists + at, lists.bytes);
        if (!rc)
            rc = d->cuda->pictures(d->gpu, &l, f->stream);
        at += align(lists.bytes);
    }
    return rc ? stk_device_fail(d, rc, "pictures could not be sent", err) : 0;
}

/* Lists of several launches are each rounded up; there are never more launches than pictures. */
static int make_tables(stk_transfer *f, uint32_t output, tables *t, stk_error *err)
{
    stk_pictures *p = &f->pictures[output];
    size_t n = p->n, items = align(n * sizeof *t->item), words = align(n * sizeof *p->status);
    size_t head = items + words;

    STK_TRY(stk_staging_grow(f->device, &p->near, head, err));
    t->item = p->near.data;
    place_all(f, output, t->item);
    t->lists_room = stk_pic_lists_bytes(t->item, p->n) + 128 * n;
    if (p->near.size < head + t->lists_room) { /* once or twice: then it is large enough */
        STK_TRY(stk_staging_grow(f->device, &p->near, head + t->lists_room, err));
        t->item = p->near.data;
        place_all(f, output, t->item);
    }
    t->lists_at = words;
    p->status = (uint32_t *)(void *)((uint8_t *)p->near.data + items);
    t->lists = (uint8_t *)p->near.data + head;
    p->item = t->item;
    return stk_gpu_scratch_grow(f->device, &p->far, words + t->lists_room, err);
}

/* Scratch memory for all pictures, or as much of it as there may be. */
static int make_scratch(stk_transfer *f, const tables *t, uint32_t n, stk_error *err)
{
    stk_device *d = f->device;
    uint64_t want = 0, most = d->limit / 2 / d->n_flights, one = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint64_t cost = stk_pic_share_scratch(&t->item[i].share);

        want += cost;
        one = cost > one ? cost : one;
    }
    want = (want / f->n + 1) *
           d->group;     /* growing waits for the GPU: once, for all that may come */
    most = most * 4 / 5; /* rooms are made larger than asked for */
    return stk_gpu_scratch_grow(d, &f->scratch,
                        (size_t)(want < most  ? want
                                 : one > most ? one
                                              : most),
                        err);
}

/* Where the pictures will be. */
static int make_outputs(stk_transfer *f, uint32_t output, stk_error *err)
{
    for (uint32_t k = 0; k < f->n; k++) {
        stk_batch *b = f->on[k].batch;
        size_t bytes = b->common->out[output].far_bytes * b->rows;

        STK_TRY(stk_gpu_pool_get(f->device->far, bytes, f->stream, &b->out[output].far, err));
    }
    return 0;
}

int stk_pictures_send(stk_transfer *f, uint32_t output, stk_error *err)
{
    stk_device *d = f->device;
    stk_pictures *p = &f->pictures[output];
    tables t = { 0 };
    size_t words;
    int rc;

    p->n = 0;
    for (uint32_t k = 0; k < f->n; k++)
        p->n += f->on[k].batch->rows * views_of(f->on[k].batch, output);
    words = p->n * sizeof(uint32_t);
    STK_TRY(make_tables(f, output, &t, err));
    STK_TRY(stk_gpu_scratch_grow(d, &f->slab, (f->slab_bytes / f->n + 1) * d->group, err));
    STK_TRY(make_scratch(f, &t, p->n, err));
    STK_TRY(make_outputs(f, output, err));
    claim_places(f, output);
    rc = send_slabs(f, output, t.item);
    if (!rc)
        rc = d->cuda->event_record(d->gpu, f->copied, f->stream);
    if (!rc)
        rc = d->cuda->zero(d->gpu, p->far.data, words, f->stream);
    if (rc)
        return stk_device_fail(d, rc, "a slab of pictures could not be sent", err);
    STK_TRY(launch(f, output, &t, err));
    rc = d->cuda->copy(d->gpu, p->status, p->far.data, words, STK_COPY_OUT, f->stream);
    return rc ? stk_device_fail(d, rc, "pictures could not be sent", err) : 0;
}

/* How many JPEGs of a batch were decoded there; bad ones are marked.  -1: no memory to do so. */
static int64_t look(stk_batch *b, uint32_t output, const uint32_t *status)
{
    const stk_pic_share *share = (const stk_pic_share *)(const void *)b->out[output].note;
    int64_t jpegs = 0;

    for (uint32_t i = 0, views = views_of(b, output); i < b->rows * views; i++) {
        jpegs += share[i].kind == STK_PIC_SEEK || share[i].kind == STK_PIC_WHOLE;
        if (!status[i])
            continue;
        if (!b->bad && !(b->bad = stk_zalloc(b->rows, 1)))
            return -1;
        b->bad[i / views] = 1;
    }
    return jpegs;
}

int stk_pictures_landed(stk_transfer *f, uint32_t output)
{
    const uint32_t *status = f->pictures[output].status;
    stk_device *d = f->device;
    uint64_t jpegs = 0, hits, kept = f->pictures[output].claimed ? f->pictures[output].n : 0;

    hits = settle(f, output);
    for (uint32_t k = 0; k < f->n; k++) {
        int64_t n = look(f->on[k].batch, output, status);

        if (n < 0)
            return STK_ENOMEM;
        jpegs += (uint64_t)n;
        status += f->on[k].batch->rows * views_of(f->on[k].batch, output);
    }
    stk_mutex_lock(&d->lock);
    d->figures.pictures += jpegs;
    d->figures.hits += hits;
    d->figures.misses += kept - hits;
    d->figures.copied += f->slab_bytes;
    stk_mutex_unlock(&d->lock);
    return 0;
}

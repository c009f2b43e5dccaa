/* SPDX-License-Identifier: Apache-2.0 */
/* pictures.c - the pictures of a transfer's batches: records over in one copy a batch, then
 * the kernels, once for all of them, and what they say of each picture back.
 *
 * Outputs whose pictures one of them decodes go together: their records are in one slab, and
 * launches of the same rows follow each other, that of the output which decodes first.
 *
 * Where they need more scratch memory than there may be, rows go in parts that use it in turn.
 * Records that found no room in the slab are copied after it, one by one. */
#include <assert.h>
#include <string.h>

#include "base/lock.h"
#include "base/mem.h"
#include "gpu/padded.h"
#include "kern/patch.h"

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

/* Rows have any number of pictures. */
static int of_several(const stk_batch *b, uint32_t output)
{
    return b->common->out[output].spec.picture.several != STK_ONE;
}

/* Records of a row, side by side: one for each of its pictures. */
static uint32_t pictures_in(const stk_batch *b, uint32_t output, uint32_t row)
{
    const stk_picture_grids *g = b->out[output].pictures;

    return of_several(b, output) ? g->first[row + 1] - g->first[row]
                                 : stk_spec_times(&b->common->out[output].spec);
}

static uint32_t pictures_of(const stk_batch *b, uint32_t output)
{
    return of_several(b, output) ? b->out[output].pictures->n
                                 : b->rows * stk_spec_times(&b->common->out[output].spec);
}

/* What was noted of each. */
static const stk_pic_share *shares_of(const stk_batch *b, uint32_t output, uint32_t row)
{
    const stk_batch_out *o = &b->out[output];
    const stk_row_out *r = &o->row[row];
    uint32_t n = pictures_in(b, output, row);

    if (of_several(b, output))
        return (const stk_pic_share *)(const void *)(r->data + stk_shares_at(r->len, n));
    return (const stk_pic_share *)(const void *)o->note + (size_t)row * n;
}

/* Where each record of a batch will be, from `at` on; what is after all of them. */
static size_t place_records(const stk_batch *b, uint32_t output, size_t at, stk_pic_item *item)
{
    const stk_batch_out *o = &b->out[output];
    size_t base = at;

    at += align(slab_used(o));
    for (uint32_t r = 0; r < b->rows; r++) {
        const stk_row_out *row = &o->row[r];
        const stk_pic_share *share = shares_of(b, output, r);
        size_t from = row->own ? at : base + (size_t)(row->data - (uint8_t *)o->buffer->data);

        for (uint32_t v = 0; v < pictures_in(b, output, r); v++, item++, share++) {
            *item = (stk_pic_item){ .share = *share, .row = r, .at = from };
            from += share->size;
        }
        at += row->own ? align(row->len) : 0;
    }
    return at;
}

/* ... of an output, of all batches; `from`: where the slab is free. */
static void place_all(stk_gpu_transfer *f, uint32_t output, size_t from)
{
    stk_pictures *p = &f->pictures[output];
    uint32_t row = 0, i = 0;
    size_t at = from;

    for (uint32_t k = 0; k < f->n; k++) {
        const stk_batch *b = f->on[k].batch;

        p->slab_at[k] = at;
        at = place_records(b, output, at, p->item + i);
        for (uint32_t r = 0; r < b->rows; r++) {
            p->first[row++] = i;
            for (uint32_t v = 0; v < pictures_in(b, output, r); v++)
                p->item[i++].batch = k;
        }
    }
    p->first[row] = i;
    assert(i == p->n);
    p->slab_bytes = at - from;
}

static int put(stk_gpu_transfer *f, void *dst, const void *src, size_t size)
{
    stk_device *d = f->device;

    return size ? d->cuda->copy(d->gpu, dst, src, size, STK_COPY_IN, f->stream) : 0;
}

static int send_slabs(stk_gpu_transfer *f, uint32_t output)
{
    const stk_pictures *p = &f->pictures[output];
    const stk_pic_item *item = p->item;
    uint8_t *slab = f->slab.data;
    int rc = 0;

    for (uint32_t k = 0; k < f->n && !rc; k++) {
        const stk_batch *b = f->on[k].batch;
        const stk_batch_out *o = &b->out[output];

        if (o->buffer)
            rc = put(f, slab + p->slab_at[k], o->buffer->data, slab_used(o));
        for (uint32_t r = 0; r < b->rows && !rc; r++) {
            uint32_t n = pictures_in(b, output, r);

            if (o->row[r].own && n)
                rc = put(f, slab + item->at, o->row[r].data, o->row[r].len);
            item += n;
        }
    }
    return rc;
}

/* ---- what the GPU's cache has ---- */

static stk_cache_key whose(const stk_gpu_transfer *f, uint32_t output, const stk_pic_item *i)
{
    const stk_batch *b = f->on[i->batch].batch;

    return (stk_cache_key){ b->ids[i->row], b->common->out[output].keep - 1 };
}

/* Pictures that came with their whole scan get a place, unless they have one. */
static void claim_places(stk_gpu_transfer *f, uint32_t output)
{
    stk_picture_cache *k = f->on[0].batch->common->out[output].keep ? f->device->keep : NULL;
    stk_pictures *p = &f->pictures[output];

    p->claimed = k != NULL;
    for (uint32_t i = 0; k && i < p->n; i++)
        if (p->item[i].share.scan)
            p->item[i].keep = stk_picture_cache_claim(k, whose(f, output, &p->item[i]),
                                                      p->item[i].share.scan);
}

void stk_pictures_lost(stk_gpu_transfer *f, uint32_t output)
{
    stk_pictures *p = &f->pictures[output];

    for (uint32_t i = 0; p->claimed && i < p->n; i++)
        if (p->item[i].keep)
            stk_picture_cache_undo(f->device->keep, whose(f, output, &p->item[i]));
    p->claimed = 0;
}

/* They are made, well or not.  How many were there before; views of one count once. */
static uint64_t settle(stk_gpu_transfer *f, uint32_t output)
{
    stk_pictures *p = &f->pictures[output];
    uint32_t views = stk_spec_times(&f->on[0].batch->common->out[output].spec);
    uint64_t hits = 0;

    assert(!p->claimed || !of_several(f->on[0].batch, output));

    for (uint32_t i = 0; p->claimed && i < p->n; i++) {
        const stk_pic_item *x = &p->item[i], *first = x - i % views;

        hits += x == first && x->share.gpu_cached;
        if (p->status[i] && (first->keep || first->share.gpu_cached))
            stk_picture_cache_bad(f->device->keep, whose(f, output, x));
        else if (x->keep)
            stk_picture_cache_there(f->device->keep, whose(f, output, x));
    }
    p->claimed = 0;
    return hits;
}

/* ---- kernels ---- */

static void describe(stk_pic_launch *l, const stk_gpu_transfer *f, uint32_t output)
{
    const stk_out_plan *p = &f->on[0].batch->common->out[output];

    *l = (stk_pic_launch){ .slab = f->slab.data,
                           .slab_len = f->slab.size,
                           .scratch = f->scratch.data,
                           .dtype = stk_pic_dtype_of(p->spec.dtype),
                           .packed = p->spec.picture.layout != STK_CHW,
                           .laid = p->spec.picture.patch.side || f->on[0].batch->out[output].padded,
                           .frames = stk_spec_lead(&p->spec, STK_LEAD_FRAMES) > 0,
                           .blocks = f->device->blocks };
    if (f->device->keep)
        l->arena = stk_picture_cache_arena(f->device->keep, &l->arena_len);
    memcpy(l->mul, p->spec.picture.mul, sizeof l->mul);
    memcpy(l->add, p->spec.picture.add, sizeof l->add);
}

/* n items of an output, from `first` on; *at: how much of scratch those before it in the group
 * use. */
static int launch(stk_gpu_transfer *f, uint32_t output, uint32_t first, uint32_t n, uint64_t *at)
{
    stk_device *d = f->device;
    stk_pictures *p = &f->pictures[output];
    uint8_t *to = (uint8_t *)p->gpu.data + p->lists_at + p->lists_used;
    stk_pic_lists lists = { .memory = p->lists + p->lists_used,
                            .room = p->lists_room - p->lists_used,
                            .scratch_room = f->scratch.size,
                            .scratch_from = *at };
    stk_pic_launch l;
    int rc;

    assert(n && first + n <= p->n && p->lists_used <= p->lists_room);
    describe(&l, f, output);
    if (stk_pic_plan(&lists, p->item + first, n) < n)
        return STK_ELIMIT;
    stk_pic_launch_lists(&l, &lists, to);
    l.status = (uint32_t *)p->gpu.data + first;
    rc = put(f, to, lists.memory, lists.bytes);
    p->lists_used += align(lists.bytes);
    *at = lists.scratch;
    return rc ? rc : d->cuda->pictures(d->gpu, &l, f->stream);
}

/* ---- outputs that go together ---- */

/* The output that decodes pictures of this one's, or itself: its workers said so beside the
 * records. */
static uint32_t lead_of(const stk_gpu_transfer *f, uint32_t output)
{
    for (uint32_t k = 0; k < f->n && !of_several(f->on[k].batch, output); k++) {
        const stk_batch *b = f->on[k].batch;
        const stk_pic_share *share = (const stk_pic_share *)(const void *)b->out[output].note;

        for (uint32_t i = 0; i < pictures_of(b, output); i++)
            if (share[i].lead && share[i].lead - 1 != output)
                return share[i].lead - 1;
    }
    return output;
}

/* The next output of a group after `o`; n_out: there is none. */
static uint32_t next_in(const stk_gpu_transfer *f, uint32_t first, uint32_t o)
{
    const stk_batch_plan *c = f->on[0].batch->common;

    for (o++; o < c->n_out; o++)
        if (c->out[o].gpu_made && f->pictures[o].lead == first)
            return o;
    return c->n_out;
}

#define EACH_OF_GROUP(o, f, first)                                                                 \
    for (uint32_t o = (first), n_out_ = (f)->on[0].batch->common->n_out; o < n_out_;               \
         o = next_in(f, first, o))

/* Rows of all batches of a transfer. */
static uint32_t rows_of(const stk_gpu_transfer *f)
{
    uint32_t n = 0;

    for (uint32_t k = 0; k < f->n; k++)
        n += f->on[k].batch->rows;
    return n;
}

/* What is launched together at least: a row of all outputs of a group, or a picture where an output
 * has several in a row and shares none. */
static uint32_t parts_of(const stk_gpu_transfer *f, uint32_t first)
{
    return of_several(f->on[0].batch, first) ? f->pictures[first].n : rows_of(f);
}

/* The first item of part i. */
static uint32_t part_at(const stk_gpu_transfer *f, uint32_t output, uint32_t i)
{
    return of_several(f->on[0].batch, output) ? i : f->pictures[output].first[i];
}

/* What part i takes of scratch memory, of all outputs of a group. */
static uint64_t part_scratch(const stk_gpu_transfer *f, uint32_t first, uint32_t i)
{
    uint64_t n = 0;

    EACH_OF_GROUP(o, f, first)
    for (uint32_t k = part_at(f, o, i); k < part_at(f, o, i + 1); k++)
        n += stk_pic_share_scratch(&f->pictures[o].item[k].share);
    return n;
}

/* Items, and where rows begin among them, in `size` bytes of the host's. */
static int place_tables(stk_gpu_transfer *f, uint32_t output, size_t size, size_t slab_from,
                        stk_error *err)
{
    stk_pictures *p = &f->pictures[output];

    STK_TRY(stk_staging_grow(f->device, &p->host, size, err));
    p->item = p->host.data;
    p->first = (uint32_t *)(void *)((uint8_t *)p->host.data + align(p->n * sizeof *p->item));
    place_all(f, output, slab_from);
    return 0;
}

/* Lists of several launches are each rounded up; there are never more launches than pictures. */
static int make_tables(stk_gpu_transfer *f, uint32_t output, size_t slab_from, stk_error *err)
{
    stk_pictures *p = &f->pictures[output];
    size_t rows = align((rows_of(f) + (size_t)1) * sizeof *p->first), n = 0, items, words, head;

    for (uint32_t k = 0; k < f->n; k++)
        n += pictures_of(f->on[k].batch, output);
    items = align(n * sizeof *p->item);
    words = align(n * sizeof *p->status);
    head = items + words + rows;
    p->n = (uint32_t)n;
    STK_TRY(place_tables(f, output, head, slab_from, err));
    p->lists_room = stk_pic_lists_bytes(p->item, p->n) + 128 * n;
    if (p->host.size < head + p->lists_room) /* once or twice: then it is large enough */
        STK_TRY(place_tables(f, output, head + p->lists_room, slab_from, err));
    p->lists_at = words;
    p->lists_used = 0;
    p->status = (uint32_t *)(void *)((uint8_t *)p->host.data + items + rows);
    p->lists = (uint8_t *)p->host.data + head;
    return stk_gpu_scratch_grow(f->device, &p->gpu, words + p->lists_room, err);
}

/* Whose samples each item reads: those of its row's first record, of the output that decodes. */
static void find_leads(stk_gpu_transfer *f, uint32_t output)
{
    stk_pictures *p = &f->pictures[output];

    for (uint32_t r = 0, i = 0; r < rows_of(f); r++)
        for (; i < p->first[r + 1]; i++) {
            uint32_t lead = p->item[i].share.lead;

            assert(lead <= f->on[0].batch->common->n_out);
            if (lead)
                p->item[i].lead = f->pictures[lead - 1].item + f->pictures[lead - 1].first[r];
        }
}

/* Scratch memory for all pictures of a group, or as much of it as there may be. */
static int make_scratch(stk_gpu_transfer *f, uint32_t first, stk_error *err)
{
    stk_device *d = f->device;
    uint64_t want = 0, most = d->limit / (d->clips ? 4 : 2) / d->n_transfers, one = 0;

    assert(f->n && d->group);
    for (uint32_t i = 0, n = parts_of(f, first); i < n; i++) {
        uint64_t cost = part_scratch(f, first, i);

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

/* Where each row of a batch will be; the bytes of all. */
static size_t place_rows(stk_batch *b, uint32_t output)
{
    size_t at = 0, each = b->common->out[output].gpu_bytes;

    if (b->out[output].padded) /* it was said when the last row was there */
        return stk_padded_bytes(b, &b->out[output]);
    for (uint32_t r = 0; r < b->rows; r++) {
        stk_row_out *row = &b->out[output].row[r];

        row->gpu_at = at;
        at += each ? each : align(stk_row_out_bytes(b, output, r));
    }
    return at;
}

/* Memory of a batch's output, and where its pictures are made: there, or apart. */
static int take_memory(stk_gpu_transfer *f, uint32_t output, uint32_t k, stk_buffer **made,
                       stk_error *err)
{
    stk_pictures *p = &f->pictures[output];
    stk_batch *b = f->on[k].batch;
    stk_batch_out *o = &b->out[output];
    size_t bytes = place_rows(b, output);

    STK_TRY(stk_gpu_pool_get(f->device->pool, bytes + !bytes, f->stream, &o->gpu_memory, err));
    *made = o->gpu_memory;
    if (!b->common->out[output].spec.picture.channels_first)
        return 0;
    STK_TRY(stk_gpu_pool_get(f->device->pool, bytes + !bytes, f->stream, &p->apart[k], err));
    *made = p->apart[k];
    return 0;
}

/* All is queued that uses them. */
static void drop_apart(stk_gpu_transfer *f, uint32_t output)
{
    for (uint32_t k = 0; k < STK_PIC_BATCHES; k++) {
        stk_buffer **b = &f->pictures[output].apart[k];

        if (!*b)
            continue;
        stk_buffer_used(*b, f->stream);
        stk_buffer_unref(*b);
        *b = NULL;
    }
}

/* Frames that were made one by one, to where their channels belong. */
static int put_apart(stk_gpu_transfer *f, uint32_t output)
{
    const stk_pictures *p = &f->pictures[output];
    stk_device *d = f->device;
    int rc = 0;

    for (uint32_t i = 0; i < p->n && !rc; i++) {
        const stk_pic_item *x = &p->item[i];
        const stk_batch *b = f->on[x->batch].batch;
        const stk_spec *spec = &b->common->out[output].spec;
        const stk_batch_out *o = &b->out[output];
        size_t plane = x->out_bytes / 3;
        uint8_t *row = (uint8_t *)o->gpu_memory->data + o->row[x->row].gpu_at;

        for (uint32_t c = 0; c < 3 && !rc && p->apart[x->batch]; c++)
            rc = d->cuda->copy(
                d->gpu, row + stk_apart_at(spec, i % pictures_in(b, output, x->row), c) * plane,
                (uint8_t *)x->out + c * plane, plane, STK_COPY_WITHIN, f->stream);
    }
    return rc;
}

/* Bytes of picture v of a row. */
static uint64_t picture_bytes(const stk_batch *b, uint32_t output, uint32_t row, uint32_t v)
{
    const stk_out_plan *p = &b->common->out[output];
    const stk_picture_grids *g = b->out[output].pictures;
    const stk_patch_spec *patch = &p->spec.picture.patch;
    size_t each = patch->side ? stk_patch_values(patch) : 3;

    if (!of_several(b, output))
        return stk_row_out_bytes(b, output, row) / pictures_in(b, output, row);
    return (uint64_t)g->at[g->first[row] + v][0] * g->at[g->first[row] + v][1] * each *
           stk_dtype_size(p->spec.dtype);
}

/* Where those of a batch will be; the item after them. */
static stk_pic_item *place_pictures(const stk_batch *b, uint32_t output, const stk_buffer *made,
                                    stk_pic_item *item)
{
    const stk_batch_out *o = &b->out[output];
    stk_pic_lay lay = stk_padded_lay(b, output);

    for (uint32_t r = 0; r < b->rows; r++) {
        uint8_t *to = (uint8_t *)made->data + o->row[r].gpu_at;

        for (uint32_t v = 0; v < pictures_in(b, output, r); v++, item++) {
            item->out_bytes = picture_bytes(b, output, r, v);
            item->out = to;
            item->lay = lay;
            to += item->out_bytes;
        }
    }
    return item;
}

/* Where the pictures will be. */
static int make_outputs(stk_gpu_transfer *f, uint32_t output, stk_error *err)
{
    stk_pic_item *item = f->pictures[output].item;

    for (uint32_t k = 0; k < f->n; k++) {
        stk_batch *b = f->on[k].batch;
        stk_buffer *made;

        STK_TRY(take_memory(f, output, k, &made, err));
        item = place_pictures(b, output, made, item);
    }
    return 0;
}

static int fill_padded(stk_gpu_transfer *f, uint32_t output)
{
    int rc = 0;

    for (uint32_t k = 0; k < f->n && !rc; k++)
        if (f->on[k].batch->out[output].padded)
            rc = stk_padded_fill(f, f->on[k].batch, output);
    return rc;
}

/* Clips that the GPU has made, to where they belong. */
static int copy_clips(stk_gpu_transfer *f, uint32_t output)
{
    const stk_pictures *p = &f->pictures[output];
    stk_device *d = f->device;
    int rc = 0;

    for (uint32_t i = 0; i < p->n && !rc; i++) {
        const stk_gpu_clip *k = p->item[i].share.clip;

        if (k && k->rc == 0)
            rc = d->cuda->copy(d->gpu, p->item[i].out, k->made->data,
                               k->n_pictures * k->picture_bytes, STK_COPY_WITHIN, f->stream);
    }
    return rc;
}

/* Everything that a group needs, before the first of it is sent. */
static int make_rooms(stk_gpu_transfer *f, uint32_t first, stk_error *err)
{
    size_t slab = 0;

    EACH_OF_GROUP(o, f, first)
    {
        STK_TRY(make_tables(f, o, slab, err));
        slab += align(f->pictures[o].slab_bytes);
        STK_TRY(make_outputs(f, o, err));
    }
    EACH_OF_GROUP(o, f, first)
    find_leads(f, o);
    STK_TRY(stk_gpu_scratch_grow(f->device, &f->slab, (slab / f->n + 1) * f->device->group, err));
    return make_scratch(f, first, err);
}

/* How many parts, from i on, fit scratch memory together; at least one, which then says so. */
static uint32_t parts_that_fit(const stk_gpu_transfer *f, uint32_t first, uint32_t i)
{
    uint32_t from = i, all = parts_of(f, first);
    uint64_t left = f->scratch.size;

    assert(i < all);
    for (; i < all; i++) {
        uint64_t cost = part_scratch(f, first, i);

        if (cost > left)
            break;
        left -= cost;
    }
    return i > from ? i - from : 1;
}

/* Some parts after the others, until all pictures are in a launch. */
static int launch_all(stk_gpu_transfer *f, uint32_t first, stk_error *err)
{
    int rc = 0;

    for (uint32_t i = 0, n; i < parts_of(f, first) && !rc; i += n) {
        uint64_t at = 0;

        n = parts_that_fit(f, first, i);
        EACH_OF_GROUP(o, f, first)
        {
            uint32_t from = part_at(f, o, i);

            if (!rc)
                rc = launch(f, o, from, part_at(f, o, i + n) - from, &at);
        }
    }
    if (rc == STK_ELIMIT)
        return stk_fail(err, STK_ELIMIT,
                        "a picture needs more than device_memory_limit leaves to decode it");
    return rc ? stk_device_fail(f->device, rc, "pictures could not be sent", err) : 0;
}

static int send_group(stk_gpu_transfer *f, uint32_t first, stk_error *err)
{
    const stk_cuda *c = f->device->cuda;
    int gpu = f->device->gpu, rc = 0;

    STK_TRY(make_rooms(f, first, err));
    EACH_OF_GROUP(o, f, first)
    {
        claim_places(f, o);
        if (!rc)
            rc = send_slabs(f, o);
        if (!rc)
            rc = fill_padded(f, o);
        if (!rc)
            rc = copy_clips(f, o);
    }
    if (!rc)
        rc = c->event_record(gpu, f->copied, f->stream);
    EACH_OF_GROUP(o, f, first)
    if (!rc)
        rc = c->zero(gpu, f->pictures[o].gpu.data, f->pictures[o].n * sizeof(uint32_t), f->stream);
    if (rc)
        return stk_device_fail(f->device, rc, "a slab of pictures could not be sent", err);
    STK_TRY(launch_all(f, first, err));
    EACH_OF_GROUP(o, f, first)
    if (!rc)
        rc = put_apart(f, o);
    EACH_OF_GROUP(o, f, first)
    if (!rc)
        rc = c->copy(gpu, f->pictures[o].status, f->pictures[o].gpu.data,
                     f->pictures[o].n * sizeof(uint32_t), STK_COPY_OUT, f->stream);
    return rc ? stk_device_fail(f->device, rc, "pictures could not be sent", err) : 0;
}

int stk_pictures_send(stk_gpu_transfer *f, stk_error *err)
{
    const stk_batch_plan *c = f->on[0].batch->common; /* one loader's, so all have it */
    int rc = 0;

    for (uint32_t o = 0; o < c->n_out; o++) {
        f->pictures[o].n = 0;
        f->pictures[o].lead = c->out[o].gpu_made ? lead_of(f, o) : o;
    }
    for (uint32_t o = 0; o < c->n_out && rc == 0; o++)
        if (c->out[o].gpu_made && f->pictures[o].lead == o)
            rc = send_group(f, o, err);
    for (uint32_t o = 0; o < c->n_out; o++)
        drop_apart(f, o);
    return rc;
}

/* ---- arrivals ---- */

/* How many JPEGs of a batch were decoded there; bad ones are marked.  -1: no memory to do so. */
static int64_t look(stk_batch *b, uint32_t output, const uint32_t *status)
{
    int64_t jpegs = 0;

    for (uint32_t r = 0; r < b->rows; r++) {
        const stk_pic_share *share = shares_of(b, output, r);

        for (uint32_t v = 0; v < pictures_in(b, output, r); v++, share++, status++) {
            jpegs += share->kind == STK_PIC_SEEK || share->kind == STK_PIC_WHOLE;
            if (!*status && (!share->clip || share->clip->rc == 0))
                continue;
            if (!b->bad && !(b->bad = stk_zalloc(b->rows, 1)))
                return -1;
            b->bad[r] = 1;
        }
    }
    return jpegs;
}

int stk_pictures_done(stk_gpu_transfer *f, uint32_t output)
{
    const uint32_t *status = f->pictures[output].status;
    stk_device *d = f->device;
    uint64_t jpegs = 0, hits, gpu_cached = f->pictures[output].claimed ? rows_of(f) : 0;

    hits = settle(f, output);
    for (uint32_t k = 0; k < f->n; k++) {
        int64_t n = look(f->on[k].batch, output, status);

        if (n < 0)
            return STK_ENOMEM;
        jpegs += (uint64_t)n;
        status += pictures_of(f->on[k].batch, output);
    }
    stk_mutex_lock(&d->lock);
    d->figures.pictures += jpegs;
    d->figures.hits += hits;
    d->figures.misses += gpu_cached - hits;
    d->figures.copied += f->pictures[output].slab_bytes;
    stk_mutex_unlock(&d->lock);
    return 0;
}

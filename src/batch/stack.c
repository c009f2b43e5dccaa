/* SPDX-License-Identifier: Apache-2.0 */
/* stack.c - open, fill, read and release a batch. */
#include "batch/stack.h"

#include <errno.h>
#include <string.h>

#define MAX_PIECE ((size_t)16 << 10)

int stk_batch_plan_open(stk_batch_plan **out, uint32_t n_out, stk_dataset *const *data,
                        uint32_t n_data, stk_error *err)
{
    stk_batch_plan *c = STK_NEW(stk_batch_plan);

    *out = c;
    if (!c)
        return stk_fail_nomem(err, sizeof *c);
    atomic_init(&c->refs, 1);
    c->out = stk_zalloc(n_out, sizeof *c->out);
    c->sizes = stk_zalloc(n_out, sizeof *c->sizes);
    c->data = stk_zalloc(n_data, sizeof *c->data);
    c->start = stk_zalloc((size_t)n_data + 1, sizeof *c->start);
    if (!c->out || !c->sizes || !c->data || !c->start) {
        stk_batch_plan_unref(out);
        return stk_fail_nomem(err, n_out * sizeof *c->out);
    }
    c->n_out = n_out;
    for (uint32_t i = 0; i < n_data; i++) {
        c->data[i] = stk_dataset_ref(data[i]);
        c->start[i + 1] = c->start[i] + stk_dataset_len(data[i]);
        c->n_data++;
    }
    return 0;
}

void stk_batch_plan_unref(stk_batch_plan **cp)
{
    stk_batch_plan *c = *cp;

    *cp = NULL;
    if (!c || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (uint32_t i = 0; i < c->n_out; i++)
        stk_free(c->out[i].name);
    for (uint32_t i = 0; i < c->n_data; i++)
        stk_dataset_unref(&c->data[i]);
    stk_pool_close(&c->pool);
    stk_free(c->out);
    stk_free(c->sizes);
    stk_free(c->data);
    stk_free(c->start);
    stk_free(c);
}

static int planned(const stk_batch *b, size_t size, stk_buffer **out, stk_error *err)
{
    int no_memory = 1;

    *out = size < STK_SMALL_OUTPUT && !b->common->pinned
               ? stk_buffer_new(size)
               : stk_pool_try(b->common->pool, size, &no_memory);
    if (*out)
        return 0;
    return no_memory
               ? stk_fail(err, STK_ENOMEM,
                          "the system gives no memory for the %zu bytes of a batch: it is out "
                          "of it, or of what ulimit -v or a container allows",
                          size)
               : stk_fail(err, STK_ELIMIT, "memory_limit is reached");
}

/* Which frames clips are made of; of rows that stay empty none. */
static int frames_open(stk_batch *b, uint32_t i, stk_error *err)
{
    size_t n = (size_t)b->common->batch * b->common->out[i].clip_frames;
    stk_frame_at *f = n ? stk_alloc(n * sizeof *f) : NULL;

    b->out[i].frames = f;
    if (n && !f)
        return stk_fail_nomem(err, n * sizeof *f);
    for (size_t k = 0; k < n; k++)
        f[k] = (stk_frame_at){ -1, -1 };
    return 0;
}

static int out_open(stk_batch *b, uint32_t i, stk_error *err)
{
    const stk_out_plan *plan = &b->common->out[i];
    const stk_out_sizes *learned = &b->common->sizes[i];
    stk_batch_out *o = &b->out[i];
    size_t size = plan->row_bytes * b->common->batch;
    size_t dense = atomic_load_explicit(&learned->pad_high, memory_order_relaxed);

    STK_TRY(frames_open(b, i, err));
    if (!plan->row_bytes) {
        o->row = stk_alloc(b->common->batch * sizeof *o->row);
        if (!o->row)
            return stk_fail_nomem(err, sizeof *o->row);
        for (uint32_t r = 0; r < b->common->batch; r++) {
            o->row[r].own = NULL; /* the rest is written with the row */
            o->row[r].data = NULL;
            o->row[r].dtype = 0;
        }
        if (plan->note_bytes && !(o->note = stk_alloc(b->common->batch * plan->note_bytes)))
            return stk_fail_nomem(err, plan->note_bytes);
        size = atomic_load_explicit(&learned->high, memory_order_relaxed);
        if (!size)
            return 0;
    }
    if (plan->shared && plan->shared - 1 < i) {
        o->buffer = b->out[plan->shared - 1].buffer;
        stk_buffer_ref(o->buffer);
        return 0;
    }
    STK_TRY(planned(b, size, &o->buffer, err));
    return dense ? planned(b, dense, &o->dense, err) : 0;
}

int stk_batch_open(stk_batch **out, stk_batch_plan *c, uint32_t rows, stk_error *err)
{
    stk_batch *b = STK_NEW(stk_batch);
    int rc = STK_ENOMEM;

    *out = NULL;
    if (!b)
        return stk_fail_nomem(err, sizeof *b);
    b->common = c;
    atomic_init(&b->refs, 1);
    atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    b->rows = rows;
    b->serial = atomic_fetch_add_explicit(&c->serial, 1, memory_order_relaxed) + 1;
    b->ids = stk_zalloc(c->batch, sizeof *b->ids);
    b->valid = stk_zalloc(c->batch, 1);
    b->out = stk_zalloc(c->n_out, sizeof *b->out);
    if (b->ids && b->valid && b->out) {
        rc = 0;
        for (uint32_t i = 0; i < c->n_out && rc == 0; i++)
            rc = out_open(b, i, err);
    } else {
        stk_fail_nomem(err, c->batch * sizeof *b->ids);
    }
    if (rc < 0)
        stk_batch_release(&b);
    *out = b;
    return rc;
}

static void own_give(stk_batch *b, stk_row_out *r)
{
    if (!r->own)
        return;
    stk_account_give(stk_pool_account(b->common->pool), r->own->size);
    stk_buffer_unref(r->own);
    r->own = NULL;
}

/* Bytes of a worker's piece: large enough for some rows, small enough that what a few workers leave
 * of theirs is little of the whole. */
static size_t piece_of(const stk_batch_out *o)
{
    size_t piece = o->buffer ? o->buffer->size / 64 & ~(size_t)63 : 0;

    return piece < MAX_PIECE ? piece : MAX_PIECE;
}

/* `room` bytes off the output's buffer; NULL: it is full. */
static uint8_t *cut_off(stk_batch_out *o, size_t room)
{
    size_t at = atomic_fetch_add_explicit(&o->used, room, memory_order_relaxed);

    return o->buffer && at + room <= o->buffer->size ? (uint8_t *)o->buffer->data + at : NULL;
}

/* The same off the worker's piece, taking a new one when it is used up or another batch's.
 * Where no whole piece is left, row by row. */
static uint8_t *cut_piece(stk_batch *b, uint32_t output, size_t room, stk_row_arena *cut)
{
    int mine = cut->serial == b->serial && cut->output == output;

    if (mine && !cut->at)
        return cut_off(&b->out[output], room);
    if (!mine || cut->left < room) {
        cut->serial = b->serial;
        cut->output = output;
        cut->left = piece_of(&b->out[output]);
        cut->at = cut_off(&b->out[output], cut->left);
        if (!cut->at)
            return cut_off(&b->out[output], room);
    }
    cut->left -= room;
    cut->at += room;
    return cut->at - room;
}

void *stk_batch_reserve(stk_batch *b, uint32_t output, uint32_t row, size_t len, stk_row_arena *cut)
{
    stk_batch_out *o = &b->out[output];
    stk_row_out *r = &o->row[row];
    size_t room = (len + 63) & ~(size_t)63;

    r->len = len;
    r->data = cut && room <= piece_of(o) / 4 ? cut_piece(b, output, room, cut) : cut_off(o, room);
    if (r->data)
        return r->data;
    if (!stk_account_take(stk_pool_account(b->common->pool), len)) {
        errno = EDQUOT;
        return NULL;
    }
    r->own = stk_buffer_new(len);
    if (!r->own) {
        stk_account_give(stk_pool_account(b->common->pool), len);
        errno = ENOMEM;
        return NULL;
    }
    return r->data = r->own->data;
}

void stk_batch_unreserve(stk_batch *b, uint32_t output, uint32_t row)
{
    own_give(b, &b->out[output].row[row]);
}

void stk_batch_undense(stk_batch *b, stk_batch_out *o)
{
    if (o->dense && o->counted)
        stk_account_give(stk_pool_account(b->common->pool), o->dense->size);
    stk_buffer_unref(o->dense);
    o->dense = NULL;
    o->counted = 0;
}

/* The largest so far, with headroom: sizes vary from batch to batch, and every new plan makes all
 * buffers again. */
static void raise_high(const stk_batch_plan *c, _Atomic size_t *at, size_t used)
{
    size_t high = atomic_load_explicit(at, memory_order_relaxed);

    if (used <= high && high)
        return;
    used += used / 4 + 64;
    used = used < c->ragged_cap ? used : c->ragged_cap;
    while (used > high && !atomic_compare_exchange_weak_explicit(
                              at, &high, used, memory_order_relaxed, memory_order_relaxed)) {}
}

void stk_batch_settle(stk_batch *b)
{
    stk_batch_plan *c = b->common;

    for (uint32_t i = 0; i < c->n_out; i++) {
        stk_batch_out *o = &b->out[i];

        if (!c->out[i].row_bytes)
            raise_high(c, &c->sizes[i].high, atomic_load_explicit(&o->used, memory_order_relaxed));
        if (o->padded && !c->out[i].gpu_made)
            raise_high(c, &c->sizes[i].pad_high, o->row_bytes * b->rows);
    }
}

int stk_batch_plan_settled(const stk_batch_plan *c)
{
    for (uint32_t i = 0; i < c->n_out; i++)
        if (!c->out[i].row_bytes && !atomic_load_explicit(&c->sizes[i].high, memory_order_relaxed))
            return 0;
    return 1;
}

/* Rows end in their grids; only row `only` still does: the others' are in `was`.  NULL: all do. */
static int take_grids(stk_batch *b, uint32_t output, const stk_picture_grids *was, uint32_t only,
                      stk_error *err)
{
    stk_batch_out *o = &b->out[output];
    size_t n = 0, size;
    stk_picture_grids *g;

    for (uint32_t i = 0; i < b->rows; i++)
        n += o->row[i].data ? (size_t)o->row[i].shape[STK_GRID_AT] : 0;
    size = sizeof *g + n * sizeof *g->at;
    g = stk_alloc(size + ((size_t)b->rows + 1) * sizeof *g->first);
    if (!g)
        return stk_fail_nomem(err, size);
    g->n = 0;
    g->first = (uint32_t *)(void *)((uint8_t *)g + size);
    for (uint32_t i = 0; i < b->rows; i++) {
        const stk_row_out *r = &o->row[i];
        uint32_t of_row = r->data ? (uint32_t)r->shape[STK_GRID_AT] : 0;

        g->first[i] = g->n;
        if (of_row)
            memcpy(g->at + g->n,
                   was && i != only ? (const void *)(was->at + was->first[i])
                                    : r->data + stk_grids_at(r->len),
                   of_row * sizeof *g->at);
        g->n += of_row;
    }
    g->first[b->rows] = g->n;
    o->pictures = g;
    return 0;
}

int stk_batch_take_grids(stk_batch *b, uint32_t output, stk_error *err)
{
    return take_grids(b, output, NULL, 0, err);
}

int stk_batch_regrid(stk_batch *b, uint32_t output, uint32_t row, stk_error *err)
{
    stk_picture_grids *was = b->out[output].pictures;

    STK_TRY(take_grids(b, output, was, row, err));
    stk_free(was);
    return 0;
}

static void out_close(stk_batch *b, uint32_t i)
{
    stk_batch_out *o = &b->out[i];

    for (uint32_t r = 0; o->row && r < b->common->batch; r++)
        own_give(b, &o->row[r]);
    stk_buffer_unref(o->buffer);
    stk_buffer_unref(o->gpu_memory);
    stk_batch_undense(b, o);
    stk_free(o->row);
    stk_free(o->note);
    stk_free(o->frames);
    stk_free(o->pictures);
}

void stk_batch_ref(stk_batch *b)
{
    atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
}

void stk_batch_release(stk_batch **bp)
{
    stk_batch *b = *bp;

    if (!b)
        return;
    *bp = NULL;
    if (atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) > 1)
        return;
    if (b->clips)
        b->drop_clips(b);
    for (uint32_t i = 0; b->out && i < b->common->n_out; i++)
        out_close(b, i);
    stk_free(b->ids);
    stk_free(b->valid);
    while (b->mixes) {
        stk_deferred_mix *next = b->mixes->next;

        stk_free(b->mixes);
        b->mixes = next;
    }
    stk_free(b->bad);
    stk_free(b->out);
    stk_batch_plan_unref(&b->common);
    stk_free(b);
}

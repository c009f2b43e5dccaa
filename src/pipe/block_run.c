/* SPDX-License-Identifier: Apache-2.0 */
/* block_run.c - the rows of a claim of tables: one by one, or where samples follow each other, as
 * spans of a block that are copied at once.
 *
 * A span ends where its block does, and before the first row that is not like the others: null, of
 * another length, with a value that does not fit.  That row is made as any other, so that what it
 * says and what stands in for it are the same on both ways.  A worker that wants a block which
 * another one unpacks at this moment makes the next block meanwhile. */
#include <string.h>

#include "pipe/engine.h"
#include "pipe/row_time.h"

/* spans of fewer rows cost more than they save: a few rows are made one by one then */
#define SHORT 8u
#define PROBE 1024u                  /* samples: the first step when the next block is looked for */
#define LOOK_MAX ((uint64_t)1 << 26) /* samples: it is not looked for beyond that */

/* ---- one by one ---- */

/* The rows of u, which has their samples. */
static uint32_t make_rows(stk_worker *w, const stk_run *u, stk_block_peek *held)
{
    stk_engine *e = w->engine;
    stk_row x = stk_run_start(w, u);
    uint32_t done = 0;
    stk_peek p;

    for (uint32_t i = 0; i < u->rows; i++) {
        if (!w->req) {
            stk_blocks_drop(e, held);
            stk_worker_wait_request(w);
        }
        stk_run_place(u, i, w->req, &x);
        if (stk_block_look(e, &u->where[i], held, &p) && stk_peek_make(&x, &p)) {
            done++;
            continue;
        }
        stk_blocks_drop(e, held);
        done += (uint32_t)stk_run_row(w, u, i);
    }
    return done;
}

uint32_t stk_run_blocks(stk_worker *w, const stk_run *u)
{
    stk_block_peek held;
    uint32_t done;

    memset(&held, 0, sizeof held);
    done = make_rows(w, u, &held);
    stk_blocks_drop(w->engine, &held);
    time_mean(w, u->rows);
    return done;
}

/* ---- the next block, while another worker unpacks this one ---- */

typedef struct ahead { /* where a sample's field is */
    const stk_dataset *data;
    uint32_t number; /* of the field */
    stk_entry entry;
    stk_place place;
} ahead;

static int ahead_find(ahead *a, uint64_t sample)
{
    const stk_data_ops *ops = a->data->ops;
    stk_field field;

    a->place = (stk_place){ 0 };
    return ops->entry(a->data, sample, &a->entry, NULL) == 0 &&
           ops->field(a->data, &a->entry, a->number, &field, NULL) == 0 &&
           ops->locate(a->data, &a->entry, &field, 0, &a->place, NULL) == 0;
}

/* The first sample after this one that is in another block.  0: none is found. */
static int ahead_next(ahead *a, uint64_t sample)
{
    uint64_t shard = a->entry.shard, block = a->place.block, len = a->data->ops->len(a->data),
             in = sample, step = PROBE;

    do { /* `in` is in the same block */
        if (step > LOOK_MAX || in + 1 >= len)
            return 0;
        sample = in + step < len ? in + step : len - 1;
        if (!ahead_find(a, sample))
            return 0;
        if (a->entry.shard != shard || a->place.block != block)
            break;
        in = sample;
        step *= 2;
    } while (1);
    while (sample - in > 1) {
        uint64_t mid = in + (sample - in) / 2;

        if (!ahead_find(a, mid))
            return 0;
        if (a->entry.shard == shard && a->place.block == block)
            in = mid;
        else
            sample = mid;
    }
    return ahead_find(a, sample) && a->place.shared;
}

/* Read and unpack it, where no one has begun that and its file is a local one. */
static void make_ahead(stk_engine *e, ahead *a)
{
    stk_cache *cache = e->plan->memory.blocks;
    uint64_t retried = 0;
    stk_block *b;
    stk_file *f;
    stk_io *io;

    if (a->data->ops->acquire(a->data, a->entry.shard, &f, NULL) < 0)
        return;
    b = f->source->submit || f->source->can & STK_SOURCE_REMOTE
            ? NULL
            : stk_cache_begin(cache, a->data, a->entry.shard, &a->place);
    if (b) {
        io = stk_block_io(b);
        io->file = f;
        if (!stk_io_try(io, f))
            stk_io_read(io, &retried);
        atomic_fetch_add_explicit(&e->retried, retried, memory_order_relaxed);
        stk_block_made(b);
        stk_block_put(cache, b);
    }
    a->data->ops->release(a->data, a->entry.shard);
}

/* 1: the block that the last look wanted was unpacked by another worker meanwhile. */
static int wait_block(stk_worker *w, stk_block_peek *held, const stk_where *where)
{
    stk_engine *e = w->engine;
    stk_cache *cache = e->plan->memory.blocks;
    ahead a = { .entry = held->entry, .place = held->lacked };
    stk_block *b;

    if (!held->lacks || e->plan->io.inline_mode)
        return 0;
    a.data = e->plan->data.set[where->dataset];
    a.number = held->lacks->field;
    b = stk_cache_unpacking(cache, a.data, a.entry.shard, &a.place);
    if (!b)
        return 0;
    stk_blocks_drop(e, held);
    stk_plug_flush(&w->plug);
    if (ahead_next(&a, where->sample))
        make_ahead(e, &a);
    stk_block_wait(b);
    stk_block_put(cache, b);
    return 1;
}

/* ---- spans ---- */

static void note_rows(const stk_row *x, uint64_t n)
{
    uint64_t id = stk_schedule_id(x->schedule, &x->where), *ids = x->batch->ids + x->row;

    for (uint64_t i = 0; i < n; i++)
        ids[i] = id + i;
}

static uint64_t span_bytes(const stk_value_span *s, uint64_t n)
{
    return (s->first ? s->first[n] - s->first[0] : n) * s->width;
}

/* Up to n rows from x on, all outputs.  How many were made. */
static uint64_t make_span(stk_worker *w, stk_row *x, stk_block_peek *held, uint64_t n)
{
    const stk_dataset *d;
    stk_value_span span[STK_PEEK_OUTPUTS];
    stk_peek p;

    if (!stk_block_look(w->engine, &x->where, held, &p))
        return 0;
    d = held->data;
    held->left = 0; /* what is made is not counted there */
    for (uint32_t i = 0; i < held->n && n; i++) {
        span[i] = (stk_value_span){ .block = held->of[i].bytes, .n = n };
        d->ops->span(d, &held->entry, &held->of[i].field, &held->of[i].place, &span[i]);
        n = span[i].n;
    }
    for (x->output = 0; x->output < held->n && n; x->output++) {
        span[x->output].n = n;
        n = x->table->out[x->output].work->make_run(x, &span[x->output]);
    }
    note_rows(x, n);
    for (uint32_t i = 0; i < held->n; i++)
        w->m.bytes += n ? span_bytes(&span[i], n) : 0;
    w->m.rows += n;
    return n;
}

/* The next rows one by one: `n` follow each other, or `left` are of the claim. */
static uint32_t make_few(stk_worker *w, const stk_run *all, uint32_t at, uint32_t n,
                         stk_block_peek *held, uint32_t *done)
{
    stk_run u = { .slot = all->slot, .ticket = all->ticket + at, .row = all->row + at, .rows = n };

    stk_run_find(w->engine, &u);
    *done += make_rows(w, &u, held);
    return n;
}

uint32_t stk_run_spans(stk_worker *w, const stk_run *u)
{
    stk_engine *e = w->engine;
    stk_row x = stk_run_start(w, u);
    uint32_t done = 0, at = 0;
    stk_block_peek held;

    memset(&held, 0, sizeof held);
    while (at < u->rows) {
        uint32_t left = u->rows - at, n, made = 0;

        if (atomic_load_explicit(&e->draining, memory_order_relaxed)) {
            done += left;
            break;
        }
        x.row = u->row + at;
        n = stk_schedule_run(e->schedule, &u->slot->share, x.row, left, &x.position, &x.where);
        if (n >= SHORT)
            made = (uint32_t)make_span(w, &x, &held, n);
        done += made;
        at += made;
        if (made >= SHORT || (!made && n >= SHORT && wait_block(w, &held, &x.where)))
            continue;
        left = u->rows - at;
        if (left)
            at += make_few(w, u, at, left < STK_MAX_CHUNK ? left : STK_MAX_CHUNK, &held, &done);
    }
    stk_blocks_drop(e, &held);
    time_mean(w, u->rows);
    return done;
}

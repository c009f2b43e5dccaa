/* SPDX-License-Identifier: Apache-2.0 */
/* peek.c - rows whose bytes are in memory already: no request, no read, nothing to wait for.  A row
 * whose bytes are not in memory, or that fails, takes the long way (worker.c), which says why.
 *
 * Fields of mapped files: a row is looked up a few rows before its turn and its bytes are asked
 * for, because a row is too long for the processor to see the next one's cache misses coming.
 *
 * Fields in blocks of tables: a worker holds the blocks of its last row, one of each output, and
 * looks there first.  Rows that follow each other in a block are found by counting.  The worker
 * lets go of the blocks before it waits for anything, and at the end of a claim. */
#include <string.h>

#include "pipe/engine.h"

/* ---- in files ---- */

#define PREFETCH 1024 /* bytes of a field; the processor sees the rest coming */

static inline void prefetch(stk_bytes b)
{
    const uint8_t *end = b.data + (b.len < PREFETCH ? b.len : PREFETCH);

    for (const uint8_t *at = b.data; at < end; at += 256) { /* past the end does no harm */
        __builtin_prefetch(at);
        __builtin_prefetch(at + 64);
        __builtin_prefetch(at + 128);
        __builtin_prefetch(at + 192);
    }
}

void stk_peek_look(stk_engine *e, const stk_where *where, stk_peek *p)
{
    const stk_plan *plan = e->plan;
    const stk_dataset *d;
    stk_binding *const *binding;
    stk_entry entry;
    stk_field f;

    p->n = 0;
    p->data = NULL;
    if (where->dataset >= plan->data.n)
        return;
    d = plan->data.set[where->dataset];
    binding = plan->chains.binding[where->dataset];
    if (!(d->can & STK_DATA_RANGES) || d->ops->entry(d, where->sample, &entry, NULL) < 0 ||
        d->ops->acquire(d, entry.shard, &p->file, NULL) < 0)
        return;
    p->data = d;
    p->shard = entry.shard;
    for (uint32_t i = 0; p->file->source->peek && i < plan->chains.n_out; i++) {
        const stk_binding *b = &binding[i][entry.schema];

        if (b->field == UINT16_MAX || b->unpack || d->ops->field(d, &entry, b->field, &f, NULL) < 0)
            return;
        p->bytes[i].data = p->file->source->peek(p->file, f.offset, f.size);
        p->bytes[i].len = f.size;
        if (!p->bytes[i].data)
            return;
        prefetch(p->bytes[i]);
        p->n = i + 1;
    }
}

/* ---- in blocks ---- */

void stk_blocks_drop(stk_engine *e, stk_block_peek *h)
{
    for (uint32_t i = 0; i < h->n; i++) {
        if (h->of[i].block)
            stk_block_put(e->plan->memory.blocks, h->of[i].block);
        h->of[i].block = NULL;
    }
    h->n = 0;
    h->left = 0;
    h->data = NULL;
}

/* The block of a place: the one that is held, or that of the cache.  0: it is not there. */
static int hold(stk_engine *e, const stk_block_peek *h, stk_held_block *b, const stk_place *place)
{
    stk_cache *cache = e->plan->memory.blocks;

    if (b->block && b->place.block == place->block)
        return 1;
    if (b->block)
        stk_block_put(cache, b->block);
    b->block = stk_cache_peek(cache, h->data, h->entry.shard, place, &b->bytes);
    return b->block != NULL;
}

/* Where output i of the sample in h->entry is. */
static int find(stk_engine *e, stk_block_peek *h, const stk_binding *binding, uint32_t i)
{
    const stk_data_ops *ops = h->data->ops;
    stk_held_block *b = &h->of[i];
    stk_place place = { 0 };
    uint64_t rest;

    if (binding->field == UINT16_MAX || binding->unpack ||
        ops->field(h->data, &h->entry, binding->field, &b->field, NULL) < 0 ||
        ops->locate(h->data, &h->entry, &b->field, 0, &place, NULL) < 0 || place.absent)
        return 0;
    if (place.here.data) {
        if (b->block)
            stk_block_put(e->plan->memory.blocks, b->block);
        b->block = NULL;
        b->bytes = place.here;
        b->place = place;
        h->left = 0;
        return 1;
    }
    if (!place.shared)
        return 0;
    if (!hold(e, h, b, &place)) {
        h->lacks = binding;
        h->lacked = place;
        return 0;
    }
    b->place = place;
    rest = ops->rest ? ops->rest(h->data, h->entry.shard, &place, b->bytes) : 0;
    h->left = rest < h->left ? rest : h->left;
    return 1;
}

static int look(stk_engine *e, const stk_where *where, stk_block_peek *h)
{
    const stk_plan *plan = e->plan;
    const stk_dataset *d = plan->data.set[where->dataset];
    stk_binding *const *binding = plan->chains.binding[where->dataset];
    stk_entry entry;

    if (d->ops->entry(d, where->sample, &entry, NULL) < 0)
        return 0;
    if (h->data != d || h->entry.shard != entry.shard)
        stk_blocks_drop(e, h); /* numbers of blocks are a shard's */
    h->data = d;
    h->entry = entry;
    h->left = UINT64_MAX;
    h->n = plan->chains.n_out;
    for (uint32_t i = 0; i < plan->chains.n_out; i++)
        if (!find(e, h, &binding[i][entry.schema], i))
            return 0;
    return 1;
}

int stk_block_look(stk_engine *e, const stk_where *where, stk_block_peek *h, stk_peek *p)
{
    const stk_plan *plan = e->plan;

    p->n = 0;
    p->data = NULL; /* no file is held */
    h->lacks = NULL;
    if (where->dataset >= plan->data.n)
        return 0;
    if (h->left && h->data == plan->data.set[where->dataset] && where->sample == h->sample + 1) {
        h->left--;
        h->entry.row++;
        for (uint32_t i = 0; i < h->n; i++)
            h->of[i].place.row++;
    } else if (!look(e, where, h)) {
        h->left = 0; /* nothing is to be counted on from here */
        return 0;
    }
    h->sample = where->sample;
    for (uint32_t i = 0; i < h->n; i++) {
        stk_held_block *b = &h->of[i];

        p->bytes[i] = b->bytes;
        if (b->block &&
            h->data->ops->pick(h->data, &h->entry, &b->field, &b->place, &p->bytes[i], NULL) != 0)
            return 0;
    }
    p->n = h->n;
    return 1;
}

/* ---- the row ---- */

int stk_peek_make(stk_row *x, stk_peek *p)
{
    stk_request *r = x->req;
    stk_error err;
    int done = 0;

    if (p->n == x->table->n_out) {
        r->late = 0;
        for (uint32_t i = 0; i < p->n; i++) {
            stk_wanted *want = &r->want[i];

            want->bytes = p->bytes[i];
            want->unpack = NULL;
            want->hint = (stk_bytes){ 0 };
            want->learn = 0;
            want->direct = 0;
        }
        done = stk_row_make(x, &err) == 0;
    }
    if (done) {
        x->table->note(x);
        for (uint32_t i = 0; i < p->n; i++)
            x->m->bytes += p->bytes[i].len;
        x->m->rows++;
    }
    if (p->data)
        p->data->ops->release(p->data, p->shard);
    return done;
}

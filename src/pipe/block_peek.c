/* SPDX-License-Identifier: Apache-2.0 */
/* block_peek.c - rows of tables whose blocks are unpacked already: no request, nothing to wait for.
 *
 * A worker holds the blocks of its last row, one of each output, and looks there first.  Rows that
 * follow each other in a block are found by counting.  It lets go of them before it waits for
 * anything, and at the end of a claim.  A row whose block is not there yet, or that has no value,
 * takes the long way (worker.c). */
#include <string.h>

#include "pipe/engine.h"

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

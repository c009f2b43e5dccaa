/* SPDX-License-Identifier: Apache-2.0 */
/* peek.c - rows whose bytes lie in memory already: no request, no read, nothing to wait for.
 *
 * A row is looked up a few rows before its turn and its bytes are asked for, because a row is too
 * long for the processor to see the next one's cache misses coming.  A row whose bytes are not at
 * hand, or that fails, takes the long way (worker.c), which says why. */
#include "pipe/engine.h"

#define PREFETCH 1024 /* bytes of a field; the processor sees the rest coming */

void stk_peek_look(stk_engine *e, const stk_where *where, stk_peek *p)
{
    const stk_dataset *d;
    stk_entry entry;
    stk_field f;

    p->n = 0;
    p->data = NULL;
    if (where->dataset >= e->plan->data.n)
        return;
    d = e->plan->data.set[where->dataset];
    if (d->format->locate || stk_index_entry(d->index, where->sample, &entry, NULL) < 0 ||
        stk_shards_acquire(d->shards, entry.shard, &p->file, NULL) < 0)
        return;
    p->data = d;
    p->shard = entry.shard;
    for (uint32_t i = 0; p->file->source->peek && i < e->plan->chains.n_out; i++) {
        uint16_t field = e->plan->chains.field_of[where->dataset][i][entry.schema];

        if (field == UINT16_MAX || stk_index_field(d->index, &entry, field, &f, NULL) < 0)
            return;
        if (stk_chain_packed(&e->plan->chains.chain[i], &f))
            return;
        p->bytes[i].data = p->file->source->peek(p->file, f.offset, f.size);
        p->bytes[i].len = f.size;
        if (!p->bytes[i].data)
            return;
        for (uint64_t at = 0; at < f.size && at < PREFETCH; at += 64)
            __builtin_prefetch(p->bytes[i].data + at);
        p->n = i + 1;
    }
}

int stk_peek_make(stk_worker *w, stk_slot *s, uint32_t row, const stk_where *where, stk_peek *p)
{
    stk_engine *e = w->engine;
    stk_request *r = w->req;
    stk_error err;
    int done = 0;

    if (p->n == e->plan->chains.n_out) {
        r->aimed = 0;
        r->late = 0;
        for (uint32_t i = 0; i < p->n; i++) {
            r->want[i].bytes = p->bytes[i];
            r->want[i].unpack = NULL;
            r->want[i].hint = (stk_bytes){ 0 };
            r->want[i].learn = 0;
        }
        done = stk_row_make(w, r, s->batch, row, &err) == 0;
    }
    if (done) {
        s->batch->ids[row] = e->schedule->start[where->dataset] + where->sample;
        for (uint32_t i = 0; i < p->n; i++)
            w->bytes += p->bytes[i].len;
        w->rows++;
    }
    if (p->data)
        stk_shards_release(p->data->shards, p->shard);
    return done;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* peek.c - rows whose bytes are in memory already: no request, no read, nothing to wait for.
 *
 * A row is looked up a few rows before its turn and its bytes are asked for, because a row is too
 * long for the processor to see the next one's cache misses coming.  A row whose bytes are not at
 * hand, or that fails, takes the long way (worker.c), which says why. */
#include "pipe/engine.h"

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

/* SPDX-License-Identifier: Apache-2.0 */
/* row.c - what all rows of samples have in common: index entry, fields, reads; and their end. */
#include "row/row.h"

#include <errno.h>

#define AGAIN 16 /* times that an output is begun again; with each it asks for more */

void stk_maker_fini(stk_maker *m)
{
    stk_decoders_fini(&m->decoders);
    stk_scratch_fini(&m->scratch);
    stk_row_docs_fini(&m->docs);
}

const stk_row_table *stk_row_table_now(const stk_plan *p)
{
    return p->cache.arrays && stk_array_cache_there(p->cache.arrays) ? p->rows.resident
                                                                     : p->rows.usual;
}

int stk_row_finish(const stk_row_table *t, const stk_plan *p, stk_batch *b, const uint32_t *used,
                   stk_error *err)
{
    for (uint32_t i = 0; i < t->n_out; i++)
        if (t->out[i]->finish)
            STK_TRY(t->out[i]->finish(p, b, i, used, err));
    return 0;
}

/* ---- memory ---- */

int stk_maker_scratch(stk_maker *m, size_t size, void **out, stk_error *err)
{
    stk_scratch_reset(&m->scratch);
    while (!(*out = stk_scratch_get(&m->scratch, size))) {
        if (!m->scratch.shortage)
            return stk_fail_nomem(err, size);
        STK_TRY(m->wait_room(m, m->ticket, 0, err));
        stk_scratch_reset(&m->scratch);
    }
    return 0;
}

void *stk_row_reserve(stk_row *x, size_t len, stk_row_arena *cut)
{
    void *dst = stk_batch_reserve(x->batch, x->output, x->row, len, cut);

    x->m->short_room = !dst && errno == EDQUOT ? len : 0;
    return dst;
}

int stk_row_no_room(const stk_row *x, size_t len, stk_error *err)
{
    return x->m->short_room
               ? stk_fail(err, STK_ENOMEM, "memory_limit leaves no room for its %zu bytes", len)
               : stk_fail_nomem(err, len);
}

int stk_row_make_again(stk_row *x, int rc, stk_error *err)
{
    stk_maker *m = x->m;
    stk_error why;

    for (unsigned i = 0; rc < 0 && i < AGAIN && (m->scratch.shortage || m->short_room); i++) {
        size_t room = m->scratch.shortage ? 0 : m->short_room;
        int waited = m->wait_room(m, x->req->ticket, room, &why);

        if (waited < 0 && room && waited == STK_ENOMEM)
            break; /* the error says already how much it was */
        if (waited < 0) {
            *err = why;
            rc = waited;
            break;
        }
        x->again = 1;
        m->short_room = 0;
        stk_scratch_reset(&m->scratch);
        rc = x->table->out[x->output]->make(x, err);
    }
    x->again = 0;
    return rc;
}

/* ---- a sample ---- */

static int missing_field(const stk_chain *c, stk_error *err)
{
    return stk_fail(err, STK_ECORRUPT, "it has no field %s%s", c->from[0],
                    c->n_from > 1 ? " (nor any of the others in from())" : "");
}

static int find_entry(stk_row *x, stk_error *err)
{
    stk_request *r = x->req;

    r->index_failed = 0;
    if (r->where.dataset >= x->plan->data.n)
        return stk_fail(err, STK_EINVAL, "order %s asks for data set %u, there are %u",
                        x->schedule->order.name, r->where.dataset, x->plan->data.n);
    r->data = x->plan->data.set[r->where.dataset];
    if (r->entry.key.data)
        return 0;
    r->index_failed = r->data->ops->entry(r->data, r->where.sample, &r->entry, err);
    if (r->index_failed)
        r->entry.key.data = NULL;
    return r->index_failed;
}

int stk_row_begin_sample(stk_row *x, stk_error *err)
{
    const stk_plan_chains *c = &x->plan->chains;
    stk_request *r = x->req;
    const stk_binding *const *binding;

    STK_TRY(find_entry(x, err));
    binding = (const stk_binding *const *)c->binding[r->where.dataset];
    for (uint32_t i = 0; i < c->n_out; i++) {
        r->want[i].number = binding[i][r->entry.schema].field;
        r->want[i].unpack = binding[i][r->entry.schema].unpack;
        r->want[i].unpack_state = binding[i][r->entry.schema].state;
        if (r->want[i].number == UINT16_MAX && !c->fallback[i].data)
            return missing_field(&c->chain[i], err);
    }
    if (x->table->find)
        x->table->find(x);
    STK_TRY(stk_request_begin(r, c->n_out, err));
    for (x->output = 0; x->output < c->n_out; x->output++)
        if (x->table->out[x->output]->prepare)
            x->table->out[x->output]->prepare(x);
    return 0;
}

int stk_row_was_found(const stk_request *r)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (r->want[i].kept)
            return 1;
    return 0;
}

/* Nothing of the bytes is in scratch memory yet. */
int stk_row_narrow(stk_row *x, stk_bytes *in, stk_error *err)
{
    stk_scratch_reset(&x->m->scratch);
    return stk_row_narrow_more(x, in, err);
}

int stk_row_narrow_more(stk_row *x, stk_bytes *in, stk_error *err)
{
    const stk_wanted *want = &x->req->want[x->output];
    const stk_chain *c = stk_row_chain(x);

    if (want->unpack)
        STK_TRY(want->unpack->narrow(want->unpack_state, *in, &x->m->scratch, in, err));
    for (uint32_t i = 0; i < c->n_steps; i++)
        if (c->step[i].codec && c->step[i].codec->narrow)
            STK_TRY(c->step[i].codec->narrow(c->step[i].state, *in, &x->m->scratch, in, err));
    return 0;
}

void stk_row_note_sample(stk_row *x)
{
    x->batch->ids[x->row] = stk_schedule_id(x->schedule, &x->where);
}

void stk_row_note_piece(stk_row *x)
{
    if (!x->piece->number)
        x->batch->ids[x->piece->row] = stk_schedule_id(x->schedule, &x->where);
}

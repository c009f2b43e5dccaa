/* SPDX-License-Identifier: Apache-2.0 */
/* row.c - what all rows of samples have in common: index entry, fields, reads; and their end. */
#include "row/row.h"

#include <assert.h>
#include <errno.h>

#define AGAIN 16 /* times that an output is begun again; with each it asks for more */

void stk_maker_init(stk_maker *m)
{
    m->work.scratch = &m->scratch;
}

void stk_maker_fini(stk_maker *m)
{
    for (uint32_t i = 0; i < m->n_parsers; i++)
        if (m->parser[i].codec && m->parser[i].codec->close)
            m->parser[i].codec->close(m->parser[i].work.ctx);
    stk_free(m->parser);
    for (uint32_t i = 0; i < m->n_grids; i++) {
        stk_free(m->grids[i].at);
        stk_free(m->grids[i].place);
    }
    stk_free(m->grids);
    stk_free(m->clip_spans);
    stk_free(m->pictures.bytes);
    stk_free(m->pictures.known);
    stk_free(m->records.data);
    stk_free(m->records.share);
    stk_decoders_fini(&m->decoders);
    stk_scratch_fini(&m->scratch);
    stk_seek_room_fini(&m->points);
    stk_row_docs_fini(&m->docs);
}

int stk_row_parser(stk_row *x, const stk_codec_work **out, stk_error *err)
{
    const stk_chain *c = stk_row_chain(x);
    const stk_step *s = c->sound ? c->sound : c->parse;
    uint32_t n = x->plan->chains.n_out;
    stk_parser *p;

    if (!x->m->parser) {
        x->m->parser = stk_zalloc(n, sizeof *x->m->parser);
        if (!x->m->parser)
            return stk_fail_nomem(err, n * sizeof *x->m->parser);
        x->m->n_parsers = n;
    }
    p = &x->m->parser[x->output];
    if (!p->codec) {
        p->work.scratch = &x->m->scratch;
        STK_TRY(s->codec->open(s->state, &p->work.ctx, err));
        p->codec = s->codec;
    }
    *out = &p->work;
    return 0;
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
        if (t->out[i].goal->finish)
            STK_TRY(t->out[i].goal->finish(p, b, i, used, err));
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

    assert(x->row < x->batch->rows);
    x->m->short_room = !dst && errno == EDQUOT ? len : 0;
    return dst;
}

int stk_row_place_of(const stk_row *x, const stk_field *f, stk_place *out, stk_error *err)
{
    const stk_dataset *ds = x->req->data;

    *out = (stk_place){ .offset = f->offset, .len = f->size };
    return ds->can & STK_DATA_RANGES ? 0 : ds->ops->locate(ds, &x->req->entry, f, 0, out, err);
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

    assert(rc < 0 && x->output < x->table->n_out);
    for (unsigned i = 0; rc < 0 && i < AGAIN && (m->scratch.shortage || m->short_room); i++) {
        size_t room = m->scratch.shortage ? 0 : m->short_room;
        int waited = m->wait_room(m, x->req->row.ticket, room, &why);

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
        rc = x->table->out[x->output].work->make(x, err);
    }
    x->again = 0;
    return rc;
}

/* ---- a sample ---- */

static int missing_field(const stk_chain *c, stk_error *err)
{
    return stk_fail(err, STK_ECORRUPT, "it has no field %s%s", c->field.name[0],
                    c->field.n_names > 1 ? " (nor any of the others in from())" : "");
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

/* Longer than a batch may be: bad before a byte of it is read. */
static int check_budget(const stk_row *x, stk_error *err)
{
    const stk_schedule *s = x->schedule;
    const stk_binning *h = &s->binning;
    uint64_t id = stk_schedule_id(s, &x->where);
    int seconds = h->length == s->seconds && stk_bin_round(h->length[id], h->multiple) > h->budget;
    uint64_t tokens = h->also.length ? h->also.budget : h->budget;

    if (!stk_bin_is_over(h, id))
        return 0;
    if (seconds)
        return stk_fail(err, STK_ECORRUPT, "it counts %.4g seconds, more than max_seconds=%.4g",
                        (double)s->seconds[id] / STK_SECOND, (double)h->budget / STK_SECOND);
    return stk_fail(err, STK_ECORRUPT,
                    "it counts %u values and patches, more than max_tokens=%" PRIu64,
                    s->lengths[id], tokens);
}

void stk_row_find_short(stk_row *x)
{
    stk_request *r = x->req;

    for (uint32_t i = 0; i < x->plan->chains.n_out; i++) {
        stk_wanted *want = &r->want[i];
        stk_seek_field at = { r->entry.shard, r->entry.row, want->number,
                              .most = 1 + STK_SEEK_SHORT_MAX };
        stk_bytes record = { 0 };

        want->cached_bytes = (stk_bytes){ 0 };
        if (!r->row.whole && r->data->can & STK_DATA_HINTS && want->number != UINT16_MAX &&
            !x->plan->chains.open_root[i])
            record = r->data->ops->hint(r->data, &at, &r->hint_room[i]);
        if (record.len > 1 && record.data[0] == STK_SEEK_SHORT)
            want->cached_bytes = (stk_bytes){ record.data + 1, record.len - 1 };
    }
}

/* What is known of the fields that are read now, or after others.  Leaders of like() first. */
static int plan_parts(stk_row *x, int second, stk_error *err)
{
    stk_request *r = x->req;

    if (!second && !r->row.whole)
        r->row.told = 0;
    for (uint32_t i = 0; i < x->table->n_out; i++) {
        x->output = x->table->order ? x->table->order[i] : i;
        if (stk_row_ops_of(x)->from->know && r->want[x->output].second == second)
            stk_row_ops_of(x)->from->know(x);
    }
    return stk_request_plan_parts(r, err);
}

static void prepare_reads(stk_row *x, int second)
{
    for (x->output = 0; x->output < x->table->n_out; x->output++)
        if (stk_row_ops_of(x)->from->prepare && x->req->want[x->output].second == second)
            stk_row_ops_of(x)->from->prepare(x);
}

int stk_row_begin_sample(stk_row *x, stk_error *err)
{
    const stk_plan_chains *c = &x->plan->chains;
    stk_request *r = x->req;
    const stk_binding *const *binding;
    int rc;

    assert(r->cap_want >= c->n_out); /* it was opened for this plan */
    STK_TRY(find_entry(x, err));
    if (x->schedule->binning.kind == STK_BIN_BUDGET && !x->schedule->binning.all_fit)
        STK_TRY(check_budget(x, err));
    binding = (const stk_binding *const *)c->binding[r->where.dataset];
    for (uint32_t i = 0; i < c->n_out; i++) {
        r->want[i].number = binding[i][r->entry.schema].field;
        r->want[i].unpack = binding[i][r->entry.schema].unpack;
        r->want[i].unpack_state = binding[i][r->entry.schema].state;
        if (r->want[i].number == UINT16_MAX && !c->fallback[i].data)
            return missing_field(&c->chain[i], err);
    }
    r->cached = x->table->find != NULL;
    if (r->cached)
        x->table->find(x);
    rc = stk_request_locate(r, c->n_out, err);
    if (rc)
        return rc;
    STK_TRY(x->table->has_know ? plan_parts(x, 0, err) : stk_request_plan(r, err));
    if (x->table->has_prepare)
        prepare_reads(x, 0);
    return 0;
}

/* The files that its values name. */
static int list_files(stk_row *x, stk_error *err)
{
    for (x->output = 0; x->output < x->table->n_out; x->output++)
        if (stk_row_ops_of(x)->from->list)
            STK_TRY(stk_row_ops_of(x)->from->list(x, err));
    return 0;
}

int stk_row_begin_second(stk_row *x, stk_error *err)
{
    int rc;

    if (x->req->reads.stage == STK_REQUEST_FIRST) {
        STK_TRY(stk_request_second(x->req, err));
        STK_TRY(list_files(x, err));
    }
    rc = stk_request_next_files(x->req, err);
    if (rc != STK_END)
        return rc;
    x->m->bytes += x->req->reads.named.used;
    STK_TRY(plan_parts(x, 1, err));
    if (x->table->has_prepare)
        prepare_reads(x, 1);
    return 0;
}

int stk_row_was_found(const stk_request *r)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (r->want[i].gpu_cached)
            return 1;
    return 0;
}

/* Nothing of the bytes is in scratch memory yet. */
int stk_row_extract(stk_row *x, stk_bytes *in, stk_error *err)
{
    stk_scratch_reset(&x->m->scratch);
    return stk_row_extract_more(x, in, err);
}

int stk_row_extract_more(stk_row *x, stk_bytes *in, stk_error *err)
{
    const stk_wanted *want = &x->req->want[x->output];
    const stk_chain *c = stk_row_chain(x);

    if (want->unpack)
        STK_TRY(want->unpack->extract(want->unpack_state, *in, &x->m->scratch, in, err));
    for (uint32_t i = 0; i < c->n_steps; i++)
        if (c->step[i].codec && c->step[i].codec->extract)
            STK_TRY(c->step[i].codec->extract(c->step[i].state, *in, &x->m->scratch, in, err));
    return 0;
}

/* Of a row that is read again whole those outputs were reported that came before the stale one, and
 * that one. */
const stk_draw_observer *stk_picture_observer(const stk_row *x)
{
    const stk_draw_observer *watch = &x->plan->policy.watch;
    uint64_t bit = x->output < 64 ? (uint64_t)1 << x->output : 0;

    if (!watch->drawn || x->again || stk_row_chain(x)->like.leader)
        return NULL;
    if (x->req->row.whole && x->req->row.told & bit)
        return NULL;
    if (!x->req->row.whole)
        x->req->row.told |= bit;
    return watch;
}

void stk_row_note_sample(stk_row *x)
{
    assert(x->row < x->batch->rows);
    x->batch->ids[x->row] = stk_schedule_id(x->schedule, &x->where);
}

void stk_row_note_piece(stk_row *x)
{
    assert(x->piece && x->piece->row < x->batch->rows);
    if (!x->piece->number)
        x->batch->ids[x->piece->row] = stk_schedule_id(x->schedule, &x->where);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* array_row.c - rows out of arrays: gathered and turned into the output's type in one go, straight
 * into their place.  No request, no index, nothing to wait for but pages that were never read. */
#include <string.h>

#include "order/gpt_order.h"
#include "kern/past.h"
#include "pipe/engine.h"

#define LINE 64
#define PIECE 256               /* values that are turned between two looks ahead */
#define NEAR 4096               /* bytes: of longer rows the processor finds the rest by itself */
#define PAST ((size_t)16 << 10) /* bytes from which on a copy for a GPU goes past the caches */
#define DRAWN_OUTPUT 255        /* of Philox's address: no output has this number */

typedef struct gather { /* into one row of one output */
    stk_worker *w;
    const stk_array_out *from;
    uint8_t *dst;
    size_t size; /* of an element of dst */
    size_t each; /* elements of a row of the array */
    uint32_t output, n_out;
    const stk_where *sets; /* of documents of several data sets; NULL: `from` is all of theirs */
} gather;

/* ---- errors ---- */

/* Which value it was, and where. */
static int misfit(const gather *g, stk_span at, uint64_t row, stk_dtype to, stk_error *err)
{
    const stk_array *a = g->from->array;
    size_t size = stk_dtype_size(a->dtype);
    uint32_t k = stk_array_part(a, row);
    stk_convert_fn wide = stk_convert_c(a->dtype, STK_I64);
    uint64_t i = 0, bad[1], n = at.rows * g->each;
    int64_t v = 0;
    int rc;

    while (i + 1 < n && !g->from->convert(bad, at.data + i * size, 1))
        i++;
    if (wide)
        wide(&v, at.data + i * size, 1);
    else
        memcpy(&v, at.data + i * size, sizeof v);
    rc = stk_fail(err, STK_ECORRUPT, "%s has the value %" PRId64 ", which is no %s: take to(i64)",
                  a->name, v, stk_dtype_name(to));
    stk_error_at(err, a->part[k].name,
                 a->part[k].offset + (row - a->first[k]) * a->pitch + i * size, (stk_bytes){ 0 });
    return rc;
}

/* ---- rows that follow each other ---- */

/* Rows of a shuffled order lie anywhere, and every one is short: what is read of the next one while
 * this one is made need not be waited for.  As many bytes of it as are dealt with here, into the
 * second level cache: the first is full of this row. */
static void prefetch_next(stk_bytes *next, size_t bytes)
{
    size_t len = next->len < bytes ? next->len : bytes;

    if (!len)
        return;
    for (size_t i = 0; i < len; i += LINE)
        __builtin_prefetch(next->data + i, 0, 2);
    next->data += len;
    next->len -= len;
}

/* 1: a value does not fit. */
static int turn(gather *g, const uint8_t *src, size_t count)
{
    size_t size = stk_dtype_size(g->from->array->dtype);

    for (size_t at = 0; at < count; at += PIECE) {
        size_t n = count - at < PIECE ? count - at : PIECE;

        prefetch_next(&g->w->next, n * size);
        if (g->from->convert(g->dst + at * g->size, src + at * size, n))
            return 1;
    }
    return 0;
}

static void copy(gather *g, const uint8_t *src, size_t bytes)
{
    prefetch_next(&g->w->next, bytes < NEAR ? bytes : NEAR);
    if (g->w->engine->plan->gpu.device && bytes >= PAST)
        stk_copy_past(g->dst, src, bytes);
    else
        memcpy(g->dst, src, bytes);
}

/* `n` rows of the array from `row` on, to g->dst, which moves on. */
static int take(gather *g, uint64_t row, uint64_t n, stk_dtype to, stk_error *err)
{
    const stk_array *a = g->from->array;
    stk_convert_fn convert = g->from->convert;
    void *into = g->dst;
    stk_span at;

    if (convert && !a->set->mapped && !a->part[0].data) {
        stk_scratch_reset(&g->w->scratch);
        into = stk_scratch_get(&g->w->scratch, (size_t)n * a->row_bytes);
        if (!into)
            return stk_fail_nomem(err, (size_t)n * a->row_bytes);
    }
    while (n) {
        size_t count;

        STK_TRY(stk_array_span(a, row, n, convert ? into : g->dst, &at, err));
        count = (size_t)at.rows * g->each;
        if (convert && turn(g, at.data, count))
            return misfit(g, at, row, to, err);
        if (!convert && at.data != g->dst)
            copy(g, at.data, count * g->size);
        g->dst += count * g->size;
        row += at.rows;
        n -= at.rows;
    }
    return 0;
}

/* ---- documents with a separator behind each ---- */

static void put_separator(gather *g, int64_t token, stk_dtype to)
{
    stk_convert_fn narrow = stk_convert_c(STK_I64, to);

    if (narrow)
        narrow(g->dst, &token, 1); /* it fits: checked when the loader was opened */
    else
        memcpy(g->dst, &token, sizeof token);
    g->dst += g->size;
}

/* The document of a part that has token `at` of its stream, where document d begins d tokens
 * later than in the file. */
static uint64_t document_at(const stk_megatron *m, uint64_t at)
{
    uint64_t lo = 0, hi = m->documents;

    while (hi - lo > 1) {
        uint64_t mid = lo + (hi - lo) / 2;

        if (stk_megatron_document(m, mid) + mid <= at)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

static uint32_t part_at(const stk_stream *s, uint32_t n, uint64_t at)
{
    uint32_t lo = 0;

    for (uint32_t hi = n; hi - lo > 1;) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (s->first[mid] <= at)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

static int take_parted(gather *g, const stk_stream *s, uint64_t at, uint64_t n, stk_dtype to,
                       stk_error *err)
{
    const stk_array *a = g->from->array;
    int64_t separator = g->w->engine->plan->chains.arrays->cut.separator;

    while (n) {
        uint32_t k = part_at(s, a->n_parts, at);
        const stk_megatron *m = a->part[k].docs;
        uint64_t in = at - s->first[k], d, token, end, count;

        if (at >= s->first[k + 1])
            return stk_fail(err, STK_ECORRUPT, "the .idx contradicts itself");
        d = document_at(m, in);
        token = in - d;
        end = stk_megatron_document(m, d + 1);
        if (token < end) {
            count = end - token < n ? end - token : n;
            STK_TRY(take(g, a->first[k] + token, count, to, err));
        } else {
            count = 1;
            put_separator(g, separator, to);
        }
        at += count;
        n -= count;
    }
    return 0;
}

/* ---- documents side by side ---- */

static void fill(gather *g, uint64_t n)
{
    for (; n; n--, g->dst += g->size)
        memcpy(g->dst, g->from->pad, g->size);
}

/* Of a piece's tokens, how many have one of their own document `shift` behind them. */
static uint64_t followed(const stk_document *d, uint64_t shift)
{
    uint64_t all = (uint64_t)d->len + d->after, n = all > shift ? all - shift : 0;

    return n < d->len ? n : d->len;
}

static int packed_tokens(gather *g, const stk_tokens *t, const stk_document *d, uint64_t n,
                         stk_dtype to, stk_error *err)
{
    uint64_t left = t->block;

    for (; n; n--, d++) {
        uint64_t here = followed(d, t->shift);

        if (g->sets) /* each document is of its own data set */
            g->from = &g->w->engine->plan->chains.arrays->out[g->sets++->dataset * g->n_out + g->output];
        STK_TRY(take(g, d->at + t->shift, here, to, err));
        fill(g, d->len - here);
        left -= d->len;
    }
    fill(g, left);
    return 0;
}

/* What is known without looking at a token. */
static int packed_numbers(gather *g, const stk_tokens *t, const stk_document *d, uint64_t n,
                          stk_dtype to, stk_error *err)
{
    int64_t *row, *at;
    stk_convert_fn narrow = stk_convert_c(STK_I64, to);

    stk_scratch_reset(&g->w->scratch);
    row = at = stk_scratch_get(&g->w->scratch, t->block * sizeof *row);
    if (!row)
        return stk_fail_nomem(err, t->block * sizeof *row);
    for (uint64_t k = 0; k <= n; k++) { /* the last one is the padding */
        uint64_t left = (uint64_t)(row + t->block - at), len = k < n ? d[k].len : left;
        uint64_t here = k < n ? followed(&d[k], t->shift) : 0;

        for (uint64_t i = 0; i < len; i++)
            *at++ = t->give == STK_GIVE_POSITIONS   ? (int64_t)i
                    : t->give == STK_GIVE_DOCUMENTS ? (k < n ? (int64_t)k + 1 : 0)
                                                    : i < here;
    }
    if (narrow)
        narrow(g->dst, row, t->block); /* they fit: checked when the loader was opened */
    else
        memcpy(g->dst, row, t->block * sizeof *row);
    return 0;
}

static int take_packed(gather *g, const stk_packed *p, uint64_t row, const stk_tokens *t,
                       stk_dtype to, stk_error *err)
{
    const stk_row_docs *anew = &g->w->docs;
    const stk_document *d = p->first ? p->doc + p->first[row] : anew->doc;
    uint64_t n = p->first ? p->first[row + 1] - p->first[row] : anew->n;

    g->sets = p->first ? NULL : anew->where;
    return t->give == STK_GIVE_TOKENS ? packed_tokens(g, t, d, n, to, err)
                                      : packed_numbers(g, t, d, n, to, err);
}

/* ---- one sample ---- */

/* Where a window begins: its number says, or it is drawn, for all outputs at once. */
static inline uint64_t window_at(const stk_engine *e, const stk_slot *s, uint64_t position,
                          const stk_where *where)
{
    const stk_array_plan *p = e->plan->chains.arrays;
    stk_rng rng;
    uint64_t x;

    if (e->plan->chains.megatron)
        return 0; /* its begin is looked up with its tokens */
    if (!p->cut.random)
        return where->sample * p->cut.stride;
    stk_rng_init(&rng, e->plan->policy.seed, position, (uint32_t)s->epoch, DRAWN_OUTPUT, 0);
    x = (uint64_t)stk_rng_u32(&rng) << 32;
    x |= stk_rng_u32(&rng);
    return (uint64_t)((unsigned __int128)x * (p->stream[where->dataset].tokens - p->span + 1) >>
                      64);
}

typedef struct sample {
    stk_worker *w;
    stk_slot *slot;
    uint32_t row;
    const stk_where *where;
    uint64_t at; /* row of the array, or token of the stream */
} sample;

/* `n` tokens of a sample, the first `skip` left out, in Megatron's order of documents. */
static int take_megatron(gather *g, const sample *x, uint64_t skip, uint64_t n, stk_dtype to,
                         stk_error *err)
{
    const stk_array *a = g->from->array;
    stk_gpt_cursor c;
    int rc = 0;

    stk_gpt_enter(&g->w->engine->schedule->order, x->slot->epoch, x->where->sample, skip, &c);
    while (n && rc == 0) {
        stk_gpt_run run;
        uint64_t have;

        stk_gpt_next(&c, n, &run);
        n -= run.n;
        have = a->first[run.part + 1] - a->first[run.part];
        if (!run.n || run.at > have || run.n > have - run.at)
            rc = stk_fail(err, STK_ESTALE,
                          "the .idx was written to since it was opened: open it again, and "
                          "replace files instead of writing into them");
        else
            rc = take(g, a->first[run.part] + run.at, run.n, to, err);
    }
    stk_gpt_leave(&c);
    return rc;
}

static int make_output(const sample *x, uint32_t output, stk_error *err)
{
    const stk_engine *e = x->w->engine;
    const stk_array_plan *p = e->plan->chains.arrays;
    const stk_out_plan *o = &e->plan->outputs.common->out[output];
    gather g = { .w = x->w,
                 .from = &p->out[x->where->dataset * p->n_out + output],
                 .dst = stk_batch_place(x->slot->batch, output, x->row),
                 .size = stk_dtype_size(o->spec.dtype),
                 .output = output,
                 .n_out = p->n_out };
    uint64_t at = x->at, n = p->cut.block;

    if (x->slot->batch->gathered && o->gather.count) {
        at += p->cut.block && !p->cut.share ? e->plan->chains.chain[output].tokens->shift : 0;
        ((uint64_t *)x->slot->batch->out[output]
             .buffer->data)[x->row] = e->plan->cache.place[x->where->dataset * p->n_out + output].at +
                      at * g.from->array->row_bytes;
        return 0;
    }
    g.each = g.from->array->row_bytes / stk_dtype_size(g.from->array->dtype);
    if (!p->cut.block)
        return take(&g, at, 1, o->spec.dtype, err);
    if (p->packed)
        return take_packed(&g, &p->packed[x->where->dataset], x->where->sample,
                           e->plan->chains.chain[output].tokens, o->spec.dtype, err);
    if (p->cut.share) { /* the first one has it all */
        g.dst -= o->skip;
        n = p->span;
    } else {
        at += e->plan->chains.chain[output].tokens->shift;
    }
    if (e->plan->chains.megatron)
        return take_megatron(&g, x, at, n, o->spec.dtype, err);
    if (p->cut.parted)
        return take_parted(&g, &p->stream[x->where->dataset], at, n, o->spec.dtype, err);
    return take(&g, at, n, o->spec.dtype, err);
}

static int make(sample *x, uint64_t position, stk_error *err)
{
    const stk_engine *e = x->w->engine;
    const stk_array_plan *p = e->plan->chains.arrays;
    const uint64_t *start = e->schedule->start;
    uint32_t n = p->cut.share ? 1 : p->n_out, d = p->cut.repack ? 0 : x->where->dataset;

    if (p->cut.repack) {
        STK_TRY(stk_row_docs_find(x->w->engine, &x->w->docs, x->slot->epoch, position, err));
        x->where = x->w->docs.where; /* a row goes by its first document */
        d = x->where->dataset;
    }
    if (d >= p->n_data || x->where->sample >= start[d + 1] - start[d])
        return stk_fail(err, STK_EINVAL,
                        "order %s asks for sample %" PRIu64 " of data set %u, which is not there",
                        e->schedule->order.name, x->where->sample, d);
    x->at = p->cut.block ? window_at(e, x->slot, position, x->where) : x->where->sample;
    for (uint32_t i = 0; i < n; i++) {
        STK_TRY(make_output(x, i, err));
    }
    x->slot->batch->ids[x->row] = start[d] + x->where->sample;
    x->w->bytes += x->slot->batch->gathered ? 0 : p->sample_bytes;
    x->w->rows++;
    return 0;
}

/* Reads that will be wanted, begun together. */
static void expect(const stk_engine *e, const stk_where *where, uint32_t n)
{
    const stk_array_plan *p = e->plan->chains.arrays;

    if (p->cut.random || p->cut.parted || p->packed || e->plan->chains.megatron)
        return;
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t i = 0; where[k].dataset < p->n_data && i < p->n_out; i++) {
            const stk_array *a = p->out[where[k].dataset * p->n_out + i].array;
            uint64_t at = p->cut.block ? where[k].sample * p->cut.stride : where[k].sample;

            if (!a->set->mapped && at < a->rows && (!i || !p->cut.block))
                stk_array_expect(a, at, p->cut.block ? p->span : 1);
        }
}

/* Where the row behind this one lies: its lines come in while this one is made. */
static stk_bytes next_of(const stk_engine *e, const stk_slot *s, uint64_t position,
                         const stk_where *where)
{
    const stk_array_plan *p = e->plan->chains.arrays;
    const stk_array *a;
    uint64_t at;

    if (p->cut.parted || p->packed || e->plan->chains.megatron || where->dataset >= p->n_data)
        return (stk_bytes){ 0 };
    a = p->out[where->dataset * p->n_out].array;
    at = p->cut.block ? window_at(e, s, position, where) : where->sample;
    return at < a->rows ? stk_array_peek(a, at, p->cut.block ? p->span : 1) : (stk_bytes){ 0 };
}

void stk_array_rows(stk_worker *w, stk_slot *s, uint32_t row, uint32_t n, const uint64_t *position,
                    const stk_where *where)
{
    stk_engine *e = w->engine;
    stk_error err;

    if (n > 1 && !s->batch->gathered)
        expect(e, where, n);
    for (uint32_t i = 0; i < n; i++) {
        sample x = { .w = w, .slot = s, .row = row + i, .where = &where[i] };
        int rc;

        if (atomic_load_explicit(&e->draining, memory_order_relaxed))
            return;
        w->next = i + 1 < n && !s->batch->gathered ? next_of(e, s, position[i + 1], &where[i + 1])
                                                   : (stk_bytes){ 0 };
        stk_error_clear(&err);
        rc = make(&x, position[i], &err);
        if (rc == 0)
            continue;
        if (!e->plan->chains.arrays->cut.repack && where[i].dataset < e->plan->data.n)
            err.sample = e->schedule->start[where[i].dataset] + where[i].sample;
        stk_ring_fail(e, s, row + i, rc, &err);
    }
}

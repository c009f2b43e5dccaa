/* SPDX-License-Identifier: Apache-2.0 */
/* row_array.c - rows out of arrays: gathered and turned into the output's type in one go, straight
 * into their place.  No request, no index, nothing to wait for but pages that were never read. */
#include <assert.h>
#include <string.h>

#include "kern/past.h"
#include "order/gpt_order.h"
#include "base/rng.h"
#include "row/row.h"

#define LINE 64
#define PIECE 256               /* values that are turned between two looks ahead */
#define NEAR 4096               /* bytes: of longer rows the processor finds the rest by itself */
#define PAST ((size_t)16 << 10) /* bytes from which on a copy for a GPU goes past the caches */
#define DRAWN_OUTPUT 255        /* of Philox's address: no output has this number */

typedef struct gather { /* into one row of one output */
    stk_maker *m;
    const stk_array_plan *plan;
    const stk_array_out *from;
    uint8_t *dst;
    stk_dtype to;
    int past;    /* long rows are written past the caches: a GPU reads them */
    size_t size; /* of an element of dst */
    size_t each; /* elements of a row of the array */
    uint32_t output;
    const stk_where *sets; /* of documents of several data sets; NULL: `from` is all of theirs */
} gather;

/* ---- errors ---- */

/* Which value it was, and where. */
static int misfit(const gather *g, stk_span at, uint64_t row, stk_error *err)
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
    rc = stk_fail(err, STK_ECORRUPT,
                  "%s has the value %" PRId64 ", which is not a %s: take to(i64)", a->name, v,
                  stk_dtype_name(g->to));
    stk_error_at(err, a->part[k].name,
                 a->part[k].offset + (row - a->first[k]) * a->pitch + i * size, (stk_bytes){ 0 });
    return rc;
}

/* ---- rows that follow each other ---- */

/* Rows of a shuffled order are anywhere, and every one is short: what is read of the next one while
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

        prefetch_next(&g->m->next, n * size);
        if (g->from->convert(g->dst + at * g->size, src + at * size, n))
            return 1;
    }
    return 0;
}

static void copy(gather *g, const uint8_t *src, size_t bytes)
{
    prefetch_next(&g->m->next, bytes < NEAR ? bytes : NEAR);
    if (g->past && bytes >= PAST)
        stk_copy_past(g->dst, src, bytes);
    else
        memcpy(g->dst, src, bytes);
}

/* `n` rows of the array from `row` on, to g->dst, which moves on. */
static int take(gather *g, uint64_t row, uint64_t n, stk_error *err)
{
    const stk_array *a = g->from->array;
    stk_convert_fn convert = g->from->convert;
    void *into = g->dst;
    stk_span at;

    if (convert && !a->set->mapped && !a->part[0].data) {
        STK_TRY(stk_maker_scratch(g->m, (size_t)n * a->row_bytes, &into, err));
    }
    while (n) {
        size_t count;

        STK_TRY(stk_array_span(a, row, n, convert ? into : g->dst, &at, err));
        count = (size_t)at.rows * g->each;
        if (convert && turn(g, at.data, count))
            return misfit(g, at, row, err);
        if (!convert && at.data != g->dst)
            copy(g, at.data, count * g->size);
        STK_TRY(stk_array_copied(a, row, at.rows * a->row_bytes, err));
        g->dst += count * g->size;
        row += at.rows;
        n -= at.rows;
    }
    return 0;
}

/* ---- documents with a separator after each ---- */

static void put_separator(gather *g, int64_t token)
{
    stk_convert_fn narrow = stk_convert_c(STK_I64, g->to);

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

static uint32_t part_at(const stk_token_stream *s, uint32_t n, uint64_t at)
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

static int take_parted(gather *g, const stk_token_stream *s, uint64_t at, uint64_t n,
                       stk_error *err)
{
    const stk_array *a = g->from->array;
    int64_t separator = g->plan->cut.separator;

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
            STK_TRY(take(g, a->first[k] + token, count, err));
        } else {
            count = 1;
            put_separator(g, separator);
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

/* Of a piece's tokens, how many have one of their own document `shift` after them. */
static uint64_t followed(const stk_document *d, uint64_t shift)
{
    uint64_t all = (uint64_t)d->len + d->after, n = all > shift ? all - shift : 0;

    return n < d->len ? n : d->len;
}

static int packed_tokens(gather *g, const stk_tokens *t, const stk_document *d, uint64_t n,
                         stk_error *err)
{
    uint64_t left = t->block;

    for (; n; n--, d++) {
        uint64_t here = followed(d, t->shift);

        if (g->sets) /* each document is of its own data set */
            g->from = &g->plan->out[g->sets++->dataset * g->plan->n_out + g->output];
        STK_TRY(take(g, d->at + t->shift, here, err));
        fill(g, d->len - here);
        left -= d->len;
    }
    fill(g, left);
    return 0;
}

/* One document's numbers, in loops that the compiler turns into vectors. */
static int64_t *put_numbers(int64_t *at, stk_give give, uint64_t len, uint64_t here, int64_t number)
{
    if (give == STK_GIVE_POSITIONS)
        for (uint64_t i = 0; i < len; i++)
            at[i] = (int64_t)i;
    else if (give == STK_GIVE_DOCUMENTS)
        for (uint64_t i = 0; i < len; i++)
            at[i] = number;
    else
        for (uint64_t i = 0; i < len; i++)
            at[i] = i < here;
    return at + len;
}

/* What is known without looking at a token. */
static int packed_numbers(gather *g, const stk_tokens *t, const stk_document *d, uint64_t n,
                          stk_error *err)
{
    int64_t *row, *at;
    stk_convert_fn narrow = stk_convert_c(STK_I64, g->to);
    void *room = NULL;

    STK_TRY(stk_maker_scratch(g->m, t->block * sizeof *row, &room, err));
    row = at = room;
    for (uint64_t k = 0; k <= n; k++) { /* the last one is the padding */
        uint64_t left = (uint64_t)(row + t->block - at), len = k < n ? d[k].len : left;
        uint64_t here = k < n ? followed(&d[k], t->shift) : 0;

        at = put_numbers(at, t->give, len, here, k < n ? (int64_t)k + 1 : 0);
    }
    if (narrow)
        narrow(g->dst, row, t->block); /* they fit: checked when the loader was opened */
    else
        memcpy(g->dst, row, t->block * sizeof *row);
    return 0;
}

/* ---- what a sample is ---- */

/* The sample is there; its id. */
static int exists(stk_row *x, stk_error *err)
{
    const uint64_t *start = x->schedule->start;
    uint32_t d = x->where.dataset;

    if (d < x->plan->data.n && x->where.sample < start[d + 1] - start[d])
        return 0;
    return stk_fail(err, STK_EINVAL,
                    "order %s asks for sample %" PRIu64 " of data set %u, which is not there",
                    x->schedule->order.name, x->where.sample, d);
}

/* Where a window begins is drawn, for all outputs at once. */
static inline uint64_t drawn_at(const stk_row *x)
{
    const stk_array_plan *p = x->plan->chains.arrays;
    stk_rng rng;
    uint64_t n;

    stk_rng_init(&rng, x->plan->policy.seed, x->position, (uint32_t)x->batch->epoch, DRAWN_OUTPUT,
                 0);
    n = (uint64_t)stk_rng_u32(&rng) << 32;
    n |= stk_rng_u32(&rng);
    return (uint64_t)((unsigned __int128)n * (p->stream[x->where.dataset].tokens - p->span + 1) >>
                      64);
}

static int begin_row(stk_row *x, stk_error *err)
{
    x->at = x->where.sample;
    return exists(x, err);
}

static int begin_window(stk_row *x, stk_error *err)
{
    x->at = x->where.sample * x->plan->chains.arrays->cut.stride;
    return exists(x, err);
}

static int begin_drawn(stk_row *x, stk_error *err)
{
    STK_TRY(exists(x, err));
    x->at = drawn_at(x);
    return 0;
}

/* A row that is packed again goes by its first document. */
static int begin_repacked(stk_row *x, stk_error *err)
{
    STK_TRY(stk_row_docs_find(&x->m->docs, x->schedule, x->plan->chains.arrays->packed,
                              x->batch->epoch, x->position, err));
    x->where = x->m->docs.where[0];
    return exists(x, err);
}

/* ---- the row that comes next ---- */

static stk_bytes peek_at(const stk_row *x, uint64_t at, uint64_t rows)
{
    const stk_array_plan *p = x->plan->chains.arrays;
    const stk_array *a;

    if (x->where.dataset >= p->n_data)
        return (stk_bytes){ 0 };
    a = p->out[x->where.dataset * p->n_out].array;
    return at < a->rows ? stk_array_peek(a, at, rows) : (stk_bytes){ 0 };
}

static stk_bytes next_row(const stk_row *x)
{
    return peek_at(x, x->where.sample, 1);
}

static stk_bytes next_window(const stk_row *x)
{
    const stk_array_plan *p = x->plan->chains.arrays;

    return peek_at(x, x->where.sample * p->cut.stride, p->span);
}

static stk_bytes next_drawn(const stk_row *x)
{
    const stk_array_plan *p = x->plan->chains.arrays;

    return x->where.dataset < p->n_data ? peek_at(x, drawn_at(x), p->span) : (stk_bytes){ 0 };
}

/* Reads that will be wanted, begun together. */
static void expect(const stk_plan *plan, const stk_where *where, uint32_t n)
{
    const stk_array_plan *p = plan->chains.arrays;

    for (uint32_t k = 0; k < n; k++)
        for (uint32_t i = 0; where[k].dataset < p->n_data && i < p->n_out; i++) {
            const stk_array *a = p->out[where[k].dataset * p->n_out + i].array;
            uint64_t at = p->cut.block ? where[k].sample * p->cut.stride : where[k].sample;

            if (!a->set->mapped && at < a->rows && (!i || !p->cut.block))
                stk_array_expect(a, at, p->cut.block ? p->span : 1);
        }
}

/* ---- the kinds ---- */

static inline gather gather_of(const stk_row *x)
{
    const stk_array_plan *p = x->plan->chains.arrays;
    const stk_array_out *from = &p->out[x->where.dataset * p->n_out + x->output];
    stk_dtype to = x->plan->chains.out[x->output].spec.dtype;

    return (gather){ .m = x->m,
                     .plan = p,
                     .from = from,
                     .dst = stk_batch_place(x->batch, x->output, x->row),
                     .to = to,
                     .past = x->plan->gpu.device != NULL,
                     .size = stk_dtype_size(to),
                     .each = from->array->row_bytes / stk_dtype_size(from->array->dtype),
                     .output = x->output };
}

static int make_row(stk_row *x, stk_error *err)
{
    gather g = gather_of(x);

    return take(&g, x->at, 1, err);
}

/* Tokens of x's window that its output has: from `skip` on, n of them.  The first output has all
 * that the others share. */
typedef struct tokens {
    uint64_t skip, n;
} tokens;

static uint64_t shift_of(const stk_row *x)
{
    return stk_row_chain(x)->tokens->shift;
}

static inline tokens tokens_of(const stk_row *x, gather *g)
{
    if (!g->plan->cut.share)
        return (tokens){ shift_of(x), g->plan->cut.block };
    g->dst -= x->plan->chains.out[x->output].skip;
    return (tokens){ 0, g->plan->span };
}

static int make_window(stk_row *x, stk_error *err)
{
    gather g = gather_of(x);
    tokens t = tokens_of(x, &g);

    return take(&g, x->at + t.skip, t.n, err);
}

static int make_nothing(stk_row *x, stk_error *err)
{
    (void)x;
    (void)err;
    return 0;
}

static int make_parted(stk_row *x, stk_error *err)
{
    gather g = gather_of(x);
    tokens t = tokens_of(x, &g);

    return take_parted(&g, &g.plan->stream[x->where.dataset], x->at + t.skip, t.n, err);
}

/* `n` tokens of a sample, the first `skip` left out, in Megatron's order of documents. */
static int take_megatron(gather *g, const stk_row *x, uint64_t skip, uint64_t n, stk_error *err)
{
    const stk_array *a = g->from->array;
    stk_gpt_cursor c;
    int rc = 0;

    stk_gpt_enter(&x->schedule->order, x->batch->epoch, x->where.sample, skip, &c);
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
            rc = take(g, a->first[run.part] + run.at, run.n, err);
    }
    stk_gpt_leave(&c);
    return rc;
}

static int make_megatron(stk_row *x, stk_error *err)
{
    gather g = gather_of(x);
    tokens t = tokens_of(x, &g);

    return take_megatron(&g, x, t.skip, t.n, err);
}

static inline int put_documents(gather *g, const stk_row *x, const stk_document *d, uint64_t n,
                                stk_error *err)
{
    const stk_tokens *t = stk_row_chain(x)->tokens;

    return t->give == STK_GIVE_TOKENS ? packed_tokens(g, t, d, n, err)
                                      : packed_numbers(g, t, d, n, err);
}

static int make_documents(stk_row *x, stk_error *err)
{
    gather g = gather_of(x);
    const stk_packed *p = &g.plan->packed[x->where.dataset];
    uint64_t row = x->where.sample;

    if (!g.plan->cut.repack)
        return put_documents(&g, x, p->doc + p->first[row], p->first[row + 1] - p->first[row], err);
    g.sets = x->m->docs.where;
    return put_documents(&g, x, x->m->docs.doc, x->m->docs.n, err);
}

/* Arrays are on the GPU: only where the row begins there. */
static int make_place(stk_row *x, stk_error *err)
{
    const stk_array_plan *p = x->plan->chains.arrays;
    uint32_t k = x->where.dataset * p->n_out + x->output;
    uint64_t at = x->at + (p->cut.block && !p->cut.share ? shift_of(x) : 0);

    (void)err;
    assert(x->plan->cache.place[k].on_gpu); /* the table of resident arrays has it */
    ((uint64_t *)x->batch->out[x->output].buffer->data)[x->row] = x->plan->cache.place[k].at +
                                                                  at * p->out[k].array->row_bytes;
    return 0;
}

const stk_row_from stk_from_array = { .name = "array" };
const stk_row_work stk_work_row = { .name = "row", .make = make_row };
const stk_row_work stk_work_window = { .name = "window", .make = make_window };
const stk_row_work stk_work_parted = { .name = "parted", .make = make_parted };
const stk_row_work stk_work_megatron = { .name = "megatron", .make = make_megatron };
const stk_row_work stk_work_documents = { .name = "documents", .make = make_documents };
const stk_row_work stk_work_nothing = { .name = "nothing", .make = make_nothing };
const stk_row_work stk_work_place = { .name = "place", .make = make_place };

void stk_row_array_table(stk_row_table *t, const stk_plan *plan, int resident)
{
    const stk_array_plan *p = plan->chains.arrays;
    int looked_up = p->cut.parted || p->packed || plan->chains.megatron;

    t->run = STK_RUN_IMMEDIATE;
    t->note = stk_row_note_sample;
    t->gathered = resident;
    t->row_bytes = resident ? 0 : p->sample_bytes;
    t->begin = p->cut.repack                        ? begin_repacked
               : !p->cut.block                      ? begin_row
               : plan->chains.megatron || p->packed ? begin_row
               : p->cut.random                      ? begin_drawn
                                                    : begin_window;
    if (looked_up || resident)
        return;
    t->expect = p->cut.random ? NULL : expect;
    t->next = !p->cut.block ? next_row : p->cut.random ? next_drawn : next_window;
}

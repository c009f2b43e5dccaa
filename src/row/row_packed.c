/* SPDX-License-Identifier: Apache-2.0 */
/* row_packed.c - samples side by side in rows of one length, for chains that end in pack().
 *
 * A ticket is a piece: a sample, or a part of one that is longer than a row.  Lengths are known
 * before anything is read, so every piece has its place when the slot is opened and is written
 * straight to it; what is left of the rows is filled by the last worker. */
#include <assert.h>
#include <string.h>

#include "base/cpu.h"
#include "row/row.h"

/* ---- one piece ---- */

typedef struct piece {
    const stk_chain *chain;
    const stk_piece_place *spot;
    const char *name;
    uint8_t *dst;
    size_t size; /* of an element of dst */
} piece;

static void fill(const piece *p, uint64_t at, uint64_t n, int64_t value)
{
    uint8_t one[8], *dst = p->dst + at * p->size;
    stk_error none;

    (void)stk_pad_value((double)value, p->chain->spec.dtype, one, &none); /* it fits: checked */
    for (; n; n--, dst += p->size)
        memcpy(dst, one, p->size);
}

/* 0, 1, 2, ... */
static void count(const piece *p, uint64_t n)
{
    int64_t *wide = (int64_t *)(void *)p->dst;
    int32_t *half = (int32_t *)(void *)p->dst;

    for (uint64_t i = 0; i < n; i++)
        if (p->chain->spec.dtype == STK_I64)
            wide[i] = (int64_t)i;
        else if (p->chain->spec.dtype == STK_I32)
            half[i] = (int32_t)i;
        else
            fill(p, i, 1, (int64_t)i);
}

/* Of the piece's values, how many have one of their own sample `shift` after them. */
static uint32_t followed(const stk_piece_place *s, uint64_t shift)
{
    uint64_t all = (uint64_t)s->len + s->after, n = all > shift ? all - shift : 0;

    return n < s->len ? (uint32_t)n : s->len;
}

static int put_values(const piece *p, const stk_spec *raw, const uint8_t *from, stk_error *err)
{
    stk_dtype to = p->chain->spec.dtype;
    uint32_t here = followed(p->spot, p->chain->pack->shift);
    stk_convert_fn convert = stk_convert_find(stk_cpu_level(), raw->dtype, to);

    if (!convert && raw->dtype != to)
        return stk_fail(err, STK_ECORRUPT, "output %s: pack takes whole numbers, and these are %s",
                        p->name, stk_dtype_name(raw->dtype));
    assert(here <= p->spot->len);
    from += ((uint64_t)p->spot->from + p->chain->pack->shift) * stk_dtype_size(raw->dtype);
    if (here && !convert)
        memcpy(p->dst, from, here * p->size);
    else if (here && convert(p->dst, from, here))
        return stk_fail(err, STK_ECORRUPT, "output %s: a value is not a %s: take to(i64)", p->name,
                        stk_dtype_name(to));
    fill(p, here, p->spot->len - here, p->chain->pack->pad);
    return 0;
}

static void put_numbers(const piece *p)
{
    const stk_tokens *t = p->chain->pack;
    uint32_t here = followed(p->spot, t->shift);

    if (t->give == STK_GIVE_POSITIONS)
        count(p, p->spot->len);
    if (t->give == STK_GIVE_DOCUMENTS)
        fill(p, 0, p->spot->len, (int64_t)p->spot->number + 1);
    if (t->give != STK_GIVE_MASK)
        return;
    fill(p, 0, here, 1);
    fill(p, here, p->spot->len - here, 0);
}

static piece piece_of(const stk_row *x)
{
    const stk_chain *c = stk_row_chain(x);
    piece p = { .chain = c,
                .spot = x->piece,
                .name = x->plan->chains.out[x->output].name,
                .size = stk_dtype_size(c->spec.dtype) };

    assert(x->piece && c->pack);
    assert(p.spot->at + (uint64_t)p.spot->len <= c->pack->block && p.spot->row < x->batch->rows);
    p.dst = (uint8_t *)stk_batch_place(x->batch, x->output, p.spot->row) + p.spot->at * p.size;
    return p;
}

/* The sample has the length that was said, after truncate(). */
static int check(const stk_row *x, const stk_spec *raw, stk_error *err)
{
    const stk_piece_place *spot = x->piece;
    uint64_t have = raw->ndim == 1 ? (uint64_t)raw->shape[0] : 0, most = (uint64_t)raw->max_len;
    uint64_t said = (uint64_t)spot->from + spot->len + spot->after;

    if (raw->ndim != 1)
        return stk_fail(err, STK_ECORRUPT,
                        "output %s: pack takes rows of one dimension, and this has %u",
                        x->plan->chains.out[x->output].name, raw->ndim);
    have = most && have > most ? most : have;
    if (have != said)
        return stk_fail(err, STK_ECORRUPT,
                        "output %s: its row has %" PRIu64 " values, and lengths say %" PRIu64
                        ": give the lengths that the data has, or leave them to be measured",
                        x->plan->chains.out[x->output].name, have, said);
    return 0;
}

/* A room(): beside its place, as it may be longer than what is put there. */
static int room(stk_row *x, const stk_spec *raw, size_t bytes, void **dst, stk_error *err)
{
    STK_TRY(check(x, raw, err));
    if (stk_packed_count(x))
        return 1;
    *dst = stk_scratch_get(&x->m->scratch, bytes ? bytes : 1);
    return *dst ? 0 : stk_fail_nomem(err, bytes);
}

/* Values before those that truncate() keeps. */
static uint64_t skipped(const stk_spec *raw)
{
    return raw->max_len && raw->keep_last && raw->shape[0] > raw->max_len
               ? (uint64_t)(raw->shape[0] - raw->max_len)
               : 0;
}

static int put_part(const piece *p, const stk_spec *raw, const uint8_t *made, stk_error *err)
{
    return put_values(p, raw, made + skipped(raw) * stk_dtype_size(raw->dtype), err);
}

/* A filled(): room() has checked it. */
static int filled(stk_row *x, const stk_spec *raw, const void *made, stk_error *err)
{
    const piece p = piece_of(x);

    return put_part(&p, raw, made, err);
}

int stk_packed_put(stk_row *x, const stk_value_row *row, stk_error *err)
{
    stk_spec raw = stk_row_chain(x)->raw;
    const piece p = piece_of(x);

    raw.dtype = row->dtype;
    raw.ndim = row->ndim;
    memcpy(raw.shape, row->shape, sizeof raw.shape);
    STK_TRY(check(x, &raw, err));
    return put_part(&p, &raw, row->data, err);
}

int stk_packed_count(const stk_row *x)
{
    piece p;

    if (stk_row_chain(x)->pack->give == STK_GIVE_TOKENS)
        return 0;
    p = piece_of(x);
    put_numbers(&p);
    return 1;
}

int stk_packed_finish(const stk_plan *plan, stk_batch *b, uint32_t output, const uint32_t *used,
                      stk_error *err)
{
    const stk_chain *c = &plan->chains.chain[output];
    piece p = { .chain = c, .size = stk_dtype_size(c->spec.dtype) };
    const stk_tokens *t = c->pack;

    (void)err;
    assert(t && used); /* tickets are pieces: the schedule counts them */
    for (uint32_t r = 0; r < b->rows; r++) {
        uint64_t left = t->block - used[r];

        assert(used[r] <= t->block);
        p.dst = (uint8_t *)stk_batch_place(b, output, r) + used[r] * p.size;
        if (t->give == STK_GIVE_POSITIONS)
            count(&p, left);
        else
            fill(&p, 0, left, t->give == STK_GIVE_TOKENS ? t->pad : 0);
    }
    return 0;
}

const stk_row_goal stk_goal_packed = { .name = "packed",
                                       .room = room,
                                       .filled = filled,
                                       .put = stk_packed_put,
                                       .counts = stk_packed_count,
                                       .finish = stk_packed_finish };

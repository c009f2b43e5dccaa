/* SPDX-License-Identifier: Apache-2.0 */
/* packed_row.c - samples side by side in rows of one length, for chains that end in pack().
 *
 * A ticket is a piece: a sample, or a part of one that is longer than a row.  Lengths are known
 * before anything is read, so every piece has its place when the slot is opened and is written
 * straight to it; what is left of the rows is filled by whoever comes last. */
#include <string.h>

#include "pipe/engine.h"

/* ---- one piece ---- */

typedef struct piece {
    stk_worker *w;
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

/* Of the piece's values, how many have one of their own sample `shift` behind them. */
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
    from += ((uint64_t)p->spot->from + p->chain->pack->shift) * stk_dtype_size(raw->dtype);
    if (here && !convert)
        memcpy(p->dst, from, here * p->size);
    else if (here && convert(p->dst, from, here))
        return stk_fail(err, STK_ECORRUPT, "output %s: a value is no %s: take to(i64)", p->name,
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

/* The sample has the length that was said, behind truncate(); *skip: values that it cuts off. */
static int check(const piece *p, const stk_spec *raw, uint64_t *skip, stk_error *err)
{
    uint64_t have = raw->ndim == 1 ? (uint64_t)raw->shape[0] : 0, most = (uint64_t)raw->most;
    uint64_t said = (uint64_t)p->spot->from + p->spot->len + p->spot->after;

    *skip = 0;
    if (raw->ndim != 1)
        return stk_fail(err, STK_ECORRUPT,
                        "output %s: pack takes rows of one dimension, and this has %u", p->name,
                        raw->ndim);
    if (most && have > most && raw->keep_last)
        *skip = have - most;
    have = most && have > most ? most : have;
    if (have != said)
        return stk_fail(err, STK_ECORRUPT,
                        "output %s: its row has %" PRIu64 " values, and lengths say %" PRIu64
                        ": give the lengths that the data has, or leave them to be measured",
                        p->name, have, said);
    return 0;
}

int stk_packed_make(stk_worker *w, const stk_piece_of *of, const stk_spec *raw, size_t bytes,
                    stk_error *err)
{
    stk_engine *e = w->engine;
    const stk_slot *s = stk_slot_of(e, of->ticket);
    piece p = { .w = w,
                .chain = &e->plan->chains.chain[of->output],
                .spot = &s->list.place[of->ticket % e->tickets],
                .name = e->plan->outputs.common->out[of->output].name };
    const stk_step *parse = p.chain->parse;
    uint8_t *whole;
    uint64_t skip;

    p.size = stk_dtype_size(p.chain->spec.dtype);
    p.dst = (uint8_t *)stk_batch_place(s->batch, of->output, p.spot->row) + p.spot->at * p.size;
    STK_TRY(check(&p, raw, &skip, err));
    if (p.chain->pack->give != STK_GIVE_TOKENS) {
        put_numbers(&p);
        return 0;
    }
    whole = stk_scratch_get(&w->scratch, bytes ? bytes : 1);
    if (!whole)
        return stk_fail_nomem(err, bytes);
    STK_TRY(parse->codec->parse(parse->state, of->in, whole, err));
    return put_values(&p, raw, whole + skip * stk_dtype_size(raw->dtype), err);
}

void stk_packed_finish(stk_engine *e, stk_slot *s)
{
    for (uint32_t i = 0; i < e->plan->chains.n_out; i++) {
        piece p = { .chain = &e->plan->chains.chain[i], .size = stk_dtype_size(e->plan->chains.chain[i].spec.dtype) };
        const stk_tokens *t = p.chain->pack;

        for (uint32_t r = 0; r < s->share.rows; r++) {
            uint64_t left = t->block - s->list.used[r];

            p.dst = (uint8_t *)stk_batch_place(s->batch, i, r) + s->list.used[r] * p.size;
            if (t->give == STK_GIVE_POSITIONS)
                count(&p, left);
            else
                fill(&p, 0, left, t->give == STK_GIVE_TOKENS ? t->pad : 0);
        }
    }
}

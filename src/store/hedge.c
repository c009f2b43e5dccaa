/* SPDX-License-Identifier: Apache-2.0 */
/* hedge.c - a second request for bytes that take unusually long; the first answer counts.
 *
 * Unusual is twice what 95 of 100 reads take.  At most one read of 50 is asked for twice, and none
 * while a server said "slow down" lately: a server in trouble is not given more to do. */
#include <stdlib.h>
#include <string.h>

#include "store/http_client.h"

#define ONE_OF 50u
#define LEAST_NS 10000000u
#define CALM_NS 30000000000u
#define LOOK_EVERY 16u
#define LOOK_NS 5000000u

static int by_size(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

void stk_hedge_note(stk_hedge *h, uint64_t took_ns)
{
    uint32_t sorted[STK_HEDGE_READS];
    size_t n;

    h->took_us[h->n++ % STK_HEDGE_READS] = (uint32_t)(took_ns / 1000u);
    if (h->n % LOOK_EVERY)
        return;
    n = h->n < STK_HEDGE_READS ? (size_t)h->n : STK_HEDGE_READS;
    memcpy(sorted, h->took_us, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_size);
    h->after_ns = (uint64_t)sorted[n * 95 / 100] * 2000u;
    if (h->after_ns < LEAST_NS)
        h->after_ns = LEAST_NS;
}

void stk_hedge_slow(stk_hedge *h, uint64_t now)
{
    h->calm_ns = now + CALM_NS;
}

int stk_hedge_now(const stk_hedge *h, uint64_t now, uint64_t started)
{
    return h->after_ns && now >= h->calm_ns && now - started >= h->after_ns &&
           (h->sent + 1) * ONE_OF <= h->n;
}

/* ---- the second request ---- */

static int may_hedge(const stk_transfer *t)
{
    return t->to->store->o.hedge == STK_YES && t->len && (t->dst || t->put) && !t->own.is_twin &&
           !t->body;
}

static void twin_free(stk_transfer *w)
{
    if (w->own.twin)
        w->own.twin->own.twin = NULL;
    stk_transfer_ends(w);
    stk_large_free(w->dst, w->len);
    stk_transfer_fini(w);
    stk_free(w);
}

static stk_transfer *twin_new(stk_transfer *t)
{
    stk_transfer *w = STK_NEW(stk_transfer);

    if (!w)
        return NULL;
    w->dst = stk_large_alloc(t->len);
    if (!w->dst) {
        stk_free(w);
        return NULL;
    }
    w->to = t->to;
    w->method = t->method;
    memcpy(w->header, t->header, sizeof w->header);
    w->offset = t->offset;
    w->len = t->len;
    w->size = t->size;
    w->etag = t->etag;
    w->own.deadline_ns = t->own.deadline_ns;
    w->own.is_twin = 1;
    w->own.twin = t;
    w->done = twin_free; /* it could not be begun: the first goes on alone */
    stk_answer_clear(&w->answer);
    t->own.twin = w;
    return w;
}

static void ask_again(stk_client *c, stk_transfer *t)
{
    stk_http_slot *s = stk_slot_take(c);
    stk_transfer *w = s ? twin_new(t) : NULL;

    if (w) {
        c->hedge.sent++;
        stk_client_begin(c, s, w);
    } else if (s) {
        stk_slot_give(c, s);
    }
}

void stk_hedge_watch(stk_client *c, const stk_transfer *t, uint64_t now)
{
    if (!c->hedge_look_ns && may_hedge(t))
        c->hedge_look_ns = now + LOOK_NS;
}

void stk_hedge_look(stk_client *c, uint64_t now)
{
    uint32_t n = c->n_slots, watched = 0;

    if (!c->hedge_look_ns || now < c->hedge_look_ns)
        return;
    for (uint32_t i = 0; i < n; i++) {
        stk_transfer *t = c->all[i]->t;

        if (!t || !may_hedge(t))
            continue;
        watched++;
        if (!t->own.twin && stk_hedge_now(&c->hedge, now, c->all[i]->started_ns))
            ask_again(c, t);
    }
    c->hedge_look_ns = watched ? now + LOOK_NS : 0;
}

static stk_http_slot *slot_of(const stk_client *c, const stk_transfer *t)
{
    for (uint32_t i = 0; i < c->n_slots; i++)
        if (c->all[i]->t == t)
            return c->all[i];
    return NULL;
}

/* The second one's bytes are the first one's answer. */
static void take_twin(stk_transfer *t, stk_transfer *w)
{
    t->got = 0;
    stk_transfer_put(t, w->dst, w->got);
    t->rc = w->rc;
    t->status = w->status;
    t->answer = w->answer;
    t->why[0] = 0;
    twin_free(w);
    stk_client_finish(t);
}

void stk_hedge_drop(stk_client *c, stk_transfer *t)
{
    stk_http_slot *s = t->own.twin ? slot_of(c, t->own.twin) : NULL;

    if (s)
        stk_client_cut(c, s);
    if (t->own.twin)
        twin_free(t->own.twin);
}

int stk_hedge_settle(stk_client *c, stk_transfer *t, stk_verdict v, uint64_t took_ns)
{
    stk_transfer *other = t->own.twin;
    stk_http_slot *s = other ? slot_of(c, other) : NULL;
    int good = v == STK_DONE && t->rc == 0;

    if (good && may_hedge(t))
        stk_hedge_note(&c->hedge, took_ns);
    if (!other)
        return 0;
    if (!t->own.is_twin) {
        stk_hedge_drop(c, t);
        return 0;
    }
    if (good && s) {
        stk_client_cut(c, s);
        take_twin(other, t);
    } else {
        twin_free(t); /* the first one goes on */
    }
    return 1;
}

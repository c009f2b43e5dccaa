/* SPDX-License-Identifier: Apache-2.0 */
/* pattern.c - a row in which every kind is spread as evenly as can be.
 *
 * Of n places kind k gets n_k.  Its j-th number may not stand before place floor(j n / n_k), nor
 * after ceil((j + 1) n / n_k) - 1: then after p places it has come p n_k / n times, rounded up or
 * down.  Such a row exists for any counts, and giving each place to the waiting number with the
 * earliest deadline finds it (R. Tijdeman, The chairman assignment problem, 1980).  Equal deadlines
 * are settled by a hash, so that kinds of one size don't come in the same turn every time. */
#include "base/hash.h"

#include <assert.h>
#include "base/mem.h"
#include "order/order.h"

typedef struct turn { /* of the next number of a kind */
    uint64_t time;
    uint32_t tie, kind;
} turn;

typedef struct heap { /* the earliest first */
    turn *at;
    uint32_t n;
} heap;

struct stk_pattern {
    heap waiting; /* for the place from which on they may stand */
    heap ready;   /* by deadline */
    uint64_t *next;
};

int stk_pattern_open(stk_pattern **out, uint32_t kinds, stk_error *err)
{
    stk_pattern *p = STK_NEW(stk_pattern);

    *out = NULL;
    if (!p)
        return stk_fail_nomem(err, sizeof *p);
    p->waiting.at = stk_zalloc(kinds + 1, sizeof(turn));
    p->ready.at = stk_zalloc(kinds + 1, sizeof(turn));
    p->next = stk_zalloc(kinds + 1, sizeof *p->next);
    if (!p->waiting.at || !p->ready.at || !p->next) {
        stk_pattern_close(&p);
        return stk_fail_nomem(err, kinds * sizeof(turn));
    }
    *out = p;
    return 0;
}

static int before(const turn *a, const turn *b)
{
    return a->time != b->time ? a->time < b->time
           : a->tie != b->tie ? a->tie < b->tie
                              : a->kind < b->kind;
}

static void push(heap *h, turn t)
{
    uint32_t i = h->n++;

    for (; i && before(&t, &h->at[(i - 1) / 2]); i = (i - 1) / 2)
        h->at[i] = h->at[(i - 1) / 2];
    h->at[i] = t;
}

static turn pop(heap *h)
{
    turn top = h->at[0], t;
    uint32_t i = 0, child;

    assert(h->n);
    t = h->at[--h->n];
    for (; (child = 2 * i + 1) < h->n; i = child) {
        child += child + 1 < h->n && before(&h->at[child + 1], &h->at[child]);
        if (!before(&h->at[child], &t))
            break;
        h->at[i] = h->at[child];
    }
    h->at[i] = t;
    return top;
}

/* The kind's next number waits for its first place. */
static void wait_for(stk_pattern *p, const uint64_t *first, uint32_t kind, uint64_t n)
{
    uint64_t j = p->next[kind], count = first[kind + 1] - first[kind];

    if (j < count)
        push(&p->waiting, (turn){ j * n / count, 0, kind });
}

static void make_ready(stk_pattern *p, const uint64_t *first, uint64_t n, uint64_t seed)
{
    turn t = pop(&p->waiting);
    uint64_t j = p->next[t.kind] + 1, count = first[t.kind + 1] - first[t.kind];

    t.time = (j * n + count - 1) / count;
    t.tie = (uint32_t)(stk_mix64(stk_mix64(seed + t.kind) + j) >> 32);
    push(&p->ready, t);
}

void stk_pattern_make(stk_pattern *p, const uint64_t *first, uint32_t kinds, uint64_t seed,
                      uint32_t *out)
{
    uint64_t n = first[kinds];

    p->waiting.n = p->ready.n = 0;
    for (uint32_t k = 0; k < kinds; k++) {
        p->next[k] = 0;
        wait_for(p, first, k, n);
    }
    for (uint64_t place = 0; place < n; place++) {
        turn t;

        while (p->waiting.n && p->waiting.at[0].time <= place)
            make_ready(p, first, n, seed);
        t = pop(&p->ready); /* one always is: see above */
        out[place] = (uint32_t)(first[t.kind] + p->next[t.kind]++);
        wait_for(p, first, t.kind, n);
    }
    assert(!p->waiting.n && !p->ready.n); /* every number has a place */
}

uint32_t stk_pattern_kind(const uint64_t *first, uint32_t kinds, uint64_t number)
{
    uint32_t lo = 0, hi = kinds;

    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (first[mid] <= number)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

void stk_pattern_close(stk_pattern **pp)
{
    stk_pattern *p = *pp;

    if (!p)
        return;
    *pp = NULL;
    stk_free(p->waiting.at);
    stk_free(p->ready.at);
    stk_free(p->next);
    stk_free(p);
}

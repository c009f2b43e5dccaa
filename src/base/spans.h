/* SPDX-License-Identifier: Apache-2.0 */
/* spans.h - the last things a thread did, from when to when; its memory is bounded.
 *
 * One thread notes, any thread reads meanwhile.  Every word is an atomic: who reads a word of a new
 * span (acquire) sees from then on that the count has reached it, and drops the old span of that
 * cell. */
#ifndef STOKER_BASE_SPANS_H
#define STOKER_BASE_SPANS_H

#include <stdatomic.h>

#include "base/err.h"

typedef struct stk_spans_cell {
    _Atomic uint64_t from, to, what;
} stk_spans_cell;

typedef struct stk_spans { /* Thread: one, to note; any, to read. */
    _Atomic uint64_t n;    /* noted so far */
    uint64_t mask;         /* cells, less one */
    stk_spans_cell cell[];
} stk_spans;

typedef struct stk_spans_row {
    uint64_t from, to, what;
} stk_spans_row;

/* Room for the last `least` of them, rounded up to a power of two. */
int stk_spans_open(stk_spans **out, uint32_t least, stk_error *err);
void stk_spans_close(stk_spans **s); /* NULL-safe, nulls */

/* Spans are numbered through; those from *first up to the answer are there, oldest first. */
uint64_t stk_spans_range(const stk_spans *s, uint64_t *first);
int stk_spans_get(const stk_spans *s, uint64_t i, stk_spans_row *out); /* 0: it was written over */

/* What goes on at the moment at which the same ended is one span with it. */
static inline void stk_spans_note(stk_spans *s, uint64_t what, uint64_t from, uint64_t to)
{
    uint64_t n = atomic_load_explicit(&s->n, memory_order_relaxed);
    stk_spans_cell *last = &s->cell[(n - 1) & s->mask], *c = &s->cell[n & s->mask];

    if (n && atomic_load_explicit(&last->what, memory_order_relaxed) == what &&
        atomic_load_explicit(&last->to, memory_order_relaxed) == from) {
        atomic_store_explicit(&last->to, to, memory_order_release);
        return;
    }
    atomic_store_explicit(&c->from, from, memory_order_release);
    atomic_store_explicit(&c->to, to, memory_order_release);
    atomic_store_explicit(&c->what, what, memory_order_release);
    atomic_store_explicit(&s->n, n + 1, memory_order_release);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* spans.h - the last stages of a thread, with times, in bounded memory.  Traces (pipe/trace.c) use
 * it.
 *
 * One thread notes spans while any thread reads them.  Every word is atomic.  A reader that sees a
 * word of a new span (acquire) sees the increased count from then on, and drops the old span of
 * that cell. */
#ifndef STOKER_BASE_SPANS_H
#define STOKER_BASE_SPANS_H

#include <stdatomic.h>

#include "base/err.h"

typedef struct stk_spans_cell {
    _Atomic uint64_t from, to, what;
} stk_spans_cell;

typedef struct stk_spans { /* Thread: one, to note; any, to read. */
    _Atomic uint64_t n;    /* spans noted so far */
    uint64_t mask;         /* number of cells - 1 */
    stk_spans_cell cell[];
} stk_spans;

typedef struct stk_spans_row {
    uint64_t from, to, what;
} stk_spans_row;

/* Room for the last `least` spans, rounded up to a power of two. */
int stk_spans_open(stk_spans **out, uint32_t least, stk_error *err);
void stk_spans_close(stk_spans **s); /* NULL-safe, nulls */

/* Spans have consecutive numbers.  Those from *first up to the returned one are available. */
uint64_t stk_spans_range(const stk_spans *s, uint64_t *first);
int stk_spans_get(const stk_spans *s, uint64_t i, stk_spans_row *out); /* 0: it was overwritten */

/* Notes a span.  If it continues the last one, that one is made longer. */
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

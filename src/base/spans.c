/* SPDX-License-Identifier: Apache-2.0 */
/* spans.c - the last things a thread did; see spans.h. */
#include "base/spans.h"

#include "base/mem.h"

int stk_spans_open(stk_spans **out, uint32_t least, stk_error *err)
{
    uint64_t cells = 2;
    size_t size;

    while (cells < least)
        cells *= 2;
    size = sizeof **out + cells * sizeof(stk_spans_cell);
    *out = stk_zalloc(1, size);
    if (!*out)
        return stk_fail_nomem(err, size);
    (*out)->mask = cells - 1;
    return 0;
}

void stk_spans_close(stk_spans **s)
{
    stk_free(*s);
    *s = NULL;
}

uint64_t stk_spans_range(const stk_spans *s, uint64_t *first)
{
    uint64_t n = atomic_load_explicit(&s->n, memory_order_acquire);

    *first = n < s->mask ? 0 : n - s->mask; /* one cell may be written at this moment */
    return n;
}

int stk_spans_get(const stk_spans *s, uint64_t i, stk_spans_row *out)
{
    const stk_spans_cell *c = &s->cell[i & s->mask];

    out->from = atomic_load_explicit(&c->from, memory_order_acquire);
    out->to = atomic_load_explicit(&c->to, memory_order_acquire);
    out->what = atomic_load_explicit(&c->what, memory_order_acquire);
    return i + s->mask >= atomic_load_explicit(&s->n, memory_order_relaxed);
}

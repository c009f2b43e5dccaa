/* SPDX-License-Identifier: Apache-2.0 */
/* tables.c - a few tables out of many, each made when it is first looked at.
 *
 * An order's at() cannot fail, so all memory is taken when the order is opened.  Table k has its
 * place in slot k % n: readers move on from one number to the next, so that the newest n are there.
 * Looking at a table that is there takes no lock: a reader counts itself in and then looks whether
 * the slot still is that table; who makes one takes the name off the slot and then waits for the
 * readers.  Both use sequentially consistent atomics, so that one of them sees the other. */
#include <assert.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/lock.h"
#include "base/mem.h"
#include "order/order.h"

#define NONE UINT64_MAX

typedef struct slot {
    _Alignas(64) _Atomic uint64_t number; /* NONE: empty, or being made */
    _Atomic uint32_t readers;
} slot;

struct stk_tables {
    slot *slot;
    uint32_t n;
    size_t bytes;
    uint8_t *memory;
    stk_table_fill fill;
    void *cookie;
    stk_mutex lock; /* of who makes one */
};

int stk_tables_open(stk_tables **out, uint32_t n, size_t bytes, stk_table_fill fill, void *cookie,
                    stk_error *err)
{
    stk_tables *t = STK_NEW(stk_tables);

    assert(n && fill);
    *out = NULL;
    if (!t)
        return stk_fail_nomem(err, sizeof *t);
    *t = (stk_tables){ .n = n, .bytes = (bytes + 63) / 64 * 64, .fill = fill, .cookie = cookie };
    stk_mutex_init(&t->lock);
    t->slot = stk_zalloc(n, sizeof *t->slot);
    t->memory = stk_zalloc(n, t->bytes);
    if (!t->slot || !t->memory) {
        stk_tables_close(&t);
        return stk_fail_nomem(err, n * bytes);
    }
    for (uint32_t i = 0; i < n; i++)
        atomic_init(&t->slot[i].number, NONE);
    *out = t;
    return 0;
}

static int enter(slot *s, uint64_t number)
{
    if (atomic_load_explicit(&s->number, memory_order_relaxed) != number)
        return 0;
    atomic_fetch_add_explicit(&s->readers, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&s->number, memory_order_seq_cst) == number)
        return 1;
    atomic_fetch_sub_explicit(&s->readers, 1, memory_order_release);
    return 0;
}

static void make(stk_tables *t, slot *s, uint64_t number, void *table)
{
    atomic_store_explicit(&s->number, NONE, memory_order_seq_cst);
    while (atomic_load_explicit(&s->readers, memory_order_seq_cst))
        sched_yield(); /* they hold it for a few rows */
    t->fill(t->cookie, number, table);
    atomic_fetch_add_explicit(&s->readers, 1, memory_order_relaxed);
    atomic_store_explicit(&s->number, number, memory_order_seq_cst);
}

const void *stk_tables_pin(stk_tables *t, uint64_t number)
{
    slot *s = &t->slot[number % t->n];
    void *table = t->memory + number % t->n * t->bytes;

    assert(number != NONE); /* it stands for an empty slot */
    if (enter(s, number))
        return table;
    stk_mutex_lock(&t->lock);
    if (!enter(s, number)) /* another thread may have made it meanwhile */
        make(t, s, number, table);
    stk_mutex_unlock(&t->lock);
    return table;
}

void stk_tables_unpin(stk_tables *t, uint64_t number)
{
    assert(atomic_load_explicit(&t->slot[number % t->n].readers, memory_order_relaxed) > 0);
    atomic_fetch_sub_explicit(&t->slot[number % t->n].readers, 1, memory_order_release);
}

void stk_tables_forget(stk_tables *t)
{
    for (uint32_t i = 0; i < t->n; i++)
        atomic_store_explicit(&t->slot[i].number, NONE, memory_order_seq_cst);
}

void stk_tables_close(stk_tables **tp)
{
    stk_tables *t = *tp;

    if (!t)
        return;
    *tp = NULL;
    stk_mutex_destroy(&t->lock);
    stk_free(t->slot);
    stk_free(t->memory);
    stk_free(t);
}

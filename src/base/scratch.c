/* SPDX-License-Identifier: Apache-2.0 */
/* scratch.c - see scratch.h. */
#include "base/scratch.h"

#include <string.h>

#include "base/mem.h"

#define WINDOW 4096 /* samples after which a scratch that is far too large begins again */
#define SPARE ((size_t)1 << 20) /* ... which is this much, and twice what they asked for */

static size_t keep_of(const stk_scratch *s)
{
    return s->ration ? atomic_load_explicit(&s->ration->keep, memory_order_relaxed) : SIZE_MAX;
}

static void mark_over(stk_scratch *s)
{
    if (s->over || s->charged <= keep_of(s))
        return;
    s->over = 1;
    atomic_fetch_add(&s->ration->over, 1);
}

/* Room for `have` bytes in all is charged; 0: it is not. */
static int charge(stk_scratch *s, size_t have)
{
    stk_ration *r = s->ration;

    if (!r || have <= s->charged)
        return 1;
    if (s->asked > r->most) {
        s->shortage = STK_SHORT_FOREVER;
        return 0;
    }
    if ((have > keep_of(s) && stk_account_waited_for(&r->account)) ||
        !stk_account_take(&r->account, have - s->charged)) {
        s->shortage = STK_SHORT_NOW;
        return 0;
    }
    s->charged = have;
    mark_over(s);
    return 1;
}

static void block_free(stk_scratch *s, unsigned i)
{
    stk_large_free(s->block[i].data, s->block[i].size);
    s->total -= s->block[i].size;
    s->block[i].data = NULL;
    s->block[i].size = 0;
}

/* A quarter more than asked for, so that sizes settle after a few samples; but for what is given
 * back after the sample. */
static size_t roomy(const stk_scratch *s, size_t rest, size_t size)
{
    size_t want = size + size / 4;

    return rest + want <= keep_of(s) ? want : size;
}

static int grow(stk_scratch *s, unsigned i, size_t size)
{
    size_t rest = s->total - s->block[i].size + s->beside, want = roomy(s, rest, size);
    void *p;

    if (s->ration)
        block_free(s, i); /* never both at once */
    if (!charge(s, rest + want))
        return 0;
    p = stk_large_alloc(want);
    if (!p)
        return 0;
    block_free(s, i);
    s->block[i].data = p;
    s->block[i].size = want;
    s->total += want;
    return 1;
}

/* Long after an outlier: let the blocks grow to what is asked for now. */
static void begin_anew(stk_scratch *s)
{
    if (s->total > 2 * s->high + SPARE)
        stk_scratch_drop(s);
    s->high = s->uses = 0;
}

void *stk_scratch_get(stk_scratch *s, size_t size)
{
    unsigned i = s->next;

    if (i >= STK_SCRATCH_BLOCKS || size > SIZE_MAX / 4)
        return NULL;
    if (!i && !s->beside && ++s->uses == WINDOW)
        begin_anew(s);
    s->used = 1;
    s->asked += size;
    if (s->block[i].size < size && !grow(s, i, size))
        return NULL;
    s->next++;
    return s->block[i].data;
}

int stk_scratch_beside(stk_scratch *s, size_t size)
{
    if (size > SIZE_MAX / 4)
        return 0;
    s->used = 1;
    s->asked += size;
    if (!charge(s, s->total + s->beside + size))
        return 0;
    s->beside += size;
    return 1;
}

int stk_scratch_hold(stk_scratch *s, size_t size)
{
    if (!stk_scratch_beside(s, size))
        return 0;
    s->held += size;
    return 1;
}

void stk_scratch_let_go(stk_scratch *s)
{
    s->beside -= s->held < s->beside ? s->held : s->beside; /* asked stays: what it needs */
    s->held = 0;
}

void stk_scratch_back(stk_scratch *s, size_t size)
{
    size = size < s->beside ? size : s->beside;
    s->beside -= size;
    s->asked -= size < s->asked ? size : s->asked;
}

int stk_scratch_expect(stk_scratch *s, size_t size)
{
    size_t all = s->asked + size;

    if (!s->ration || all <= s->charged)
        return 1;
    s->used = 1;
    s->expected = all;
    if (all <= s->ration->most)
        return charge(s, all);
    s->shortage = STK_SHORT_FOREVER;
    return 0;
}

void stk_scratch_begin(stk_scratch *s)
{
    s->used = 0;
    if (s->asked > s->high)
        s->high = s->asked;
    s->next = 0;
    s->shortage = STK_SHORT_OF_NOTHING;
    s->beside = s->asked = s->held;
    s->used = s->held > 0;
    s->expected = 0;
}

/* ---- of a ration ---- */

static void not_over(stk_scratch *s)
{
    if (!s->over)
        return;
    s->over = 0;
    atomic_fetch_sub(&s->ration->over, 1);
}

/* Charge what there is, and no more. */
static void charge_less(stk_scratch *s)
{
    size_t more = s->charged - s->total;

    if (!s->ration)
        return;
    s->charged = s->total;
    not_over(s); /* before those are woken who look at it */
    stk_account_give(&s->ration->account, more);
}

void stk_scratch_drop(stk_scratch *s)
{
    for (unsigned i = 0; i < STK_SCRATCH_BLOCKS; i++)
        block_free(s, i);
    s->next = 0;
    s->beside = 0;
    charge_less(s);
}

void stk_scratch_grant(stk_scratch *s, size_t size)
{
    s->shortage = STK_SHORT_OF_NOTHING;
    s->charged = size;
    mark_over(s);
}

size_t stk_scratch_needs(const stk_scratch *s)
{
    return s->asked > s->expected ? s->asked : s->expected;
}

void stk_scratch_give_over(stk_scratch *s)
{
    while (s->total > keep_of(s)) {
        unsigned largest = 0;

        for (unsigned i = 1; i < STK_SCRATCH_BLOCKS; i++)
            if (s->block[i].size > s->block[largest].size)
                largest = i;
        block_free(s, largest);
    }
    s->next = 0;
    s->beside = 0;
    charge_less(s);
}

void stk_scratch_fini(stk_scratch *s)
{
    stk_scratch_drop(s);
    memset(s, 0, sizeof *s);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* bins.c - see bins.h.
 *
 * A window is made twice: once to count its bins, when its epoch is entered, and once more when one
 * of them is wanted.  So an epoch costs eight bytes a window and not four a sample, and any bin of
 * any epoch is found in the same time. */
#include "order/bins.h"

#include <assert.h>
#include <string.h>

#include "base/hash.h"
#include "base/lock.h"
#include "order/bin_window.h"
#include "order/group_bins.h"

#define EPOCHS 4  /* tables of so many are kept ... */
#define WINDOWS 8 /* ... and of so many windows */

typedef stk_bin_window window;
typedef stk_bin_maker maker;
typedef stk_bin_sums sums;
typedef struct epoch { /* a table */
    uint64_t used, room;
    uint64_t first[]; /* windows + 1: the number of each one's first bin */
} epoch;

typedef struct counted { /* an epoch whose windows are counted, so far */
    uint64_t number, windows;
    sums sums;
    uint64_t *first; /* as of an epoch's table */
} counted;

struct stk_bins {
    stk_binning how;
    uint64_t positions, windows;
    stk_tables *by_epoch, *by_window;
    maker counts, makes;
    stk_mutex lock; /* of `counts` and `counted` */
    counted counted;
    stk_group_bins *groups; /* CLASS, STEPS: all else is not used */
};

static void fill_window(void *cookie, uint64_t number, void *table)
{
    stk_bins *b = cookie;
    sums none = { 0 };

    stk_bin_window_make(&b->makes, number / b->windows, number % b->windows, table, &none);
}

/* The first `windows` of an epoch. */
static void count_locked(stk_bins *b, uint64_t number, uint64_t windows) STK_REQUIRES(b->lock)
{
    counted *c = &b->counted;

    if (c->number != number)
        *c = (counted){ .number = number, .first = c->first };
    for (c->first[0] = 0; c->windows < windows; c->windows++) {
        stk_bin_window_make(&b->counts, number, c->windows, b->counts.out, &c->sums);
        c->first[c->windows + 1] = c->first[c->windows] + b->counts.out->bins;
    }
}

static void fill_epoch(void *cookie, uint64_t number, void *table)
{
    stk_bins *b = cookie;
    epoch *e = table;

    stk_mutex_lock(&b->lock);
    count_locked(b, number, b->windows);
    memcpy(e->first, b->counted.first, (b->windows + 1) * sizeof *e->first);
    e->used = b->counted.sums.used;
    e->room = b->counted.sums.room;
    stk_mutex_unlock(&b->lock);
}

void stk_bins_expect(stk_bins *b, uint64_t number, uint64_t done, uint64_t of)
{
    uint64_t windows = (uint64_t)((unsigned __int128)b->windows * done / of);

    if (b->groups || b->how.kind == STK_BIN_LIKE || done >= of) {
        (void)stk_bins_count(b, number);
        return;
    }
    stk_mutex_lock(&b->lock);
    count_locked(b, number, windows);
    stk_mutex_unlock(&b->lock);
}

uint64_t stk_bins_count(stk_bins *b, uint64_t number)
{
    const epoch *e;
    uint64_t n;

    if (b->groups)
        return stk_group_bins_count(b->groups, number);
    if (b->how.kind == STK_BIN_LIKE)
        return b->positions;
    e = stk_tables_pin(b->by_epoch, number);
    n = e->first[b->windows];
    stk_tables_unpin(b->by_epoch, number);
    return n;
}

void stk_bins_fill(stk_bins *b, uint64_t number, uint64_t *used, uint64_t *room)
{
    const epoch *e = stk_tables_pin(b->by_epoch, number);

    *used = e->used;
    *room = e->room;
    stk_tables_unpin(b->by_epoch, number);
}

/* The window that has a bin, as the number of its table; *bin: its number there. */
static uint64_t window_of(stk_bins *b, uint64_t number, uint64_t *bin)
{
    uint64_t lo = 0, hi = b->windows;
    const epoch *e;

    if (b->how.kind == STK_BIN_LIKE) {
        lo = *bin / b->how.window;
        *bin %= b->how.window;
        return number * b->windows + lo;
    }
    if (b->windows == 1)
        return number;
    e = stk_tables_pin(b->by_epoch, number);
    assert(*bin < e->first[b->windows]); /* callers ask for bins that the epoch has */
    while (hi - lo > 1) {
        uint64_t mid = lo + (hi - lo) / 2;

        if (e->first[mid] <= *bin)
            lo = mid;
        else
            hi = mid;
    }
    *bin -= e->first[lo];
    stk_tables_unpin(b->by_epoch, number);
    return number * b->windows + lo;
}

/* A packed row's place in the tables: below t->packed, or a whole block. */
static uint64_t unmixed(const window *t, uint64_t bin)
{
    return t->perm.n ? stk_perm_at(&t->perm, bin) : bin;
}

const stk_bin_step *stk_bins_step(stk_bins *b, uint64_t number, uint64_t bin, int *stand_in)
{
    stk_group_bin found;

    *stand_in = 0;
    if (!b->groups)
        return NULL;
    stk_group_bins_find(b->groups, number, bin, &found);
    *stand_in = found.stand_in;
    return b->how.kind == STK_BIN_STEPS ? &b->how.steps[found.kind] : NULL;
}

static uint32_t group_size(stk_bins *b, uint64_t number, uint64_t bin)
{
    stk_group_bin found;

    stk_group_bins_find(b->groups, number, bin, &found);
    return found.rows;
}

uint32_t stk_bins_size(stk_bins *b, uint64_t number, uint64_t bin)
{
    const window *t;
    uint64_t w;
    uint32_t n;

    if (b->groups)
        return group_size(b, number, bin);
    w = window_of(b, number, &bin);
    t = stk_tables_pin(b->by_window, w);
    if (b->how.kind == STK_BIN_PACK)
        bin = unmixed(t, bin);
    n = b->how.kind == STK_BIN_PACK && bin >= t->packed ? 1 : t->at[bin + 1] - t->at[bin];

    stk_tables_unpin(b->by_window, w);
    return n;
}

void stk_bins_at(stk_bins *b, uint64_t number, uint64_t bin, uint32_t from, uint32_t n,
                 uint64_t *position)
{
    const uint32_t *where;
    const window *t;
    uint64_t w, first;

    if (b->groups) {
        stk_group_bins_at(b->groups, number, bin, from, n, position);
        return;
    }
    w = window_of(b, number, &bin);
    first = w % b->windows * b->how.window;
    t = stk_tables_pin(b->by_window, w);
    where = t->at + b->how.window + 1 + t->at[bin] + from;
    for (uint32_t i = 0; i < n; i++)
        position[i] = first + where[i];
    stk_tables_unpin(b->by_window, w);
}

/* The position that has a whole block, and which one of it. */
static void whole_block(stk_bins *b, const window *t, uint64_t first, uint64_t block,
                        uint64_t *position, uint32_t *part)
{
    const uint64_t *whole = stk_bin_window_whole(&b->how, (window *)(uintptr_t)t);
    uint64_t left = b->positions - first, lo = 0, hi = left < b->how.window ? left : b->how.window;

    while (hi - lo > 1) { /* the last with whole[lo] <= block */
        uint64_t mid = lo + (hi - lo) / 2;

        if (whole[mid] <= block)
            lo = mid;
        else
            hi = mid;
    }
    *position = first + lo;
    *part = (uint32_t)(block - whole[lo]);
}

void stk_bins_pieces(stk_bins *b, uint64_t number, uint64_t bin, uint64_t *position, uint32_t *part)
{
    uint64_t w = window_of(b, number, &bin), first = w % b->windows * b->how.window;
    const window *t = stk_tables_pin(b->by_window, w);
    const uint32_t *where = t->at + b->how.window + 1;

    bin = unmixed(t, bin);
    if (bin >= t->packed) {
        whole_block(b, t, first, bin - t->packed, position, part);
    } else {
        for (uint32_t i = t->at[bin]; i < t->at[bin + 1]; i++) {
            *position++ = first + where[i];
            *part++ = STK_BIN_REST;
        }
    }
    stk_tables_unpin(b->by_window, w);
}

uint64_t stk_bins_first(stk_bins *b, uint64_t number, uint64_t bin)
{
    uint64_t w = window_of(b, number, &bin), first = w % b->windows * b->how.window, position;
    const window *t = stk_tables_pin(b->by_window, w);
    uint32_t part;

    bin = unmixed(t, bin);
    if (bin >= t->packed)
        whole_block(b, t, first, bin - t->packed, &position, &part);
    else
        position = first + t->at[b->how.window + 1 + t->at[bin]];
    stk_tables_unpin(b->by_window, w);
    return position;
}

/* ---- up and down ---- */

int stk_bins_open(stk_bins **out, const stk_binning *how, stk_error *err)
{
    stk_bins *b = STK_NEW(stk_bins);
    int rc;

    *out = b;
    if (!b)
        return stk_fail_nomem(err, sizeof *b);
    stk_mutex_init(&b->lock);
    b->how = *how;
    b->positions = how->order->len(how->order->state);
    if (stk_bins_are_groups(how)) {
        rc = stk_group_bins_open(&b->groups, how, err);
        if (rc < 0)
            stk_bins_close(out);
        return rc;
    }
    if (b->how.window > b->positions)
        b->how.window = b->positions ? (uint32_t)b->positions : 1;
    b->windows = (b->positions + b->how.window - 1) / b->how.window;
    b->counted.number = UINT64_MAX;
    b->counted.first = stk_zalloc(b->windows + 1, sizeof *b->counted.first);
    rc = b->counted.first ? 0 : stk_fail_nomem(err, b->windows * sizeof *b->counted.first);
    if (rc == 0)
        rc = stk_bin_maker_init(&b->counts, &b->how, b->positions, err);
    if (rc == 0)
        rc = stk_bin_maker_init(&b->makes, &b->how, b->positions, err);
    if (rc == 0)
        rc = stk_tables_open(&b->by_epoch, EPOCHS,
                             sizeof(epoch) + (b->windows + 1) * sizeof(uint64_t), fill_epoch, b,
                             err);
    if (rc == 0)
        rc = stk_tables_open(&b->by_window, WINDOWS, stk_bin_window_bytes(&b->how), fill_window, b,
                             err);
    if (rc < 0)
        stk_bins_close(out);
    return rc;
}

void stk_bins_forget(stk_bins *b)
{
    if (b->groups) {
        stk_group_bins_forget(b->groups);
        return;
    }
    stk_mutex_lock(&b->lock);
    b->counted.number = UINT64_MAX;
    stk_mutex_unlock(&b->lock);
    stk_tables_forget(b->by_epoch);
    stk_tables_forget(b->by_window);
}

void stk_bins_close(stk_bins **bp)
{
    stk_bins *b = *bp;

    *bp = NULL;
    if (!b)
        return;
    stk_group_bins_close(&b->groups);
    stk_tables_close(&b->by_epoch);
    stk_tables_close(&b->by_window);
    stk_bin_maker_fini(&b->counts);
    stk_bin_maker_fini(&b->makes);
    stk_free(b->counted.first);
    stk_mutex_destroy(&b->lock);
    stk_free(b);
}

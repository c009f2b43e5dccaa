/* SPDX-License-Identifier: Apache-2.0 */
/* group_bins.c - see group_bins.h.
 *
 * Classes: an epoch's positions are sorted by class, each class as the order has it, and cut into
 * groups of rows x ranks.  Schedule: positions stay as they are; every group draws its entry at
 * (seed, epoch, number) and takes as many as that says.  Which group comes at which step is a
 * permutation of numbers, so a table has four bytes a position, or eight a step. */
#include "order/group_bins.h"

#include <assert.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

#define EPOCHS 2 /* tables of so many are kept */
#define RUN 256
#define MIXED 0x9E6C63D0876A9A61u
#define DRAWN 0xB5C0FBCFEC4D3B2Fu

struct stk_group_bins {
    stk_binning how;
    uint64_t positions;
    uint64_t most; /* groups that a table has room for (STEPS) */
    stk_tables *by_epoch;
};

typedef struct table {
    uint64_t groups;
    /* CLASS: classes + 1 first positions, classes + 1 first groups, then positions as uint32_t;
     * STEPS: groups + 1 first positions */
    uint64_t at[];
} table;

static uint32_t ranks_of(const stk_group_bins *g, uint64_t epoch)
{
    const stk_binning *h = &g->how;

    return h->before.group && h->before.epoch == epoch ? h->before.group : h->group;
}

/* ---- classes ---- */

static const uint64_t *first_groups(const stk_group_bins *g, const table *t)
{
    return t->at + g->how.classes + 1;
}

static const uint32_t *sorted(const stk_group_bins *g, const table *t)
{
    return (const uint32_t *)(const void *)(t->at + 2 * ((size_t)g->how.classes + 1));
}

/* Calls `each` for the class of every position. */
static void walk(const stk_group_bins *g, uint64_t epoch, uint64_t *counter, uint32_t *place)
{
    const stk_binning *h = &g->how;
    uint64_t position[RUN];
    stk_where where[RUN];

    for (uint64_t at = 0; at < g->positions; at += RUN) {
        uint32_t n = g->positions - at < RUN ? (uint32_t)(g->positions - at) : RUN;

        for (uint32_t i = 0; i < n; i++)
            position[i] = at + i;
        h->order->at(h->order->state, epoch, position, n, where);
        for (uint32_t i = 0; i < n; i++) {
            uint64_t k = counter[h->length[h->start[where[i].dataset] + where[i].sample]]++;

            if (place)
                place[k] = (uint32_t)position[i];
        }
    }
}

static uint64_t groups_of(const stk_binning *h, uint64_t n, uint64_t step)
{
    return h->rest == STK_REST_DROP ? n / step : n / step + (n % step != 0);
}

static void fill_classes(stk_group_bins *g, uint64_t epoch, table *t)
{
    uint32_t classes = g->how.classes;
    uint64_t *first = t->at, *group = t->at + classes + 1;
    uint64_t step = (uint64_t)g->how.rows * ranks_of(g, epoch);

    memset(t->at, 0, 2 * ((size_t)classes + 1) * sizeof *t->at);
    walk(g, epoch, first + 1, NULL); /* how many each has */
    for (uint32_t c = 0; c < classes; c++) {
        group[c + 1] = group[c] + groups_of(&g->how, first[c + 1], step);
        first[c + 1] += first[c];
    }
    t->groups = group[classes];
    /* first[c] counts up to where class c + 1 begins; then all move one place on */
    walk(g, epoch, first, (uint32_t *)(uintptr_t)sorted(g, t));
    memmove(first + 1, first, classes * sizeof *first);
    first[0] = 0;
}

/* The last of n + 1 ascending numbers that is not above `what`, among the first n. */
static uint64_t last_below(const uint64_t *first, uint64_t n, uint64_t what)
{
    uint64_t lo = 0, hi = n;

    while (hi - lo > 1) {
        uint64_t mid = lo + (hi - lo) / 2;

        if (first[mid] <= what)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

/* The rows of a group: out->first, base, n and kind; answers how many it has. */
static uint64_t class_group(const stk_group_bins *g, const table *t, uint64_t group, uint64_t step,
                            stk_group_bin *out)
{
    const uint64_t *groups = first_groups(g, t);
    uint32_t c = (uint32_t)last_below(groups, g->how.classes, group);
    uint64_t left;

    while (groups[c + 1] <= group) /* classes that are empty */
        c++;
    out->kind = c;
    out->base = t->at[c];
    out->n = t->at[c + 1] - t->at[c];
    out->first = (group - groups[c]) * step;
    left = out->n - out->first;
    return left < step && g->how.rest != STK_REST_WRAP ? left : step;
}

/* ---- a schedule ---- */

static uint32_t entry_of(const stk_group_bins *g, uint64_t epoch, uint64_t group)
{
    uint64_t at[2] = { epoch, group };
    uint64_t h = stk_hash64(stk_mix64(g->how.seed ^ DRAWN), at, sizeof at);

    return (uint32_t)((unsigned __int128)h * g->how.n_steps >> 64);
}

static void fill_steps(stk_group_bins *g, uint64_t epoch, table *t)
{
    uint64_t at = 0, ranks = ranks_of(g, epoch);

    for (t->groups = 0; at < g->positions && t->groups < g->most; t->groups++) {
        uint64_t step = g->how.steps[entry_of(g, epoch, t->groups)].rows * ranks;

        if (g->how.rest == STK_REST_DROP && g->positions - at < step)
            break;
        t->at[t->groups] = at;
        at += step;
    }
}

static uint64_t step_group(const stk_group_bins *g, const table *t, uint64_t epoch, uint64_t group,
                           uint64_t ranks, stk_group_bin *out)
{
    uint64_t step, left;

    out->kind = entry_of(g, epoch, group);
    out->base = 0;
    out->n = g->positions;
    out->first = t->at[group];
    step = g->how.steps[out->kind].rows * ranks;
    left = out->n - out->first;
    return left < step && g->how.rest != STK_REST_WRAP ? left : step;
}

/* ---- both ---- */

static void fill(void *cookie, uint64_t epoch, void *made)
{
    stk_group_bins *g = cookie;

    if (g->how.kind == STK_BIN_CLASS)
        fill_classes(g, epoch, made);
    else
        fill_steps(g, epoch, made);
}

uint64_t stk_group_bins_count(stk_group_bins *g, uint64_t epoch)
{
    const table *t = stk_tables_pin(g->by_epoch, epoch);
    uint64_t n = t->groups * ranks_of(g, epoch);

    stk_tables_unpin(g->by_epoch, epoch);
    return n;
}

/* Which group comes at a step: classes are mixed; a schedule is drawn as it is. */
static uint64_t group_at(const stk_group_bins *g, const table *t, uint64_t epoch, uint64_t step)
{
    stk_perm p;

    if (g->how.kind != STK_BIN_CLASS || !g->how.shuffle || t->groups < 2)
        return step;
    stk_perm_init(&p, t->groups, stk_mix64(g->how.seed ^ MIXED), epoch);
    return stk_perm_at(&p, step);
}

static void find(const stk_group_bins *g, const table *t, uint64_t epoch, uint64_t bin,
                 stk_group_bin *out)
{
    uint64_t ranks = ranks_of(g, epoch), k = bin % ranks, rows, each, extra;
    uint64_t group = group_at(g, t, epoch, bin / ranks);

    assert(bin / ranks < t->groups); /* callers ask for bins that the epoch has */
    rows = g->how.kind == STK_BIN_CLASS
               ? class_group(g, t, group, (uint64_t)g->how.rows * ranks, out)
               : step_group(g, t, epoch, group, ranks, out);
    each = rows / ranks;
    extra = rows % ranks;
    out->stand_in = !each && k >= extra;
    out->rows = out->stand_in ? 1 : (uint32_t)(each + (k < extra));
    out->first += out->stand_in ? k % rows : k * each + (k < extra ? k : extra);
}

void stk_group_bins_find(stk_group_bins *g, uint64_t epoch, uint64_t bin, stk_group_bin *out)
{
    const table *t = stk_tables_pin(g->by_epoch, epoch);

    find(g, t, epoch, bin, out);
    stk_tables_unpin(g->by_epoch, epoch);
}

void stk_group_bins_at(stk_group_bins *g, uint64_t epoch, uint64_t bin, uint32_t from, uint32_t n,
                       uint64_t *position)
{
    const table *t = stk_tables_pin(g->by_epoch, epoch);
    stk_group_bin b;

    find(g, t, epoch, bin, &b);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t at = b.base + (b.first + from + i) % b.n;

        position[i] = g->how.kind == STK_BIN_CLASS ? sorted(g, t)[at] : at;
    }
    stk_tables_unpin(g->by_epoch, epoch);
}

/* ---- up and down ---- */

static size_t table_bytes(stk_group_bins *g)
{
    const stk_binning *h = &g->how;
    uint32_t least = UINT32_MAX;

    if (h->kind == STK_BIN_CLASS)
        return sizeof(table) + 2 * ((size_t)h->classes + 1) * sizeof(uint64_t) +
               g->positions * sizeof(uint32_t);
    for (uint32_t i = 0; i < h->n_steps; i++)
        least = h->steps[i].rows < least ? h->steps[i].rows : least;
    least *= h->before.group && h->before.group < h->group ? h->before.group : h->group;
    g->most = g->positions / least + 1;
    return sizeof(table) + g->most * sizeof(uint64_t);
}

int stk_group_bins_open(stk_group_bins **out, const stk_binning *how, stk_error *err)
{
    stk_group_bins *g = STK_NEW(stk_group_bins);
    int rc;

    *out = g;
    if (!g)
        return stk_fail_nomem(err, sizeof *g);
    g->how = *how;
    g->positions = how->order->len(how->order->state);
    assert(g->positions <= UINT32_MAX && how->group);
    assert(how->kind == STK_BIN_CLASS ? how->rows > 0 : how->n_steps > 0);
    rc = stk_tables_open(&g->by_epoch, EPOCHS, table_bytes(g), fill, g, err);
    if (rc < 0)
        stk_group_bins_close(out);
    return rc;
}

void stk_group_bins_forget(stk_group_bins *g)
{
    stk_tables_forget(g->by_epoch);
}

void stk_group_bins_close(stk_group_bins **gp)
{
    stk_group_bins *g = *gp;

    *gp = NULL;
    if (!g)
        return;
    stk_tables_close(&g->by_epoch);
    stk_free(g);
}

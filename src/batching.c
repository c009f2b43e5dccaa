/* SPDX-License-Identifier: Apache-2.0 */
/* batching.c - see batching.h.  What is too long for its batch is said here, before the first one. */
#include "batching.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "lengths.h"
#include "sampling.h"

#define MAX_WINDOW ((uint64_t)1 << 24)
#define MAX_ROWS (1u << 20)
#define MAX_TICKETS (1u << 26)

int stk_batching_check(const stk_loader_options *o, stk_error *err)
{
    if (o->max_tokens && o->global_batch_size)
        return stk_fail(err, STK_EINVAL,
                        "max_tokens says how large a rank's batch is: leave global_batch_size (a "
                        "batch_size bounds its rows)");
    if (o->bucket > MAX_WINDOW)
        return stk_fail(err, STK_EINVAL, "bucket is a window of at most %" PRIu64 " samples",
                        MAX_WINDOW);
    return 0;
}

static uint64_t padded(const stk_engine *e, uint64_t id)
{
    uint64_t m = e->schedule.binning.multiple > 1 ? e->schedule.binning.multiple : 1, n = e->schedule.lengths[id];

    return ((n ? n : 1) + m - 1) / m * m;
}

static int too_long(const stk_engine *e, uint64_t id, uint64_t budget, stk_error *err)
{
    const stk_common *c = e->plan.batching.common;
    const char *shard = NULL;
    uint64_t offset = STK_NO_OFFSET;
    stk_bytes key = { 0 };
    stk_entry entry;
    uint32_t d = 0;
    int rc;

    while (d + 1 < c->n_data && c->start[d + 1] <= id)
        d++;
    if (stk_index_entry(c->data[d]->index, id - c->start[d], &entry, NULL) == 0) {
        shard = stk_shards_name(c->data[d]->shards, entry.shard);
        offset = entry.offset;
        key = stk_key_shown(entry.key);
    }
    rc = stk_fail(err, STK_EINVAL,
                  "a row of %u values, padded %" PRIu64 ", is longer than max_tokens=%" PRIu64
                  ": raise it, cut rows with truncate(%" PRIu64 "), or leave the sample out "
                  "(exclude)",
                  e->schedule.lengths[id], padded(e, id), budget, budget);
    stk_error_at(err, shard, offset, key);
    if (err)
        err->sample = id;
    return rc;
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* How many of the shortest rows fit into a budget: no batch has more.  Lengths above the mean of
 * that many do not matter, so a few short ones are enough to look at. */
static int most_rows(stk_engine *e, const stk_loader_options *o, uint64_t n, stk_error *err)
{
    uint64_t budget = o->max_tokens, cap = o->batch_size ? o->batch_size : MAX_ROWS, most = 1;
    uint64_t *length = stk_alloc((size_t)(n + 1) * sizeof *length);

    if (!length)
        return stk_fail_nomem(err, (size_t)n * sizeof *length);
    for (uint64_t i = 0; i < n; i++)
        length[i] = padded(e, e->schedule.set.n ? stk_roster_id(&e->schedule.set, i) : i);
    qsort(length, (size_t)n, sizeof *length, by_size);
    for (uint64_t i = 0; i < n && i < cap && (i + 1) * length[i] <= budget; i++)
        most = i + 1;
    stk_free(length);
    e->schedule.binning.rows = (uint32_t)most;
    e->plan.batching.tickets = e->plan.batching.common->batch = (uint32_t)most;
    return 0;
}

static int plan_budget(stk_engine *e, const stk_loader_options *o, stk_error *err)
{
    uint64_t n = e->schedule.set.n ? stk_roster_len(&e->schedule.set) : e->schedule.start[e->plan.data.n];

    n = e->schedule.set.repeat > 1 ? n / e->schedule.set.repeat : n;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t id = e->schedule.set.n ? stk_roster_id(&e->schedule.set, i) : i;

        if (padded(e, id) > o->max_tokens)
            return too_long(e, id, o->max_tokens, err);
    }
    e->schedule.binning.kind = STK_BIN_BUDGET;
    e->schedule.binning.budget = o->max_tokens;
    e->schedule.binning.group = e->schedule.split.world;
    return most_rows(e, o, n, err);
}

static int plan_like(stk_engine *e, stk_error *err)
{
    uint64_t rows = e->schedule.split.global, window = (e->schedule.binning.window + rows - 1) / rows * rows;

    if (window > MAX_WINDOW)
        return stk_fail(err, STK_EINVAL,
                        "bucket: a window of several global batches of %" PRIu64
                        " samples is more than %" PRIu64,
                        rows, MAX_WINDOW);
    e->schedule.binning.kind = STK_BIN_LIKE;
    e->schedule.binning.rows = (uint32_t)rows;
    e->schedule.binning.window = (uint32_t)window;
    return 0;
}

/* No output's padded rows are longer than the next common multiple of all of them. */
static int multiple_of(const stk_engine *e, uint32_t *out, stk_error *err)
{
    *out = 0;
    for (uint32_t i = 0; i < e->plan.chains.n_out; i++) {
        uint32_t m = e->plan.batching.common->out[i].multiple, a = *out, b = m, rest;

        if (!e->plan.chains.chain[i].counted || m < 2)
            continue;
        for (; b; a = b, b = rest)
            rest = a % b;
        if (*out && (uint64_t)(*out / a) * m > MAX_WINDOW)
            return stk_fail(err, STK_EINVAL,
                            "output %s is padded to a multiple of %u, others of %u, and both fit "
                            "only far apart: pad them to multiples of each other",
                            e->plan.batching.common->out[i].name, m, *out);
        *out = *out ? *out / a * m : m;
    }
    return 0;
}

/* ---- packed rows ---- */

/* All outputs are packed, in one way: a row has several samples. */
static int check_packs(const stk_engine *e, const stk_loader_options *o, stk_error *err)
{
    const stk_tokens *t0 = NULL;

    for (uint32_t i = 0; i < e->plan.chains.n_out; i++)
        t0 = e->plan.chains.chain[i].pack ? e->plan.chains.chain[i].pack : t0;
    for (uint32_t i = 0; i < e->plan.chains.n_out; i++) {
        const stk_tokens *t = e->plan.chains.chain[i].pack;

        if (!t)
            return stk_fail(err, STK_EINVAL,
                            "output %s: with pack() a row has several samples, so every output "
                            "ends in one",
                            e->plan.batching.common->out[i].name);
        if (t->block != t0->block || t->pack != t0->pack || t->window != t0->window ||
            e->plan.chains.chain[i].raw.most != e->plan.chains.chain[0].raw.most)
            return stk_fail(err, STK_EINVAL,
                            "output %s: all pack() of a loader agree in block, fit, window and "
                            "truncate(): their rows are one another's",
                            e->plan.batching.common->out[i].name);
    }
    if (o->max_tokens || o->bucket)
        return stk_fail(err, STK_EINVAL, "pack() fills rows to one length: leave %s",
                        o->max_tokens ? "max_tokens" : "bucket");
    return 0;
}

/* The most pieces of a batch: as many of the shortest as its rows hold. */
static uint32_t most_pieces(const stk_engine *e, uint32_t block)
{
    uint64_t n = e->schedule.start[e->plan.data.n], least = block, most;

    for (uint64_t i = 0; i < n; i++) {
        uint32_t rest = e->schedule.lengths[i] % block;

        least = rest && rest < least ? rest : least;
    }
    most = block / least < e->schedule.binning.window ? block / least : e->schedule.binning.window;
    most = most ? most : 1;
    return most < MAX_TICKETS / e->plan.batching.common->batch ? (uint32_t)(most * e->plan.batching.common->batch) : 0;
}

static int plan_packs(stk_engine *e, const stk_loader_options *o, stk_error *err)
{
    const stk_tokens *t;

    STK_TRY(check_packs(e, o, err));
    t = e->plan.chains.chain[0].pack;
    e->schedule.binning.kind = STK_BIN_PACK;
    e->schedule.binning.block = (uint32_t)t->block;
    e->schedule.binning.fit = (stk_fit)t->pack;
    e->schedule.binning.window = t->window;
    e->plan.rows.peeks = 0; /* a ticket is no row */
    e->plan.batching.tickets = most_pieces(e, e->schedule.binning.block);
    if (!e->plan.batching.tickets)
        return stk_fail(err, STK_ELIMIT,
                        "%u rows of %u values may have more than %u samples: lower batch_size or "
                        "block",
                        e->plan.batching.common->batch, e->schedule.binning.block, MAX_TICKETS);
    return 0;
}

/* Rows of documents, packed anew every epoch: their lengths are known. */
static int array_lengths(stk_engine *e, stk_error *err)
{
    const stk_common *c = e->plan.batching.common;
    uint64_t n = c->start[c->n_data];

    e->schedule.lengths = stk_zalloc(n + 1, sizeof *e->schedule.lengths);
    if (!e->schedule.lengths)
        return stk_fail_nomem(err, n * sizeof *e->schedule.lengths);
    for (uint32_t d = 0; d < c->n_data; d++)
        for (uint64_t i = 0; i < e->plan.chains.arrays->packed[d].rows; i++)
            e->schedule.lengths[c->start[d] + i] = e->plan.chains.arrays->packed[d].doc[i].len;
    return 0;
}

static void plan_rows(stk_engine *e)
{
    const stk_tokens *t = &e->plan.chains.arrays->cut;

    e->schedule.binning.kind = STK_BIN_PACK;
    e->schedule.binning.block = (uint32_t)t->block;
    e->schedule.binning.fit = (stk_fit)t->pack;
    e->schedule.binning.window = t->window;
}

static int packs(const stk_engine *e)
{
    for (uint32_t i = 0; i < e->plan.chains.n_out; i++)
        if (e->plan.chains.chain[i].pack)
            return 1;
    return 0;
}

int stk_batching_plan(stk_engine *e, const stk_loader_options *o, stk_error *err)
{
    int anew = e->plan.chains.arrays && e->plan.chains.arrays->cut.repack && !o->max_tokens && !o->bucket;

    if (!o->max_tokens && !o->bucket && !packs(e) && !anew)
        return o->lengths ? stk_fail(err, STK_EINVAL,
                                     "lengths are for max_tokens, bucket and pack(): give one of "
                                     "them too")
                          : 0;
    if (o->order)
        return stk_fail(err, STK_ENOTSUP,
                        "what is batched or packed by length goes with the orders that ship, not "
                        "with one of your own");
    if (anew)
        STK_TRY(array_lengths(e, err));
    else if (e->plan.chains.arrays)
        return stk_fail(err, STK_ENOTSUP,
                        "rows of arrays and windows of tokens all have one length: %s is for rows "
                        "that differ",
                        o->max_tokens ? "max_tokens" : "bucket");
    else
        STK_TRY(stk_lengths_plan(e, o, err));
    e->schedule.binning = (stk_binning){ .order = &e->schedule.order,
                                .length = e->schedule.lengths,
                                .start = e->schedule.start,
                                .seed = e->plan.policy.seed,
                                .shuffle = o->shuffle != STK_SHUFFLE_NONE || stk_sampling_given(o),
                                .window = o->bucket ? (uint32_t)o->bucket : STK_BIN_WINDOW };
    STK_TRY(multiple_of(e, &e->schedule.binning.multiple, err));
    STK_TRY(anew            ? (plan_rows(e), 0)
            : packs(e)      ? plan_packs(e, o, err)
            : o->max_tokens ? plan_budget(e, o, err)
                            : plan_like(e, err));
    return stk_bins_open(&e->schedule.bins, &e->schedule.binning, err);
}

int stk_batching_replan(stk_engine *e, uint64_t window, uint64_t together, stk_error *err)
{
    stk_binning how = e->schedule.binning;
    stk_bins *fresh = NULL;

    if (!e->schedule.bins || !window || window > MAX_WINDOW || !together || together > UINT32_MAX)
        return stk_fail(err, STK_EINVAL,
                        e->schedule.bins ? "a window has 1 to %" PRIu64 " samples, and some stay together"
                                : "windows of length belong to max_tokens and bucket",
                        MAX_WINDOW);
    how.window = (uint32_t)window;
    if (how.kind != STK_BIN_PACK)
        *(how.kind == STK_BIN_BUDGET ? &how.group : &how.rows) = (uint32_t)together;
    STK_TRY(stk_bins_open(&fresh, &how, err));
    stk_bins_close(&e->schedule.bins);
    e->schedule.binning = how;
    e->schedule.bins = fresh;
    return 0;
}

int stk_batching_slots(stk_engine *e, stk_error *err)
{
    for (uint32_t i = 0; e->schedule.bins && !e->plan.chains.arrays && i < e->plan.memory.slots; i++) {
        stk_slot *s = &e->slot[i];

        s->position = stk_zalloc(e->plan.batching.tickets, sizeof *s->position);
        if (!s->position)
            return stk_fail_nomem(err, e->plan.batching.tickets * sizeof *s->position);
        if (e->schedule.binning.kind != STK_BIN_PACK)
            continue;
        s->spot = stk_zalloc(e->plan.batching.tickets, sizeof *s->spot);
        s->part = stk_zalloc(e->plan.batching.tickets, sizeof *s->part);
        s->used = stk_zalloc(e->plan.batching.common->batch, sizeof *s->used);
        if (!s->spot || !s->part || !s->used)
            return stk_fail_nomem(err, e->plan.batching.tickets * sizeof *s->spot);
    }
    return 0;
}

void stk_batching_fini(stk_engine *e)
{
    stk_bins_close(&e->schedule.bins);
    stk_free(e->schedule.lengths);
    for (uint32_t i = 0; i < STK_MAX_SLOTS; i++) {
        stk_free(e->slot[i].position);
        stk_free(e->slot[i].spot);
        stk_free(e->slot[i].used);
        stk_free(e->slot[i].part);
    }
}

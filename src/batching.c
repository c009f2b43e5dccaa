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

int stk_batching_check(const stk_loader_options *o, stk_error *err)
{
    if (o->max_tokens && o->global_batch_size)
        return stk_fail(err, STK_EINVAL,
                        "max_tokens says how large a rank's batch is: leave global_batch_size (a "
                        "batch_size bounds its rows)");
    if (o->lengths && !o->max_tokens && !o->bucket)
        return stk_fail(err, STK_EINVAL,
                        "lengths are for max_tokens and bucket: give one of them too");
    if (o->bucket > MAX_WINDOW)
        return stk_fail(err, STK_EINVAL, "bucket is a window of at most %" PRIu64 " samples",
                        MAX_WINDOW);
    return 0;
}

static uint64_t padded(const stk_engine *e, uint64_t id)
{
    uint64_t m = e->binning.multiple > 1 ? e->binning.multiple : 1, n = e->lengths[id];

    return ((n ? n : 1) + m - 1) / m * m;
}

static int too_long(const stk_engine *e, uint64_t id, uint64_t budget, stk_error *err)
{
    const stk_common *c = e->common;
    stk_bytes key = { 0 };
    stk_entry entry;
    uint32_t d = 0;
    int rc;

    while (d + 1 < c->n_data && c->start[d + 1] <= id)
        d++;
    if (stk_index_entry(c->data[d]->index, id - c->start[d], &entry, NULL) == 0)
        key = stk_key_shown(entry.key);
    rc = stk_fail(err, STK_EINVAL,
                  "a row of %u values, padded %" PRIu64 ", is longer than max_tokens=%" PRIu64
                  ": raise it, cut rows with truncate(%" PRIu64 "), or leave the sample out "
                  "(exclude)",
                  e->lengths[id], padded(e, id), budget, budget);
    stk_error_at(err, NULL, STK_NO_OFFSET, key);
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
        length[i] = padded(e, e->roster.n ? stk_roster_id(&e->roster, i) : i);
    qsort(length, (size_t)n, sizeof *length, by_size);
    for (uint64_t i = 0; i < n && i < cap && (i + 1) * length[i] <= budget; i++)
        most = i + 1;
    stk_free(length);
    e->binning.rows = (uint32_t)most;
    e->batch = e->common->batch = (uint32_t)most;
    return 0;
}

static int plan_budget(stk_engine *e, const stk_loader_options *o, stk_error *err)
{
    uint64_t n = e->roster.n ? stk_roster_len(&e->roster) : e->common->start[e->common->n_data];

    n = e->roster.repeat > 1 ? n / e->roster.repeat : n;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t id = e->roster.n ? stk_roster_id(&e->roster, i) : i;

        if (padded(e, id) > o->max_tokens)
            return too_long(e, id, o->max_tokens, err);
    }
    e->binning.kind = STK_BIN_BUDGET;
    e->binning.budget = o->max_tokens;
    e->binning.group = e->deal.world;
    return most_rows(e, o, n, err);
}

static int plan_like(stk_engine *e, stk_error *err)
{
    uint64_t rows = e->deal.global, window = (e->binning.window + rows - 1) / rows * rows;

    if (window > MAX_WINDOW)
        return stk_fail(err, STK_EINVAL,
                        "bucket: a window of several global batches of %" PRIu64
                        " samples is more than %" PRIu64,
                        rows, MAX_WINDOW);
    e->binning.kind = STK_BIN_LIKE;
    e->binning.rows = (uint32_t)rows;
    e->binning.window = (uint32_t)window;
    return 0;
}

/* Padded rows are as long as a multiple of the largest multiple of any output. */
static uint32_t multiple_of(const stk_engine *e)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < e->common->n_out; i++)
        if (e->chain[i].counted && e->common->out[i].multiple > most)
            most = e->common->out[i].multiple;
    return most;
}

int stk_batching_plan(stk_engine *e, const stk_loader_options *o, stk_error *err)
{
    if (!o->max_tokens && !o->bucket)
        return 0;
    if (e->arrays)
        return stk_fail(err, STK_ENOTSUP,
                        "rows of arrays and windows of tokens all have one length: %s is for rows "
                        "that differ",
                        o->max_tokens ? "max_tokens" : "bucket");
    STK_TRY(stk_lengths_plan(e, o, err));
    e->binning = (stk_binning){ .order = &e->order,
                                .length = e->lengths,
                                .start = e->common->start,
                                .seed = e->seed,
                                .shuffle = o->shuffle != STK_SHUFFLE_NONE || o->order ||
                                           stk_sampling_given(o),
                                .window = o->bucket ? (uint32_t)o->bucket : STK_BIN_WINDOW,
                                .multiple = multiple_of(e) };
    STK_TRY(o->max_tokens ? plan_budget(e, o, err) : plan_like(e, err));
    return stk_bins_open(&e->bins, &e->binning, err);
}

int stk_batching_replan(stk_engine *e, uint64_t window, uint64_t together, stk_error *err)
{
    stk_binning how = e->binning;
    stk_bins *fresh = NULL;

    if (!e->bins || !window || window > MAX_WINDOW || !together || together > UINT32_MAX)
        return stk_fail(err, STK_EINVAL,
                        e->bins ? "a window has 1 to %" PRIu64 " samples, and some stay together"
                                : "windows of length belong to max_tokens and bucket",
                        MAX_WINDOW);
    how.window = (uint32_t)window;
    *(how.kind == STK_BIN_BUDGET ? &how.group : &how.rows) = (uint32_t)together;
    STK_TRY(stk_bins_open(&fresh, &how, err));
    stk_bins_close(&e->bins);
    e->binning = how;
    e->bins = fresh;
    return 0;
}

int stk_batching_slots(stk_engine *e, stk_error *err)
{
    for (uint32_t i = 0; e->bins && i < e->n_slots; i++) {
        e->slot[i].position = stk_zalloc(e->batch, sizeof *e->slot[i].position);
        if (!e->slot[i].position)
            return stk_fail_nomem(err, e->batch * sizeof *e->slot[i].position);
    }
    return 0;
}

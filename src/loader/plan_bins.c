/* SPDX-License-Identifier: Apache-2.0 */
/* plan_bins.c - see plan_bins.h.  What is too long for its batch is said here, before the first
 * one. */
#include "loader/plan_bins.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "loader/lengths.h"
#include "loader/sampling.h"

#define MAX_WINDOW ((uint64_t)1 << 24)
#define MAX_ROWS (1u << 20)
#define MAX_COUNTED ((uint64_t)1 << 30) /* about a minute's work when an epoch begins */

int stk_bins_check(const stk_loader_options *o, stk_error *err)
{
    if (o->max_tokens && o->global_batch_size)
        return stk_fail(err, STK_EINVAL,
                        "max_tokens says how large a rank's batch is: leave global_batch_size (a "
                        "batch_size bounds its rows)");
    return 0;
}

static uint64_t padded(const stk_schedule *s, uint64_t id)
{
    uint64_t m = s->binning.multiple > 1 ? s->binning.multiple : 1, n = s->lengths[id];

    return ((n ? n : 1) + m - 1) / m * m;
}

static int too_long(const stk_schedule *s, const stk_plan_data *data, uint64_t id, uint64_t budget,
                    stk_error *err)
{
    const stk_dataset *ds;
    const char *shard = NULL;
    uint64_t offset = STK_NO_OFFSET;
    stk_bytes key = { 0 };
    stk_entry entry;
    uint32_t d = 0;
    int rc;

    while (d + 1 < data->n && s->start[d + 1] <= id)
        d++;
    ds = data->set[d];
    if (ds->ops->entry(ds, id - s->start[d], &entry, NULL) == 0) {
        shard = ds->ops->shard_name(ds, entry.shard);
        offset = entry.offset;
        key = stk_key_shown(entry.key);
    }
    rc = stk_fail(err, STK_EINVAL,
                  "a row of %u values, padded %" PRIu64 ", is longer than max_tokens=%" PRIu64
                  ": raise it, cut rows with truncate(%" PRIu64 "), or leave the sample out "
                  "(exclude)",
                  s->lengths[id], padded(s, id), budget, budget);
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
static int most_rows(stk_schedule *s, const stk_loader_options *o, uint64_t n, stk_error *err)
{
    uint64_t budget = o->max_tokens, cap = o->batch_size ? o->batch_size : MAX_ROWS, most = 1;
    uint64_t *length = stk_alloc((size_t)(n + 1) * sizeof *length);

    if (!length)
        return stk_fail_nomem(err, (size_t)n * sizeof *length);
    for (uint64_t i = 0; i < n; i++)
        length[i] = padded(s, stk_sample_set_id(&s->set, i));
    qsort(length, (size_t)n, sizeof *length, by_size);
    for (uint64_t i = 0, sum = 0; i < n && i < cap; i++) {
        sum = s->binning.joined ? sum + length[i] : (i + 1) * length[i];
        if (sum > budget)
            break;
        most = i + 1;
    }
    stk_free(length);
    s->binning.rows = (uint32_t)most;
    return 0;
}

static int plan_budget(stk_schedule *s, const stk_loader_options *o, const stk_plan_data *data,
                       stk_error *err)
{
    uint64_t n = stk_sample_set_len(&s->set);

    n = s->set.repeat > 1 ? n / s->set.repeat : n;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t id = stk_sample_set_id(&s->set, i);

        if (padded(s, id) > o->max_tokens)
            return too_long(s, data, id, o->max_tokens, err);
    }
    s->binning.kind = STK_BIN_BUDGET;
    s->binning.budget = o->max_tokens;
    s->binning.group = s->split.world;
    return most_rows(s, o, n, err);
}

static int plan_like(stk_schedule *s, stk_error *err)
{
    uint64_t rows = s->split.global, window = (s->binning.window + rows - 1) / rows * rows;

    if (window > MAX_WINDOW)
        return stk_fail(err, STK_EINVAL,
                        "bucket: a window of several global batches of %" PRIu64
                        " samples is more than %" PRIu64,
                        rows, MAX_WINDOW);
    s->binning.kind = STK_BIN_LIKE;
    s->binning.rows = (uint32_t)rows;
    s->binning.window = (uint32_t)window;
    return 0;
}

/* No output's padded rows are longer than the next common multiple of all of them. */
static int multiple_of(const stk_plan_chains *c, uint32_t *out, stk_error *err)
{
    *out = 0;
    for (uint32_t i = 0; i < c->n_out; i++) {
        uint32_t m = c->out[i].multiple, a = *out, b = m, rest;

        if (!c->chain[i].counted || m < 2)
            continue;
        for (; b; a = b, b = rest)
            rest = a % b;
        if (*out && (uint64_t)(*out / a) * m > MAX_WINDOW)
            return stk_fail(err, STK_EINVAL,
                            "output %s is padded to a multiple of %u, others of %u, and both fit "
                            "only far apart: pad them to multiples of each other",
                            c->out[i].name, m, *out);
        *out = *out ? *out / a * m : m;
    }
    return 0;
}

/* ---- packed rows ---- */

/* All outputs are packed, in one way: a row has several samples. */
static int check_packs(const stk_plan_chains *c, const stk_loader_options *o, stk_error *err)
{
    const stk_tokens *t0 = NULL;

    for (uint32_t i = 0; i < c->n_out; i++)
        t0 = c->chain[i].pack ? c->chain[i].pack : t0;
    for (uint32_t i = 0; i < c->n_out; i++) {
        const stk_tokens *t = c->chain[i].pack;

        if (!t)
            return stk_fail(err, STK_EINVAL,
                            "output %s: with pack() a row has several samples, so every output "
                            "ends in one",
                            c->out[i].name);
        if (t->block != t0->block || t->pack != t0->pack || t->window != t0->window ||
            c->chain[i].raw.max_len != c->chain[0].raw.max_len)
            return stk_fail(err, STK_EINVAL,
                            "output %s: all pack() of a loader agree in block, fit, window and "
                            "truncate(): their rows are one another's",
                            c->out[i].name);
    }
    if (o->max_tokens || o->bucket)
        return stk_fail(err, STK_EINVAL, "pack() fills rows to one length: leave %s",
                        o->max_tokens ? "max_tokens" : "bucket");
    return 0;
}

static void plan_packs(stk_schedule *s, const stk_tokens *t)
{
    s->binning.kind = STK_BIN_PACK;
    s->binning.block = (uint32_t)t->block;
    s->binning.fit = (stk_fit)t->pack;
    s->binning.window = t->window;
}

/* Rows of documents, packed again every epoch: their lengths are known. */
static int array_lengths(stk_schedule *s, const stk_array_plan *p, stk_error *err)
{
    uint64_t n = s->start[s->n_data];

    s->lengths = stk_zalloc(n + 1, sizeof *s->lengths);
    if (!s->lengths)
        return stk_fail_nomem(err, n * sizeof *s->lengths);
    for (uint32_t d = 0; d < s->n_data; d++)
        for (uint64_t i = 0; i < p->packed[d].rows; i++)
            s->lengths[s->start[d] + i] = p->packed[d].doc[i].len;
    return 0;
}

static int packs(const stk_plan_chains *c)
{
    for (uint32_t i = 0; i < c->n_out; i++)
        if (c->chain[i].pack)
            return 1;
    return 0;
}

static int find_lengths(stk_schedule *s, const stk_plan_input *in, const stk_plan *so_far,
                        int again, stk_error *err)
{
    if (again)
        return array_lengths(s, so_far->chains.arrays, err);
    if (so_far->data.immediate)
        return stk_fail(err, STK_ENOTSUP,
                        "rows of arrays and windows of tokens all have one length: %s is for rows "
                        "that differ",
                        in->o->max_tokens ? "max_tokens" : "bucket");
    return stk_lengths_plan(s, in, so_far, err);
}

/* What kind of bins; the rest of the binning is set. */
static int plan_kind(stk_schedule *s, const stk_plan_input *in, const stk_plan *so_far, int again,
                     stk_error *err)
{
    const stk_plan_chains *c = &so_far->chains;

    if (again) {
        plan_packs(s, &c->arrays->cut);
        return 0;
    }
    if (packs(c)) {
        STK_TRY(check_packs(c, in->o, err));
        plan_packs(s, c->chain[0].pack);
        return 0;
    }
    return in->o->max_tokens ? plan_budget(s, in->o, &so_far->data, err) : plan_like(s, err);
}

/* Nothing is padded: what counts of a batch is the sum of its rows. */
static int all_joined(const stk_plan_chains *c)
{
    for (uint32_t i = 0; i < c->n_out; i++)
        if (c->chain[i].counted && !c->out[i].joined)
            return 0;
    return 1;
}

int stk_bins_plan(stk_schedule *s, const stk_plan_input *in, const stk_plan *so_far, stk_error *err)
{
    const stk_loader_options *o = in->o;
    const stk_plan_chains *c = &so_far->chains;
    int again = c->arrays && c->arrays->cut.repack && !o->max_tokens && !o->bucket;

    if (!o->max_tokens && !o->bucket && !packs(c) && !again)
        return o->lengths ? stk_fail(err, STK_EINVAL,
                                     "lengths are for max_tokens, bucket and pack(): give one of "
                                     "them too")
                          : 0;
    if (o->order)
        return stk_fail(err, STK_ENOTSUP,
                        "what is batched or packed by length goes with the orders that ship, not "
                        "with one of your own");
    if ((o->max_tokens || packs(c) || again) && s->positions > MAX_COUNTED)
        return stk_fail(err, STK_ELIMIT,
                        "an epoch of %" PRIu64 " samples is too long to be %s: how many batches it "
                        "makes is counted when it begins, of at most %" PRIu64
                        " samples; give an epoch_size up to that, the order goes on from one epoch "
                        "to the next",
                        s->positions, o->max_tokens ? "batched by max_tokens" : "packed",
                        MAX_COUNTED);
    STK_TRY(find_lengths(s, in, so_far, again, err));
    s->binning = (stk_binning){ .order = &s->order,
                                .length = s->lengths,
                                .start = s->start,
                                .seed = s->seed,
                                .shuffle = o->shuffle != STK_SHUFFLE_NONE || stk_sampling_given(o),
                                .window = o->bucket ? (uint32_t)o->bucket : STK_BIN_WINDOW };
    STK_TRY(multiple_of(c, &s->binning.multiple, err));
    s->binning.joined = all_joined(c);
    STK_TRY(plan_kind(s, in, so_far, again, err));
    return stk_schedule_bin(s,
                            again      ? STK_TICKET_BIN
                            : packs(c) ? STK_TICKET_PIECE
                                       : STK_TICKET_LISTED,
                            err);
}

int stk_bins_replan(stk_schedule *s, uint64_t window, uint64_t together, stk_error *err)
{
    stk_binning before = s->binning, *how = &s->binning;
    int rc;

    if (!s->bins || !window || window > MAX_WINDOW || !together || together > UINT32_MAX)
        return stk_fail(err, STK_EINVAL,
                        s->bins ? "a window has 1 to %" PRIu64 " samples, and some stay together"
                                : "windows of length belong to max_tokens and bucket",
                        MAX_WINDOW);
    how->window = (uint32_t)window;
    if (how->kind != STK_BIN_PACK)
        *(how->kind == STK_BIN_BUDGET ? &how->group : &how->rows) = (uint32_t)together;
    rc = stk_schedule_bin(s, s->tickets, err);
    if (rc < 0)
        s->binning = before;
    return rc;
}

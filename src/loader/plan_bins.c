/* SPDX-License-Identifier: Apache-2.0 */
/* plan_bins.c - see plan_bins.h.  What is too long for its batch is said here, before the first
 * one. */
#include "loader/plan_bins.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "loader/lengths.h"
#include "loader/plan_groups.h"
#include "loader/sampling.h"
#include "loader/truncate_lengths.h"

#define MAX_WINDOW ((uint64_t)1 << 24)
#define MAX_ROWS (1u << 20)
#define MAX_COUNTED ((uint64_t)1 << 30) /* about a minute's work when an epoch begins */

static const char *budget_name(const stk_loader_options *o)
{
    return o->max_seconds > 0 ? "max_seconds" : o->max_tokens ? "max_tokens" : "bucket";
}

int stk_bins_check(const stk_loader_options *o, stk_error *err)
{
    if (o->over_budget && !stk_has_budget(o))
        return stk_fail(err, STK_EINVAL, "over_budget goes with max_tokens or max_seconds");
    if (stk_truncates(o) && (!o->max_tokens || o->max_seconds > 0 || o->lengths || o->schedule))
        return stk_fail(err, STK_EINVAL,
                        "over_budget=\"truncate\" goes with max_tokens, without max_seconds, "
                        "lengths or schedule");
    if (stk_has_budget(o) && o->global_batch_size)
        return stk_fail(err, STK_EINVAL,
                        "%s says how large a rank's batch is: leave global_batch_size (a "
                        "batch_size bounds its rows)",
                        budget_name(o));
    if (o->quadratic_duration > 0 && !(o->max_seconds > 0))
        return stk_fail(err, STK_EINVAL, "quadratic_duration says how max_seconds counts: give it");
    return stk_groups_check(o, err);
}

/* What is said of a row that fits into no batch. */
static int say_too_long(const stk_schedule *s, uint64_t id, const stk_bin_bound *b, stk_error *err)
{
    if (b->length == s->seconds)
        return stk_fail(err, STK_EINVAL,
                        "a recording that counts %.4g seconds is longer than max_seconds=%.4g: "
                        "raise it, cut recordings with random_part() or part(), or leave it out: "
                        "over_budget=\"drop\"",
                        (double)s->seconds[id] / STK_SECOND, (double)b->budget / STK_SECOND);
    return stk_fail(err, STK_EINVAL,
                    "a row of %u values, padded %" PRIu64 ", is longer than max_tokens=%" PRIu64
                    ": raise it, cut rows with truncate(), lower max_patches or max_pixels of "
                    "pictures, or set over_budget: \"truncate\" cuts patches, \"drop\" leaves "
                    "it out",
                    b->length[id], stk_bin_round(b->length[id], b->multiple), b->budget);
}

static int too_long(const stk_schedule *s, const stk_plan_data *data, uint64_t id,
                    const stk_bin_bound *b, stk_error *err)
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
    rc = say_too_long(s, id, b, err);
    stk_error_at(err, shard, offset, key);
    if (err)
        err->sample = id;
    return rc;
}

#define STEPS 65536u

typedef struct histogram { /* of lengths, in steps of 1/65536 of a budget */
    uint64_t count[STEPS + 1], least[STEPS + 1];
} histogram;

/* How many of the shortest rows fit into a budget: no batch has more.  The shortest of a step
 * stands for all of it. */
static uint64_t shortest(const histogram *h, uint64_t budget, int joined)
{
    uint64_t rows = 0, sum = 0;

    for (uint32_t i = 0; i <= STEPS; i++) {
        uint64_t room;

        if (!h->count[i])
            continue;
        room = joined ? (budget - sum) / h->least[i] + rows : budget / h->least[i];
        if (room < rows + h->count[i])
            return room > rows ? room : rows;
        rows += h->count[i];
        sum += h->count[i] * h->least[i];
    }
    return rows;
}

#define LOOKED 65536u

/* The same where lengths are drawn: what some samples draw in the first epoch stands for all, and
 * other epochs may draw less.  No batch gets more rows. */
static int most_drawn(const stk_schedule *s, const stk_bin_bound *b, uint64_t n, uint64_t *most,
                      stk_error *err)
{
    uint64_t width = b->budget / STEPS + 1, look = n < LOOKED ? n : LOOKED, rows;
    int joined = s->binning.joined || (b->length == s->lengths && s->binning.parts.joined);
    histogram *h = STK_NEW(histogram);

    if (!h)
        return stk_fail_nomem(err, sizeof *h);
    for (uint64_t i = 0; i < look; i++) {
        uint64_t id = stk_sample_set_id(&s->set, (uint64_t)((unsigned __int128)i * n / look));
        uint64_t len = stk_bin_round(stk_bin_tokens(&s->binning, 0, i, id), b->multiple);
        uint64_t at = len / width < STEPS ? len / width : STEPS;

        if (len > b->budget)
            continue;
        if (!h->count[at] || len < h->least[at])
            h->least[at] = len;
        h->count[at] += n / look;
    }
    rows = 2 * shortest(h, b->budget, joined);
    stk_free(h);
    rows = rows > 8 ? rows : 8;
    *most = rows < *most ? rows : *most;
    return 0;
}

static int most_rows(const stk_schedule *s, const stk_bin_bound *b, uint64_t n, uint64_t *most,
                     stk_error *err)
{
    uint64_t width = b->budget / STEPS + 1, rows;
    int joined = s->binning.joined || (b->length == s->lengths && s->binning.parts.joined);
    histogram *h = STK_NEW(histogram);

    if (!h)
        return stk_fail_nomem(err, sizeof *h);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t len = stk_bin_round(b->length[stk_sample_set_id(&s->set, i)], b->multiple);
        uint64_t at = len / width < STEPS ? len / width : STEPS;

        if (len > b->budget)
            continue;
        if (!h->count[at]++ || len < h->least[at])
            h->least[at] = len;
    }
    rows = shortest(h, b->budget, joined);
    stk_free(h);
    rows = rows ? rows : 1;
    *most = rows < *most ? rows : *most;
    return 0;
}

/* How many samples take part, each once. */
static uint64_t taking_part(const stk_schedule *s)
{
    uint64_t n = stk_sample_set_len(&s->set);

    return s->set.repeat > 1 ? n / s->set.repeat : n;
}

/* The bound that a sample is over. */
static const stk_bin_bound *passed(const stk_bin_bound *b, uint32_t n, uint64_t id)
{
    for (uint32_t k = 0; k < n; k++)
        if (stk_bin_round(b[k].length[id], b[k].multiple) > b[k].budget)
            return &b[k];
    return NULL;
}

typedef struct over { /* what is found of samples that fit into no batch */
    uint64_t n, first;
    uint64_t fitting;
    double sum; /* of the others' lengths */
    uint32_t n_shortest;
    uint64_t shortest[STK_BIN_SHORTEST]; /* ascending by length */
    uint32_t least[STK_BIN_SHORTEST];    /* their lengths */
} over;

/* Lengths that are drawn: by one draw for all, which makes the least of the smallest picture. */
static uint32_t length_of(const stk_schedule *s, const stk_bin_bound *b, uint64_t id)
{
    return s->binning.drawn.less && b->length == s->lengths ? stk_bin_tokens(&s->binning, 0, 0, id)
                                                            : b->length[id];
}

static void note_shortest(over *o, uint64_t id, uint32_t length)
{
    uint32_t at = o->n_shortest;

    if (at == STK_BIN_SHORTEST && length >= o->least[--at])
        return;
    for (; at && length < o->least[at - 1]; at--) {
        o->shortest[at] = o->shortest[at - 1];
        o->least[at] = o->least[at - 1];
    }
    o->shortest[at] = id;
    o->least[at] = length;
    o->n_shortest += o->n_shortest < STK_BIN_SHORTEST;
}

static over find_over(const stk_schedule *s, const stk_bin_bound *b, uint32_t n)
{
    uint64_t step = s->binning.drawn.less ? taking_part(s) / LOOKED + 1 : 1; /* draws take time */
    over o = { 0 };

    for (uint64_t i = 0; i < taking_part(s); i++) {
        uint64_t id = stk_sample_set_id(&s->set, i);

        if (passed(b, n, id)) {
            o.first = o.n++ ? o.first : id;
        } else {
            if (i % step == 0)
                note_shortest(&o, id, length_of(s, b, id));
            o.fitting++;
            o.sum += b->length[id];
        }
    }
    return o;
}

/* A sample that is as long as most: the longest up to their mean. */
static uint64_t find_usual(const stk_schedule *s, const stk_bin_bound *b, uint32_t n, const over *o)
{
    uint64_t best = UINT64_MAX;

    for (uint64_t i = 0; i < taking_part(s); i++) {
        uint64_t id = stk_sample_set_id(&s->set, i);

        if (passed(b, n, id) || (double)b->length[id] > o->sum / (double)o->fitting)
            continue;
        if (best == UINT64_MAX || b->length[id] > b->length[best])
            best = id;
    }
    return best;
}

/* Every sample fits into a batch, or the policy for those that don't is set. */
static int plan_over(stk_schedule *s, const stk_plan_input *in, const stk_plan *so_far,
                     const stk_bin_bound *b, uint32_t n, stk_error *err)
{
    over o = find_over(s, b, n);

    s->binning.drops = in->o->over_budget && !strcmp(in->o->over_budget, "drop");
    memcpy(s->binning.shortest, o.shortest, sizeof o.shortest);
    s->binning.all_fit = !o.n;
    s->binning.n_shortest = o.n_shortest;
    if (!o.n)
        return 0;
    if (!o.fitting || (!s->binning.drops && in->o->on_error != STK_ON_ERROR_SKIP))
        return too_long(s, &so_far->data, o.first, passed(b, n, o.first), err);
    s->binning.usual = find_usual(s, b, n, &o);
    assert(s->binning.usual != UINT64_MAX); /* some are not above their mean */
    stk_log_line(&so_far->policy.log, STK_LOG_WARN,
                 "%" PRIu64 " of %" PRIu64
                 " samples are longer than %s, the first is number %" PRIu64 ": %s",
                 o.n, o.n + o.fitting, budget_name(in->o), o.first,
                 s->binning.drops ? "they are in no batch" : "they are bad samples");
    return 0;
}

/* Seconds come first where both are bounded: rows are sorted by them. */
static int plan_budget(stk_schedule *s, const stk_plan_input *in, const stk_plan *so_far,
                       stk_error *err)
{
    const stk_loader_options *o = in->o;
    const stk_bin_bound seconds = { s->seconds, (uint64_t)(o->max_seconds * STK_SECOND), 0 };
    const stk_bin_bound tokens = { s->lengths, o->max_tokens,
                                   s->parts ? 0 : s->binning.multiple }; /* parts are rounded */
    int by_seconds = s->seconds && o->max_seconds > 0;
    const stk_bin_bound bound[2] = { by_seconds ? seconds : tokens, tokens };
    uint32_t n = by_seconds && o->max_tokens ? 2 : 1;
    uint64_t most = o->batch_size ? o->batch_size : MAX_ROWS;

    s->binning.kind = STK_BIN_BUDGET;
    s->binning.length = bound->length;
    s->binning.budget = bound->budget;
    s->binning.multiple = bound->multiple;
    s->binning.group = s->split.world;
    if (n == 2)
        s->binning.also = tokens;
    STK_TRY(plan_over(s, in, so_far, bound, n, err));
    for (uint32_t i = 0; i < n; i++)
        STK_TRY((s->binning.drawn.less && bound[i].length == s->lengths ? most_drawn : most_rows)(
            s, &bound[i], taking_part(s), &most, err));
    s->binning.rows = (uint32_t)most;
    return 0;
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
int stk_bins_multiple(const stk_plan_chains *c, uint32_t *out, stk_error *err)
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
    if (stk_has_budget(o) || o->bucket)
        return stk_fail(err, STK_EINVAL, "pack() fills rows to one length: leave %s",
                        budget_name(o));
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
                        budget_name(in->o));
    STK_TRY(stk_seconds_plan(s, in, so_far, err));
    return s->seconds && !in->o->max_tokens ? 0 : stk_lengths_plan(s, in, so_far, err);
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
    return stk_has_budget(in->o) ? plan_budget(s, in, so_far, err) : plan_like(s, err);
}

/* Nothing is padded: what counts of a batch is the sum of its rows. */
static int all_joined(const stk_plan_chains *c)
{
    for (uint32_t i = 0; i < c->n_out; i++)
        if ((c->chain[i].counted || c->chain[i].timed) && !c->out[i].joined)
            return 0;
    return 1;
}

int stk_bins_plan(stk_schedule *s, const stk_plan_input *in, const stk_plan *so_far, stk_error *err)
{
    const stk_loader_options *o = in->o;
    const stk_plan_chains *c = &so_far->chains;
    int again = c->arrays && c->arrays->cut.repack && !stk_has_budget(o) && !o->bucket;
    int by_size = stk_groups_by_size(c, o);

    if (!stk_has_budget(o) && !o->bucket && !packs(c) && !again)
        return o->lengths ? stk_fail(err, STK_EINVAL,
                                     "lengths are for max_tokens, max_seconds, bucket and pack(): "
                                     "give one of them too")
                          : 0;
    if (o->order)
        return stk_fail(err, STK_ENOTSUP,
                        "what is batched or packed by length goes with the orders that ship, not "
                        "with one of your own");
    if ((stk_has_budget(o) || packs(c) || again || by_size) && s->positions > MAX_COUNTED)
        return stk_fail(err, STK_ELIMIT,
                        "an epoch of %" PRIu64 " samples is too long to be %s: how many batches it "
                        "makes is counted when it begins, of at most %" PRIu64
                        " samples; give an epoch_size up to that, the order goes on from one epoch "
                        "to the next",
                        s->positions,
                        stk_has_budget(o) || by_size ? "batched by length or size" : "packed",
                        MAX_COUNTED);
    if (!o->schedule && !by_size)
        STK_TRY(find_lengths(s, in, so_far, again, err));
    s->binning = (stk_binning){ .order = &s->order,
                                .length = s->lengths ? s->lengths : s->seconds,
                                .parts = s->binning.parts,
                                .drawn = s->binning.drawn,
                                .start = s->start,
                                .seed = s->seed,
                                .shuffle = o->shuffle != STK_SHUFFLE_NONE || stk_sampling_given(o),
                                .window = o->bucket ? (uint32_t)o->bucket : STK_BIN_WINDOW };
    if (o->schedule || by_size)
        return o->schedule ? stk_groups_plan_steps(s, in, so_far, err)
                           : stk_groups_plan_sizes(s, in, so_far, err);
    STK_TRY(stk_bins_multiple(c, &s->binning.multiple, err));
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
    int rc, groups = s->bins && stk_bins_are_groups(how);

    if (!s->bins || !window || (window > MAX_WINDOW && !groups) || !together ||
        together > UINT32_MAX)
        return stk_fail(err, STK_EINVAL,
                        s->bins ? "a window has 1 to %" PRIu64 " samples, and some stay together"
                                : "windows of length belong to max_tokens and bucket",
                        MAX_WINDOW);
    if (stk_bins_are_groups(how)) {
        how->before.epoch = window - 1;
        how->before.group = together == how->group ? 0 : (uint32_t)together;
        rc = stk_schedule_bin(s, s->tickets, err);
        if (rc < 0)
            s->binning = before;
        return rc;
    }
    how->window = (uint32_t)window;
    if (how->kind != STK_BIN_PACK)
        *(how->kind == STK_BIN_BUDGET ? &how->group : &how->rows) = (uint32_t)together;
    rc = stk_schedule_bin(s, s->tickets, err);
    if (rc < 0)
        s->binning = before;
    return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.c - see schedule.h. */
#include "order/schedule.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"

#define BUDGET_TRIES 64
#define SAME 8     /* attempts after which one of the shortest samples is taken */
#define FEW 32     /* samples that are looked up at once */
#define WRAPPED 1  /* of stk_share.filler: one row of the epoch's first bin */
#define IN_PLACE 2 /* the row is in its own bin */

int stk_schedule_open(stk_schedule **out, const uint64_t *lens, uint32_t n_data,
                      const stk_rank_split *split, uint64_t seed, stk_error *err)
{
    stk_schedule *s = STK_NEW(stk_schedule);
    int rc = 0;

    assert(split->world && split->rank < split->world && split->global);
    *out = NULL;
    if (s)
        s->start = stk_zalloc((size_t)n_data + 1, sizeof *s->start);
    if (!s || !s->start)
        rc = stk_fail_nomem(err, sizeof *s + n_data * sizeof *s->start);
    for (uint32_t i = 0; rc == 0 && i < n_data; i++)
        s->start[i + 1] = s->start[i] + lens[i];
    if (rc == 0 && n_data <= STK_MAX_DATASETS)
        rc = stk_sample_set_init(&s->set, lens, n_data, err);
    if (rc < 0) {
        stk_schedule_close(&s);
        return rc;
    }
    s->n_data = n_data;
    s->split = *split;
    s->seed = seed;
    *out = s;
    return 0;
}

void stk_schedule_close(stk_schedule **sp)
{
    stk_schedule *s = *sp;

    if (!s)
        return;
    *sp = NULL;
    stk_bins_close(&s->bins);
    if (s->binning.drawn.close)
        s->binning.drawn.close(s->binning.drawn.cookie);
    stk_free(s->lengths);
    stk_free(s->truncated.sample);
    stk_free(s->parts);
    stk_free(s->seconds);
    stk_free(s->classes);
    if (s->order.close)
        s->order.close(s->order.state);
    stk_free(s->set.exclude.id);
    stk_free(s->set.select);
    stk_free(s->start);
    stk_free(s);
}

uint32_t stk_schedule_seconds(const stk_schedule *s, double seconds)
{
    double cost = s->quadratic > 0 ? seconds + seconds * seconds / s->quadratic : seconds;

    cost = ceil(cost * STK_SECOND - 1e-6);
    return cost < 1 ? 1 : cost < UINT32_MAX ? (uint32_t)cost : UINT32_MAX;
}

int stk_schedule_settle(stk_schedule *s, stk_error *err)
{
    s->positions = s->order.len(s->order.state);
    if (s->positions)
        return 0;
    return stk_fail(err, STK_EINVAL,
                    s->set.n && s->set.start[s->set.n]
                        ? "exclude, select, skip and limit leave no samples"
                        : "the data set has no samples");
}

int stk_schedule_bin(stk_schedule *s, stk_ticket_kind tickets, stk_error *err)
{
    stk_bins *fresh = NULL;

    assert(s->binning.order == &s->order && s->binning.start == s->start);
    STK_TRY(stk_bins_open(&fresh, &s->binning, err));
    stk_bins_close(&s->bins);
    s->bins = fresh;
    s->tickets = tickets;
    return 0;
}

uint32_t stk_schedule_keeps(const stk_schedule *s, uint32_t output, uint64_t id)
{
    const stk_truncation *t = &s->truncated;
    uint64_t lo = 0, hi = t->output == output ? t->n : 0;

    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;

        if (t->sample[mid].id < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return t->output == output && lo < t->n && t->sample[lo].id == id ? t->sample[lo].blocks : 0;
}

/* ---- steps ---- */

stk_rank_split stk_schedule_split(const stk_schedule *s, uint64_t epoch)
{
    stk_rank_split d = s->split;

    d.samples = s->bins ? stk_bins_count(s->bins, epoch) : s->positions;
    return d;
}

uint64_t stk_schedule_steps(const stk_schedule *s, uint64_t epoch)
{
    stk_rank_split d = stk_schedule_split(s, epoch);

    return stk_rank_split_steps(&d, 0);
}

int stk_schedule_enter(const stk_schedule *s, uint64_t epoch, uint64_t position, stk_cursor *out,
                       stk_error *err)
{
    stk_rank_split d = stk_schedule_split(s, epoch);

    if (position > d.samples)
        return stk_fail(err, STK_EINVAL,
                        "position %" PRIu64 " does not exist: an epoch has %" PRIu64, position,
                        d.samples);
    *out = (stk_cursor){ .epoch = epoch,
                         .from = position,
                         .first = (position + d.global - 1) / d.global,
                         .steps = stk_rank_split_steps(&d, position) };
    return 0;
}

static uint64_t first_bin(const stk_share *h)
{
    return (h->filler == WRAPPED ? 0 : h->start) + h->item;
}

/* The share of a step; a rank without a row of its own is marked. */
static void take_step(const stk_schedule *s, const stk_rank_split *d, const stk_cursor *c,
                      stk_share *out)
{
    int stand_in = 0;

    stk_rank_split_step(d, c->from, c->at, out);
    out->epoch = c->epoch;
    if (s->bins && stk_bins_are_groups(&s->binning) && !out->filler)
        (void)stk_bins_step(s->bins, c->epoch, out->start + out->item, &stand_in);
    if (stand_in)
        out->filler = IN_PLACE;
}

stk_patch_limit stk_schedule_limit(const stk_schedule *s, const stk_share *h)
{
    const stk_bin_step *step = NULL;
    int stand_in;

    if (s->bins && s->binning.kind == STK_BIN_STEPS)
        step = stk_bins_step(s->bins, h->epoch, first_bin(h), &stand_in);
    return step ? step->limit : (stk_patch_limit){ 0, 0 };
}

void stk_schedule_next(const stk_schedule *s, stk_cursor *c, stk_share *out)
{
    stk_rank_split d;

    while (c->at == c->steps)
        *c = (stk_cursor){ .epoch = c->epoch + 1, .steps = stk_schedule_steps(s, c->epoch + 1) };
    d = stk_schedule_split(s, c->epoch);
    take_step(s, &d, c, out);
    c->at++;
    assert(c->at <= c->steps && out->rows);
}

uint32_t stk_schedule_run(const stk_schedule *s, const stk_share *h, uint32_t row, uint32_t n,
                          uint64_t *position, stk_where *where)
{
    assert(s->tickets == STK_TICKET_POSITION);
    stk_schedule_positions(s, h, row, 1, position);
    stk_schedule_at(s, h->epoch, position, 1, where);
    if (n < 2 || !s->order.run || s->order.deal || h->filler || h->stride != 1)
        return 1;
    return s->order.run(s->order.state, h->epoch, *position, n);
}

void stk_schedule_expect(const stk_schedule *s, uint64_t epoch, uint64_t done, uint64_t of)
{
    if (s->bins)
        stk_bins_expect(s->bins, epoch, done, of);
}

void stk_schedule_forget(stk_schedule *s)
{
    if (s->bins)
        stk_bins_forget(s->bins);
}

void stk_schedule_fill(const stk_schedule *s, uint64_t epoch, uint64_t *used, uint64_t *room)
{
    if (s->bins && s->binning.kind != STK_BIN_LIKE && !stk_bins_are_groups(&s->binning))
        stk_bins_fill(s->bins, epoch, used, room);
}

/* ---- tickets that are listed ---- */

/* Positions of a bin that is rows of its own. */
static uint32_t bin_rows(const stk_schedule *s, const stk_share *h, uint64_t bin)
{
    if (h->filler == WRAPPED && s->binning.kind != STK_BIN_LIKE)
        return 1; /* one row stands for nothing */
    return stk_bins_size(s->bins, h->epoch, bin);
}

/* The rows of a share's bins, one after the other. */
static uint32_t list_rows(const stk_schedule *s, const stk_share *h, stk_ticket_list *list)
{
    uint64_t first = first_bin(h);
    uint32_t tickets = 0;

    for (uint32_t i = 0; i < h->rows; i++) {
        uint32_t n = bin_rows(s, h, first + i);

        stk_bins_at(s->bins, h->epoch, first + i, 0, n, list->position + tickets);
        tickets += n;
    }
    return tickets;
}

/* The pieces of one row, from ticket `first` on, n of them. */
static void place_row(const stk_schedule *s, uint64_t epoch, stk_ticket_list *list, uint32_t row,
                      uint32_t first, uint32_t n)
{
    uint32_t block = s->binning.block, at = 0;
    stk_where where[FEW];

    for (uint32_t i = 0; i < n; i++) {
        stk_piece_place *p = &list->place[first + i];
        uint32_t len;

        if (i % FEW == 0)
            stk_schedule_at(s, epoch, list->position + first + i, n - i < FEW ? n - i : FEW, where);
        len = s->lengths[stk_schedule_id(s, &where[i % FEW])];
        p->from = p->part == STK_BIN_REST ? len / block * block : p->part * block;
        p->len = len - p->from < block ? len - p->from : block;
        p->after = len - p->from - p->len;
        p->row = row;
        p->number = i;
        p->at = at;
        at += p->len;
    }
    assert(at <= block);
    list->used[row] = at;
}

static uint32_t list_pieces(const stk_schedule *s, const stk_share *h, stk_ticket_list *list)
{
    uint64_t first = first_bin(h);
    uint32_t tickets = 0;

    for (uint32_t i = 0; i < h->rows; i++) {
        uint32_t n = stk_bins_size(s->bins, h->epoch, first + i);

        stk_bins_pieces(s->bins, h->epoch, first + i, list->position + tickets, list->part);
        for (uint32_t k = 0; k < n; k++)
            list->place[tickets + k].part = list->part[k];
        place_row(s, h->epoch, list, i, tickets, n);
        tickets += n;
    }
    return tickets;
}

uint32_t stk_schedule_tickets(const stk_schedule *s, const stk_share *h, stk_ticket_list *list)
{
    switch (s->tickets) {
    case STK_TICKET_LISTED: return list_rows(s, h, list);
    case STK_TICKET_PIECE: return list_pieces(s, h, list);
    default: return h->rows;
    }
}

/* ---- samples that are bad ---- */

/* Whether a sample that takes a bad one's place leaves the batch within its budget. */
static int in_budget(const stk_schedule *s, const stk_bad_sample *bad, const stk_where *where)
{
    const stk_binning *h = &s->binning;
    stk_bin_swap swap = { bad->epoch, bad->position, stk_schedule_id(s, where), 0 };
    uint64_t id = swap.id, rows = bad->n, other, tokens;
    stk_where replaced;

    if (!s->bins || (h->kind != STK_BIN_CLASS && h->kind != STK_BIN_BUDGET))
        return 1;
    stk_schedule_at(s, bad->epoch, &bad->position, 1, &replaced);
    swap.other = other = stk_schedule_id(s, &replaced);
    if (h->kind == STK_BIN_CLASS) /* one of its class */
        return h->length[id] == h->length[other];
    if (stk_bin_is_over(h, id) || id == other) /* nothing stands in for itself */
        return 0;
    if (rows == 1)
        return 1;
    if (h->joined || h->parts.n) /* what other rows take up is not known here */
        return stk_bin_replaces(h, &swap);
    tokens = stk_bin_tokens(h, bad->epoch, bad->position, id);
    if (!h->also.length)
        return rows * stk_bin_round((uint32_t)tokens, h->multiple) <= h->budget;
    return rows * stk_bin_round(h->length[id], h->multiple) <= h->budget &&
           rows * stk_bin_round((uint32_t)tokens, h->also.multiple) <= h->also.budget;
}

/* One of the shortest of all, another one with each attempt: some of them may be bad, too. */
static void take_shortest(const stk_schedule *s, const stk_bad_sample *bad, stk_where *out)
{
    const stk_binning *h = &s->binning;
    stk_where replaced;
    uint32_t at = (bad->attempt - 1) % h->n_shortest;
    uint64_t id;

    stk_schedule_at(s, bad->epoch, &bad->position, 1, &replaced);
    if (h->shortest[at] == stk_schedule_id(s, &replaced))
        at = (at + 1) % h->n_shortest;
    id = h->shortest[at];
    out->dataset = 0;
    while (out->dataset + 1 < s->n_data && s->start[out->dataset + 1] <= id)
        out->dataset++;
    out->sample = id - s->start[out->dataset];
}

void stk_schedule_substitute(const stk_schedule *s, const stk_bad_sample *bad, stk_where *out)
{
    uint64_t from = s->near ? bad->position / s->near * s->near : 0, n = s->positions - from, other;

    assert(bad->attempt && bad->attempt <= STK_MAX_SUBSTITUTES);
    if (s->near && n > s->near)
        n = s->near;
    for (uint32_t k = 0; k <= BUDGET_TRIES; k++) {
        uint32_t attempt = bad->attempt + k * (STK_MAX_SUBSTITUTES + 1);

        /* Where a budget lets hardly any take its place, one of the same batch does. */
        other = k < BUDGET_TRIES
                    ? from + stk_substitute(s->seed, bad->epoch, bad->position, attempt, n)
                    : bad->together[stk_substitute(s->seed, bad->epoch, bad->position, attempt,
                                                   bad->n)];
        stk_schedule_at(s, bad->epoch, &other, 1, out);
        if (in_budget(s, bad, out) && (bad->attempt <= SAME || !s->binning.n_shortest))
            return; /* else the only ones that fit are bad, too */
    }
    if (s->bins && s->binning.kind == STK_BIN_BUDGET && s->binning.n_shortest)
        take_shortest(s, bad, out);
}

/* ---- on its own ---- */

/* Ids of `n` positions, as many as there is room for. */
static void put_ids(const stk_schedule *s, uint64_t epoch, const uint64_t *position, uint32_t n,
                    uint64_t *id)
{
    stk_where where[FEW];

    stk_schedule_at(s, epoch, position, n, where);
    for (uint32_t i = 0; i < n; i++)
        id[i] = stk_schedule_id(s, &where[i]);
}

/* Without bins: a row is a position. */
static uint32_t split_ids(const stk_schedule *s, const stk_share *h, uint64_t *id, uint32_t cap)
{
    uint64_t position[FEW];

    for (uint32_t at = 0; at < h->rows && at < cap; at += FEW) {
        uint32_t n = (h->rows < cap ? h->rows : cap) - at;

        n = n < FEW ? n : FEW;
        stk_schedule_positions(s, h, at, n, position);
        put_ids(s, h->epoch, position, n, id + at);
    }
    return h->rows;
}

/* A packed row goes by its first sample. */
static uint64_t packed_id(const stk_schedule *s, uint64_t epoch, uint64_t bin)
{
    uint64_t position = stk_bins_first(s->bins, epoch, bin), id;

    put_ids(s, epoch, &position, 1, &id);
    return id;
}

static uint32_t bin_ids(const stk_schedule *s, const stk_share *h, uint64_t *id, uint32_t cap)
{
    uint64_t first = first_bin(h), position[FEW];
    uint32_t rows = 0;

    for (uint32_t i = 0; i < h->rows; i++) {
        uint32_t n = bin_rows(s, h, first + i);

        for (uint32_t at = 0; at < n && rows + at < cap; at += FEW) {
            uint32_t few = n - at < cap - rows - at ? n - at : cap - rows - at;

            few = few < FEW ? few : FEW;
            stk_bins_at(s->bins, h->epoch, first + i, at, few, position);
            put_ids(s, h->epoch, position, few, id + rows + at);
        }
        rows += n;
    }
    return rows;
}

static uint32_t share_ids(const stk_schedule *s, const stk_share *h, uint64_t *id, uint32_t cap)
{
    if (!s->bins)
        return split_ids(s, h, id, cap);
    if (s->binning.kind != STK_BIN_PACK)
        return bin_ids(s, h, id, cap);
    for (uint32_t i = 0; i < h->rows && i < cap; i++)
        id[i] = packed_id(s, h->epoch, first_bin(h) + i);
    return h->rows;
}

uint32_t stk_schedule_ids(const stk_schedule *s, const stk_step_at *at, uint64_t *id, uint32_t cap,
                          int *valid)
{
    stk_rank_split d = stk_schedule_split(s, at->epoch);
    stk_share h;

    assert(at->rank < d.world);
    d.rank = at->rank;
    *valid = 0;
    if (at->step >= stk_rank_split_steps(&d, at->from))
        return 0;
    take_step(s, &d, &(stk_cursor){ .epoch = at->epoch, .from = at->from, .at = at->step }, &h);
    *valid = !h.filler;
    return share_ids(s, &h, id, cap);
}

int stk_schedule_hand_out(const stk_schedule *s, stk_cursor *c, const stk_ledger_hook *h,
                          stk_handed *out, stk_error *err)
{
    stk_cursor next = *c;
    stk_ledger_row row;
    stk_share share;

    if (c->at == c->steps)
        return STK_END;
    stk_schedule_next(s, &next, &share);
    out->epoch = share.epoch;
    out->step = c->first + c->at;
    out->rows = share_ids(s, &share, out->ids, out->cap);
    if (out->rows > out->cap)
        return stk_fail(err, STK_ELIMIT, "a step has %u rows, and there is room for %u", out->rows,
                        out->cap);
    memset(out->valid, !share.filler, out->rows);
    row = (stk_ledger_row){ .epoch = out->epoch,
                            .step = out->step,
                            .start = share.start,
                            .count = share.count,
                            .rows = out->rows,
                            .ids = out->ids,
                            .valid = out->valid };
    if (h->add)
        STK_TRY(h->add(h->cookie, &row, err));
    *c = next;
    return 0;
}

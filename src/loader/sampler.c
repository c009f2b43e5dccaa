/* SPDX-License-Identifier: Apache-2.0 */
/* sampler.c - see stoker/sampler.h: a schedule made of options alone, with a ledger of its own. */
#include <stoker/sampler.h>

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/opts.h"
#include "ledger/ledger_write.h"
#include "loader/options.h"
#include "loader/parts.h"
#include "loader/sampling.h"

struct stk_sampler {
    stk_schedule *schedule;
    stk_ledger_writer *ledger; /* NULL: nothing is written down */
    uint32_t rows;
};

static int refuse_data(const stk_loader_options *o, stk_error *err)
{
    const char *word = o->exclude                       ? "exclude"
                       : o->max_tokens                  ? "max_tokens"
                       : o->max_seconds > 0             ? "max_seconds"
                       : o->bucket                      ? "bucket"
                       : o->schedule                    ? "schedule"
                       : o->shuffle > STK_SHUFFLE_EXACT ? "a shuffle by blocks or by documents"
                       : o->order                       ? "an order of one's own"
                                                        : NULL;

    if (!word)
        return 0;
    return stk_fail(err, STK_ENOTSUP, "%s needs data that this library reads itself%s", word,
                    o->exclude ? ": give the other samples by select" : "");
}

static int check_options(const stk_loader_options *o, size_t n, stk_error *err)
{
    if (!n || n > STK_MAX_DATASETS)
        return stk_fail(err, STK_EINVAL, "a loader takes 1 to %d data sets, not %zu",
                        STK_MAX_DATASETS, n);
    STK_TRY(stk_options_check(o, err));
    if (o->rank >= (o->world_size ? o->world_size : 1))
        return stk_fail(err, STK_EINVAL, "rank %u is not below world_size %u", o->rank,
                        o->world_size ? o->world_size : 1);
    return refuse_data(o, err);
}

static int check_steps(const stk_schedule *s, stk_error *err)
{
    stk_rank_split d = stk_schedule_split(s, 0);

    if (stk_rank_split_steps(&d, 0))
        return 0;
    return stk_fail(err, STK_EINVAL,
                    "%" PRIu64 " samples make no global batch of %" PRIu64 " (%u rank%s): lower "
                    "batch_size or leave drop_last",
                    d.samples, d.global, d.world, d.world == 1 ? "" : "s");
}

static int make_order(stk_schedule *s, const stk_loader_options *o, stk_error *err)
{
    STK_TRY(stk_sampling_set(&s->set, o, err));
    s->drawn_print = stk_sampling_print(o);
    if (stk_sampling_given(o))
        STK_TRY(stk_sampling_order(&s->order, &s->set, o, err));
    else
        STK_TRY(stk_order_exact(&s->order, &s->set, o->seed, o->shuffle != STK_SHUFFLE_NONE, err));
    STK_TRY(stk_sampling_epochs(&s->order, o, err));
    STK_TRY(stk_schedule_settle(s, err));
    return check_steps(s, err);
}

int stk_sampler_open(stk_sampler **out, const uint64_t *lens, size_t n,
                     const stk_loader_options *opt, stk_error *err)
{
    stk_loader_options o;
    stk_plan_input in = { .o = &o };
    stk_plan_ranks ranks = { 0 };
    stk_sampler *s = NULL;
    int rc;

    *out = NULL;
    stk_options_take(&o, sizeof o, opt);
    STK_TRY(check_options(&o, n, err));
    STK_TRY(stk_plan_ranks_make(&ranks, &in, NULL, err));
    s = STK_NEW(stk_sampler);
    if (!s)
        return stk_fail_nomem(err, sizeof *s);
    s->rows = ranks.rows;
    rc = stk_schedule_open(&s->schedule, lens, (uint32_t)n, &ranks.split, o.seed, err);
    if (rc == 0)
        rc = make_order(s->schedule, &o, err);
    if (rc < 0)
        stk_sampler_close(&s);
    *out = s;
    return rc;
}

void stk_sampler_close(stk_sampler **sp)
{
    stk_sampler *s = *sp;

    if (!s)
        return;
    *sp = NULL;
    stk_ledger_writer_close(&s->ledger);
    stk_schedule_close(&s->schedule);
    stk_free(s);
}

void stk_sampler_describe(const stk_sampler *s, stk_sampler_info *out)
{
    const stk_schedule *h = s->schedule;

    *out = (stk_sampler_info){ .positions = h->positions,
                               .global = h->split.global,
                               .rows = s->rows,
                               .taken = stk_sample_set_print(&h->set),
                               .drawn = h->drawn_print };
}

uint64_t stk_sampler_steps(const stk_sampler *s, uint64_t from)
{
    stk_rank_split d = stk_schedule_split(s->schedule, 0); /* epochs are alike without bins */

    return stk_rank_split_steps(&d, from < d.samples ? from : d.samples);
}

int stk_sampler_at(const stk_sampler *s, uint64_t epoch, uint64_t from, uint64_t step,
                   stk_sampler_step *out, stk_error *err)
{
    stk_rank_split d = stk_schedule_split(s->schedule, epoch);
    stk_share h;

    if (step >= stk_sampler_steps(s, from))
        return stk_fail(err, STK_EINVAL, "step %" PRIu64 " of %" PRIu64 " does not exist", step,
                        stk_sampler_steps(s, from));
    stk_rank_split_step(&d, from, step, &h);
    h.epoch = epoch;
    if (h.rows > out->cap)
        return stk_fail(err, STK_ELIMIT, "a step has %u rows, and there is room for %u", h.rows,
                        out->cap);
    stk_schedule_positions(s->schedule, &h, 0, h.rows, out->positions);
    for (uint32_t i = 0; i < h.rows; i++) {
        stk_where where;

        stk_schedule_at(s->schedule, epoch, out->positions + i, 1, &where);
        out->ids[i] = stk_schedule_id(s->schedule, &where);
    }
    out->rows = h.rows;
    out->valid = !h.filler;
    out->start = h.start;
    out->count = h.count;
    out->number = (from + d.global - 1) / d.global + step;
    return 0;
}

uint64_t stk_sampler_substitute(const stk_sampler *s, uint64_t epoch, uint64_t position,
                                uint32_t attempt)
{
    stk_bad_sample bad = { .epoch = epoch, .position = position, .attempt = attempt };
    stk_where where;

    if (!bad.attempt || bad.attempt > STK_MAX_SUBSTITUTES)
        bad.attempt = STK_MAX_SUBSTITUTES;
    stk_schedule_substitute(s->schedule, &bad, &where);
    return stk_schedule_id(s->schedule, &where);
}

/* ---- weights of a mixture ---- */

int stk_sampler_mix(const stk_sampler *s, uint64_t i, stk_mix_change_info *out)
{
    const stk_order *order = &s->schedule->order;

    return stk_order_is_mix(order) ? stk_mix_get(order, i, out) : STK_END;
}

static int check_mix(const stk_sampler *s, stk_error *err)
{
    if (stk_order_is_mix(&s->schedule->order))
        return 0;
    return stk_fail(err, STK_EINVAL,
                    "this loader mixes nothing: open it over a mixture of data sets");
}

int stk_sampler_set_mix(stk_sampler *s, const stk_mix_change_info *all, size_t n, stk_error *err)
{
    STK_TRY(check_mix(s, err));
    return stk_mix_set(&s->schedule->order, all, n, err);
}

int stk_sampler_set_weights(stk_sampler *s, const double *weights, size_t n, uint64_t epoch,
                            uint64_t position, stk_error *err)
{
    STK_TRY(check_mix(s, err));
    if (n != s->schedule->n_data)
        return stk_fail(err, STK_EINVAL, "%zu weights for %u data sets: give one for each", n,
                        s->schedule->n_data);
    return stk_mix_change(&s->schedule->order, weights, epoch, position, err);
}

/* ---- ledger ---- */

int stk_sampler_ledger(stk_sampler *s, const char *folder, const stk_ledger_from *from,
                       stk_error *err)
{
    const stk_schedule *h = s->schedule;
    ldg_head head = { .rank = h->split.rank,
                      .world = h->split.world,
                      .max_rows = s->rows,
                      .generation = from->generation,
                      .global = h->split.global,
                      .seed = h->seed,
                      .epoch = from->epoch,
                      .position = from->position,
                      .samples = h->positions,
                      .data = { .samples = h->start[h->n_data],
                                .names = from->names,
                                .taken = stk_sample_set_print(&h->set) } };
    stk_ledger_writer *w = NULL;

    if (folder && s->ledger && stk_ledger_writer_is(s->ledger, folder, from->generation))
        return 0;
    if (folder)
        STK_TRY(stk_ledger_writer_open(&w, folder, &head, err));
    stk_ledger_writer_close(&s->ledger);
    s->ledger = w;
    return 0;
}

int stk_sampler_note(stk_sampler *s, uint64_t epoch, const stk_sampler_step *step,
                     const uint8_t *valid, stk_error *err)
{
    stk_ledger_row row = { .epoch = epoch,
                           .step = step->number,
                           .start = step->start,
                           .count = step->count,
                           .rows = step->rows,
                           .ids = step->ids,
                           .valid = valid };

    return s->ledger ? stk_ledger_writer_add(s->ledger, &row, err) : 0;
}

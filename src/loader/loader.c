/* SPDX-License-Identifier: Apache-2.0 */
/* loader.c - the public loader: a plan, and an engine that runs it; everything else is passed
 * on. */
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/opts.h"
#include "loader/blocks.h"
#include "loader/leave.h"
#include "loader/lengths.h"
#include "loader/plan_bins.h"
#include "pipe/engine.h"

struct stk_loader {
    pid_t pid; /* that opened it */
    stk_plan *plan;
    stk_engine e;
};

static int loader_open(stk_loader **out, stk_dataset *const *data, size_t n,
                       const stk_loader_options *opt, uint32_t *measured, stk_error *err)
{
    uint64_t from_ns = stk_now_ns(), from_ticks = stk_ticks();
    stk_loader_options o;
    stk_plan_input in = { &o, data, (uint32_t)n, measured };
    stk_loader *l = NULL;
    int rc;

    *out = NULL;
    stk_options_take(&o, sizeof o, opt);
    l = STK_NEW(stk_loader);
    if (!l)
        return stk_fail_nomem(err, sizeof *l);
    l->pid = getpid();
    rc = stk_plan_open(&l->plan, &in, err);
    if (rc == 0)
        rc = stk_engine_open(&l->e, l->plan, err);
    l->e.figures.opened_ns = from_ns;
    l->e.figures.opened_ticks = from_ticks;
    l->e.figures.open_ns = stk_now_ns() - from_ns;
    if (rc < 0)
        stk_loader_close(&l);
    *out = l;
    return rc;
}

int stk_loader_open(stk_loader **out, stk_dataset *const *data, size_t n,
                    const stk_loader_options *opt, stk_error *err)
{
    return loader_open(out, data, n, opt, NULL, err);
}

int stk_loader_open_measuring(stk_loader **out, stk_dataset *const *data, size_t n,
                              const stk_loader_options *opt, uint32_t *lengths, stk_error *err)
{
    return loader_open(out, data, n, opt, lengths, err);
}

static int check_process(const stk_loader *l, stk_error *err)
{
    if (l->pid == getpid())
        return 0;
    return stk_fail(err, STK_ECLOSED,
                    "this loader was opened by process %d and its threads did not come along "
                    "through fork: open "
                    "one in this process",
                    (int)l->pid);
}

int stk_loader_next(stk_loader *l, stk_batch **out, int timeout_ms, stk_error *err)
{
    *out = NULL;
    STK_TRY(check_process(l, err));
    return stk_engine_next(&l->e, out, timeout_ms, err);
}

int stk_loader_peek(stk_loader *l, stk_batch **out, int timeout_ms, stk_error *err)
{
    int rc = check_process(l, err);

    *out = NULL;
    if (rc == 0)
        rc = stk_engine_peek(&l->e, timeout_ms, err);
    if (rc == 0) {
        stk_batch_ref(l->e.consumer.held.batch);
        *out = l->e.consumer.held.batch;
    }
    return rc;
}

int stk_loader_again(stk_loader *l, stk_error *err)
{
    STK_TRY(check_process(l, err));
    return stk_engine_again(&l->e, err);
}

void stk_loader_copies_on(stk_loader *l, void *stream)
{
    if (l->plan->memory.pins)
        stk_pins_seen(l->plan->memory.pins, stream);
}

void stk_loader_where(const stk_loader *l, uint64_t *epoch, uint64_t *step)
{
    *epoch = l->e.consumer.epoch;
    *step = l->e.consumer.taken;
}

uint64_t stk_loader_position(const stk_loader *l)
{
    return stk_engine_position(&l->e);
}

int stk_loader_seek(stk_loader *l, uint64_t epoch, uint64_t step, stk_error *err)
{
    uint64_t steps;
    stk_rank_split d;

    STK_TRY(check_process(l, err));
    d = stk_schedule_split(l->plan->schedule, epoch);
    steps = stk_rank_split_steps(&d, 0);
    if (step > steps)
        return stk_fail(err, STK_EINVAL, "step %" PRIu64 " of %" PRIu64 " does not exist", step,
                        steps);
    return stk_engine_seek(&l->e, epoch, step == steps ? d.samples : step * d.global, err);
}

int stk_loader_resume(stk_loader *l, uint64_t epoch, uint64_t position, stk_error *err)
{
    STK_TRY(check_process(l, err));
    return stk_engine_seek(&l->e, epoch, position, err);
}

void stk_loader_streams(const stk_loader *l, uint64_t *streams, uint64_t *window)
{
    *streams = l->plan->schedule->streams;
    *window = l->plan->schedule->window;
}

void stk_loader_bins(const stk_loader *l, uint64_t *window, uint64_t *together, uint64_t *print)
{
    const stk_schedule *s = l->plan->schedule;
    const stk_binning *h = &s->binning;

    *window = *together = *print = 0;
    if (!s->bins)
        return;
    *window = stk_bins_are_groups(h) ? 1 : h->window;
    *together = stk_bins_are_groups(h)      ? h->group
                : h->kind == STK_BIN_BUDGET ? h->group
                : h->kind == STK_BIN_LIKE   ? h->rows
                                            : 1;
    if (s->lengths)
        *print = stk_hash64(0, s->lengths, s->start[s->n_data] * sizeof *s->lengths);
    if (s->binning.drawn.less) /* by the bounds alone batches would be others */
        *print = stk_hash64(*print, "drawn", 5);
    if (s->parts)
        *print = stk_hash64(*print, s->parts,
                            s->binning.parts.n * s->start[s->n_data] * sizeof *s->parts);
    if (s->classes)
        *print = stk_hash64(*print, s->classes, s->start[s->n_data] * sizeof *s->classes);
    if (s->seconds)
        *print = stk_hash64(*print, s->seconds, s->start[s->n_data] * sizeof *s->seconds);
}

int stk_loader_groups(const stk_loader *l)
{
    const stk_schedule *s = l->plan->schedule;

    return s->bins && stk_bins_are_groups(&s->binning);
}

int stk_loader_set_bins(stk_loader *l, uint64_t window, uint64_t together, stk_error *err)
{
    uint64_t position = stk_loader_position(l);
    int rc, at;

    STK_TRY(check_process(l, err));
    stk_ring_drain(&l->e);
    rc = stk_bins_replan(l->plan->schedule, window, together, err);
    if (position > stk_loader_positions(l, l->e.consumer.epoch))
        position = 0;
    at = stk_engine_seek(&l->e, l->e.consumer.epoch, position, rc < 0 ? NULL : err);
    return rc < 0 ? rc : at;
}

uint64_t stk_loader_positions(const stk_loader *l, uint64_t epoch)
{
    return stk_schedule_split(l->plan->schedule, epoch).samples;
}

int stk_loader_set_streams(stk_loader *l, uint64_t streams, uint64_t window, stk_error *err)
{
    uint64_t position = stk_loader_position(l);
    int rc, at;

    STK_TRY(check_process(l, err));
    if (!l->plan->schedule->streams || !window)
        return stk_fail(err, STK_EINVAL,
                        l->plan->schedule->streams
                            ? "a window has at least one sample"
                            : "streams and window belong to shuffle=\"block\"");
    stk_ring_drain(&l->e); /* no one reads the order now */
    rc = stk_blocks_replan(l->plan->schedule, &l->plan->data, streams, window, err);
    stk_schedule_forget(l->plan->schedule);
    at = stk_engine_seek(&l->e, l->e.consumer.epoch, position, rc < 0 ? NULL : err);
    return rc < 0 ? rc : at;
}

static int no_mix(stk_error *err)
{
    return stk_fail(err, STK_EINVAL,
                    "this loader mixes nothing: open it over a mixture of data sets");
}

/* Batches made ahead are of the old mixture: the consumer goes on where it stands. */
static int remix(stk_loader *l, int rc, uint64_t position, stk_error *err)
{
    int at;

    stk_schedule_forget(l->plan->schedule);
    at = stk_engine_seek(&l->e, l->e.consumer.epoch, position, rc < 0 ? NULL : err);

    return rc < 0 ? rc : at;
}

int stk_loader_set_weights(stk_loader *l, const double *weights, size_t n, uint64_t epoch,
                           uint64_t position, stk_error *err)
{
    stk_schedule *s = l->plan->schedule;
    uint64_t stands = stk_loader_position(l);

    STK_TRY(check_process(l, err));
    if (!stk_order_is_mix(&s->order))
        return no_mix(err);
    if (s->bins)
        return stk_fail(err, STK_ENOTSUP,
                        "weights change at a position, and max_tokens and bucket batch whole "
                        "windows of positions: leave one of them");
    if (n != s->n_data)
        return stk_fail(err, STK_EINVAL, "%zu weights for %u data sets: give one for each", n,
                        s->n_data);
    stk_ring_drain(&l->e); /* no one reads the order now */
    return remix(l, stk_mix_change(&s->order, weights, epoch, position, err), stands, err);
}

int stk_loader_mix(const stk_loader *l, uint64_t i, stk_mix_change_info *out)
{
    const stk_order *order = &l->plan->schedule->order;

    return stk_order_is_mix(order) ? stk_mix_get(order, i, out) : STK_END;
}

int stk_loader_set_mix(stk_loader *l, const stk_mix_change_info *all, size_t n, stk_error *err)
{
    stk_order *order = &l->plan->schedule->order;
    uint64_t stands = stk_loader_position(l);

    STK_TRY(check_process(l, err));
    if (!stk_order_is_mix(order))
        return no_mix(err);
    stk_ring_drain(&l->e);
    return remix(l, stk_mix_set(order, all, n, err), stands, err);
}

uint64_t stk_loader_steps(const stk_loader *l)
{
    return stk_schedule_steps(l->plan->schedule, l->e.consumer.epoch);
}

uint64_t stk_loader_steps_of(const stk_loader *l, uint64_t epoch)
{
    return stk_schedule_steps(l->plan->schedule, epoch);
}

uint64_t stk_loader_samples(const stk_loader *l)
{
    return l->plan->schedule->positions;
}

uint64_t stk_loader_samples_of(const stk_loader *l, uint32_t i)
{
    const stk_schedule *s = l->plan->schedule;

    return i < s->n_data ? s->start[i + 1] - s->start[i] : 0;
}

/* An order that can't find says only what stands where. */
static uint64_t search(const stk_schedule *s, uint64_t epoch, const stk_where *what)
{
    stk_where at;

    for (uint64_t p = 0; p < s->positions; p++) {
        stk_schedule_at(s, epoch, &p, 1, &at);
        if (at.dataset == what->dataset && at.sample == what->sample)
            return p;
    }
    return UINT64_MAX;
}

int stk_loader_find(const stk_loader *l, uint64_t epoch, uint64_t id, uint64_t *position,
                    stk_error *err)
{
    const stk_schedule *s = l->plan->schedule;
    stk_where what = { .sample = id };

    while (what.dataset + 1 < s->n_data && s->start[what.dataset + 1] <= id)
        what.dataset++;
    what.sample -= s->start[what.dataset];
    *position = s->order.find ? s->order.find(s->order.state, epoch, &what)
                              : search(s, epoch, &what);
    if (*position != UINT64_MAX)
        return 0;
    return stk_fail(err, STK_ENOTFOUND, "sample %" PRIu64 " is not in epoch %" PRIu64, id, epoch);
}

int stk_loader_ledger(stk_loader *l, const char *folder, uint64_t generation, uint64_t epoch,
                      uint64_t position, stk_error *err)
{
    ldg_head from = { .generation = generation, .epoch = epoch, .position = position };

    STK_TRY(check_process(l, err));
    return stk_engine_ledger(&l->e, folder, &from, err);
}

int stk_loader_print(const stk_loader *l, stk_fingerprint *out, stk_error *err)
{
    return stk_plan_print(l->e.plan, l->e.schedule, out, err);
}

uint64_t stk_loader_drawn_print(const stk_loader *l)
{
    return l->plan->schedule->drawn_print;
}

uint64_t stk_loader_chain_print(const stk_loader *l, uint32_t output)
{
    return output < l->plan->outputs.common->n_out ? l->plan->chains.chain[output].fingerprint.all
                                                   : 0;
}

uint64_t stk_loader_chain_old_print(const stk_loader *l, uint32_t output)
{
    return output < l->plan->outputs.common->n_out
               ? l->plan->chains.chain[output].fingerprint.inexact
               : 0;
}

int stk_loader_set_workers(stk_loader *l, uint32_t n, stk_error *err)
{
    STK_TRY(check_process(l, err));
    return stk_engine_set_workers(&l->e, n, err);
}

void stk_loader_leave_bad(stk_loader *l, stk_leave leave)
{
    l->plan->policy.leave = leave;
}

int stk_loader_set_ahead(stk_loader *l, uint32_t n, stk_error *err)
{
    STK_TRY(check_process(l, err));
    return stk_engine_set_ahead(&l->e, n, err);
}

void stk_loader_stats(const stk_loader *l, stk_stats *out)
{
    stk_engine_stats(&l->e, out);
}

void stk_loader_sight(const stk_loader *l, stk_sight *out)
{
    stk_engine_sight(&l->e, out);
}

int stk_loader_trace(stk_loader *l, uint32_t spans, stk_error *err)
{
    STK_TRY(check_process(l, err));
    return stk_engine_trace(&l->e, spans, err);
}

uint64_t stk_loader_spans(const stk_loader *l, stk_trace_span *out, uint64_t cap)
{
    return stk_engine_spans(&l->e, out, cap);
}

int stk_loader_doing(const stk_loader *l, uint32_t i, stk_doing *out)
{
    return stk_engine_doing(&l->e, i, out);
}

const char *stk_loader_reads_whole(const stk_loader *l, uint32_t output)
{
    const stk_plan *p = l->e.plan;

    return output < p->chains.n_out ? p->rows.whole[output] : "";
}

uint64_t stk_loader_in_parts(const stk_loader *l, uint32_t output)
{
    const stk_plan *p = l->e.plan;

    return output < p->chains.n_out
               ? atomic_load_explicit(&p->rows.in_parts[output], memory_order_relaxed)
               : 0;
}

size_t stk_loader_by_workers(const stk_loader *l, uint32_t output, char *out, size_t room)
{
    const stk_plan *p = l->e.plan;
    stk_made made = { "", NULL };

    if (output < p->chains.n_out)
        made = p->rows.made[output];
    return made.why ? (size_t)snprintf(out, room, "%s%s", made.what, made.why) : 0;
}

int stk_loader_waiting(const stk_loader *l, stk_waiting *out)
{
    return stk_engine_waiting(&((stk_loader *)(uintptr_t)l)->e, out);
}

int stk_loader_skipped(const stk_loader *l, uint64_t i, stk_error *out)
{
    return stk_engine_skipped(&l->e, i, out);
}

void stk_loader_close(stk_loader **lp)
{
    stk_loader *l = *lp;

    if (!l)
        return;
    *lp = NULL;
    if (l->pid != getpid()) /* its threads and locks are the parent's */
        return;
    if (l->e.plan && stk_engine_close(&l->e) == STK_END)
        return;
    stk_plan_close(&l->plan);
    stk_free(l);
}

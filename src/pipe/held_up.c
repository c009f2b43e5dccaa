/* SPDX-License-Identifier: Apache-2.0 */
/* held_up.c - what the consumer has been waiting for: stage, shard, offset and worker, in one line.
 *
 * A job that hangs in a collective is killed after minutes by a watchdog that knows nothing of
 * data, so the rank whose batch is late says why before that.  Of the rows that the batch still
 * lacks the one is named that a worker is at for longest, else one whose bytes are on their way. */
#include <stdio.h>

#include "pipe/engine.h"

typedef struct late_row {
    uint64_t ticket;
    int found;
    char by[96]; /* who has it */
} late_row;

static int is_of(const stk_engine *e, const stk_slot *s, uint64_t ticket)
{
    return ticket / e->tickets == s->seq && ticket % e->tickets < stk_slot_tickets(s);
}

static void at_worker(const stk_engine *e, const stk_slot *s, late_row *out)
{
    uint64_t longest = 0;
    stk_doing d;

    for (uint32_t i = 0; stk_engine_doing(e, i, &d) == 0; i++) {
        if (d.stage == STK_STAGE_IDLE || d.ns < longest || !is_of(e, s, d.ticket))
            continue;
        longest = d.ns;
        out->ticket = d.ticket;
        out->found = 1;
        snprintf(out->by, sizeof out->by, "worker %u has been at stage %s of it for %.1f s", i,
                 stk_stage_name(d.stage), (double)d.ns * 1e-9);
    }
}

static void on_its_way(stk_engine *e, const stk_slot *s, late_row *out)
{
    uint32_t n = 0;

    stk_mutex_lock(&e->lock);
    for (const stk_request *r = e->all; r; r = r->all) {
        uint64_t waiting = atomic_load_explicit(&r->waiting, memory_order_relaxed);

        if (!waiting || !is_of(e, s, waiting - 1))
            continue;
        if (!n++ || waiting - 1 < out->ticket)
            out->ticket = waiting - 1;
        out->found = 1;
    }
    stk_mutex_unlock(&e->lock);
    if (n)
        snprintf(out->by, sizeof out->by,
                 "stage fetch: its bytes were asked for, %u read%s of the "
                 "batch %s not come",
                 n, n == 1 ? "" : "s", n == 1 ? "has" : "have");
}

/* The sample of a row and where it is, as text; "" where rows are of several samples or have no
 * file. */
static void place_of(const stk_engine *e, const stk_slot *s, uint32_t row, char *text, size_t size)
{
    uint64_t position;
    stk_where where;
    stk_entry entry;
    const stk_dataset *d;

    text[0] = 0;
    if (e->schedule->tickets == STK_TICKET_BIN)
        return;
    if (s->list.position)
        position = s->list.position[row];
    else
        stk_schedule_positions(e->schedule, &s->share, row, 1, &position);
    stk_schedule_at(e->schedule, s->epoch, &position, 1, &where);
    if (where.dataset >= e->plan->data.n)
        return;
    d = e->plan->data.set[where.dataset];
    if (e->plan->data.immediate || d->ops->entry(d, where.sample, &entry, NULL) < 0)
        snprintf(text, size, ", sample %" PRIu64, where.sample);
    else
        snprintf(text, size, ", shard %.200s, offset %" PRIu64, d->ops->shard_name(d, entry.shard),
                 entry.offset);
}

/* The slot at the tail is the consumer's to take, so its share and list stay as they are. */
void stk_held_up_locked(stk_engine *e) STK_REQUIRES(e->lock)
{
    const stk_slot *s = stk_tail_slot(e);
    uint64_t from = atomic_load_explicit(&e->figures.waiting_since, memory_order_relaxed);
    late_row late = { .found = 0 };
    char where[256] = "", what[64] = "";

    stk_mutex_unlock(&e->lock);
    at_worker(e, s, &late);
    if (!late.found)
        on_its_way(e, s, &late);
    if (late.found) {
        snprintf(what, sizeof what, "row %u", (uint32_t)(late.ticket % e->tickets));
        place_of(e, s, (uint32_t)(late.ticket % e->tickets), where, sizeof where);
    } else {
        snprintf(what, sizeof what, "the batch itself");
        snprintf(late.by, sizeof late.by, "its rows are made or not begun; stage batch");
    }
    stk_log_line(&e->plan->policy.log, STK_LOG_WARN,
                 "waited %.0f s for batch %" PRIu64 " of epoch %" PRIu64 ": %s%s: %s",
                 (double)(stk_now_ns() - from) * 1e-9, s->step, s->epoch, what, where, late.by);
    stk_mutex_lock(&e->lock);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* held_up.c - what the consumer has been waiting for: stage, shard, offset, worker and host, in one
 * line for the log, and for those who look at the loader meanwhile.
 *
 * A job that hangs in a collective is killed after minutes by a watchdog that knows nothing of
 * data, so the rank whose batch is late says why before that.  Of the rows that the batch still
 * lacks the one is named that a worker is at for longest, else one whose bytes are on their way. */
#include <stdio.h>
#include <time.h>

#include "pipe/engine.h"
#include "store/remote.h"

typedef struct late_row {
    uint64_t ticket;
    int found;
    char by[96]; /* who has it */
} late_row;

static uint64_t since_of(const stk_engine *e)
{
    return atomic_load_explicit(&e->figures.waiting_since, memory_order_relaxed);
}

/* The time of day, so long ago. */
static void clock_text(uint64_t ago_ns, char text[16])
{
    time_t then = time(NULL) - (time_t)(ago_ns / 1000000000u);
    struct tm day;

    if (!localtime_r(&then, &day) || !strftime(text, 16, "%H:%M:%S", &day))
        text[0] = 0;
}

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
    for (const stk_request *r = e->requests.all; r; r = r->row.older) {
        uint64_t waiting = atomic_load_explicit(&r->row.waiting, memory_order_relaxed);

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
static void place_of(const stk_engine *e, const stk_slot *s, uint32_t row, stk_waiting *w,
                     char *text, size_t size)
{
    const char *name = NULL;
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
    if (!e->plan->data.immediate && d->ops->entry(d, where.sample, &entry, NULL) == 0)
        name = d->ops->wait.awaited ? d->ops->wait.awaited(d, entry.shard)
                                    : d->ops->shard_name(d, entry.shard);
    if (!name) {
        snprintf(text, size, ", sample %" PRIu64, where.sample);
        return;
    }
    snprintf(w->shard, sizeof w->shard, "%s", name);
    if (entry.offset == STK_NO_OFFSET)
        snprintf(text, size, ", shard %.300s", w->shard);
    else
        snprintf(text, size, ", shard %.300s, offset %" PRIu64, w->shard, entry.offset);
}

/* The host that owes an answer, where data is remote. */
static void host_of(const stk_engine *e, stk_waiting *w, char *text, size_t size)
{
    stk_owing o;
    char since[16];

    text[0] = 0;
    if (!(e->plan->data.remote || e->plan->data.set[0]->can & STK_DATA_STREAM) ||
        !stk_source_owing(w->shard, &o))
        return;
    snprintf(w->host, sizeof w->host, "%s", o.host);
    w->retries = o.retries;
    clock_text(stk_now_ns() - o.since_ns, since);
    snprintf(text, size, "; %s has not answered since %s (%u requests pending, %u sent again%s%s)",
             o.host, since, o.pending, o.retries, o.why[0] ? ", the last: " : "", o.why);
}

/* The slot at the tail is the consumer's to take, so its share and list stay as they are. */
static void look(stk_engine *e, stk_waiting *w)
{
    const stk_slot *s = stk_tail_slot(e);
    late_row late = { .found = 0 };
    char where[400] = "", what[64] = "", host[400], since[16];

    *w = (stk_waiting){ .ns = stk_now_ns() - since_of(e), .epoch = s->epoch, .step = s->step };
    at_worker(e, s, &late);
    if (!late.found)
        on_its_way(e, s, &late);
    if (late.found) {
        snprintf(what, sizeof what, "row %u", (uint32_t)(late.ticket % e->tickets));
        place_of(e, s, (uint32_t)(late.ticket % e->tickets), w, where, sizeof where);
    } else {
        snprintf(what, sizeof what, "the batch itself");
        snprintf(late.by, sizeof late.by, "its rows are made or not begun; stage batch");
    }
    host_of(e, w, host, sizeof host);
    clock_text(w->ns, since);
    snprintf(w->text, sizeof w->text,
             "waited %.0f s (since %s) for batch %" PRIu64 " of epoch %" PRIu64 ": %s%s: %s%s",
             (double)w->ns * 1e-9, since, s->step, s->epoch, what, where, late.by, host);
}

/* ---- one clock for a wait ---- */

#define LOOK_NS 1000000000u
#define PAUSE_NS 5000000000u /* a caller that stays away longer waits for something else */

uint64_t stk_wait_ns(const stk_engine *e, uint64_t now)
{
    uint64_t since = since_of(e);
    uint64_t paused = atomic_load_explicit(&e->figures.paused_at, memory_order_relaxed);

    if (!since || now <= since || (paused && now > paused && now - paused > PAUSE_NS))
        return 0;
    return now - since;
}

void stk_wait_begin(stk_engine *e, uint64_t now)
{
    if (e->figures.wait.from)
        return;
    if (!stk_wait_ns(e, now)) {
        stk_wait_end(e);
        e->figures.wait.told = 1;
        e->figures.wait.looked = now;
        atomic_store_explicit(&e->figures.waiting_since, now, memory_order_relaxed);
    }
    e->figures.wait.from = now;
    atomic_store_explicit(&e->figures.paused_at, 0, memory_order_relaxed);
}

void stk_wait_pause(stk_engine *e)
{
    uint64_t now = stk_now_ns();

    if (!e->figures.wait.from)
        return;
    e->figures.wait.ns += now - e->figures.wait.from;
    e->figures.wait.from = 0;
    atomic_store_explicit(&e->figures.paused_at, now, memory_order_relaxed);
}

void stk_wait_end(stk_engine *e)
{
    if (!since_of(e))
        return;
    stk_wait_pause(e);
    stk_count(&e->figures.data_wait_ns, e->figures.wait.ns);
    atomic_store_explicit(&e->figures.waiting_since, 0, memory_order_relaxed);
    e->figures.wait.ns = 0;
    stk_mutex_lock(&e->figures.wait.lock);
    e->figures.wait.is.ns = 0;
    stk_mutex_unlock(&e->figures.wait.lock);
}

void stk_wait_look_locked(stk_engine *e, uint64_t now)
{
    int tell = now - since_of(e) >= e->figures.wait.told * e->plan->policy.wait_ns;
    stk_waiting w;

    if (!tell && now - e->figures.wait.looked < LOOK_NS)
        return;
    e->figures.wait.told += (uint64_t)tell;
    e->figures.wait.looked = now;
    stk_mutex_unlock(&e->lock);
    look(e, &w);
    stk_mutex_lock(&e->figures.wait.lock);
    e->figures.wait.is = w;
    stk_mutex_unlock(&e->figures.wait.lock);
    if (tell)
        stk_log_line(&e->plan->policy.log, STK_LOG_WARN, "%s", w.text);
    stk_mutex_lock(&e->lock);
}

int stk_engine_waiting(stk_engine *e, stk_waiting *out)
{
    uint64_t ns = stk_wait_ns(e, stk_now_ns());

    stk_mutex_lock(&e->figures.wait.lock);
    *out = e->figures.wait.is;
    stk_mutex_unlock(&e->figures.wait.lock);
    if (!ns || !out->ns)
        return STK_END;
    out->ns = ns;
    return 0;
}

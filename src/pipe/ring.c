/* SPDX-License-Identifier: Apache-2.0 */
/* ring.c - slots: FREE -> FILLING -> STAGES -> READY -> (handed out) FREE.
 *
 * A slot opens with a batch whose memory is planned; the worker that does its last row pads what
 * is to be padded and runs the batch stages; the consumer takes slots in order.  Sequence
 * numbers run on over the end of an epoch, so the next one is in flight before this one ends. */
#include <assert.h>
#include <string.h>

#include "pipe/engine.h"

#define MOMENT_NS 100000u

static void stage_done(stk_ticket *ticket, int rc, const stk_error *err);

/* Where the schedule lists tickets, each slot has room for its list. */
int stk_ring_plan(stk_engine *e, stk_error *err)
{
    stk_ticket_kind kind = e->schedule->tickets;
    int listed = kind == STK_TICKET_LISTED || kind == STK_TICKET_PIECE;

    for (uint32_t i = 0; listed && i < e->n_slots; i++) {
        stk_ticket_list *l = &e->slot[i].list;

        l->position = stk_zalloc(e->tickets, sizeof *l->position);
        if (!l->position)
            return stk_fail_nomem(err, e->tickets * sizeof *l->position);
        if (kind != STK_TICKET_PIECE)
            continue;
        l->place = stk_zalloc(e->tickets, sizeof *l->place);
        l->part = stk_zalloc(e->tickets, sizeof *l->part);
        l->used = stk_zalloc(e->plan->batching.rows, sizeof *l->used);
        if (!l->place || !l->part || !l->used)
            return stk_fail_nomem(err, e->tickets * sizeof *l->place);
    }
    return 0;
}

/* Epoch, step and share of the slot at the head; *next: the cursor after it. */
static void slot_place(stk_engine *e, stk_slot *s, stk_cursor *next)
{
    uint32_t n;

    *next = e->ahead;
    stk_schedule_next(e->schedule, next, &s->share);
    s->epoch = s->share.epoch;
    s->step = next->first + next->at - 1;
    n = stk_schedule_tickets(e->schedule, &s->share, &s->list);
    assert(n <= e->tickets && s->share.rows <= e->plan->batching.rows);
    atomic_store_explicit(&s->tickets, n, memory_order_relaxed);
}

/* Rows of its batch: tickets, but for packed rows. */
static uint32_t slot_rows(const stk_engine *e, const stk_slot *s)
{
    return e->schedule->tickets == STK_TICKET_PIECE ? s->share.rows : stk_slot_tickets(s);
}

static void slot_init(stk_engine *e, stk_slot *s, uint64_t seq, stk_batch *b)
{
    assert(s->state == STK_SLOT_FREE && b); /* the batch before has left it */
    s->seq = seq;
    s->rc = 0;
    s->err_row = UINT32_MAX;
    s->stage = 0;
    atomic_store_explicit(&s->skipped, 0, memory_order_relaxed);
    s->batch = b;
    s->ticket = (stk_slot_ticket){ { stage_done }, e, s };
    b->epoch = s->epoch;
    b->step = s->step;
    b->start = s->share.start;
    b->limit = stk_schedule_limit(e->schedule, &s->share);
    s->table = stk_row_table_now(e->plan);
    b->gathered = s->table->gathered;
    b->rows = slot_rows(e, s);
    memset(b->valid, !s->share.filler, b->rows);
    atomic_store_explicit(&s->left, e->tickets,
                          memory_order_relaxed); /* tickets past `rows` count as done by claim */
    if (s->step == 0)
        atomic_store_explicit(&e->bad.of_epoch[s->epoch % STK_EPOCHS], 0, memory_order_relaxed);
    s->state = STK_SLOT_FILLING;
}

int stk_ring_open_locked(stk_engine *e, stk_error *err) STK_REQUIRES(e->lock)
{
    uint32_t ahead = atomic_load_explicit(&e->figures.ahead, memory_order_relaxed);
    uint32_t enough = e->plan->memory.open_slots * ahead / e->n_slots;
    int opened = 0, rc = 0;

    assert(ahead && ahead <= e->n_slots);
    if (ahead < stk_open_slots(e) + enough)
        return 0; /* several at once: workers are made to wait and woken less often */
    while (rc == 0 && stk_open_slots(e) < ahead) {
        uint64_t head = stk_head(e);
        stk_slot *s = &e->slot[head % e->n_slots];
        stk_batch *b = NULL;
        stk_cursor next;

        if (head > stk_tail(e) && !stk_batch_plan_settled(e->plan->outputs.common))
            break; /* the first ragged batch shows how many fit */
        if (head > stk_tail(e) && stk_account_waited_for(e->plan->memory.reads))
            break; /* a row of an earlier one waits for memory */
        slot_place(e, s, &next);
        rc = stk_batch_open(&b, e->plan->outputs.common, slot_rows(e, s), err);
        if (rc < 0)
            break;
        slot_init(e, s, head, b);
        atomic_store_explicit(&e->figures.head, head + 1, memory_order_relaxed);
        e->ahead = next;
        opened = 1;
    }
    if (opened) {
        atomic_store_explicit(&e->limit, stk_head(e) * e->tickets, memory_order_release);
        pthread_cond_broadcast(&e->work);
    }
    return rc;
}

void stk_ring_fail(stk_engine *e, stk_slot *s, uint32_t row, int rc, const stk_error *err)
{
    assert(rc < 0);
    stk_mutex_lock(&e->lock);
    if (row < s->err_row) { /* the lowest row speaks, whatever order workers came in */
        s->err_row = row;
        s->rc = rc;
        s->err = *err;
    }
    stk_mutex_unlock(&e->lock);
}

/* Is the consumer to be woken?  It waits for the slot at the tail only.  Rows of arrays are made in
 * less time than it takes to wake somebody, so there it is woken for several batches at once: when
 * it has waited a moment, or when there is nothing else to be made.  Until then some worker is
 * making a slot, and comes here again when that is done. */
static int wake_locked(const stk_engine *e) STK_REQUIRES(e->lock)
{
    uint64_t tail = stk_tail(e);
    uint64_t next = atomic_load_explicit(&e->claim, memory_order_relaxed) &
                    (((uint64_t)1 << STK_TICKET_BITS) - 1);

    if (stk_head(e) == tail || e->slot[tail % e->n_slots].state != STK_SLOT_READY)
        return 0;
    return !e->plan->memory.wake_slots || !e->consumer.waits_from ||
           next >= atomic_load_explicit(&e->limit, memory_order_relaxed) ||
           next >= (tail + e->plan->memory.wake_slots) * e->tickets ||
           stk_now_ns() - e->consumer.waits_from >= MOMENT_NS;
}

static void slot_ready(stk_engine *e, stk_slot *s)
{
    if (s->rc == 0 && !atomic_load_explicit(&e->draining, memory_order_relaxed))
        stk_batch_settle(s->batch);
    stk_mutex_lock(&e->lock);
    assert(s->state == STK_SLOT_STAGES && s->batch); /* once, by the worker of its last row */
    s->state = STK_SLOT_READY;
    stk_ready_locked(e, 1);
    if (wake_locked(e) || atomic_load_explicit(&e->draining, memory_order_relaxed))
        pthread_cond_broadcast(&e->ready);
    stk_mutex_unlock(&e->lock);
}

/* Run the stages from s->stage on, until one says that it finishes later. */
static void run_stages(stk_engine *e, stk_slot *s)
{
    stk_error err;

    while (s->rc == 0 && s->stage < e->plan->batching.n_stages &&
           !atomic_load_explicit(&e->draining, memory_order_relaxed)) {
        const stk_stage *st = &e->plan->batching.stage[s->stage++];
        int rc;

        stk_error_clear(&err);
        rc = st->run(st->state, s->batch, &s->ticket.ticket, &err);
        if (rc == STK_PENDING)
            return;
        if (rc < 0)
            stk_ring_fail(e, s, 0, rc, &err);
    }
    slot_ready(e, s);
}

/* A stage that answered STK_PENDING is finished. */
static void stage_done(stk_ticket *ticket, int rc, const stk_error *err)
{
    const stk_slot_ticket *t = (const stk_slot_ticket *)ticket;
    stk_error none;

    if (rc < 0) {
        stk_fail(&none, rc, "a batch stage failed");
        stk_ring_fail(t->engine, t->slot, 0, rc, err ? err : &none);
    }
    run_stages(t->engine, t->slot);
}

static void finish(stk_engine *e, stk_slot *s)
{
    stk_error err;
    int rc;

    if (s->rc < 0 || atomic_load_explicit(&e->draining, memory_order_relaxed))
        return; /* rows are missing */
    stk_error_clear(&err);
    do {
        rc = stk_row_finish(s->table, e->plan, s->batch, s->list.used, &err);
    } while (rc == STK_ENOMEM && stk_room_pause(e));
    if (rc < 0)
        stk_ring_fail(e, s, 0, rc, &err);
}

int stk_ring_done(stk_engine *e, stk_slot *s, uint32_t rows)
{
    uint32_t left;

    if (!rows)
        return 0;
    left = atomic_fetch_sub_explicit(&s->left, rows, memory_order_acq_rel);
    assert(left >= rows); /* a row is done once */
    if (left != rows)
        return 0;
    stk_mutex_lock(&e->lock);
    assert(s->state == STK_SLOT_FILLING);
    s->state = STK_SLOT_STAGES;
    stk_mutex_unlock(&e->lock);
    finish(e, s);
    run_stages(e, s);
    return 1;
}

/* Rows of slot `seq` that were claimed before ticket `end`. */
static uint32_t claimed(const stk_engine *e, uint64_t seq, uint64_t end)
{
    uint64_t first = seq * e->tickets;

    if (end <= first)
        return 0;
    return end - first < e->tickets ? (uint32_t)(end - first) : e->tickets;
}

void stk_ring_drain(stk_engine *e)
{
    const uint64_t mask = ((uint64_t)1 << STK_TICKET_BITS) - 1;
    uint64_t old = atomic_load_explicit(&e->claim, memory_order_relaxed), seq;

    stk_batch_release(&e->consumer.held.batch);
    atomic_store_explicit(&e->draining, 1, memory_order_relaxed);
    stk_account_wake_all(e->plan->memory.reads);
    stk_stall_at(&e->plan->policy.stall, STK_STALL_DRAIN, old);
    atomic_store_explicit(&e->limit, 0, memory_order_release);
    stk_stall_at(&e->plan->policy.stall, STK_STALL_DRAIN, old + 1);
    /* A new count of seeks makes every claim that is in flight fail, so `old` is exact. */
    while (!atomic_compare_exchange_weak_explicit(&e->claim, &old,
                                                  ((old >> STK_TICKET_BITS) + 1) << STK_TICKET_BITS,
                                                  memory_order_acq_rel, memory_order_relaxed)) {}
    stk_stall_at(&e->plan->policy.stall, STK_STALL_DRAIN, old + 2);
    for (seq = stk_tail(e); seq < stk_head(e); seq++)
        stk_ring_done(e, &e->slot[seq % e->n_slots], e->tickets - claimed(e, seq, old & mask));
    for (seq = stk_tail(e); seq < stk_head(e); seq++) {
        stk_slot *s = &e->slot[seq % e->n_slots];

        stk_mutex_lock(&e->lock);
        while (s->state != STK_SLOT_READY) {
            if (e->plan->io.inline_mode)
                stk_worker_step_locked(e);
            else
                stk_cond_wait(&e->ready, &e->lock);
        }
        s->state = STK_SLOT_FREE;
        stk_ready_locked(e, -1);
        stk_mutex_unlock(&e->lock);
        stk_batch_release(&s->batch);
    }
    stk_mutex_lock(&e->lock);
    assert(!atomic_load_explicit(&e->figures.ready, memory_order_relaxed)); /* all are free */
    atomic_store_explicit(&e->figures.head, 0, memory_order_relaxed);
    atomic_store_explicit(&e->figures.tail, 0, memory_order_relaxed);
    stk_mutex_unlock(&e->lock);
    for (uint32_t i = 0; i < STK_EPOCHS; i++) /* what is made again is counted again */
        atomic_store_explicit(&e->bad.of_epoch[i], 0, memory_order_relaxed);
    atomic_store_explicit(&e->draining, 0, memory_order_relaxed);
}

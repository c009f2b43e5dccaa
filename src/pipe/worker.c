/* SPDX-License-Identifier: Apache-2.0 */
/* worker.c - claim tickets, bring their bytes, make their rows; step aside for bytes that are
 * not there yet.
 *
 * While bytes are available (page cache, memory) a worker runs through its tickets with one
 * request of its own and takes no lock.  A request that must wait is submitted and forgotten;
 * a worker that is free when it arrives goes on with it.  When reads have to be waited for, workers
 * first keep enough of them in flight and only then decode. */
#include <assert.h>
#include <string.h>
#include <unistd.h>

#include "pipe/claim.h"
#include "pipe/row_time.h"

#define AHEAD 3 /* rows looked up before their turn */

/* ---- requests: idle ones, and those that arrived ---- */

static void request_arrived(stk_request *r)
{
    stk_engine *e = r->owner;

    stk_stall_at(&e->plan->policy.stall, STK_STALL_ARRIVED, r->row.ticket);
    atomic_store_explicit(&r->row.waiting, 0, memory_order_relaxed);
    stk_mutex_lock(&e->lock);
    stk_arrived_push_locked(e, r);
    atomic_fetch_sub_explicit(&e->inflight, 1, memory_order_relaxed);
    pthread_cond_broadcast(&e->work);
    if (e->plan->io.inline_mode)
        pthread_cond_broadcast(&e->ready);
    if (atomic_load_explicit(&e->low_memory, memory_order_relaxed))
        stk_account_wake_all(e->plan->memory.reads);
    stk_mutex_unlock(&e->lock); /* the loader may be closed from here on: e is not touched */
}

static int request_add_locked(stk_engine *e, stk_request **out, stk_error *err)
    STK_REQUIRES(e->lock)
{
    STK_TRY(stk_request_open(out, e->plan->chains.n_out, e->plan->memory.blocks,
                             e->plan->memory.reads, err));
    (*out)->arrived = request_arrived;
    (*out)->owner = e;
    (*out)->async = &e->io.async;
    (*out)->open_root = e->plan->chains.open_root;
    (*out)->fallback = e->plan->chains.fallback;
    (*out)->row.older = e->requests.all;
    e->requests.all = *out;
    e->requests.n++;
    return 0;
}

/* Every worker brings a request along: a worker that has none can then wait, since one is on its
 * way or will be let go. */
int stk_worker_open_locked(stk_worker **out, stk_engine *e, uint32_t number, stk_error *err)
{
    stk_worker *w = STK_NEW(stk_worker);
    int rc = w ? stk_decoders_init(&w->m.decoders, e->plan->policy.registry, err)
               : stk_fail_nomem(err, sizeof *w);

    *out = NULL;
    if (rc == 0)
        rc = request_add_locked(e, &w->req, err);
    if (rc < 0) {
        if (w)
            stk_decoders_fini(&w->m.decoders);
        stk_free(w);
        return rc;
    }
    stk_maker_init(&w->m);
    stk_trace_worker_locked(e, w);
    w->engine = e;
    w->number = number;
    w->m.scratch.ration = e->plan->memory.ration;
    w->m.wait_room = stk_room_row;
    w->m.last = stk_ticks();
    stk_does(&w->m, STK_STAGE_IDLE, 0);
    *out = w;
    return 0;
}

void stk_worker_close(stk_worker **w)
{
    if (!*w)
        return;
    stk_maker_fini(&(*w)->m);
    stk_trace_worker_close(*w);
    stk_request_close(&(*w)->req);
    stk_free(*w);
    *w = NULL;
}

/* A request of the worker's own: an idle one, or a new one while there may be more. */
static int own_request(stk_worker *w)
{
    stk_engine *e = w->engine;

    if (w->req)
        return 1;
    stk_mutex_lock(&e->lock);
    w->req = e->requests.idle;
    if (w->req) {
        e->requests.idle = w->req->next;
        e->io.n_idle--;
    } else if (e->requests.n < e->requests.max) {
        request_add_locked(e, &w->req, NULL);
    }
    stk_mutex_unlock(&e->lock);
    return w->req != NULL;
}

/* The worker is through with r: keep it, or put it with the idle ones. */
static void give_request(stk_worker *w, stk_request *r)
{
    stk_engine *e = w->engine;

    if (atomic_load_explicit(&e->low_memory, memory_order_relaxed))
        stk_request_trim(r);
    if (!w->req) {
        w->req = r;
        return;
    }
    stk_mutex_lock(&e->lock);
    r->next = e->requests.idle;
    e->requests.idle = r;
    e->io.n_idle++;
    pthread_cond_broadcast(&e->work);
    stk_mutex_unlock(&e->lock);
}

/* ---- one row: fetch, make, or stand in another sample ---- */

/* The row that a request is for. */
static stk_row row_of(stk_worker *w, stk_request *r, stk_slot *s)
{
    const stk_engine *e = w->engine;
    uint32_t row = (uint32_t)(r->row.ticket % e->tickets);

    return (stk_row){ .m = &w->m,
                      .plan = e->plan,
                      .schedule = e->schedule,
                      .table = r->row.table,
                      .req = r,
                      .batch = s->batch,
                      .row = row,
                      .piece = s->list.place ? &s->list.place[row] : NULL,
                      .position = r->row.position,
                      .where = r->where };
}

/* A stk_begin_fn. */
static int row_begin(stk_worker *w, stk_request *r, stk_error *err)
{
    stk_row x = row_of(w, r, stk_slot_of(w->engine, r->row.ticket));

    return x.table->begin(&x, err);
}

/* Bytes that are not there: hand the request over.  0: they came at once after all. */
static int row_submit(stk_worker *w, stk_request *r, stk_error *err)
{
    stk_engine *e = w->engine;
    int rc;

    if (!r->late) /* else its first stage was */
        stk_count(&w->m.count.cold, 1);
    if (stk_request_is_remote(r)) {
        stk_count(&w->m.count.remote, 1);
        stk_in_flight_add(e, r);
    }
    atomic_store_explicit(&r->row.waiting, r->row.ticket + 1, memory_order_relaxed);
    atomic_store_explicit(&e->cold, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&e->inflight, 1, memory_order_relaxed);
    r->plug = w->plugged ? &w->plug : NULL;
    rc = stk_request_submit(r, e->plan->io.inline_mode || w->synchronous ? NULL : stk_io_queue, e,
                            err);
    if (rc != STK_PENDING) {
        atomic_store_explicit(&r->row.waiting, 0, memory_order_relaxed);
        atomic_fetch_sub_explicit(&e->inflight, 1, memory_order_relaxed);
        (void)stk_in_flight_end(e, r);
    }
    return rc;
}

/* Check the bytes, unpacking blocks.  STK_PENDING: another worker unpacks one, r has left. */
static int bytes_finish(stk_worker *w, stk_request *r, stk_error *err)
{
    stk_engine *e = w->engine;
    int rc;

    if (!r->blocks)
        return stk_request_finish(r, err);
    atomic_fetch_add_explicit(&e->inflight, 1, memory_order_relaxed);
    rc = stk_request_finish(r, err);
    if (rc != STK_PENDING) {
        uint32_t counted = atomic_fetch_sub_explicit(&e->inflight, 1, memory_order_relaxed);

        assert(counted);
        (void)counted;
    }
    return rc;
}

static void count_parts(stk_worker *w, const stk_request *r)
{
    for (uint32_t i = 0; i < r->n; i++) {
        if (!r->ranged[i].n)
            continue;
        atomic_fetch_add_explicit(&w->engine->plan->rows.in_parts[i], 1, memory_order_relaxed);
        w->m.bytes += r->ranged[i].later;
        for (uint32_t k = 0; k < r->ranged[i].n; k++)
            w->m.bytes += r->ranged[i].range[k].len;
    }
    stk_count(&w->m.count.unread, stk_request_unread(r));
}

/* Finish bytes and make the row. */
static int row_finish(stk_worker *w, stk_request *r, stk_row *x, stk_error *err)
{
    int rc = bytes_finish(w, r, err);
    uint64_t fetched = time_fetched(w);

    if (rc == STK_PENDING)
        return rc;
    if (rc == 0) {
        rc = stk_row_make(x, err);
        if (rc < 0)
            stk_error_at(err, NULL, r->want[x->output].place.offset, (stk_bytes){ 0 });
    }
    time_made(w, fetched);
    if (rc < 0)
        return rc;
    x->table->note(x);
    w->m.rows++;
    for (uint32_t i = 0; i < r->n; i++)
        w->m.bytes += r->want[i].cached_bytes.data ? 0 : r->want[i].bytes.len;
    if (stk_request_in_parts(r))
        count_parts(w, r);
    return 0;
}

/* The values are there that say where the rest is: it is read now.  STK_PENDING: r has left. */
static int row_second(stk_worker *w, stk_request *r, stk_row *x, stk_error *err)
{
    int rc = 0;

    stk_plug_flush(&w->plug);
    if (r->reads.stage == STK_REQUEST_FIRST)
        rc = bytes_finish(w, r, err);
    do {
        if (rc == 0)
            rc = stk_row_begin_second(x, err);
        if (rc == 0 && stk_request_try(r, err) == STK_PENDING)
            rc = row_submit(w, r, err);
    } while (rc == 0 && r->reads.stage == STK_REQUEST_FILES);
    return rc;
}

static void address(const stk_engine *e, const stk_request *r, stk_error *err)
{
    const char *shard = r->entry.key.data ? r->data->ops->shard_name(r->data, r->entry.shard)
                                          : NULL;
    char row[STK_ROW_KEY];

    stk_error_at(err, shard, shard ? r->entry.offset : STK_NO_OFFSET,
                 shard ? stk_entry_key(r->data, &r->entry, row) : r->entry.key);
    err->sample = r->where.dataset < e->plan->data.n
                      ? e->schedule->start[r->where.dataset] + r->where.sample
                      : UINT64_MAX;
}

static int row_begin_patiently(stk_worker *w, stk_request *r, stk_row *x, stk_error *err)
{
    int rc = x->table->begin(x, err);

    return rc == STK_ELIMIT && r->memory.lacks ? stk_room_begin(w, r, row_begin, err) : rc;
}

/* Of inline mode: the row's sample is not there.  The consumer looks at its clock and its signals,
 * and the next step begins the row again. */
static void row_poll(stk_worker *w, stk_request *r)
{
    assert(r->polls && !w->polled); /* its rows are claimed one by one */
    stk_range(w->engine, NULL);
    atomic_store_explicit(&r->row.waiting, r->row.ticket + 1, memory_order_relaxed);
    stk_does(&w->m, STK_STAGE_IDLE, 0);
    w->polled = r;
}

/* Begin the row's reads.  0: its bytes are there; STK_PENDING: they are on their way, r has
 * left. */
static int row_read(stk_worker *w, stk_request *r, stk_row *x, stk_error *err)
{
    stk_engine *e = w->engine;
    int rc;

    stk_range(e, "stoker fetch");
    rc = row_begin_patiently(w, r, x, err);
    if (rc == STK_PENDING) {
        row_poll(w, r);
        return rc;
    }
    if (rc == 0)
        rc = stk_request_try(r, err);
    stk_range(e, NULL);
    stk_stall_at(&e->plan->policy.stall, STK_STALL_TRY, r->row.ticket);
    if (rc == STK_PENDING)
        return row_submit(w, r, err);
    if (atomic_load_explicit(&e->cold, memory_order_relaxed))
        atomic_store_explicit(&e->cold, 0, memory_order_relaxed); /* a store a row would cost a
                                                                   * cache line */
    return rc;
}

static const stk_row_table *table_of(const stk_request *r)
{
    return r->row.table;
}

/* Take a row from where it stands to its end.  1: done; 0: its bytes are on their way, r has
 * left. */
static int row_run(stk_worker *w, stk_request *r, int arrived)
{
    stk_engine *e = w->engine;
    stk_slot *s = stk_slot_of(e, r->row.ticket);
    stk_error err;
    int rc;

    assert(w->synchronous || (s->batch && r->row.ticket / e->tickets == s->seq)); /* it is open */
    (void)stk_in_flight_end(e, r);
    for (;;) {
        stk_row x = row_of(w, r, s);

        rc = 0;
        if (!arrived && atomic_load_explicit(&e->draining, memory_order_relaxed))
            return 1;
        if (!arrived) {
            rc = row_read(w, r, &x, &err);
            if (rc == STK_PENDING)
                return 0;
        }
        arrived = 0;
        if (rc == 0 && stk_request_goes_on(r) &&
            !atomic_load_explicit(&e->draining, memory_order_relaxed)) {
            rc = row_second(w, r, &x, &err);
            if (rc == STK_PENDING)
                return 0;
            if (rc == STK_ELIMIT && r->memory.lacks)
                continue; /* it was let go of, and waits for room for both stages */
        }
        if (rc == 0 && !atomic_load_explicit(&e->draining, memory_order_relaxed)) {
            stk_range(e, "stoker gather");
            if (w->plug.n)
                stk_plug_flush(&w->plug);
            rc = row_finish(w, r, &x, &err);
            stk_range(e, NULL);
            if (rc == STK_PENDING)
                return 0;
        }
        if (rc < 0 && table_of(r)->uncached && stk_row_was_found(r)) {
            r->row.table = table_of(r)
                               ->uncached; /* the file says what is wrong, or is decoded here */
            stk_request_end(r);
            continue;
        }
        if (rc == STK_ESTALE && stk_request_in_parts(r)) {
            r->row.whole = 1; /* its points may be of another version of it */
            stk_request_end(r);
            continue;
        }
        if (rc < 0)
            address(e, r, &err);
        if (atomic_load_explicit(&r->retries, memory_order_relaxed))
            atomic_fetch_add_explicit(
                &e->retried, atomic_exchange_explicit(&r->retries, 0, memory_order_relaxed),
                memory_order_relaxed);
        stk_request_end(r);
        if (rc == 0 || stk_bad_leave(w, r, s, rc, &err))
            return 1;
        if (!stk_bad_stand_in(w, r, s, &rc, &err)) {
            address(e, r, &err);
            stk_ring_fail(e, s, (uint32_t)(r->row.ticket % e->tickets), rc, &err);
            return 1;
        }
        r->entry.key.data = NULL;
        r->row.whole = 0;
        r->row.table = w->synchronous ? e->plan->rows.repair : s->table;
    }
}

/* ---- the loop ---- */

static void row_go_on(stk_worker *w, stk_request *r, int arrived)
{
    stk_engine *e = w->engine;
    uint64_t ticket = r->row.ticket;

    time_begin(w);
    stk_does(&w->m, STK_STAGE_FETCH, ticket);
    if (!row_run(w, r, arrived))
        return;
    stk_stall_at(&e->plan->policy.stall, STK_STALL_DONE, ticket);
    give_request(w, r);
    time_run(w, STK_STAGE_FETCH);
    time_done(w, stk_slot_of(e, ticket), 1, ticket);
}

/* The row that waited in the step before.  0: it still does. */
static int step_polled(stk_worker *w)
{
    stk_request *r = w->polled;

    w->polled = NULL;
    atomic_store_explicit(&r->row.waiting, 0, memory_order_relaxed);
    row_go_on(w, r, 0);
    return !w->polled;
}

int stk_worker_take_arrived(stk_worker *w)
{
    stk_engine *e = w->engine;
    stk_request *r;

    if (!atomic_load_explicit(&e->n_arrived, memory_order_relaxed))
        return 0;
    stk_mutex_lock(&e->lock);
    r = stk_arrived_pop_locked(e);
    if (r && stk_in_flight_end(e, r))
        pthread_cond_broadcast(&e->work);
    stk_mutex_unlock(&e->lock);
    if (!r)
        return 0;
    row_go_on(w, r, 1);
    return 1;
}

/* The time since the last lap was for nothing but reads that are on their way. */
static void time_reads(stk_worker *w)
{
    uint64_t ticks = stk_stage_time(&w->m, STK_STAGE_IDLE);

    stk_count(&w->m.count.read_wait, ticks);
    if (ticks)
        stk_took(&w->m, STK_STAGE_IDLE, ticks);
}

void stk_worker_wait_request(stk_worker *w)
{
    stk_engine *e = w->engine;

    while (!own_request(w)) {
        stk_plug_flush(&w->plug);
        if (stk_worker_take_arrived(w))
            continue;
        if (e->plan->io.inline_mode) {
            for (uint32_t i = 0; i < e->plan->io.n_driven; i++)
                e->plan->io.driven[i]->drive(1);
            continue;
        }
        stk_stage_time(&w->m, STK_STAGE_FETCH);
        stk_mutex_lock(&e->lock);
        while (!e->requests.idle && !atomic_load_explicit(&e->n_arrived, memory_order_relaxed))
            stk_cond_wait(&e->work, &e->lock);
        stk_mutex_unlock(&e->lock);
        time_reads(w);
    }
}

int stk_run_row(stk_worker *w, const stk_run *u, uint32_t i)
{
    stk_request *r;

    stk_worker_wait_request(w);
    r = w->req;
    w->req = NULL;
    r->row.ticket = u->ticket + i;
    r->row.position = u->position[i];
    r->row.attempt = 0;
    r->row.whole = 0;
    r->polls = w->engine->plan->io.inline_mode;
    r->where = u->where[i];
    r->row.table = u->slot->table;
    r->entry.key.data = NULL;
    if (!row_run(w, r, 0))
        return 0;
    give_request(w, r);
    return 1;
}

stk_row stk_run_start(stk_worker *w, const stk_run *u)
{
    return (stk_row){ .m = &w->m,
                      .plan = w->engine->plan,
                      .schedule = w->engine->schedule,
                      .table = u->slot->table,
                      .batch = u->slot->batch };
}

/* How many rows are done; the others are on their way. */
static uint32_t run_peeks(stk_worker *w, const stk_run *u)
{
    stk_engine *e = w->engine;
    stk_row x = stk_run_start(w, u);
    stk_peek ahead[AHEAD + 1];
    uint32_t done = 0;

    for (uint32_t i = 0; i < u->rows && i < AHEAD; i++)
        stk_peek_look(e, &u->where[i], &ahead[i]);
    for (uint32_t i = 0; i < u->rows; i++) {
        if (i + AHEAD < u->rows)
            stk_peek_look(e, &u->where[i + AHEAD], &ahead[(i + AHEAD) % (AHEAD + 1)]);
        if (!w->req)
            stk_worker_wait_request(w);
        stk_run_place(u, i, w->req, &x);
        if (stk_peek_make(&x, &ahead[i % (AHEAD + 1)]))
            done++;
        else
            done += (uint32_t)stk_run_row(w, u, i);
    }
    time_mean(w, u->rows);
    return done;
}

static uint32_t run_requests(stk_worker *w, const stk_run *u)
{
    uint32_t done = 0;

    time_begin(w);
    for (uint32_t i = 0; i < u->rows; i++)
        done += (uint32_t)stk_run_row(w, u, i);
    w->m.row_from = 0; /* its bytes may be on their way */
    time_rest(w);
    return done;
}

static int immediate_row(stk_row *x, stk_error *err)
{
    STK_TRY(x->table->begin(x, err));
    for (x->output = 0; x->output < x->table->n_out; x->output++)
        STK_TRY(x->table->out[x->output].work->make(x, err));
    x->table->note(x);
    x->m->bytes += x->table->row_bytes;
    x->m->rows++;
    return 0;
}

/* Rows that never wait: done or failed when it returns.  While one is made, bytes of the next one
 * are fetched into the processor's cache. */
static uint32_t run_immediate(stk_worker *w, const stk_run *u)
{
    stk_engine *e = w->engine;
    const stk_row_table *t = u->slot->table;
    stk_row x = stk_run_start(w, u);
    stk_error err;

    w->m.ticket = u->ticket;
    if (u->rows > 1 && t->expect)
        t->expect(e->plan, u->where, u->rows);
    for (uint32_t i = 0; i < u->rows; i++) {
        int rc;

        if (atomic_load_explicit(&e->draining, memory_order_relaxed))
            break;
        w->m.next = (stk_bytes){ 0 };
        if (t->next && i + 1 < u->rows) {
            x.position = u->position[i + 1];
            x.where = u->where[i + 1];
            w->m.next = t->next(&x);
        }
        x.row = u->row + i;
        x.position = u->position[i];
        x.where = u->where[i];
        stk_error_clear(&err);
        rc = immediate_row(&x, &err);
        if (rc == 0)
            continue;
        if (e->schedule->tickets != STK_TICKET_BIN && u->where[i].dataset < e->schedule->n_data)
            err.sample = stk_schedule_id(e->schedule, &u->where[i]);
        stk_ring_fail(e, u->slot, u->row + i, rc, &err);
    }
    stk_scratch_settle(&w->m.scratch);
    time_mean(w, u->rows);
    return u->rows;
}

/* The index is asked for before rows are. */
void stk_run_find(const stk_engine *e, stk_run *u)
{
    const stk_slot *s = u->slot;

    if (s->list.position)
        memcpy(u->position, s->list.position + u->row, u->rows * sizeof *u->position);
    else
        stk_schedule_positions(e->schedule, &s->share, u->row, u->rows, u->position);
    if (e->schedule->tickets != STK_TICKET_BIN) /* else they are rows of several samples */
        stk_schedule_at(e->schedule, s->epoch, u->position, u->rows, u->where);
    for (uint32_t i = 0; i < u->rows && s->table->run != STK_RUN_IMMEDIATE; i++)
        if (u->where[i].dataset < e->plan->data.n) {
            const stk_dataset *ds = e->plan->data.set[u->where[i].dataset];

            if (ds->ops->prefetch)
                ds->ops->prefetch(ds, u->where[i].sample);
        }
}

/* How many tickets; 0: none are open. */
static uint32_t run_claim(stk_worker *w)
{
    static uint32_t (*const runs[])(stk_worker *, const stk_run *) = {
        [STK_RUN_REQUESTS] = run_requests,   [STK_RUN_PEEKS] = run_peeks,
        [STK_RUN_BLOCKS] = stk_run_blocks,   [STK_RUN_SPANS] = stk_run_spans,
        [STK_RUN_IMMEDIATE] = run_immediate,
    };
    stk_engine *e = w->engine;
    uint32_t n, done;
    stk_run u;

    n = stk_claim(e, stk_claim_size(e), &u.ticket);
    if (!n)
        return 0;
    stk_stall_at(&e->plan->policy.stall, STK_STALL_CLAIM, u.ticket);
    u.slot = stk_slot_of(e, u.ticket);
    assert(u.slot->batch && u.slot->table);
    u.row = (uint32_t)(u.ticket % e->tickets);
    u.rows = u.row >= stk_slot_tickets(u.slot) ? 0 : stk_slot_tickets(u.slot) - u.row;
    u.rows = u.rows < n ? u.rows : n;
    assert(u.rows <= STK_MAX_CHUNK || u.slot->table->run == STK_RUN_SPANS);
    if (u.rows && u.slot->table->run != STK_RUN_SPANS)
        stk_run_find(e, &u);
    stk_does(&w->m, u.slot->table->run == STK_RUN_REQUESTS ? STK_STAGE_FETCH : STK_STAGE_VALUE,
             u.ticket);
    done = runs[u.slot->table->run](w, &u);
    stk_stall_at(&e->plan->policy.stall, STK_STALL_DONE, u.ticket);
    time_done(w, u.slot, done + (n - u.rows), u.ticket);
    return n;
}

/* Rows of remote data are begun many at a time, so that bytes of neighbours come by one request. */
static int claim_remote(stk_worker *w)
{
    stk_engine *e = w->engine;
    uint32_t rows = 0, n;
    int many;

    stk_mutex_lock(&e->lock);
    many = stk_claim_many_locked(e);
    stk_mutex_unlock(&e->lock);
    if (!many)
        return 0;
    w->plugged = 1;
    do {
        n = own_request(w) ? run_claim(w) : 0;
        rows += n;
    } while (n && rows < STK_REMOTE_ROWS && stk_in_flight_room(e) &&
             atomic_load_explicit(&e->cold, memory_order_relaxed));
    w->plugged = 0;
    stk_plug_flush(&w->plug);
    return rows != 0;
}

static int claim_more(stk_worker *w)
{
    if (w->engine->plan->data.remote)
        return claim_remote(w);
    return own_request(w) && run_claim(w);
}

int stk_worker_step(stk_worker *w)
{
    stk_engine *e = w->engine;

    if (w->polled)
        return step_polled(w);
    if (atomic_load_explicit(&e->cold, memory_order_relaxed) &&
        atomic_load_explicit(&e->inflight, memory_order_relaxed) <
            atomic_load_explicit(&e->tune.depth, memory_order_relaxed) &&
        claim_more(w))
        return 1;
    if (stk_worker_take_arrived(w))
        return 1;
    if (claim_more(w))
        return 1;
    if (e->plan->io.inline_mode && atomic_load_explicit(&e->inflight, memory_order_relaxed))
        for (uint32_t i = 0; i < e->plan->io.n_driven; i++)
            e->plan->io.driven[i]->drive(1);
    return 0;
}

/* ---- a row once more, by the consumer ---- */

static void repair_arrived(stk_request *r)
{
    stk_engine *e = r->owner;

    stk_mutex_lock(&e->lock);
    atomic_fetch_sub_explicit(&e->inflight, 1, memory_order_relaxed);
    r->next = r; /* no one else uses it: only a sign */
    pthread_cond_broadcast(&e->ready);
    stk_mutex_unlock(&e->lock);
}

static void repair_wait(stk_engine *e, const stk_request *r)
{
    struct timespec soon = stk_in_ms(10);

    stk_mutex_lock(&e->lock);
    while (!r->next && stk_cond_timedwait(&e->ready, &e->lock, &soon) == 0) {}
    stk_mutex_unlock(&e->lock);
}

/* Made by the CPU, where every picture ends; reads that must wait are waited for here. */
int stk_worker_redecode(stk_worker *w, stk_slot *s, uint32_t row, stk_error *err)
{
    stk_engine *e = w->engine;
    stk_request *r = w->req;
    int rc, arrived = 0;

    w->synchronous = 1;
    r->arrived = repair_arrived;
    r->next = NULL;
    r->row.ticket = s->seq * e->tickets + row;
    r->row.attempt = 0;
    r->row.whole = 0;
    r->row.table = e->plan->rows.repair;
    r->entry.key.data = NULL;
    if (s->list.position)
        r->row.position = s->list.position[row];
    else
        stk_schedule_positions(e->schedule, &s->share, row, 1, &r->row.position);
    stk_schedule_at(e->schedule, s->epoch, &r->row.position, 1, &r->where);
    for (; !row_run(w, r, arrived); arrived = 1) {
        while (!r->next) {
            for (uint32_t i = 0; i < e->plan->io.n_driven && e->plan->io.inline_mode; i++)
                e->plan->io.driven[i]->drive(1);
            repair_wait(e, r);
        }
        r->next = NULL;
    }
    stk_mutex_lock(&e->lock);
    rc = s->rc;
    if (rc < 0 && err)
        *err = s->err;
    stk_mutex_unlock(&e->lock);
    return rc;
}

static int can_work_locked(stk_engine *e, const stk_worker *w) STK_REQUIRES(e->lock)
{
    uint64_t t = atomic_load_explicit(&e->claim, memory_order_acquire) &
                 (((uint64_t)1 << STK_TICKET_BITS) - 1);

    if (atomic_load_explicit(&e->n_arrived, memory_order_relaxed))
        return 1;
    if (t >= atomic_load_explicit(&e->limit, memory_order_acquire))
        return 0;
    if (e->plan->data.remote)
        return stk_claim_many_locked(e);
    return w->req || e->requests.idle || e->requests.n < e->requests.max;
}

void *stk_worker_main(void *arg)
{
    stk_worker *w = arg;
    stk_engine *e = w->engine;
    int stop = 0, reads;

    atomic_store_explicit(&w->tid, (uint32_t)gettid(), memory_order_relaxed);
    stk_halt_enter(&e->io.halt);
    if (e->plan->io.bound)
        stk_cpu_bind(e->plan->io.node, e->workers.want);
    w->m.last = stk_ticks();
    while (!stop) {
        while (w->number < atomic_load_explicit(&e->workers.active, memory_order_relaxed) &&
               stk_worker_step(w)) {}
        stk_does(&w->m, STK_STAGE_IDLE, 0);
        stk_mutex_lock(&e->lock);
        for (;;) {
            int parked = w->number >=
                         atomic_load_explicit(&e->workers.active, memory_order_relaxed);

            if (e->stop || (!parked && can_work_locked(e, w)))
                break;
            reads = !parked && atomic_load_explicit(&e->inflight, memory_order_relaxed);
            e->workers.n_resting++;
            stk_cond_wait(parked ? &e->parked : &e->work, &e->lock);
            e->workers.n_resting--;
            if (reads)
                time_reads(w);
        }
        stop = e->stop;
        stk_mutex_unlock(&e->lock);
        stk_stage_time_row(&w->m, STK_STAGE_IDLE);
    }
    return NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* engine.c - threads up and down, and the consumer's side: take the next slot, seek, stop. */
#include "pipe/engine.h"
#include "base/size.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/proc.h"
#include "base/thread.h"
#include "store/remote.h"

static uint32_t workers_of(const stk_engine *e)
{
    return atomic_load_explicit(&e->workers.n, memory_order_relaxed);
}

static int worker_add_locked(stk_engine *e, stk_error *err) STK_REQUIRES(e->lock)
{
    uint32_t n = workers_of(e);
    stk_worker *w = NULL;

    STK_TRY(stk_worker_open_locked(&w, e, n, err));
    if (!e->plan->io.inline_mode &&
        stk_thread_start(&w->thread, stk_worker_main, w, "stk-worker") != 0) {
        stk_worker_close(&w);
        return stk_fail(err, STK_ENOMEM, "no thread could be started for worker %u", n);
    }
    e->workers.worker[n] = w; /* from here on its figures are read, until close */
    atomic_store_explicit(&e->workers.n, n + 1, memory_order_release);
    return 0;
}

/* More threads if there are fewer than n; those past n park. */
static int workers_set_locked(stk_engine *e, uint32_t n, stk_error *err) STK_REQUIRES(e->lock)
{
    int rc = 0;

    assert(n && n <= STK_MAX_WORKERS);
    while (rc == 0 && workers_of(e) < n)
        rc = worker_add_locked(e, err);
    if (rc == 0)
        atomic_store_explicit(&e->workers.active, n, memory_order_relaxed);
    atomic_store_explicit(&e->plan->memory.ration->keep,
                          (size_t)(e->plan->memory.ration->account.limit / 8 / n),
                          memory_order_relaxed);
    pthread_cond_broadcast(&e->work);
    pthread_cond_broadcast(&e->parked);
    return rc;
}

static void *completion_main(void *device)
{
    stk_device_complete(device);
    return NULL;
}

int stk_engine_start(stk_engine *e, stk_error *err)
{
    int rc = 0;

    if (atomic_load_explicit(&e->workers.active, memory_order_relaxed))
        return 0;
    rc = stk_io_start(e, err); /* what a failed start left is gone on with */
    if (rc == 0 && e->plan->gpu.device && !e->gpu.completing) {
        if (stk_thread_start(&e->gpu.completion_thread, completion_main, e->plan->gpu.device,
                             "stk-complete") != 0)
            return stk_fail(err, STK_ENOMEM, "no thread could be started for the GPU");
        e->gpu.completing = 1;
    }
    if (rc == 0 && e->plan->cache.arrays)
        STK_TRY(stk_array_upload_start(&e->gpu.upload, err));
    stk_mutex_lock(&e->lock);
    if (rc == 0)
        rc = workers_set_locked(e, e->plan->io.inline_mode ? 1 : e->workers.want, err);
    stk_mutex_unlock(&e->lock);
    return rc;
}

int stk_engine_set_workers(stk_engine *e, uint32_t n, stk_error *err)
{
    e->tune.workers = 0;
    return stk_engine_workers(e, n, err);
}

int stk_engine_workers(stk_engine *e, uint32_t n, stk_error *err)
{
    int rc = 0;

    if (n < 1 || n > STK_MAX_WORKERS || e->plan->io.inline_mode)
        return stk_fail(
            err, STK_EINVAL,
            "a running loader has 1 to %d workers (and none with num_workers=0), not %u",
            STK_MAX_WORKERS, n);
    e->workers.want = n;
    stk_mutex_lock(&e->lock);
    if (n > e->requests.max - e->plan->io.depth) {
        stk_request **heap = stk_grow(e->requests.arrived, e->requests.max * sizeof *heap,
                                      (n + e->plan->io.depth) * sizeof *heap);

        if (heap) {
            e->requests.arrived = heap;
            e->requests.max = n + e->plan->io.depth;
        } else {
            rc = stk_fail_nomem(err, n * sizeof *heap);
        }
    }
    if (rc == 0 && workers_of(e))
        rc = workers_set_locked(e, n, err);
    stk_mutex_unlock(&e->lock);
    return rc;
}

/* Slots past n that are open stay so until they are taken; more are opened when the consumer
 * comes. */
int stk_engine_set_ahead(stk_engine *e, uint32_t n, stk_error *err)
{
    if (n < 1 || n > e->n_slots)
        return stk_fail(
            err, STK_EINVAL,
            "this loader makes 1 to %u batches ahead (prefetch and memory_limit set the "
            "most), not %u",
            e->n_slots, n);
    atomic_store_explicit(&e->tune.ahead, 0, memory_order_relaxed);
    atomic_store_explicit(&e->figures.ahead, n, memory_order_relaxed);
    return 0;
}

static int held_too_many(stk_engine *e, int rc, stk_error *err)
{
    stk_account *a = stk_pool_account(e->plan->outputs.common->pool);

    if (rc != STK_ELIMIT)
        return rc;
    return stk_fail(
        err, STK_ELIMIT,
        "you hold %u batches, %" PRIu64 " MB of memory_limit's %" PRIu64 " MB: let some go, copy "
        "what you keep, or raise memory_limit",
        stk_engine_held(e), stk_size_mb(atomic_load_explicit(&a->used, memory_order_relaxed)),
        stk_size_mb(a->limit));
}

static int passed(const struct timespec *t)
{
    struct timespec now = stk_in_ms(0);

    return now.tv_sec > t->tv_sec || (now.tv_sec == t->tv_sec && now.tv_nsec >= t->tv_nsec);
}

int stk_worker_step_locked(stk_engine *e) STK_REQUIRES(e->lock)
{
    const stk_halt *was;
    stk_asking asking;
    struct timespec soon;
    int did;

    stk_mutex_unlock(&e->lock);
    was = stk_halt_enter(&e->io.halt);
    /* what it asks may want the loader, which is in the middle of this */
    asking = stk_thread_hush();
    did = stk_worker_step(e->workers.worker[0]);
    stk_thread_ask(asking.asked, asking.cookie);
    stk_halt_enter(was);
    stk_mutex_lock(&e->lock);
    if (did || atomic_load_explicit(&e->n_arrived, memory_order_relaxed))
        return did;
    soon = stk_in_ms(1); /* others have to move: a stage, or a source with threads of its own */
    stk_cond_timedwait(&e->ready, &e->lock, &soon);
    return 0;
}

/* Until a slot is ready, `until` has passed (NULL: never), or the wait is to be logged.  1:
 * passed. */
static int sleep_locked(stk_engine *e, const struct timespec *until) STK_REQUIRES(e->lock)
{
    uint64_t most = e->plan->policy.wait_ns / 1000000;
    struct timespec soon = stk_in_ms(most < 1000 ? (int)most : 1000);

    if (until && (until->tv_sec < soon.tv_sec ||
                  (until->tv_sec == soon.tv_sec && until->tv_nsec < soon.tv_nsec)))
        return stk_cond_timedwait(&e->ready, &e->lock, until) == ETIMEDOUT;
    stk_cond_timedwait(&e->ready, &e->lock, &soon);
    return until && passed(until);
}

/* Wait for the slot at the tail.  Takes the lock, returns with it held in every case. */
static int wait_slot_locked(stk_engine *e, int timeout_ms, stk_error *err) STK_REQUIRES(e->lock)
{
    stk_slot *s = stk_tail_slot(e);
    struct timespec until = stk_in_ms(timeout_ms > 0 ? timeout_ms : 0);
    int rc, timed_out = 0;

    for (;;) {
        rc = stk_ring_open_locked(e, err);
        if (stk_head(e) == stk_tail(e))
            return held_too_many(e, rc, err);
        if (s->state == STK_SLOT_READY)
            return 0;
        e->consumer.wanted = 1;
        e->consumer.waits_from = stk_now_ns();
        stk_wait_begin(e, e->consumer.waits_from);
        if (e->plan->io.inline_mode)
            timed_out = !stk_worker_step_locked(e) && timeout_ms >= 0 && passed(&until);
        else
            timed_out = sleep_locked(e, timeout_ms < 0 ? NULL : &until);
        e->consumer.waits_from = 0;
        if (s->state != STK_SLOT_READY)
            stk_wait_look_locked(e, stk_now_ns());
        if (timed_out && s->state != STK_SLOT_READY)
            return stk_fail(err, STK_ETIMEOUT, "no batch within %d ms", timeout_ms);
    }
}

/* What of next() is waiting for data: nothing, and no look at the clock, when a batch is ready. */
static int wait_ready_locked(stk_engine *e, int timeout_ms, stk_error *err) STK_REQUIRES(e->lock)
{
    int rc = wait_slot_locked(e, timeout_ms, err);

    if (rc == STK_ETIMEOUT)
        stk_wait_pause(e);
    else
        stk_wait_end(e);
    return rc;
}

/* The slot at the tail falls free and its batch is held.  If it failed, it stays where it is, and
 * the call after this one makes it again: the consumer's place counts what was handed out. */
static int hold_locked(stk_engine *e, stk_error *err) STK_REQUIRES(e->lock)
{
    stk_slot *s = stk_tail_slot(e);

    assert(s->state == STK_SLOT_READY && s->seq == stk_tail(e));
    assert(!e->consumer.held.batch); /* what was held was handed out */
    if (s->rc < 0) {
        if (err)
            *err = s->err;
        e->consumer.wanted = 0;
        e->consumer.held.failed = 1;
        return s->rc;
    }
    e->consumer.held = (stk_held){ .batch = s->batch,
                                   .epoch = s->epoch,
                                   .step = s->step,
                                   .start = s->share.start,
                                   .count = s->share.count,
                                   .samples = stk_slot_tickets(s),
                                   .skipped = atomic_load_explicit(&s->skipped,
                                                                   memory_order_relaxed) };
    s->batch = NULL;
    s->state = STK_SLOT_FREE;
    e->consumer.wanted = 0;
    stk_ready_locked(e, -1);
    stk_count(&e->figures.tail, 1);
    stk_ring_open_locked(
        e, NULL); /* the place that fell free is worked on while the consumer trains */
    return 0;
}

/* Write down the batch that is held, before it is handed out.  When that fails it stays held. */
static int note(stk_engine *e, stk_error *err)
{
    const stk_held *h = &e->consumer.held;
    stk_ledger_row row = { .epoch = h->epoch,
                           .step = h->step,
                           .start = h->start,
                           .count = h->count,
                           .rows = h->batch->rows,
                           .ids = h->batch->ids,
                           .valid = h->batch->valid };

    uint64_t from, ns;
    int rc;

    assert(h->batch);
    if (!e->consumer.ledger)
        return 0;
    from = stk_now_ns();
    rc = stk_ledger_writer_add(e->consumer.ledger, &row, err);
    ns = stk_now_ns() - from;
    stk_count(&e->figures.ledger_ns, ns);
    stk_count(&e->figures.next_ns, ns);
    return rc;
}

/* Rows whose pictures the GPU could not make: once more by the CPU, whose pixels, error or stand-in
 * then count.  The slot is READY, so no one else touches it. */
static int repair(stk_engine *e, stk_slot *s, stk_error *err)
{
    stk_batch *b = s->batch;
    int rc = 0;

    assert(b && s->state == STK_SLOT_READY);

    for (uint32_t row = 0; row < b->rows && rc == 0; row++) {
        if (!b->bad[row])
            continue;
        rc = stk_worker_redecode(e->consumer.repair_worker, s, row, err);
        if (rc == 0)
            rc = stk_device_repair(e->plan->gpu.device, b, row, err);
    }
    if (rc == 0)
        rc = stk_device_repaired(e->plan->gpu.device, b, err);
    stk_free(b->bad);
    b->bad = NULL;
    return rc;
}

static void repair_locked(stk_engine *e) STK_REQUIRES(e->lock)
{
    stk_slot *s = stk_tail_slot(e);
    stk_error why;
    uint64_t from;
    int rc = 0;

    if (s->rc < 0 || !s->batch->bad)
        return;
    from = stk_now_ns();
    stk_error_clear(&why);
    if (!e->consumer.repair_worker) /* its request counts among those of the workers */
        rc = stk_worker_open_locked(&e->consumer.repair_worker, e, STK_MAX_WORKERS, &why);
    stk_mutex_unlock(&e->lock);
    if (rc == 0)
        rc = repair(e, s, &why);
    if (rc < 0)
        stk_ring_fail(e, s, 0, rc, &why); /* where no row has spoken yet */
    stk_count(&e->figures.repair_ns, stk_now_ns() - from);
    stk_mutex_lock(&e->lock);
}

/* Of the consumer's epoch, which may have been entered midway. */
static uint64_t epoch_steps(const stk_engine *e)
{
    return e->consumer.epoch == e->base.epoch ? e->base.first + e->base.steps
                                              : stk_schedule_steps(e->schedule, e->consumer.epoch);
}

/* Which thread consumes; its number is asked for when it is another one than before. */
static void note_consumer(stk_engine *e)
{
    uint64_t self = (uint64_t)(uintptr_t)pthread_self(), ran, delayed;

    if (atomic_load_explicit(&e->figures.consumer, memory_order_relaxed) == self)
        return;
    atomic_store_explicit(&e->figures.consumer, self, memory_order_relaxed);
    stk_proc_thread((uint32_t)gettid(), &ran, &delayed);
    atomic_store_explicit(&e->figures.consumer_ns, ran + delayed, memory_order_relaxed);
    atomic_store_explicit(&e->figures.consumer_tid, (uint32_t)gettid(), memory_order_relaxed);
}

/* Are the files of an epoch that begins, or of one that is gone on with, those that were opened?
 * Also before a batch is held: what was read of a map that was torn since is not handed out. */
static int look_at_files(stk_engine *e, stk_error *err)
{
    const stk_plan_data *data = &e->plan->data;
    uint64_t tears = stk_guarded_tears();

    if (e->figures.looked == e->consumer.epoch + 1 && e->figures.tears == tears)
        return 0;
    for (uint32_t i = 0; i < data->n; i++)
        if (data->set[i]->ops->trust.unchanged)
            STK_TRY(data->set[i]->ops->trust.unchanged(data->set[i], err));
    e->figures.looked = e->consumer.epoch + 1;
    e->figures.tears = tears;
    return 0;
}

/* Drop what is in the ring and the batch that is held, and begin at the cursor.  After a failure
 * data that keeps failures of its own forgets them. */
static void start_at(stk_engine *e, const stk_cursor *c)
{
    const stk_dataset *d = e->plan->data.n ? e->plan->data.set[0] : NULL;
    uint64_t position = c->steps ? c->from : 0;
    int failed = e->consumer.held.failed;
    stk_where where;

    stk_ring_drain(e);
    stk_wait_end(e);
    e->base = e->ahead = *c;
    e->consumer.held.failed = 0;
    if (!failed || !d || !d->ops->wait.retry)
        return;
    stk_schedule_at(e->schedule, c->epoch + !c->steps, &position, 1, &where);
    d->ops->wait.retry(d, where.sample);
}

/* The batch that comes next and all that were made ahead are made again.  Reads that are in flight
 * end early: no one waits for them any more. */
int stk_engine_again(stk_engine *e, stk_error *err)
{
    stk_cursor c;

    STK_TRY(stk_schedule_enter(e->schedule, e->consumer.epoch, stk_engine_position(e), &c, err));
    stk_halt_set(&e->io.halt, 1);
    stk_source_look();
    start_at(e, &c);
    stk_halt_set(&e->io.halt, 0);
    atomic_store_explicit(&e->bad.of_epoch[e->consumer.epoch % STK_EPOCHS], e->bad.of_this,
                          memory_order_relaxed);
    assert(!c.steps || c.first == e->consumer.taken);
    return 0;
}

/* The second half of an epoch prepares the next one, step by step, and has done so before it
 * ends. */
static void expect_next(const stk_engine *e)
{
    uint64_t steps = epoch_steps(e), half = steps / 2, taken = e->consumer.taken;

    if (taken >= half)
        stk_schedule_expect(e->schedule, e->consumer.epoch + 1, taken - half + 1,
                            (steps - half) * 3 / 4 + 1);
}

int stk_engine_peek(stk_engine *e, int timeout_ms, stk_error *err)
{
    uint64_t from, ticks = e->figures.trace.on ? stk_ticks() : 0;
    int rc;

    if (e->consumer.taken >= epoch_steps(e))
        return STK_END;
    if (e->consumer.held.batch)
        return 0;
    from = stk_now_ns();
    if (e->consumer.held.failed)
        STK_TRY(stk_engine_again(e, err));
    note_consumer(e);
    STK_TRY(look_at_files(e, err));
    STK_TRY(stk_engine_start(e, err));
    stk_tune_look(e, from);
    if (e->plan->io.inline_mode)
        stk_stage_time_row(&e->workers.worker[0]->m, STK_STAGE_IDLE); /* the caller was elsewhere */
    stk_stall_at(&e->plan->policy.stall, STK_STALL_TAKE,
                 (e->consumer.epoch << 32) + e->consumer.taken);
    expect_next(e); /* while workers work */
    stk_range(e, "stoker wait");
    stk_mutex_lock(&e->lock);
    rc = wait_ready_locked(e, timeout_ms, err);
    if (rc == 0)
        repair_locked(e);
    if (rc == 0)
        rc = look_at_files(e, err);
    if (rc == 0)
        rc = hold_locked(e, err);
    stk_mutex_unlock(&e->lock);
    stk_range(e, NULL);
    stk_count(&e->figures.next_ns, stk_now_ns() - from);
    if (ticks)
        stk_trace_next(e, ticks, stk_ticks());
    return rc;
}

int stk_engine_next(stk_engine *e, stk_batch **out, int timeout_ms, stk_error *err)
{
    int rc = stk_engine_peek(e, timeout_ms, err);

    *out = NULL;
    if (rc == STK_END) {
        e->consumer.taken = 0;
        e->bad.of_this = 0;
        e->consumer.epoch++;
        stk_engine_note_fill(e);
        stk_learn_save(e, 0);
    }
    if (rc != 0)
        return rc;
    STK_TRY(note(e, err));
    *out = e->consumer.held.batch;
    e->consumer.held.batch = NULL;
    e->consumer.taken++;
    stk_count(&e->figures.batches, 1);
    stk_count(&e->figures.handed_out, e->consumer.held.samples);
    stk_count(&e->bad.skipped, e->consumer.held.skipped);
    e->bad.of_this += e->consumer.held.skipped;
    if (!atomic_load_explicit(&e->figures.first_batch_ns, memory_order_relaxed)) {
        stk_count(&e->figures.first_wait_ns,
                  atomic_load_explicit(&e->figures.data_wait_ns, memory_order_relaxed));
        stk_count(&e->figures.first_batch_ns, stk_now_ns() - e->figures.opened_ns);
    }
    return 0;
}

uint64_t stk_engine_position(const stk_engine *e)
{
    stk_rank_split d = stk_schedule_split(e->schedule, e->consumer.epoch);
    uint64_t at = e->consumer.taken * d.global;

    if (e->consumer.epoch == e->base.epoch)
        at = e->base.from + (e->consumer.taken - e->base.first) * d.global;
    return at < d.samples ? at : d.samples;
}

/* What comes next: the epoch and the position at which the batch that is held, or the slot at the
 * tail, begins. */
static void tail_place(const stk_engine *e, uint64_t *epoch, uint64_t *position)
{
    const stk_slot *s = &e->slot[stk_tail(e) % e->n_slots];
    const stk_cursor *a = &e->ahead;
    int over = a->at == a->steps, open = stk_open_slots(e) != 0;

    *epoch = e->consumer.held.batch ? e->consumer.held.epoch
             : open                 ? s->epoch
                                    : a->epoch + (uint64_t)over;
    *position = e->consumer.held.batch ? e->consumer.held.start
                : open                 ? s->share.start
                : over                 ? 0
                                       : a->from + a->at * e->schedule->split.global;
}

int stk_engine_seek(stk_engine *e, uint64_t epoch, uint64_t position, stk_error *err)
{
    uint64_t tail_epoch, tail_at;
    stk_cursor c;

    STK_TRY(stk_schedule_enter(e->schedule, epoch, position, &c, err));
    tail_place(e, &tail_epoch, &tail_at);
    if (tail_epoch != epoch + !c.steps || tail_at != (c.steps ? position : 0)) {
        start_at(e, &c);
        e->bad.of_this = 0;
    } /* else that is what comes next anyway */
    e->consumer.epoch = epoch;
    e->consumer.taken = c.steps ? c.first : epoch_steps(e);
    stk_engine_note_fill(e);
    return 0;
}

/* What is counted: windows and packed rows where there are some, not the tokens of the files; of an
 * epoch 0 where that differs from one to the next. */
int stk_engine_ledger(stk_engine *e, const char *folder, const ldg_head *from, stk_error *err)
{
    uint64_t dealt = stk_schedule_split(e->schedule, from->epoch).samples;
    ldg_head head = { .rank = e->schedule->split.rank,
                      .world = e->schedule->split.world,
                      .max_rows = e->plan->outputs.common->batch,
                      .generation = from->generation,
                      .global = e->schedule->split.global,
                      .seed = e->plan->policy.seed,
                      .epoch = from->epoch,
                      .position = from->position,
                      .samples = dealt == e->schedule->positions ? dealt : 0 };
    stk_ledger_writer *w = NULL;

    if (folder && e->consumer.ledger &&
        stk_ledger_writer_is(e->consumer.ledger, folder, from->generation))
        return 0;
    if (folder) {
        STK_TRY(stk_plan_print(e->plan, e->schedule, &head.data, err));
        head.data.samples = e->schedule->start[e->plan->data.n];
        STK_TRY(stk_ledger_writer_open(&w, folder, &head, err));
    }
    stk_ledger_writer_close(&e->consumer.ledger);
    e->consumer.ledger = w;
    return 0;
}

static void stop(stk_engine *e)
{
    stk_halt_set(&e->io.halt, 1);
    stk_source_look();
    stk_ring_drain(e);
    stk_mutex_lock(&e->lock);
    e->stop = 1;
    pthread_cond_broadcast(&e->work);
    pthread_cond_broadcast(&e->parked);
    stk_mutex_unlock(&e->lock);
    for (uint32_t i = 0; i < workers_of(e) && !e->plan->io.inline_mode; i++)
        pthread_join(e->workers.worker[i]->thread, NULL);
    stk_io_stop(e);
    stk_array_upload_stop(&e->gpu.upload);
    if (e->gpu.completing) {
        stk_device_shut(e->plan->gpu.device);
        pthread_join(e->gpu.completion_thread, NULL);
    }
    for (uint32_t i = 0; i < workers_of(e); i++)
        stk_worker_close(&e->workers.worker[i]);
    stk_worker_close(&e->consumer.repair_worker);
    stk_trace_close(e);
    while (e->requests.idle) {
        stk_request *r = e->requests.idle;

        e->requests.idle = r->next;
        stk_request_close(&r);
    }
}

static void init_locks(stk_engine *e)
{
    pthread_condattr_t mono;

    pthread_condattr_init(&mono);
    pthread_condattr_setclock(&mono, CLOCK_MONOTONIC);
    stk_mutex_init(&e->lock);
    stk_mutex_init(&e->io.lock);
    stk_mutex_init(&e->figures.wait.lock);
    pthread_cond_init(&e->work, &mono);
    pthread_cond_init(&e->parked, NULL);
    pthread_cond_init(&e->io.work, NULL);
    pthread_cond_init(&e->io.drive_work, NULL);
    pthread_cond_init(&e->io.retry_work, &mono);
    stk_io_async(e);
    pthread_cond_init(&e->ready, &mono);
    pthread_condattr_destroy(&mono);
}

int stk_engine_open(stk_engine *e, const stk_plan *plan, stk_error *err)
{
    e->plan = plan;
    e->schedule = plan->schedule;
    e->tickets = plan->batching.tickets;
    e->n_slots = plan->memory.slots;
    e->claim_size = plan->io.inline_mode && plan->data.n && plan->data.set[0]->ops->wait.poll
                        ? 1 /* a row that waits is the only one that is begun */
                        : plan->batching.claim_size;
    e->gpu.upload.cache = plan->cache.arrays;
    e->gpu.upload.move = plan->cache.move;
    e->gpu.upload.n = plan->cache.n_moves;
    e->gpu.upload.log = plan->policy.log;
    stk_tune_open(e);
    assert(e->tickets && e->claim_size && e->n_slots && e->n_slots <= STK_MAX_SLOTS);
    init_locks(e);
    e->workers.want = plan->io.workers;
    e->requests.max = plan->io.workers + plan->io.depth;
    e->ahead.steps = e->base.steps = stk_schedule_steps(e->schedule, 0);
    e->requests.arrived = stk_zalloc(e->requests.max, sizeof *e->requests.arrived);
    e->io.thread = stk_zalloc(plan->io.threads, sizeof *e->io.thread);
    e->bad.list = stk_zalloc(STK_LISTED_SKIPS, sizeof *e->bad.list);
    if (!e->requests.arrived || !e->io.thread || !e->bad.list)
        return stk_fail_nomem(err, STK_LISTED_SKIPS * sizeof *e->bad.list);
    stk_engine_note_fill(e);
    return stk_ring_plan(e, err);
}

#define GIVEN_UP_NS ((uint64_t)10 * 1000000000u)
#define SOON_NS 1000000000u
#define SHORT_NS 250000 /* of a pause between looks */

/* The first worker that stays in a decoder; STK_END: all come back.  A library that never returns
 * can't be ended, so it would hold up whoever closes the loader without limit. */
static int find_lost(const stk_engine *e, uint32_t *lost)
{
    const uint64_t from = stk_now_ns();
    stk_doing was, now;

    for (uint32_t i = 0; stk_engine_doing(e, i, &was) == 0; i++) {
        struct timespec pause = { 0, SHORT_NS };

        for (now = was; now.stage == STK_STAGE_DECODE && now.ticket == was.ticket;
             stk_engine_doing(e, i, &now)) {
            if (stk_now_ns() - from > GIVEN_UP_NS) {
                *lost = i;
                return 0;
            }
            nanosleep(&pause, NULL);
            pause.tv_nsec = stk_now_ns() - from < SOON_NS ? SHORT_NS : 20 * SHORT_NS;
        }
    }
    return STK_END;
}

/* Ends what listens.  Memory stays, as a thread may still come back to it. */
static void give_up(stk_engine *e, uint32_t lost)
{
    stk_log_line(&e->plan->policy.log, STK_LOG_WARN,
                 "closing gave up worker %u, which has been in a decoder for over 10 s: its thread "
                 "and the loader's memory stay until the process ends",
                 lost);
    stk_halt_set(&e->io.halt, 1);
    stk_mutex_lock(&e->lock);
    e->stop = 1;
    pthread_cond_broadcast(&e->work);
    pthread_cond_broadcast(&e->parked);
    stk_mutex_unlock(&e->lock);
}

int stk_engine_close(stk_engine *e)
{
    uint32_t lost;

    atomic_store_explicit(&e->limit, 0, memory_order_release); /* no more rows are begun */
    if (!e->plan->io.inline_mode && find_lost(e, &lost) == 0) {
        give_up(e, lost);
        return STK_END;
    }
    stop(e);
    stk_learn_save(e, 1);
    for (uint32_t i = 0; i < STK_MAX_SLOTS; i++) {
        stk_free(e->slot[i].list.position);
        stk_free(e->slot[i].list.place);
        stk_free(e->slot[i].list.used);
        stk_free(e->slot[i].list.part);
    }
    stk_free(e->requests.arrived);
    stk_free(e->io.thread);
    stk_free(e->bad.list);
    stk_ledger_writer_close(&e->consumer.ledger);
    stk_mutex_destroy(&e->lock);
    stk_mutex_destroy(&e->io.lock);
    stk_mutex_destroy(&e->figures.wait.lock);
    pthread_cond_destroy(&e->work);
    pthread_cond_destroy(&e->parked);
    pthread_cond_destroy(&e->io.work);
    pthread_cond_destroy(&e->io.drive_work);
    pthread_cond_destroy(&e->io.retry_work);
    pthread_cond_destroy(&e->ready);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* engine.c - threads up and down, and the consumer's side: take the next slot, seek, stop. */
#include "pipe/engine.h"

#include <errno.h>
#include <string.h>

static int worker_add_locked(stk_engine *e, stk_error *err)
{
    stk_worker *w = NULL;

    STK_TRY(stk_worker_open(&w, e, e->n_workers, err));
    e->worker[e->n_workers++] = w;
    if (e->inline_mode || stk_thread_start(&w->thread, stk_worker_main, w, "stk-worker") == 0)
        return 0;
    e->n_workers--;
    stk_worker_close(&w);
    return stk_fail(err, STK_ENOMEM, "no thread could be started for worker %u", e->n_workers);
}

/* More threads if there are fewer than n; those past n park. */
static int workers_set_locked(stk_engine *e, uint32_t n, stk_error *err)
{
    int rc = 0;

    while (rc == 0 && e->n_workers < n)
        rc = worker_add_locked(e, err);
    if (rc == 0)
        atomic_store_explicit(&e->active, n, memory_order_relaxed);
    pthread_cond_broadcast(&e->work);
    pthread_cond_broadcast(&e->parked);
    return rc;
}

int stk_engine_start(stk_engine *e, stk_error *err)
{
    int rc = 0;

    if (atomic_load_explicit(&e->active, memory_order_relaxed))
        return 0;
    rc = stk_io_start(e, err); /* what a failed start left is gone on with */
    pthread_mutex_lock(&e->lock);
    if (rc == 0)
        rc = workers_set_locked(e, e->inline_mode ? 1 : e->want_workers, err);
    pthread_mutex_unlock(&e->lock);
    return rc;
}

int stk_engine_set_workers(stk_engine *e, uint32_t n, stk_error *err)
{
    int rc = 0;

    if (n < 1 || n > STK_MAX_WORKERS || e->inline_mode)
        return stk_fail(
            err, STK_EINVAL,
            "a running loader has 1 to %d workers (and none with num_workers=0), not %u",
            STK_MAX_WORKERS, n);
    e->want_workers = n;
    pthread_mutex_lock(&e->lock);
    if (n > e->max_requests - e->io_depth) {
        stk_request **heap = stk_grow(e->arrived, e->max_requests * sizeof *heap,
                                      (n + e->io_depth) * sizeof *heap);

        if (heap) {
            e->arrived = heap;
            e->max_requests = n + e->io_depth;
        } else {
            rc = stk_fail_nomem(err, n * sizeof *heap);
        }
    }
    if (rc == 0 && e->n_workers)
        rc = workers_set_locked(e, n, err);
    pthread_mutex_unlock(&e->lock);
    return rc;
}

static int held_too_many(stk_engine *e, int rc, stk_error *err)
{
    stk_account *a = stk_pool_account(e->common->pool);

    if (rc != STK_ELIMIT)
        return rc;
    return stk_fail(err, STK_ELIMIT,
                    "you hold %u batches, %" PRIu64 " MB of memory_limit's %" PRIu64
                    " MB: let some go, copy "
                    "what you keep, or raise memory_limit",
                    stk_engine_held(e), atomic_load_explicit(&a->used, memory_order_relaxed) >> 20,
                    a->limit >> 20);
}

struct timespec stk_in_ms(int ms)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += ms % 1000 * 1000000L;
    t.tv_sec += t.tv_nsec / 1000000000L;
    t.tv_nsec %= 1000000000L;
    return t;
}

static int passed(const struct timespec *t)
{
    struct timespec now = stk_in_ms(0);

    return now.tv_sec > t->tv_sec || (now.tv_sec == t->tv_sec && now.tv_nsec >= t->tv_nsec);
}

int stk_worker_step_locked(stk_engine *e)
{
    struct timespec soon;
    int did;

    pthread_mutex_unlock(&e->lock);
    did = stk_worker_step(e->worker[0]);
    pthread_mutex_lock(&e->lock);
    if (did || atomic_load_explicit(&e->n_arrived, memory_order_relaxed))
        return did;
    soon = stk_in_ms(1); /* others have to move: a stage, or a source with threads of its own */
    pthread_cond_timedwait(&e->ready, &e->lock, &soon);
    return 0;
}

/* Wait for the slot at the tail.  Takes the lock, returns with it held in every case. */
static int wait_ready_locked(stk_engine *e, int timeout_ms, stk_error *err)
{
    stk_slot *s = &e->slot[e->tail % e->n_slots];
    struct timespec until = stk_in_ms(timeout_ms > 0 ? timeout_ms : 0);
    int rc, timed_out = 0;

    for (;;) {
        rc = stk_ring_open_locked(e, err);
        if (e->head == e->tail)
            return held_too_many(e, rc, err);
        if (s->state == STK_SLOT_READY)
            return 0;
        if (e->inline_mode) {
            timed_out = !stk_worker_step_locked(e) && timeout_ms >= 0 && passed(&until);
        } else if (timeout_ms < 0) {
            pthread_cond_wait(&e->ready, &e->lock);
        } else {
            timed_out = pthread_cond_timedwait(&e->ready, &e->lock, &until) == ETIMEDOUT;
        }
        if (timed_out && s->state != STK_SLOT_READY)
            return stk_fail(err, STK_ETIMEOUT, "no batch within %d ms", timeout_ms);
    }
}

static int take_locked(stk_engine *e, stk_batch **out, stk_error *err)
{
    stk_slot *s = &e->slot[e->tail % e->n_slots];
    int rc = s->rc;

    if (rc < 0) {
        if (err)
            *err = s->err;
        stk_batch_release(&s->batch);
    } else {
        *out = s->batch;
        s->batch = NULL;
    }
    s->state = STK_SLOT_FREE;
    e->tail++;
    e->taken++;
    e->batches++;
    stk_ring_open_locked(
        e, NULL); /* the place that fell free is worked on while the consumer trains */
    return rc;
}

int stk_engine_next(stk_engine *e, stk_batch **out, int timeout_ms, stk_error *err)
{
    uint64_t from = stk_now_ns();
    int rc;

    *out = NULL;
    if (e->taken == e->steps) {
        e->taken = 0;
        e->epoch++;
        return STK_END;
    }
    STK_TRY(stk_engine_start(e, err));
    if (e->inline_mode)
        stk_lap(e->worker[0], STK_STAGE_IDLE); /* the caller was elsewhere */
    stk_stall_at(&e->stall, STK_STALL_TAKE, e->epoch * e->steps + e->taken);
    pthread_mutex_lock(&e->lock);
    rc = wait_ready_locked(e, timeout_ms, err);
    if (rc == 0)
        rc = take_locked(e, out, err);
    pthread_mutex_unlock(&e->lock);
    e->wait_ns += stk_now_ns() - from;
    if (*out && !e->first_batch_ns)
        e->first_batch_ns = stk_now_ns() - e->opened_ns;
    return rc;
}

int stk_engine_seek(stk_engine *e, uint64_t epoch, uint64_t step, stk_error *err)
{
    uint64_t at;

    if (step > e->steps)
        return stk_fail(err, STK_EINVAL, "step %" PRIu64 " of %" PRIu64 " does not exist", step,
                        e->steps);
    at = e->base_step + e->tail;
    e->epoch = epoch;
    e->taken = step;
    if (e->base_epoch + at / e->steps == epoch + step / e->steps &&
        at % e->steps == step % e->steps)
        return 0; /* that is what comes next anyway */
    stk_ring_drain(e);
    e->base_epoch = epoch + step / e->steps;
    e->base_step = step % e->steps;
    return 0;
}

void stk_engine_stop(stk_engine *e)
{
    stk_ring_drain(e);
    pthread_mutex_lock(&e->lock);
    e->stop = 1;
    pthread_cond_broadcast(&e->work);
    pthread_cond_broadcast(&e->parked);
    pthread_mutex_unlock(&e->lock);
    for (uint32_t i = 0; i < e->n_workers && !e->inline_mode; i++)
        pthread_join(e->worker[i]->thread, NULL);
    stk_io_stop(e);
    for (uint32_t i = 0; i < e->n_workers; i++)
        stk_worker_close(&e->worker[i]);
    while (e->idle) {
        stk_request *r = e->idle;

        e->idle = r->next;
        stk_request_close(&r);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* bad_sample.c - on_error="skip": what becomes of a row whose sample is bad.  Another sample stands
 * in for it; or, where a tool makes every sample once, the row stays empty.  Either way other rows
 * do not move. */
#include <string.h>

#include "pipe/engine.h"

static int is_same(const stk_error *a, const stk_error *b)
{
    return a->sample == b->sample &&
           (a->sample != UINT64_MAX ||
            (a->offset == b->offset && !strcmp(a->shard, b->shard) && !strcmp(a->key, b->key)));
}

/* Each sample once, in however many epochs it is skipped. */
static void record_skip(stk_engine *e, const stk_error *err)
{
    uint32_t n, i = 0;

    stk_mutex_lock(&e->lock);
    n = atomic_load_explicit(&e->bad.n, memory_order_relaxed);
    while (i < n && !is_same(&e->bad.list[i], err))
        i++;
    if (i == n && n < STK_LISTED_SKIPS) {
        e->bad.list[n] = *err;
        atomic_store_explicit(&e->bad.n, n + 1, memory_order_release);
    }
    stk_mutex_unlock(&e->lock);
}

static int skippable(int rc)
{
    return rc == STK_ECORRUPT || rc == STK_ENOTFOUND || rc == STK_ENOTSUP || rc == STK_ELIMIT;
}

static int is_bad_sample(const stk_request *r, const stk_slot *s, int rc)
{
    return s->table->replaceable && !r->index_failed && skippable(rc);
}

int stk_bad_leave(stk_worker *w, const stk_request *r, stk_slot *s, int rc, const stk_error *err)
{
    const stk_leave *leave = &w->engine->plan->policy.leave;
    uint32_t row = (uint32_t)(r->row.ticket % w->engine->tickets);

    if (!leave->fn || !is_bad_sample(r, s, rc))
        return 0;
    atomic_fetch_add_explicit(&s->skipped, 1, memory_order_relaxed);
    s->batch->valid[row] = 0;
    leave->fn(leave->cookie, s->batch, row, err);
    return 1;
}

int stk_bad_stand_in(stk_worker *w, stk_request *r, stk_slot *s, int *rc, stk_error *err)
{
    stk_engine *e = w->engine;
    stk_bad_sample bad = { s->epoch, r->row.position, r->row.attempt + 1, stk_slot_tickets(s),
                           s->list.position };
    uint64_t n;

    if (!is_bad_sample(r, s, *rc))
        return 0;
    record_skip(e, err);
    atomic_fetch_add_explicit(&s->skipped, 1, memory_order_relaxed);
    n = atomic_fetch_add_explicit(&e->bad.of_epoch[s->epoch % STK_EPOCHS], 1,
                                  memory_order_relaxed) +
        1;
    if (e->plan->policy.skip_budget && n > e->plan->policy.skip_budget) {
        *rc = stk_fail(err, STK_ECORRUPT,
                       "more than %" PRIu64
                       " bad samples in this epoch: the skip budget is spent (stats() lists them)",
                       e->plan->policy.skip_budget);
        return 0;
    }
    if (r->row.attempt == STK_MAX_SUBSTITUTES) {
        *rc = stk_fail(err, STK_ECORRUPT,
                       "%d samples in a row that were to stand in for position %" PRIu64
                       " are bad too",
                       STK_MAX_SUBSTITUTES, r->row.position);
        return 0;
    }
    r->row.attempt++;
    s->batch->valid[r->row.ticket % e->tickets] = 0;
    stk_schedule_substitute(e->schedule, &bad, &r->where);
    return 1;
}

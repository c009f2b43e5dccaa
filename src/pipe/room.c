/* SPDX-License-Identifier: Apache-2.0 */
/* room.c - rows that wait for memory.
 *
 * A row waits at two places: before its bytes are read, for room to read them into, and while it is
 * made, for scratch or for room of its own in the batch.  It holds neither reads nor scratch while
 * it waits at the first, and no scratch at the second, so those who have some can end their rows.
 * The ring ends at the row that is waited for, so sooner or later all others are made, and idle:
 * when even then there is no room, there never will be. */
#include "data/shard_data.h"
#include "pipe/engine.h"
#include "video/sessions.h"

#define LOOK_MS 50
#define STUCK_NS 200000000u /* long enough for a thread that was woken to show it */

/* No one can give memory back: every worker is idle or waits for memory itself, nothing is being
 * read, and the consumer waits for a batch that is not made. */
static int nobody_gives(stk_engine *e, const stk_worker *w)
{
    int none;

    if (atomic_load_explicit(&e->inflight, memory_order_relaxed) ||
        atomic_load_explicit(&e->n_arrived, memory_order_relaxed) ||
        atomic_load(&e->plan->memory.ration->over))
        return 0;
    if (e->plan->io.inline_mode)
        return 1;
    stk_mutex_lock(&e->lock);
    none = e->workers.n_resting + atomic_load(&e->n_short) >=
               atomic_load_explicit(&e->workers.n, memory_order_relaxed) +
                   (uint32_t)w->synchronous &&
           (w->synchronous || e->consumer.wanted) && stk_open_slots(e) &&
           (w->synchronous || stk_tail_slot(e)->state == STK_SLOT_FILLING);
    stk_mutex_unlock(&e->lock);
    return none;
}

static int stuck(stk_worker *w)
{
    if (!nobody_gives(w->engine, w)) {
        w->short_since = 0;
        return 0;
    }
    if (w->engine->plan->io.inline_mode)
        return 1;
    if (!w->short_since)
        w->short_since = stk_now_ns();
    return stk_now_ns() - w->short_since > STUCK_NS;
}

/* Take what idle requests, unused blocks and buffers keep.  1: there was some. */
static int trim(stk_engine *e)
{
    int any = stk_cache_trim(e->plan->memory.blocks) | stk_pool_trim(e->plan->outputs.common->pool);

    for (uint32_t i = 0; i < e->plan->data.n; i++)
        if (stk_shard_data_of(e->plan->data.set[i]))
            any |= stk_frames_trim(
                stk_shards_frames(stk_shard_data_of(e->plan->data.set[i])->shards));
    for (uint32_t i = 0; e->plan->rows.sessions && i < e->plan->chains.n_out; i++)
        if (e->plan->rows.sessions[i])
            any |= stk_sessions_trim(e->plan->rows.sessions[i]);
    stk_mutex_lock(&e->lock);
    for (stk_request *r = e->requests.idle; r; r = r->next)
        any |= stk_request_trim(r);
    stk_mutex_unlock(&e->lock);
    return any;
}

/* ---- before bytes are read ---- */

/* Others let go of some, or a row arrives that is ended here, or 0: that will not happen, or the
 * row is not wanted any more. */
static int wait_here(stk_worker *w, uint64_t *seen)
{
    stk_engine *e = w->engine;
    int over;

    atomic_fetch_add(&e->n_short, 1);
    over = atomic_load_explicit(&e->draining, memory_order_relaxed) ||
           (!stk_account_waited_for(e->plan->memory.reads) && stuck(w)); /* those give up first */
    if (!over && e->plan->io.inline_mode)
        for (uint32_t i = 0; i < e->plan->io.n_driven; i++)
            e->plan->io.driven[i]->drive(1);
    if (!over && !atomic_load_explicit(&e->n_arrived, memory_order_relaxed))
        stk_account_sleep(e->plan->memory.reads, seen, e->plan->io.inline_mode ? 1 : LOOK_MS);
    atomic_fetch_sub(&e->n_short, 1);
    return !over;
}

int stk_room_begin(stk_worker *w, stk_request *r, stk_begin_fn begin, stk_error *err)
{
    stk_engine *e = w->engine;
    uint64_t seen = stk_account_watch(e->plan->memory.reads);
    int rc, room = 1;

    uint64_t from = stk_ticks();

    atomic_fetch_add(&e->low_memory, 1);
    w->short_since = 0;
    while ((rc = begin(w, r, err)) == STK_ELIMIT && r->memory.lacks && room) {
        stk_plug_flush(&w->plug); /* no one waits for what is not read */
        room = stk_request_trim(r) | trim(e);
        if (w->req)
            room |= stk_request_trim(w->req);
        room = room || stk_worker_take_arrived(w) || wait_here(w, &seen);
    }
    atomic_fetch_sub(&e->low_memory, 1);
    stk_account_unwatch(e->plan->memory.reads);
    stk_count(&w->m.count.room, stk_ticks() - from);
    if (rc == STK_ELIMIT && r->memory.lacks)
        rc = err->code = STK_ENOMEM; /* not the sample's fault: never skipped */
    return rc;
}

/* ---- while the row is made ---- */

static int enough(void *cookie, int first)
{
    stk_worker *w = cookie;

    if (atomic_load_explicit(&w->engine->draining, memory_order_relaxed))
        return STK_ECLOSED;
    trim(w->engine);
    return first && stuck(w) ? STK_ENOMEM : 0;
}

static uint64_t mb(uint64_t bytes) /* as memory_limit="100MB" has them */
{
    return (bytes + 999999) / 1000000;
}

static int never(const stk_worker *w, size_t need, stk_error *err)
{
    const stk_engine *e = w->engine;

    return stk_fail(err, STK_ELIMIT,
                    "making this row takes %" PRIu64 " MB, and a row may take half of "
                    "memory_limit, which is %" PRIu64 " MB: raise memory_limit to %" PRIu64
                    " MB, or leave such samples out",
                    mb(need), mb(e->plan->memory.ration->account.limit), mb(2 * (uint64_t)need));
}

static int not_now(const stk_worker *w, size_t need, stk_error *err)
{
    const stk_engine *e = w->engine;

    return stk_fail(err, STK_ENOMEM,
                    "making this row takes %" PRIu64 " MB, and batches hold most of memory_limit, "
                    "which is %" PRIu64 " MB: raise memory_limit, or lower prefetch or batch_size",
                    mb(need), mb(e->plan->memory.ration->account.limit));
}

int stk_room_row(stk_maker *m, uint64_t ticket, size_t room, stk_error *err)
{
    stk_worker *w = (stk_worker *)m; /* its first member */
    stk_engine *e = w->engine;
    stk_scratch *s = &w->m.scratch;
    stk_patience patience = { enough, w };
    size_t need = stk_scratch_needs(s), want = need + need / 16 + ((size_t)1 << 20);
    uint64_t from = stk_ticks();
    int rc;

    if (s->shortage == STK_SHORT_FOREVER) {
        s->shortage = STK_SHORT_OF_NOTHING;
        return never(w, need, err);
    }
    want = want < e->plan->memory.ration->most ? want
                                               : need; /* what follows decoding takes little */
    stk_scratch_drop(s);
    w->short_since = 0;
    atomic_fetch_add(&e->low_memory, 1);
    atomic_fetch_add(&e->n_short, 1);
    rc = stk_account_reserve(&e->plan->memory.ration->account, want + room, ticket, &patience);
    atomic_fetch_sub(&e->n_short, 1);
    atomic_fetch_sub(&e->low_memory, 1);
    stk_count(&w->m.count.room, stk_ticks() - from);
    if (rc == STK_ENOMEM && want > need &&
        stk_account_take(&e->plan->memory.ration->account, need + room)) {
        want = need;
        rc = 0;
    }
    if (rc == 0) {
        stk_scratch_grant(s, want);
        stk_account_give(&e->plan->memory.ration->account, room);
        return 0;
    }
    s->shortage = STK_SHORT_OF_NOTHING;
    return rc == STK_ENOMEM ? not_now(w, need, err) : stk_fail(err, rc, "the loader is closing");
}

/* ---- when the batch is padded ---- */

int stk_room_pause(stk_engine *e)
{
    uint64_t seen = stk_account_watch(e->plan->memory.reads);
    int others = atomic_load(&e->plan->memory.ration->over) ||
                 stk_account_waited_for(e->plan->memory.reads);

    if (others)
        stk_account_sleep(e->plan->memory.reads, &seen, LOOK_MS);
    stk_account_unwatch(e->plan->memory.reads);
    return others && !atomic_load_explicit(&e->draining, memory_order_relaxed);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* row_time.h - measures where a row's time goes: fetching, making, or batch stages.  worker.c and
 * block_run.c call it.
 *
 * Costly rows are timed each.  Of a run of cheap rows, the first is timed and counts for the
 * others.  The same clock readings fill the histograms. */
#ifndef STOKER_ROW_TIME_H
#define STOKER_ROW_TIME_H

#include "pipe/engine.h"

/* A row begins that is timed. */
static inline void time_begin(stk_worker *w)
{
#if STK_COUNTERS
    w->m.row_from = stk_ticks();
    w->m.fetch_share = 1;
#else
    (void)w;
#endif
}

/* The row's bytes are read, and it is made next.  Returns the time in ticks; 0: the row is not
 * timed. */
static inline uint64_t time_fetched(stk_worker *w)
{
    if (!w->m.row_from)
        return 0;
    if (w->engine->claim_size == 1)
        stk_stage_time_row(&w->m, STK_STAGE_FETCH);
    stk_does_next(&w->m, STK_STAGE_VALUE);
    return stk_ticks();
}

/* The row is made.  Divides the time since the last stage into fetching and making, in the
 * proportion of this row.  fetched: what time_fetched() returned. */
static inline void time_made(stk_worker *w, uint64_t fetched)
{
    uint64_t now, all, fetch;

    if (!w->m.row_from)
        return;
    if (w->engine->claim_size == 1) {
        stk_stage_time_row(&w->m, STK_STAGE_VALUE);
        return;
    }
    now = stk_ticks();
    all = now - w->m.last;
    w->m.fetch_share = (double)(fetched - w->m.row_from) / (double)(now - w->m.row_from + 1);
    fetch = (uint64_t)((double)all * w->m.fetch_share);
    stk_count(&w->m.count.ticks[STK_STAGE_FETCH], fetch);
    stk_count(&w->m.count.ticks[STK_STAGE_VALUE], all - fetch);
    stk_note_span(&w->m, STK_STAGE_FETCH, w->m.last, w->m.last + fetch);
    stk_note_span(&w->m, STK_STAGE_VALUE, w->m.last + fetch, now);
    stk_took(&w->m, STK_STAGE_FETCH, fetched - w->m.row_from);
    stk_took(&w->m, STK_STAGE_VALUE, now - fetched);
    w->m.last = now;
    w->m.row_from = 0;
}

/* The end of a run: counts its rows, and the time since the last stage as time of `stage`.  Returns
 * that time in ticks. */
static inline uint64_t time_run(stk_worker *w, stk_stage_id stage)
{
    stk_count(&w->m.count.samples, w->m.rows);
    stk_count(&w->m.count.bytes, w->m.bytes);
    w->m.rows = w->m.bytes = 0;
    return stk_stage_time(&w->m, stage);
}

/* The same after one row was timed: the time is divided in the proportion of that row. */
static inline void time_rest(stk_worker *w)
{
    uint64_t from = w->m.last, fetch;

    stk_count(&w->m.count.samples, w->m.rows);
    stk_count(&w->m.count.bytes, w->m.bytes);
    w->m.rows = w->m.bytes = 0;
#if STK_COUNTERS
    w->m.last = stk_ticks();
#endif
    fetch = (uint64_t)((double)(w->m.last - from) * w->m.fetch_share);
    stk_count(&w->m.count.ticks[STK_STAGE_FETCH], fetch);
    stk_count(&w->m.count.ticks[STK_STAGE_VALUE], w->m.last - from - fetch);
    stk_note_span(&w->m, STK_STAGE_FETCH, from, from + fetch);
    stk_note_span(&w->m, STK_STAGE_VALUE, from + fetch, w->m.last);
}

/* The end of a run without a timed row: the mean time of its rows is added to the histogram
 * once. */
static inline void time_mean(stk_worker *w, uint32_t rows)
{
    uint64_t ticks = time_run(w, STK_STAGE_VALUE);

    if (ticks && rows)
        stk_took(&w->m, STK_STAGE_VALUE, ticks / rows);
}

/* Rows of a slot are done; after the last one, the batch is counted. */
static inline void time_done(stk_worker *w, stk_slot *s, uint32_t rows, uint64_t ticket)
{
    uint64_t ticks;
    int last;

    stk_does(&w->m, STK_STAGE_BATCH, ticket);
    last = stk_ring_done(w->engine, s, rows);
    ticks = stk_stage_time(&w->m, STK_STAGE_BATCH);
    if (last && ticks)
        stk_took(&w->m, STK_STAGE_BATCH, ticks);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* learn.c - learn_jpeg: what helps to decode a picture again is made once, by the worker that has
 * its bytes at hand, and kept for later epochs and runs.
 *
 * It costs about as much as decoding a crop without it, and pixels don't depend on it. */
#include "index/seeklearn.h"
#include "pipe/engine.h"

#define TRIES 100 /* at the end, for a file that another process is writing */

static void save(stk_engine *e, stk_learn *l, int wait)
{
    static const struct timespec pause = { 0, 20000000 };
    stk_error err = { 0 };
    int rc = stk_learn_write(l, &err);

    for (int i = 0; rc == STK_END && wait && i < TRIES; i++) {
        nanosleep(&pause, NULL);
        rc = stk_learn_write(l, &err);
    }
    if (rc < 0 && !e->learn_told++)
        stk_log_line(&e->plan->policy.log, STK_LOG_WARN,
                     "seek points that were found are not kept for the next run: %s", err.message);
}

void stk_learn_save(stk_engine *e, int wait)
{
    for (uint32_t i = 0; e->plan->rows.learn && i < e->plan->data.n; i++)
        if (e->plan->rows.learn[i])
            save(e, e->plan->rows.learn[i], wait);
}

static stk_learn_place place_of(const stk_request *r, uint32_t output)
{
    return (stk_learn_place){ r->entry.shard, r->entry.row, r->want[output].number };
}

void stk_learn_look(const stk_engine *e, stk_request *r, uint32_t output)
{
    const stk_learn *l = e->plan->rows.learn ? e->plan->rows.learn[r->where.dataset] : NULL;
    stk_learn_place at = place_of(r, output);
    stk_wanted *want = &r->want[output];
    int tried;

    if (!l || want->hint.data)
        return;
    want->hint = stk_learn_get(l, &at, &tried);
    want->learn = !tried && !stk_learn_full(l);
}

void stk_learn_from(stk_worker *w, const stk_request *r, uint32_t output,
                    const stk_decoder *decoder, void *ctx)
{
    stk_learn *l = w->engine->plan->rows.learn[r->where.dataset];
    stk_learn_place at = place_of(r, output);
    stk_bytes points = { 0 };
    int rc;

    stk_scratch_reset(&w->scratch); /* the picture is sampled, its bytes are the request's */
    rc = decoder->learn(ctx, &w->scratch, &points, NULL);
    if (rc == 0 || rc == STK_ECORRUPT)
        stk_learn_put(l, &at, rc == 0 ? points : (stk_bytes){ 0 }, r->want[output].bytes.len);
    stk_lap(w, STK_STAGE_DECODE);
}

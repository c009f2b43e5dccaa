/* SPDX-License-Identifier: Apache-2.0 */
/* transfer.c - one request, waited for. */
#include "source/http.h"

typedef struct waiter {
    stk_mutex lock;
    pthread_cond_t cond;
    int over; /* lock */
} waiter;

static void run_done(stk_transfer *t)
{
    waiter *w = t->cookie;

    stk_mutex_lock(&w->lock);
    w->over = 1;
    pthread_cond_signal(&w->cond);
    stk_mutex_unlock(&w->lock);
}

int stk_http_run(stk_transfer *t, stk_error *err)
{
    waiter w = { .lock = STK_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER };

    t->done = run_done;
    t->cookie = &w;
    STK_TRY(stk_http_hold(err));
    stk_http_start(t);
    stk_mutex_lock(&w.lock);
    while (!w.over)
        stk_cond_wait(&w.cond, &w.lock);
    stk_mutex_unlock(&w.lock);
    stk_http_drop();
    return t->rc < 0 ? stk_fail(err, t->rc, "%s", t->why) : 0;
}

void stk_transfer_fini(stk_transfer *t)
{
    stk_free(t->moved);
    t->moved = NULL;
    stk_free(t->error.s);
    t->error = (stk_text){ 0 };
}

/* SPDX-License-Identifier: Apache-2.0 */
/* transfer.c - one request, waited for. */
#include <stdio.h>

#include "base/halt.h"
#include "store/http.h"

static void run_done(stk_transfer *t)
{
    stk_wait_came(t->cookie);
}

/* A wait that is halted cuts the request off. */
int stk_http_run(stk_transfer *t, stk_error *err)
{
    stk_halt halt = { .above = stk_halt_mine() };
    stk_error why = { 0 };
    stk_wait w;

    t->rc = stk_halt_is(&halt) ? stk_fail_halted(&why) : stk_http_hold(&why);
    if (t->rc < 0) {
        snprintf(t->why, sizeof t->why, "%.150s", why.message);
        return stk_fail(err, t->rc, "%s", t->why);
    }
    t->halt = &halt;
    t->done = run_done;
    t->cookie = &w;
    stk_wait_init(&w, 1);
    stk_http_start(t);
    if (stk_wait_look(&w) < 0) {
        stk_halt_set(&halt, 1);
        stk_http_look();
        stk_wait_all(&w);
    }
    stk_wait_fini(&w);
    stk_http_drop();
    return t->rc < 0 ? stk_fail(err, t->rc, "%s", t->why) : 0;
}

void stk_transfer_fini(stk_transfer *t)
{
    stk_free(t->own.moved);
    t->own.moved = NULL;
    stk_free(t->own.error.s);
    t->own.error = (stk_text){ 0 };
}

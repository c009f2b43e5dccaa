/* SPDX-License-Identifier: Apache-2.0 */
/* halted.c - transfers that are told to end: wherever they are, with STK_ECLOSED. */
#include <stdio.h>

#include "store/http_client.h"

void stk_transfer_halted(stk_transfer *t)
{
    t->rc = STK_ECLOSED;
    snprintf(t->why, sizeof t->why, "interrupted");
    stk_client_finish(t);
}

/* Those of a list that are halted, as a list of their own. */
static stk_transfer *take_halted(stk_transfer **at)
{
    stk_transfer *out = NULL, *t;

    while ((t = *at)) {
        if (!stk_halt_is(t->halt)) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        t->next = out;
        out = t;
    }
    return out;
}

static void end_all(stk_transfer *t)
{
    for (stk_transfer *next; t; t = next) {
        next = t->next;
        stk_transfer_halted(t);
    }
}

static void end_running(stk_client *c)
{
    for (uint32_t i = 0; i < c->n_slots; i++) {
        stk_transfer *t = c->all[i]->t;

        if (!t || t->own.is_twin || !stk_halt_is(t->halt))
            continue;
        stk_hedge_drop(c, t);
        stk_client_cut(c, c->all[i]);
        stk_transfer_halted(t);
    }
}

void stk_client_halted(stk_client *c)
{
    stk_transfer *waiting = take_halted(&c->waiting), *later = take_halted(&c->later);

    c->waiting_end = &c->waiting;
    while (*c->waiting_end)
        c->waiting_end = &(*c->waiting_end)->next;
    end_all(waiting);
    end_all(later);
    for (stk_key_look *l = c->looks; l; l = l->next) {
        end_all(take_halted(&l->wait));
        if (!l->wait)
            stk_halt_set(&l->halt, 1);
    }
    end_running(c);
}

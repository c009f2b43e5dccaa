/* SPDX-License-Identifier: Apache-2.0 */
/* draw.c - the one draw(): a pure function of the chain, the address and the picture's size. */
#include "chain/chain.h"

static void note(const stk_draw_observer *watch, const stk_address *at, const stk_step *s,
                 const stk_view *view)
{
    stk_drawn d = { at->epoch, at->position, at->output, s ? s->number : 0, s ? s->op->name : NULL,
                    view };

    if (watch && watch->drawn)
        watch->drawn(watch->cookie, &d);
}

void stk_chain_draw(const stk_chain *c, const stk_address *at, const uint32_t size[2],
                    stk_view *view, const stk_draw_observer *watch)
{
    stk_address here = *at;
    stk_rng rng;

    stk_view_init(view, size[0], size[1]);
    note(watch, at, NULL, view);
    for (uint32_t i = 0; i < c->n_steps; i++) {
        const stk_step *s = &c->step[i];

        if (!s->op || !(s->op->can & STK_OP_VIEW))
            continue;
        here.path = stk_path(s->number);
        stk_rng_at(&rng, &here);
        s->op->draw(s->state, &rng, view);
        note(watch, at, s, view);
    }
}

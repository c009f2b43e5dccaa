/* SPDX-License-Identifier: Apache-2.0 */
/* draw.c - the one draw(): a pure function of the chain, the address and the picture's size. */
#include "chain/boxes.h"
#include "op/patch_size.h"

#include <assert.h>

static void note(const stk_draw_observer *watch, const stk_address *at, const stk_step *s,
                 const stk_view *view)
{
    stk_drawn d = { at->epoch,         at->position,           at->output,
                    s ? s->number : 0, s ? s->op->name : NULL, view };

    if (watch && watch->drawn)
        watch->drawn(watch->cookie, &d);
}

/* A view that sees what the last one and its actions made. */
static stk_view *open_view(stk_draws *d)
{
    stk_view *last = stk_draws_last(d);

    if (last->refused)
        return last;
    if (d->n_passes == STK_MAX_PASSES) {
        last->refused = "geometry and changes of pixels take turns too often: group them";
        return last;
    }
    stk_view_init(last + 1, last->vis_w, last->vis_h);
    d->from[d->n_passes++] = d->n_actions;
    return last + 1;
}

static void act(stk_draws *d, const stk_step *s, stk_rng *rng)
{
    stk_view *view = stk_draws_last(d);
    stk_action *out = d->action + d->n_actions;
    uint32_t n;

    if (view->refused)
        return;
    if (d->n_actions + STK_OP_ACTS > STK_MAX_ACTIONS) {
        view->refused = "more ops than one picture can take";
        return;
    }
    n = s->op->act(s->state, rng, view, out);
    for (uint32_t i = 0; i < n; i++)
        out[i].step = s->id;
    d->n_actions += n;
}

/* Boxes as the op sees them: on the canvas that all before it made. */
static void boxes_here(stk_draws *d)
{
    for (uint32_t i = 0; i < d->boxes->list.n; i++) {
        const double *f = d->boxes->filed[i];
        stk_box b = { f[0], f[1], f[2], f[3], 1 };
        double *at = d->boxes->list.at[i];

        stk_box_move(d, &b);
        at[0] = b.x0;
        at[1] = b.y0;
        at[2] = b.x1;
        at[3] = b.y1;
    }
}

static void draw_into(stk_draws *d, const stk_step *s, const stk_address *at, stk_rng *rng,
                      stk_view *view)
{
    uint64_t room[STK_PATCH_STATE];

    if (!(s->op->can & STK_OP_BOXES)) {
        s->op->draw(stk_patch_limited(s->op, s->state, at, room), rng, view);
        return;
    }
    if (view->refused)
        return;
    boxes_here(d);
    s->op->draw_boxes(s->state, rng, view, &d->boxes->list);
}

/* An op that does not go together with those before it gets a pass of its own, over what they
 * made. */
static void draw_view(stk_draws *d, const stk_step *s, const stk_address *at, stk_rng *rng,
                      stk_view *view)
{
    const stk_rng first = *rng;
    const stk_view before = *view;

    draw_into(d, s, at, rng, view);
    if (!view->split)
        return;
    *view = before;
    *rng = first;
    view = open_view(d);
    draw_into(d, s, at, rng, view);
}

static void draw_step(stk_draws *d, const stk_step *s, stk_address *at)
{
    uint64_t path = at->path;
    uint8_t run[STK_MAX_GROUPS];
    uint32_t n;
    stk_rng rng;

    stk_rng_at(&rng, at);
    if (s->op->can & STK_OP_VIEW) {
        stk_view *view = stk_draws_last(d);

        if (s->opens || d->n_actions > d->from[d->n_passes - 1])
            view = open_view(d);
        draw_view(d, s, at, &rng, view);
    }
    if (s->op->can & STK_OP_ACT)
        act(d, s, &rng);
    if (!(s->op->can & STK_OP_CHOOSE))
        return;
    n = s->op->choose(s->state, &rng, s->n_groups, run);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < s->group[run[i]].n; k++) {
            const stk_step *child = &s->group[run[i]].step[k];

            at->path = stk_path_child(path, child->number);
            draw_step(d, child, at);
        }
    at->path = path;
}

/* Where the geometry of a chain ends: the step after the last one that may change a size. */
static uint32_t geometry_end(const stk_chain *c)
{
    uint32_t end = c->n_steps;

    while (end && !(c->step[end - 1].op &&
                    c->step[end - 1].op->can & (STK_OP_VIEW | STK_OP_CHOOSE | STK_OP_VIEWS)))
        end--;
    return end;
}

/* A sample that is over its budget keeps some of its patches.  Ops that change pixels see what is
 * left. */
static void cut(stk_draws *d, const stk_address *at)
{
    const stk_view *seen = stk_draws_last(d);
    uint32_t size[2] = { seen->vis_w, seen->vis_h };
    stk_view *view;

    if (seen->refused)
        return;
    stk_patch_cut(at->unit, at->keep, size);
    if (size[0] == seen->vis_w && size[1] == seen->vis_h)
        return;
    view = d->n_actions > d->from[d->n_passes - 1] ? open_view(d) : stk_draws_last(d);
    stk_view_crop(view, 0, 0, size[0], size[1]);
    assert(!view->split); /* a part of what is seen */
}

typedef struct walk {
    const stk_chain *c;
    const stk_address *at;
    const stk_draw_observer *watch;
    uint32_t first;
    int through;  /* functions */
    uint32_t end; /* number of steps that are walked */
} walk;

static void walk_steps(const walk *w, const uint32_t size[2], stk_draws *out)
{
    const stk_chain *c = w->c;
    stk_address here = *w->at;
    uint32_t cut_at = w->at->keep ? geometry_end(c) : UINT32_MAX;

    cut_at = cut_at < w->first ? w->first : cut_at;
    if (!c->many.pictures && (!stk_spec_lead(&c->spec, STK_LEAD_VIEWS) || w->first <= c->views_at))
        here.view = 0; /* what stands before views is the same for all of them */
    out->n_passes = 1;
    out->n_actions = 0;
    out->from[0] = 0;
    stk_view_init(out->view, size[0], size[1]);
    if (!w->first)
        note(w->watch, w->at, NULL, out->view);
    for (uint32_t i = w->first; i < w->end; i++) {
        const stk_step *s = &c->step[i];

        if (i == cut_at)
            cut(out, w->at);
        if (!s->op || !(s->op->can & (STK_OP_VIEW | STK_OP_ACT | STK_OP_CHOOSE | STK_OP_VIEWS))) {
            if (s->op && s->op->can & STK_OP_CALL && !w->through)
                break;
            if (s->op && s->op->can & STK_OP_CALL)
                open_view(out); /* what it gives is a picture of its own */
            continue;
        }
        if (s->op->can & STK_OP_VIEWS)
            here.view = w->at->view;
        here.path = stk_path(s->number);
        draw_step(out, s, &here);
        note(w->watch, w->at, s, stk_draws_last(out));
    }
    if (cut_at == w->end)
        cut(out, w->at);
}

void stk_chain_draw(const stk_chain *c, const stk_address *at, const uint32_t size[2],
                    stk_draws *out, const stk_draw_observer *watch)
{
    walk_steps(&(walk){ .c = c, .at = at, .watch = watch, .end = c->n_steps }, size, out);
}

void stk_chain_draw_from(const stk_chain *c, uint32_t first, const stk_address *at,
                         const uint32_t size[2], stk_draws *out, const stk_draw_observer *watch)
{
    walk_steps(&(walk){ .c = c, .at = at, .watch = watch, .first = first, .end = c->n_steps }, size,
               out);
}

void stk_chain_draw_through(const stk_chain *c, const stk_address *at, const uint32_t size[2],
                            stk_draws *out)
{
    walk_steps(&(walk){ .c = c, .at = at, .through = 1, .end = c->n_steps }, size, out);
}

void stk_chain_draw_size(const stk_chain *c, const stk_address *at, const uint32_t size[2],
                         stk_draws *out)
{
    walk_steps(&(walk){ .c = c, .at = at, .end = geometry_end(c) }, size, out);
}

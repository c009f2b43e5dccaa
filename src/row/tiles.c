/* SPDX-License-Identifier: Apache-2.0 */
/* tiles.c - the passes of a chain that changes pixels, on one picture. */
#include <assert.h>

#include "row/tiles.h"

#include <string.h>

#include "chain/segment.h"
#include "kern/row_act.h"
#include "kern/tile.h"
#include "kern/warp.h"

typedef struct run {
    const stk_chain *c;
    const stk_kern *kern;
    const stk_draws *d;
    stk_scratch *scratch;
    stk_tile_room *room;
} run;

static int to_tile(const run *r, const stk_view *v, const stk_pixels *px, stk_tile *t,
                   stk_error *err)
{
    size_t size = (size_t)v->vis_w * v->vis_h * 4;
    stk_sample_job job = { .view = v, .pixels = px, .dtype = STK_U8, .mul = { 1, 1, 1 } };

    *t = (stk_tile){ .data = stk_scratch_get(r->scratch, size),
                     .width = v->vis_w,
                     .height = v->vis_h };
    if (!t->data)
        return stk_fail_nomem(err, size);
    job.tile = t->data;
    return stk_sample_run(r->kern, &job, r->scratch, err);
}

/* Actions [from, to): runs of the library's own, and ops of others one by one. */
static int act(const run *r, uint32_t from, uint32_t to, stk_tile *t, stk_error *err)
{
    assert(from <= to && to <= r->d->n_actions);
    for (uint32_t i = from, n; i < to; i += n) {
        const stk_action *a = &r->d->action[i];

        for (n = 0; i + n < to && a[n].code != STK_ACT_OWN && a[n].code != STK_ACT_WARP; n++)
            ;
        if (!n && a->code == STK_ACT_WARP) {
            STK_TRY(stk_warp_run(a, t, r->scratch, err));
            n = 1;
            continue;
        }
        if (n) {
            STK_TRY(stk_tile_run(r->kern->tile, a, n, t, r->room, err));
            continue;
        }
        assert(r->c->all[a->step]->op->tile); /* the plan lets no other op in */
        r->c->all[a->step]->op->tile(r->c->all[a->step]->state, a, t);
        n = 1;
    }
    return 0;
}

static void to_row(const stk_kern *kern, const stk_tile *t, const stk_sample_job *job)
{
    size_t size = stk_dtype_size(job->dtype), plane = (size_t)t->width * t->height;
    stk_color color = { .dtype = job->dtype };

    if (job->tile) {
        memcpy(job->tile, t->data, (size_t)t->width * t->height * 4);
        return;
    }
    memcpy(color.mul, job->mul, sizeof color.mul);
    memcpy(color.add, job->add, sizeof color.add);
    for (uint32_t y = 0; y < t->height; y++) {
        const uint8_t *line = (const uint8_t *)(t->data + (size_t)y * t->width);
        uint8_t *dst = job->dst;

        dst += (size_t)y * t->width * size * (job->layout == STK_CHW ? 1 : 3);
        if (job->layout == STK_CHW)
            kern->store_planar(dst, plane, line, t->width, &color);
        else
            kern->store_packed(dst, line, t->width, &color);
    }
}

/* They stand at the end: nothing but they may follow normalize. */
uint32_t stk_draws_in_row(const stk_draws *d)
{
    uint32_t i = d->n_actions;

    while (i && stk_act_in_row(d->action[i - 1].code))
        i--;
    return i;
}

/* The picture as it is, for a first view that changes nothing. */
static int take_pixels(const stk_view *v, const stk_sample_job *job, stk_tile *t)
{
    const stk_pixels *px = job->pixels;

    if (!job->own || !px->data || !stk_view_is_identity(v) || px->area.w != v->src_w ||
        px->area.h != v->src_h || px->stride != (size_t)v->src_w * 4)
        return 0;
    *t = (stk_tile){ .data = (uint32_t *)(void *)px->data, .width = v->src_w, .height = v->src_h };
    return 1;
}

int stk_segments_run(const stk_chain *c, const stk_kern *kern, const stk_draws *d,
                     const stk_sample_job *job, stk_scratch *scratch, stk_error *err)
{
    stk_tile_room room = { .scratch = scratch };
    const run r = { c, kern, d, scratch, &room };
    uint32_t in_row = stk_draws_in_row(d);
    stk_pixels px = *job->pixels;
    stk_tile t = { 0 };

    assert(d->n_passes && job->dst);
    for (uint32_t k = 0; k < d->n_passes; k++) {
        uint32_t from = d->from[k], to = k + 1 < d->n_passes ? d->from[k + 1] : in_row;
        int stays = k ? t.data && stk_view_is_identity(&d->view[k]) : take_pixels(d->view, job, &t);

        if (k + 1 == d->n_passes && from == to && !stays) {
            stk_sample_job last = *job; /* nothing comes between it and the row */

            last.pixels = &px;
            STK_TRY(stk_sample_run(kern, &last, scratch, err));
            t.data = NULL;
            break;
        }
        if (!stays)
            STK_TRY(to_tile(&r, &d->view[k], &px, &t, err));
        STK_TRY(act(&r, from, to, &t, err));
        px = (stk_pixels){ .data = (uint8_t *)t.data,
                           .stride = (size_t)t.width * 4,
                           .area = { 0, 0, t.width, t.height } };
    }
    if (t.data)
        to_row(kern, &t, job);
    for (uint32_t i = in_row; i < d->n_actions; i++)
        stk_row_act(&d->action[i], job, 3);
    return 0;
}

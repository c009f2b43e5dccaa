/* SPDX-License-Identifier: Apache-2.0 */
/* boxes.c - see boxes.h. */
#include "chain/boxes.h"

#include <math.h>

#include "kern/pil.h"

/* ---- one point ---- */

stk_spot stk_spot_upright(unsigned turn, double w, double h, stk_spot p)
{
    switch (turn) {
    case 2: return (stk_spot){ w - p.x, p.y };
    case 3: return (stk_spot){ w - p.x, h - p.y };
    case 4: return (stk_spot){ p.x, h - p.y };
    case 5: return (stk_spot){ p.y, p.x };
    case 6: return (stk_spot){ h - p.y, p.x };
    case 7: return (stk_spot){ h - p.y, w - p.x };
    case 8: return (stk_spot){ p.y, w - p.x };
    default: return p;
    }
}

/* Where a crop comes before padding, in one view, the canvas does not say what the crop took away:
 * places beyond the sides that it cut.  *room is what is left.  Other views need no such look. */
static int is_cut(const stk_view *v, stk_box *room)
{
    if (v->vis_x >= 0 && v->vis_y >= 0 && (int64_t)v->vis_x + v->vis_w <= v->res_w &&
        (int64_t)v->vis_y + v->vis_h <= v->res_h)
        return 0;
    room->x0 = v->clip.x ? v->clip.x : -INFINITY;
    room->y0 = v->clip.y ? v->clip.y : -INFINITY;
    room->x1 = v->clip.x + v->clip.w < v->src_w ? v->clip.x + v->clip.w : INFINITY;
    room->y1 = v->clip.y + v->clip.h < v->src_h ? v->clip.y + v->clip.h : INFINITY;
    return 1;
}

static stk_spot through_view(const stk_view *v, stk_spot p)
{
    p.x = (p.x - v->clip.x) * ((double)v->res_w / v->clip.w) - v->vis_x;
    p.y = (p.y - v->clip.y) * ((double)v->res_h / v->clip.h) - v->vis_y;
    if (v->flip_x)
        p.x = v->vis_w - p.x;
    if (v->flip_y)
        p.y = v->vis_h - p.y;
    return p;
}

/* The action has the way back; this is the way there: its adjugate, up to a factor. */
static stk_spot through_warp(const stk_action *a, stk_spot p)
{
    double m[9], x, y, z;

    for (int i = 0; i < 8; i++)
        m[i] = (double)a->v.f[i];
    m[8] = 1;
    x = (m[4] * m[8] - m[5] * m[7]) * p.x + (m[2] * m[7] - m[1] * m[8]) * p.y +
        (m[1] * m[5] - m[2] * m[4]);
    y = (m[5] * m[6] - m[3] * m[8]) * p.x + (m[0] * m[8] - m[2] * m[6]) * p.y +
        (m[2] * m[3] - m[0] * m[5]);
    z = (m[3] * m[7] - m[4] * m[6]) * p.x + (m[1] * m[6] - m[0] * m[7]) * p.y +
        (m[0] * m[4] - m[1] * m[3]);
    return (stk_spot){ x / z, y / z };
}

/* ---- boxes ---- */

static void around(stk_box *b, const stk_spot c[4])
{
    b->x0 = fmin(fmin(c[0].x, c[1].x), fmin(c[2].x, c[3].x));
    b->x1 = fmax(fmax(c[0].x, c[1].x), fmax(c[2].x, c[3].x));
    b->y0 = fmin(fmin(c[0].y, c[1].y), fmin(c[2].y, c[3].y));
    b->y1 = fmax(fmax(c[0].y, c[1].y), fmax(c[2].y, c[3].y));
}

static void corners(const stk_box *b, stk_spot c[4])
{
    c[0] = (stk_spot){ b->x0, b->y0 };
    c[1] = (stk_spot){ b->x1, b->y0 };
    c[2] = (stk_spot){ b->x1, b->y1 };
    c[3] = (stk_spot){ b->x0, b->y1 };
}

static double between(double v, double least, double most)
{
    return v < least ? least : v > most ? most : v;
}

/* What is left of a box inside of [x0, x1) x [y0, y1). */
static void cut_to(stk_box *b, const stk_box *room)
{
    double area = (b->x1 - b->x0) * (b->y1 - b->y0);

    b->x0 = between(b->x0, room->x0, room->x1);
    b->x1 = between(b->x1, room->x0, room->x1);
    b->y0 = between(b->y0, room->y0, room->y1);
    b->y1 = between(b->y1, room->y0, room->y1);
    b->visible *= area > 0 ? (b->x1 - b->x0) * (b->y1 - b->y0) / area : 0;
}

static void cut_off(stk_box *b, double w, double h)
{
    cut_to(b, &(stk_box){ .x1 = w, .y1 = h });
}

static void through_warps(const stk_draws *d, uint32_t k, stk_box *b)
{
    uint32_t end = k + 1 < d->n_passes ? d->from[k + 1] : d->n_actions;
    stk_spot c[4];

    for (uint32_t i = d->from[k]; i < end; i++) {
        stk_action a;

        if (!stk_act_moves(d->action[i].code))
            continue;
        a = stk_pil_as_warp(&d->action[i], d->view[k].vis_w, d->view[k].vis_h);
        corners(b, c);
        for (int j = 0; j < 4; j++)
            c[j] = through_warp(&a, c[j]);
        around(b, c);
        cut_off(b, d->view[k].vis_w, d->view[k].vis_h);
    }
}

void stk_box_move(const stk_draws *d, stk_box *b)
{
    stk_box room;
    stk_spot c[4];

    for (uint32_t k = 0; k < d->n_passes; k++) {
        if (is_cut(&d->view[k], &room))
            cut_to(b, &room);
        corners(b, c);
        for (int i = 0; i < 4; i++)
            c[i] = through_view(&d->view[k], c[i]);
        around(b, c);
        cut_off(b, d->view[k].vis_w, d->view[k].vis_h);
        through_warps(d, k, b);
    }
}

void stk_box_upright(unsigned turn, double w, double h, stk_box *b)
{
    stk_spot c[4];

    corners(b, c);
    for (int i = 0; i < 4; i++)
        c[i] = stk_spot_upright(turn, w, h, c[i]);
    around(b, c);
}

static int is_in(const stk_box *room, stk_spot p)
{
    return p.x >= room->x0 && p.x <= room->x1 && p.y >= room->y0 && p.y <= room->y1;
}

int stk_spot_move(const stk_draws *d, stk_spot *p)
{
    int seen = 1;

    for (uint32_t k = 0; k < d->n_passes; k++) {
        uint32_t end = k + 1 < d->n_passes ? d->from[k + 1] : d->n_actions;
        stk_box room, canvas = { .x1 = d->view[k].vis_w, .y1 = d->view[k].vis_h };

        if (is_cut(&d->view[k], &room))
            seen &= is_in(&room, *p);
        *p = through_view(&d->view[k], *p);
        seen &= is_in(&canvas, *p);
        for (uint32_t i = d->from[k]; i < end; i++)
            if (stk_act_moves(d->action[i].code)) {
                stk_action a = stk_pil_as_warp(&d->action[i], d->view[k].vis_w, d->view[k].vis_h);

                *p = through_warp(&a, *p);
                seen &= is_in(&canvas, *p);
            }
    }
    return seen;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* pic_program.c - actions to steps: as few launches as their order allows.
 *
 * A run of actions on single pixels joins the step before it.  A new step begins at an action that sees
 * other pixels, and at one that needs figures of the whole picture: the step before it gathers them. */
#include "gpu/pic_program.h"

#include <assert.h>
#include <string.h>

#include "cuda/pic_geom.h"
#include "kern/near.h"
#include "kern/row_act.h"

static_assert(STK_PIC_WEIGHTS == STK_BLUR_HALF + 1, "a blur's weights");
static_assert(sizeof(stk_pic_step) % 8 == 0 && sizeof(stk_action) % 8 == 0, "actions follow steps");

int stk_pic_program_can(const stk_chain *c)
{
    if (c->n_calls)
        return 0;
    for (uint32_t i = 0; i < c->n_all; i++)
        if (c->all[i]->op->can & STK_OP_ACT && !(c->all[i]->op->can & STK_OP_GPU))
            return 0;
    return 1;
}

static int refuse(stk_error *err, const char *why)
{
    return stk_fail(err, STK_ENOTSUP, "not done on a GPU: %s", why);
}

/* ---- steps ---- */

typedef struct maker {
    stk_pic_program *p;
    uint32_t area; /* where the tile is: 0 or 2 */
    uint32_t w, h; /* ... and its size */
    int open;      /* the last step may take more actions */
} maker;

static stk_pic_step *new_step(maker *m)
{
    stk_pic_program *p = m->p;
    stk_pic_step *s = &p->step[p->n_steps < STK_PIC_MAX_STEPS ? p->n_steps : STK_PIC_MAX_STEPS - 1];

    p->n_steps++; /* one too many is found at the end */
    *s = (stk_pic_step){ .from_to = (uint16_t)(m->area | m->area << 8),
                         .in_w = (uint16_t)m->w,
                         .in_h = (uint16_t)m->h,
                         .w = (uint16_t)m->w,
                         .h = (uint16_t)m->h };
    m->open = 1;
    return s;
}

static stk_pic_step *open_step(maker *m)
{
    uint32_t n = m->p->n_steps;

    return m->open && n <= STK_PIC_MAX_STEPS ? &m->p->step[n - 1] : new_step(m);
}

static void add_point(maker *m, uint16_t code, uint32_t i)
{
    stk_pic_step *s = open_step(m);

    if (stk_act_has_figures(code)) {
        s->wants = code;
        s->into = (uint16_t)m->p->n_slots++;
        s = new_step(m);
        s->slot = (uint16_t)m->p->n_slots;
    }
    if (!s->n++)
        s->first = (uint16_t)i;
}

/* A blur's sums are in the two areas that are not the tile's. */
static void add_blur(maker *m, uint32_t i)
{
    uint32_t sums = m->area ? 0 : 1;
    stk_pic_step *s = new_step(m);

    s->head = (uint16_t)(i + 1);
    s->half = STK_PIC_HALF_ACROSS;
    s->from_to = (uint16_t)(m->area | sums << 8);
    s = new_step(m);
    s->head = (uint16_t)(i + 1);
    s->half = STK_PIC_HALF_DOWN;
    s->from_to = (uint16_t)(sums | m->area << 8);
    m->p->n_weights++;
}

/* All others change places with the tile. */
static void add_head(maker *m, uint32_t i)
{
    uint32_t to = 2 - m->area;
    stk_pic_step *s = new_step(m);

    s->head = (uint16_t)(i + 1);
    s->from_to = (uint16_t)(m->area | to << 8);
    m->area = to;
}

static int add_action(maker *m, const stk_action *a, uint32_t i, stk_error *err)
{
    if (a->code == STK_ACT_OWN)
        return refuse(err, "an op of a plug-in");
    if (a->code < STK_ACT_POINT_END || a->code == STK_ACT_ERASE) {
        add_point(m, a->code, i);
        return 0;
    }
    m->p->areas = STK_PIC_AREAS;
    if (a->code == STK_ACT_BLUR)
        add_blur(m, i);
    else if (a->code == STK_ACT_SHARPNESS)
        add_head(m, i);
    else
        return refuse(err, "one of its ops");
    return 0;
}

int stk_pic_program_make(stk_pic_program *p, const stk_draws *d, stk_error *err)
{
    maker m = { .p = p, .w = d->view[0].vis_w, .h = d->view[0].vis_h };
    uint32_t n = d->n_actions;

    p->d = d;
    p->n_steps = p->n_row = p->n_weights = p->n_slots = 0;
    p->areas = 1;
    p->area = ((uint64_t)m.w * m.h + 3) & ~(uint64_t)3;
    if (d->n_views > 1)
        return refuse(err, "geometry after a change of pixels");
    if (!n)
        return 0;
    if (m.w > STK_PIC_MAX_TILE || m.h > STK_PIC_MAX_TILE)
        return refuse(err, "more than 65535 pixels on a side");
    while (n && stk_act_in_row(d->action[n - 1].code))
        n--;
    p->n_row = d->n_actions - n;
    for (uint32_t i = 0; i < n; i++)
        STK_TRY(add_action(&m, &d->action[i], i, err));
    (void)open_step(&m);
    return p->n_steps <= STK_PIC_MAX_STEPS ? 0 : refuse(err, "more ops than one picture can take");
}

/* ---- the record ---- */

void stk_pic_program_add(const stk_pic_program *p, stk_pic *r)
{
    if (!p->n_steps)
        return;
    r->prog_at = r->size;
    r->n_steps = (uint16_t)p->n_steps;
    r->n_acts = (uint16_t)p->d->n_actions;
    r->n_row = (uint16_t)p->n_row;
    r->n_weights = (uint16_t)p->n_weights;
    r->n_slots = (uint16_t)p->n_slots;
    r->areas = (uint16_t)p->areas;
    r->area = (uint32_t)p->area;
    r->size += (uint32_t)stk_pic_up64(stk_pic_prog_bytes(r));
}

static void write_weights(uint16_t *to, const stk_action *a)
{
    for (uint32_t axis = 0; axis < 2; axis++)
        stk_blur_weights(to + (size_t)axis * STK_PIC_WEIGHTS, a->v.u[axis], a->v.f[2]);
}

void stk_pic_program_write(const stk_pic_program *p, void *record)
{
    const stk_pic *r = record;
    uint8_t *to = (uint8_t *)record + r->prog_at, *end = (uint8_t *)record + r->size;
    stk_action *act;
    uint16_t *weights;
    uint32_t n = 0;

    if (!p->n_steps)
        return;
    memset(to, 0, (size_t)(end - to));
    memcpy(to, p->step, p->n_steps * sizeof *p->step);
    act = (stk_action *)(void *)(to + p->n_steps * sizeof *p->step);
    memcpy(act, p->d->action, p->d->n_actions * sizeof *act);
    weights = (uint16_t *)(void *)(act + p->d->n_actions);
    for (uint32_t i = 0; i < p->d->n_actions; i++)
        if (act[i].code == STK_ACT_BLUR) {
            act[i].v.u[3] = n;
            write_weights(weights + (size_t)n++ * 2 * STK_PIC_WEIGHTS, &act[i]);
        }
}

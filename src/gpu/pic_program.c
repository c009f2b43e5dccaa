/* SPDX-License-Identifier: Apache-2.0 */
/* pic_program.c - actions to steps: as few launches as their order allows.
 *
 * A run of actions on single pixels joins the step before it.  A new step begins at an action that
 * sees other pixels, and at one that needs figures of the whole picture: the step before it gathers
 * them.  A view of what was made before it is two steps, across and down; its weights are in the
 * tables.  So is a blur of many taps; one of few is a single step.  A view that is exactly Pillow's
 * may be made down first; where it is the first one, the record's own view is only down, and the
 * program begins with the step across. */
#include "gpu/pic_program.h"

#include <assert.h>
#include <string.h>

#include "chain/segment.h"
#include "cuda/pic_geom.h"
#include "kern/jpeg_loss.h"
#include "kern/near.h"
#include "kern/row_act.h"
#include "kern/sample.h"
#include "kern/taps.h"

static_assert(STK_PIC_WEIGHTS == STK_BLUR_HALF + 1, "a blur's weights");
#define MAX_TABLES (1u << 20) /* bytes of a record's */
#define MAX_ROWS (1u << 26)   /* pixels that a view made down first has between its passes */
#define TABLE (2 * STK_PIC_WEIGHTS * sizeof(uint16_t))

static_assert(sizeof(stk_pic_step) % 8 == 0 && sizeof(stk_action) % 8 == 0, "actions follow steps");

int stk_pic_program_can(const stk_chain *c)
{
    if (c->calls.n)
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

static void need_areas(maker *m, uint32_t n)
{
    m->p->areas = n > m->p->areas ? n : m->p->areas;
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

/* The second half makes pixels where they were. */
static void add_loss(maker *m, uint32_t i)
{
    uint32_t other = 2 - m->area;
    stk_pic_step *s = new_step(m);

    s->head = (uint16_t)(i + 1);
    s->half = STK_PIC_HALF_ACROSS;
    s->from_to = (uint16_t)(m->area | other << 8);
    s = new_step(m);
    s->head = (uint16_t)(i + 1);
    s->half = STK_PIC_HALF_DOWN;
    s->from_to = (uint16_t)(other | m->area << 8);
    m->p->n_tables++;
}

/* In two steps: the sums are in the two areas that are not the tile's. */
static void add_wide_blur(maker *m, uint32_t i)
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

/* Where the tile is: each pixel sees itself, in the areas of the versions too. */
static void add_mix(maker *m, uint32_t i)
{
    need_areas(m, STK_PIC_MIX_AREAS);
    new_step(m)->head = (uint16_t)(i + 1);
}

static void add_blur(maker *m, const stk_action *a, uint32_t i)
{
    m->p->n_tables++;
    if (a->v.u[0] > STK_PIC_BLUR_NEAR || a->v.u[1] > STK_PIC_BLUR_NEAR)
        add_wide_blur(m, i);
    else
        add_head(m, i);
}

/* ---- views of the tile ---- */

static uint64_t axis_bytes(const stk_axis *a)
{
    stk_filter f = stk_axis_filter(a);

    return ((uint64_t)a->n * (4 + (uint64_t)(f.fine ? 4 : 2) * stk_axis_stride(a, &f)) + 7) &
           ~(uint64_t)7;
}

/* An axis whose inputs begin at `clip` of the tile; which action it is. */
static uint32_t add_axis(maker *m, const stk_axis *a, uint32_t clip, const stk_view *v)
{
    stk_pic_axis_table *t = &m->p->axis[m->p->n_axes++];
    stk_filter f = stk_axis_filter(a);
    uint32_t lo, hi;

    stk_axis_inputs(a, &f, &lo, &hi);
    *t = (stk_pic_axis_table){ .axis = *a, .act = { .code = STK_PIC_ACT_VIEW } };
    t->act.v.u[0] = (uint32_t)m->p->axis_bytes;
    t->act.v.u[1] = stk_axis_stride(a, &f);
    t->act.v.u[2] = stk_axis_shift(&f);
    t->act.v.u[3] = clip + lo;
    t->act.v.u[4] = v->fill[0] | (uint32_t)v->fill[1] << 8 | (uint32_t)v->fill[2] << 16;
    t->act.v.u[6] = (uint32_t)f.fine;
    m->p->axis_bytes += axis_bytes(a);
    return m->p->n_axes - 1;
}

static stk_pic_step *add_pass(maker *m, uint32_t act, uint16_t half, uint32_t w, uint32_t h)
{
    uint64_t n = ((uint64_t)w * h + 3) & ~(uint64_t)3;
    uint32_t to = 2 - m->area;
    stk_pic_step *s = new_step(m);

    s->head = (uint16_t)(act + 1);
    s->half = half;
    s->from_to = (uint16_t)(m->area | to << 8);
    s->w = (uint16_t)w;
    s->h = (uint16_t)h;
    m->area = to;
    m->w = w;
    m->h = h;
    m->p->area = n > m->p->area ? n : m->p->area;
    return s;
}

/* All rows of the tile are made down, as wide as it is, then across. */
static void add_down_first(maker *m, const stk_view *v, const stk_axis *x, const stk_axis *y)
{
    uint32_t a = add_axis(m, y, 0, v), b = add_axis(m, x, v->clip.x, v), lo, hi;
    stk_filter f = stk_axis_filter(y);

    stk_axis_inputs(y, &f, &lo, &hi);
    m->p->axis[a].base = v->clip.y + lo;
    (void)add_pass(m, a, STK_PIC_HALF_DOWN, m->w, v->vis_h);
    (void)add_pass(m, b, STK_PIC_HALF_WHOLE, v->vis_w, v->vis_h);
}

static int add_view(maker *m, const stk_view *v, stk_error *err)
{
    stk_axis x, y;
    stk_rect need;
    uint32_t a, b;

    stk_sample_axes(v, &x, &y);
    stk_axis_settle(&x);
    stk_axis_settle(&y);
    y.flip = v->flip_y;
    if (v->vis_w > STK_PIC_MAX_TILE || v->vis_h > STK_PIC_MAX_TILE ||
        m->p->axis_bytes + axis_bytes(&x) + axis_bytes(&y) > MAX_TABLES)
        return refuse(err, "a view that is too large");
    stk_sample_need(v, &need);
    if (!need.w)
        y.in = 0; /* nothing is seen: every row is fill */
    need_areas(m, STK_PIC_AREAS);
    if (stk_sample_down_first(v)) {
        add_down_first(m, v, &x, &y);
        return 0;
    }
    a = add_axis(m, &x, v->clip.x, v);
    b = add_axis(m, &y, v->clip.y, v);
    m->p->axis[a].act.v.u[5] = need.y;
    (void)add_pass(m, a, STK_PIC_HALF_WHOLE, v->vis_w, need.h ? need.h : 1);
    (void)add_pass(m, b, STK_PIC_HALF_DOWN, v->vis_w, v->vis_h);
    return 0;
}

/* The rest of a first view that is made down first: across. */
static int add_first_across(maker *m, const stk_view *v, stk_error *err)
{
    stk_axis x, y;

    stk_sample_axes(v, &x, &y);
    if (v->vis_w > STK_PIC_MAX_TILE || v->vis_h > STK_PIC_MAX_TILE || axis_bytes(&x) > MAX_TABLES)
        return refuse(err, "a view that is too large");
    need_areas(m, STK_PIC_AREAS);
    (void)add_pass(m, add_axis(m, &x, 0, v), STK_PIC_HALF_WHOLE, v->vis_w, v->vis_h);
    m->p->axis[0].act.v.u[3] = 0; /* the tile begins where the view does */
    return 0;
}

/* ---- the whole ---- */

static int add_action(maker *m, const stk_action *a, uint32_t i, stk_error *err)
{
    if (a->code == STK_ACT_OWN)
        return refuse(err, "an op of a plug-in");
    if (stk_act_is_point(a->code) || a->code == STK_ACT_ERASE) {
        add_point(m, a->code, i);
        return 0;
    }
    need_areas(m, STK_PIC_AREAS);
    if (a->code == STK_ACT_BLUR)
        add_blur(m, a, i);
    else if (a->code == STK_ACT_JPEG)
        add_loss(m, i);
    else if (a->code == STK_ACT_SHARPNESS || a->code == STK_ACT_PIL_SHARPNESS ||
             a->code == STK_ACT_PIL_BOX || stk_act_moves(a->code) || a->code == STK_ACT_MIX_WARP)
        add_head(m, i);
    else if (stk_act_mixes(a->code))
        add_mix(m, i);
    else
        return refuse(err, "one of its ops");
    return 0;
}

/* Axes of all views but the first, which is the record's own unless it is made down first;
 * identities are not views. */
static uint32_t count_axes(const stk_draws *d)
{
    uint32_t n = stk_sample_down_first(&d->view[0]) ? 1 : 0;

    for (uint32_t k = 1; k < d->n_passes; k++)
        n += stk_view_is_identity(&d->view[k]) ? 0 : 2;
    return n;
}

static int add_all(maker *m, const stk_draws *d, uint32_t n, stk_error *err)
{
    uint32_t axes = count_axes(d);

    if (stk_sample_down_first(&d->view[0]))
        STK_TRY(add_first_across(m, &d->view[0], err));
    for (uint32_t k = 0; k < d->n_passes; k++) {
        uint32_t end = k + 1 < d->n_passes ? d->from[k + 1] : n;

        if (k && !stk_view_is_identity(&d->view[k]))
            STK_TRY(add_view(m, &d->view[k], err));
        for (uint32_t i = d->from[k]; i < end; i++)
            STK_TRY(add_action(m, &d->action[i], axes + i, err));
    }
    (void)open_step(m);
    return m->p->n_steps <= STK_PIC_MAX_STEPS ? 0
                                              : refuse(err, "more ops than one picture can take");
}

int stk_pic_program_make(stk_pic_program *p, const stk_draws *d, stk_error *err)
{
    maker m = { .p = p, .w = d->view[0].vis_w, .h = d->view[0].vis_h };
    uint32_t n = d->n_actions;
    int down_first = stk_sample_down_first(&d->view[0]);
    stk_rect need;

    stk_sample_need(&d->view[0], &need);
    if (down_first && (uint64_t)need.w * need.h > MAX_ROWS)
        return refuse(err, "a picture of more than 64 million pixels that is made down first");
    if (down_first)
        m.w = need.w;
    p->d = d;
    p->n_steps = p->n_row = p->n_slots = p->n_axes = p->n_tables = 0;
    p->axis_bytes = 0;
    p->areas = 1;
    p->area = ((uint64_t)m.w * m.h + 3) & ~(uint64_t)3;
    if (!n && d->n_passes == 1 && !down_first)
        return 0;
    if (m.w > STK_PIC_MAX_TILE || m.h > STK_PIC_MAX_TILE)
        return refuse(err, "more than 65535 pixels on a side");
    while (n && stk_act_in_row(d->action[n - 1].code))
        n--;
    p->n_row = d->n_actions - n;
    return add_all(&m, d, n, err);
}

/* ---- the record ---- */

void stk_pic_program_add(const stk_pic_program *p, stk_pic *r)
{
    if (!p->n_steps)
        return;
    r->prog.at = r->size;
    r->prog.n_steps = (uint16_t)p->n_steps;
    r->prog.n_acts = (uint16_t)(p->n_axes + p->d->n_actions);
    r->prog.n_row = (uint16_t)p->n_row;
    r->prog.table_bytes = (uint32_t)(p->axis_bytes + p->n_tables * TABLE);
    r->prog.n_slots = (uint16_t)p->n_slots;
    r->prog.areas = (uint16_t)p->areas;
    r->prog.area = (uint32_t)p->area;
    r->size += (uint32_t)stk_pic_up64(stk_pic_prog_bytes(r));
}

/* Taps that weigh nothing are left out; u[4], u[5]: how many there were on each side. */
static void write_weights(uint16_t *to, stk_action *a)
{
    for (uint32_t axis = 0; axis < 2; axis++, to += STK_PIC_WEIGHTS) {
        uint32_t half = a->v.u[axis];

        a->v.u[4 + axis] = half;
        if (axis && half == a->v.u[4])
            memcpy(to, to - STK_PIC_WEIGHTS, (half + 1) * sizeof *to);
        else
            stk_blur_weights(to, half, a->v.f[2]);
        while (half && !to[half])
            half--;
        a->v.u[axis] = half;
    }
}

/* Output j of an axis: its inputs, as first | count << 16, and their weights. */
static uint32_t write_output(const stk_axis *a, const stk_filter *f, uint32_t j, int16_t *weight)
{
    int64_t at = (int64_t)(a->flip ? a->n - 1 - j : j) + a->off;
    uint32_t lo, hi, stride = stk_axis_stride(a, f);
    stk_window w;

    if (a->border && a->in) {
        weight[0] = (int16_t)(1 << stk_axis_shift(f));
        return stk_border_at(a->border, at, a->in) | 1u << 16;
    }
    stk_axis_visible(a, &lo, &hi);
    if (at < lo || at >= hi)
        return 0;
    w = stk_axis_window(a, f, (uint32_t)at);
    if (w.hi - w.lo > stride) /* roundoff; that tap would weigh nothing */
        w.hi = w.lo + stride;
    if (f->fine)
        stk_axis_fine((int32_t *)(void *)weight, f, &w);
    else
        stk_axis_weights(weight, f, &w, stk_axis_shift(f));
    stk_axis_inputs(a, f, &lo, &hi);
    return (w.lo - lo) | (w.hi - w.lo) << 16;
}

static void write_axis(uint8_t *to, const stk_pic_axis_table *t)
{
    const stk_axis *a = &t->axis;
    stk_filter f = stk_axis_filter(a);
    uint32_t *word = (uint32_t *)(void *)to, stride = stk_axis_stride(a, &f);
    int16_t *weight = (int16_t *)(void *)(word + a->n);

    for (uint32_t j = 0; j < a->n; j++)
        word[j] = write_output(a, &f, j, weight + ((size_t)j * stride << f.fine));
    for (uint32_t j = 0; j < a->n; j++)
        word[j] += word[j] >> 16 ? t->base : 0;
}

void stk_pic_program_write(const stk_pic_program *p, void *record)
{
    const stk_pic *r = record;
    uint8_t *to = (uint8_t *)record + r->prog.at, *end = (uint8_t *)record + r->size, *tables;
    uint32_t at = (uint32_t)p->axis_bytes;
    stk_action *act;

    if (!p->n_steps)
        return;
    memset(to, 0, (size_t)(end - to));
    memcpy(to, p->step, p->n_steps * sizeof *p->step);
    act = (stk_action *)(void *)(to + p->n_steps * sizeof *p->step);
    tables = (uint8_t *)(act + r->prog.n_acts);
    for (uint32_t i = 0; i < p->n_axes; i++) {
        act[i] = p->axis[i].act;
        write_axis(tables + act[i].v.u[0], &p->axis[i]);
    }
    act += p->n_axes;
    memcpy(act, p->d->action, p->d->n_actions * sizeof *act);
    for (uint32_t i = 0; i < p->d->n_actions; i++) {
        if (act[i].code != STK_ACT_BLUR && act[i].code != STK_ACT_JPEG)
            continue;
        act[i].v.u[3] = at;
        if (act[i].code == STK_ACT_BLUR)
            write_weights((uint16_t *)(void *)(tables + at), &act[i]);
        else
            stk_jpeg_quantizers((uint16_t(*)[64])(void *)(tables + at), act[i].v.u[0]);
        at += (uint32_t)TABLE;
    }
    assert(at == r->prog.table_bytes); /* the room that stk_pic_program_add() made */
}

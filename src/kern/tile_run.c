/* SPDX-License-Identifier: Apache-2.0 */
/* tile_run.c - actions in order, neighbouring ones on single pixels in one pass.
 *
 * A run of such actions is compiled to a few steps (tables that follow each other become one), and
 * the tile goes through all steps a piece at a time.  An action that needs figures of the whole
 * picture ends the run before it: its figures are of what that run made. */
#include "kern/tile.h"

#include <string.h>

#include "kern/pil.h"
#include "kern/stats.h"
#include "kern/tile_big.h"

#define PIECE 2048u /* pixels: with what is read and written of it, within L1 */
#define RUN 8       /* steps of one pass; longer runs take several */

typedef struct step { /* of one pass */
    stk_action a;
    float add;             /* CONTRAST: known by now */
    stk_channel_tables *t; /* a table in place of the action; NULL: none */
} step;

typedef struct pass {
    const stk_tile_kern *k;
    step s[RUN];
    uint32_t n;
    stk_channel_tables table[RUN];
} pass;

/* ---- tables ---- */

static int has_table(uint16_t code)
{
    return code >= STK_ACT_BRIGHTNESS && code <= STK_ACT_EQUALIZE;
}

static int is_linear(uint16_t code)
{
    return code == STK_ACT_BRIGHTNESS || code == STK_ACT_CONTRAST;
}

/* Such an action has no loop of its own: it is done by its table. */
static int is_table(uint16_t code)
{
    return code == STK_ACT_SOLARIZE_ADD || code == STK_ACT_PIL_BRIGHTNESS ||
           code == STK_ACT_PIL_CONTRAST;
}

static uint32_t value(const step *s, uint32_t v)
{
    switch (s->a.code) {
    case STK_ACT_BRIGHTNESS: return stk_pt_linear((int32_t)v, s->a.v.f[0], 0);
    case STK_ACT_CONTRAST: return stk_pt_linear((int32_t)v, s->a.v.f[0], s->add);
    case STK_ACT_SOLARIZE_ADD: return stk_pil_solarize_add(v, s->a.v.u[0], s->a.v.u[1]);
    default: return stk_pil_blend((int32_t)s->add, (int32_t)v, s->a.v.f[0]); /* of PIL */
    }
}

static void make_table(step *s, stk_channel_tables *t)
{
    for (uint32_t v = 0; v < 256; v++)
        t->of[0][v] = t->of[1][v] = t->of[2][v] = (uint8_t)value(s, v);
    s->t = t;
}

/* The later table after the first, in the first's place. */
static void join(stk_channel_tables *first, const stk_channel_tables *then)
{
    for (int c = 0; c < 3; c++)
        for (int v = 0; v < 256; v++)
            first->of[c][v] = then->of[c][first->of[c][v]];
}

/* ---- one pass ---- */

static uint64_t pil_gray_sum(const uint32_t *px, size_t n)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (uint32_t)stk_pil_gray(px[i]);
    return sum;
}

static void run_step(const stk_tile_kern *k, const step *s, uint32_t *px, size_t n, uint64_t first)
{
    const stk_action *a = &s->a;

    if (s->t) {
        k->table(px, n, s->t);
        return;
    }
    switch (a->code) {
    case STK_ACT_BRIGHTNESS: k->linear(px, n, a->v.f[0], 0); break;
    case STK_ACT_CONTRAST: k->linear(px, n, a->v.f[0], s->add); break;
    case STK_ACT_NOISE: k->noise(px, n, first, a); break;
    default:
        if (a->code > STK_ACT_PIXEL)
            k->pixel[a->code - STK_ACT_PIXEL - 1](px, n, a);
    }
}

/* What the action that ends the pass wants to know is gathered in the same go. */
static void run_pass(pass *p, const stk_tile *t, uint16_t wants, stk_figures_of *f)
{
    size_t all = (size_t)t->width * t->height;
    uint32_t min = UINT32_MAX, max = 0;

    for (size_t at = 0; at < all; at += PIECE) {
        size_t n = all - at < PIECE ? all - at : PIECE;

        for (uint32_t i = 0; i < p->n; i++)
            run_step(p->k, &p->s[i], t->data + at, n, at);
        if (wants == STK_ACT_CONTRAST)
            f->gray += p->k->gray_sum(t->data + at, n);
        else if (wants == STK_ACT_PIL_CONTRAST)
            f->gray += pil_gray_sum(t->data + at, n);
        else if (wants == STK_ACT_AUTOCONTRAST || wants == STK_ACT_PIL_AUTOCONTRAST)
            p->k->range(t->data + at, n, &min, &max);
        else if (wants == STK_ACT_EQUALIZE)
            p->k->count(t->data + at, n, f->count);
    }
    f->min = min;
    f->max = max;
    p->n = 0;
}

/* ---- runs ---- */

/* Its figures are there: a step like the others. */
static void resolve(step *s, stk_channel_tables *t, const stk_figures_of *f, size_t pixels)
{
    if (s->a.code == STK_ACT_CONTRAST) {
        s->add = stk_contrast_add(s->a.v.f[0], f->gray, pixels);
        return;
    }
    if (s->a.code == STK_ACT_PIL_CONTRAST) {
        s->add = (float)stk_pil_mean(f->gray, pixels);
        return;
    }
    for (int c = 0; c < 3; c++) {
        if (s->a.code == STK_ACT_EQUALIZE)
            stk_equalize(t->of[c], f->count[c]);
        for (uint32_t v = 0; s->a.code == STK_ACT_AUTOCONTRAST && v < 256; v++)
            t->of[c][v] = stk_autocontrast(v, f->min >> 8 * c & 255, f->max >> 8 * c & 255);
        for (uint32_t v = 0; s->a.code == STK_ACT_PIL_AUTOCONTRAST && v < 256; v++)
            t->of[c][v] = stk_pil_autocontrast(v, f->min >> 8 * c & 255, f->max >> 8 * c & 255);
    }
    s->t = t;
}

static void add(pass *p, const stk_action *a, const stk_tile *t)
{
    step *s;
    int wants = stk_act_has_figures(a->code);
    stk_figures_of f = { 0 };

    if (wants)
        run_pass(p, t, a->code, &f);
    else if (p->n == RUN)
        run_pass(p, t, 0, &f);
    s = &p->s[p->n];
    *s = (step){ .a = *a };
    if (wants)
        resolve(s, &p->table[p->n], &f, (size_t)t->width * t->height);
    p->n++;
    if ((p->k->table_is_quick && is_linear(a->code)) || is_table(a->code))
        make_table(s, &p->table[p->n - 1]);
    if (p->n < 2 || !has_table(a->code) || !has_table(s[-1].a.code))
        return;
    if (!s[-1].t)
        make_table(s - 1, &p->table[p->n - 2]);
    if (!s->t)
        make_table(s, &p->table[p->n - 1]);
    join(s[-1].t, s->t);
    p->n--;
}

static void flush(pass *p, const stk_tile *t)
{
    stk_figures_of none;

    if (p->n)
        run_pass(p, t, 0, &none);
}

int stk_tile_run(const stk_tile_kern *k, const stk_action *a, uint32_t n, stk_tile *t,
                 stk_tile_room *room, stk_error *err)
{
    pass p;

    p.k = k;
    p.n = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (stk_act_is_point(a[i].code)) {
            add(&p, &a[i], t);
            continue;
        }
        flush(&p, t);
        STK_TRY(stk_tile_big(k, &a[i], t, room, err));
    }
    flush(&p, t);
    return 0;
}

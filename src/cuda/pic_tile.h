/* SPDX-License-Identifier: Apache-2.0 */
/* pic_tile.h - one step of a record's program, pixel by pixel, for the kernel and the host alike.
 *
 * The arithmetic is the CPU's (kern/point.h, near.h, stats.h, erase.h, warp.h).  What all pixels of a step share
 * (stk_pic_known) is made first, by a block of threads together.  Figures are sums and maxima of whole
 * numbers, so the order in which threads add to them does not matter. */
#ifndef STOKER_PIC_TILE_H
#define STOKER_PIC_TILE_H

#include "cuda/pic_view.h"
#include "kern/erase.h"
#include "kern/near.h"
#include "kern/stats.h"
#include "kern/warp.h"

/* A step of a job. */
typedef struct stk_pic_stage {
    const stk_pic *rec;
    const stk_pic_step *s;
    const stk_action *act;
    const uint32_t *from;    /* area that is read */
    uint32_t *to;            /* ... and written */
    const uint32_t *figures; /* that the first action needs */
    uint32_t *into;          /* that are gathered */
    uint32_t last;           /* what is made is the output */
} stk_pic_stage;

STK_PIC_FN stk_pic_stage stk_pic_stage_of(const stk_pic_launch *l, const stk_pic_job *j, uint32_t k)
{
    stk_pic_stage t;
    uint32_t *slots = (uint32_t *)(void *)(l->scratch + j->tile), *areas;
    uint64_t area;

    t.rec = (const stk_pic *)(const void *)(l->slab + j->rec);
    t.s = stk_pic_steps(t.rec) + k;
    t.act = stk_pic_acts(t.rec);
    areas = slots + (uint64_t)t.rec->n_slots * STK_PIC_FIGURES;
    area = t.rec->area;
    t.from = areas + (t.s->from_to & 255) * area;
    t.to = areas + (t.s->from_to >> 8) * area;
    t.figures = slots + (uint64_t)(t.s->slot ? t.s->slot - 1u : 0) * STK_PIC_FIGURES;
    t.into = slots + (uint64_t)t.s->into * STK_PIC_FIGURES;
    t.last = k + 1 == t.rec->n_steps;
    return t;
}

/* The tile of a job, where the pass down writes it: area 0. */
STK_PIC_FN uint32_t *stk_pic_tile_at(const stk_pic_launch *l, const stk_pic_job *j, const stk_pic *r)
{
    return (uint32_t *)(void *)(l->scratch + j->tile) + (uint64_t)r->n_slots * STK_PIC_FIGURES;
}

/* ---- figures ---- */

/* Of contrast: a sum of 64 bits.  Of autocontrast: the largest of 255 - value and of value, R, G, B.
 * Of equalize: counts.  Zero is empty. */
STK_PIC_FN uint64_t stk_pic_gray_sum(const uint32_t *figures)
{
    return figures[0] | (uint64_t)figures[1] << 32;
}

typedef struct stk_pic_known { /* what the pixels of a step share */
    stk_warp warp;
    float add;                 /* contrast */
    uint8_t table[3][256];     /* autocontrast, equalize */
    uint64_t before[3][257];   /* equalize: pixels of lower values; the last: a step */
} stk_pic_known;

/* Thread t of n, before all wait for each other; then stk_pic_know(). */
STK_PIC_FN void stk_pic_know_first(stk_pic_known *k, const stk_pic_stage *g, uint32_t t)
{
    const stk_action *a = g->act + g->s->first;

    if (t == 0 && g->s->head && g->act[g->s->head - 1].code == STK_ACT_WARP)
        k->warp = stk_warp_of(g->act + g->s->head - 1);
    if (!g->s->slot)
        return;
    if (t == 0 && a->code == STK_ACT_CONTRAST)
        k->add = stk_contrast_add(a->v.f[0], stk_pic_gray_sum(g->figures),
                                  (uint64_t)g->s->in_w * g->s->in_h);
    if (t < 3 && a->code == STK_ACT_EQUALIZE) {
        const uint32_t *count = g->figures + t * 256;
        uint64_t step = stk_equalize_step(count), at = step / 2;

        for (uint32_t v = 0; v < 256; v++) {
            k->before[t][v] = at;
            at += count[v];
        }
        k->before[t][256] = step;
    }
}

STK_PIC_FN void stk_pic_know(stk_pic_known *k, const stk_pic_stage *g, uint32_t t, uint32_t n)
{
    const stk_action *a = g->act + g->s->first;

    if (!g->s->slot || a->code == STK_ACT_CONTRAST)
        return;
    for (uint32_t i = t; i < 768; i += n) {
        uint32_t c = i / 256, v = i % 256;

        k->table[c][v] = a->code == STK_ACT_EQUALIZE
                             ? stk_equalized(v, k->before[c][v], k->before[c][256])
                             : stk_autocontrast(v, 255 - (g->figures[c] & 255),
                                                g->figures[3 + c] & 255);
    }
}

/* ---- one pixel ---- */

STK_PIC_FN uint32_t stk_pic_linear3(uint32_t px, float mul, float add)
{
    return stk_px(stk_pt_linear(stk_px_r(px), mul, add), stk_pt_linear(stk_px_g(px), mul, add),
                  stk_pt_linear(stk_px_b(px), mul, add));
}

STK_PIC_FN uint32_t stk_pic_solarize3(uint32_t px, uint32_t from)
{
    return stk_px(stk_pt_solarize(px & 255, from), stk_pt_solarize(px >> 8 & 255, from),
                  stk_pt_solarize(px >> 16 & 255, from));
}

/* Pixel i of a step's output is it in the action's rectangle?  Which of it; UINT32_MAX: it is not. */
STK_PIC_FN uint32_t stk_pic_inside(const stk_action *a, uint32_t w, uint32_t i)
{
    uint32_t x = i % w - a->v.u[0], y = i / w - a->v.u[1];

    return x < a->v.u[2] && y < a->v.u[3] ? y * a->v.u[2] + x : UINT32_MAX;
}

STK_PIC_FN uint32_t stk_pic_erased(const stk_action *a, uint32_t px, uint32_t w, uint32_t i)
{
    uint32_t at = stk_pic_inside(a, w, i);

    return at == UINT32_MAX ? px : stk_erase_pixel(a, at);
}

STK_PIC_FN uint32_t stk_pic_table3(const stk_pic_known *k, uint32_t px)
{
    return stk_px(k->table[0][px & 255], k->table[1][px >> 8 & 255], k->table[2][px >> 16 & 255]);
}

STK_PIC_FN uint32_t stk_pic_acted(const stk_action *a, const stk_pic_known *k, uint32_t px, uint32_t w,
                                  uint32_t i)
{
    switch (a->code) {
    case STK_ACT_BRIGHTNESS: return stk_pic_linear3(px, a->v.f[0], 0);
    case STK_ACT_INVERT: return px ^ 0xffffff;
    case STK_ACT_SOLARIZE: return stk_pic_solarize3(px, a->v.u[0]);
    case STK_ACT_POSTERIZE: return px & (a->v.u[0] & 255) * 0x010101u;
    case STK_ACT_CONTRAST: return stk_pic_linear3(px, a->v.f[0], k->add);
    case STK_ACT_AUTOCONTRAST:
    case STK_ACT_EQUALIZE: return stk_pic_table3(k, px);
    case STK_ACT_SATURATION: return stk_pt_saturation(px, a->v.f[0]);
    case STK_ACT_HUE: return stk_pt_hue(px, (int32_t)a->v.u[0]);
    case STK_ACT_HSV: return stk_pt_hsv(px, (int32_t)a->v.u[0], a->v.f[1], a->v.f[2]);
    case STK_ACT_GRAYSCALE: return stk_pt_grayscale(px);
    case STK_ACT_SHUFFLE: return stk_pt_shuffle(px, a->v.u[0]);
    case STK_ACT_NOISE: return stk_pt_noise(a, px, i);
    case STK_ACT_ERASE: return stk_pic_erased(a, px, w, i);
    default: return px;
    }
}

/* ---- neighbours ---- */

/* Three sums of 16 bits, R and G in x. */
STK_PIC_FN stk_pic_v2 stk_pic_sums(const uint16_t sum[3])
{
    stk_pic_v2 v;

    v.x = sum[0] | (uint32_t)sum[1] << 16;
    v.y = sum[2];
    return v;
}

/* stk_mirror() of a place that is rarely outside, and hardly ever by more than n. */
STK_PIC_FN uint32_t stk_pic_mirror(int32_t i, uint32_t n)
{
    int32_t j = i < 0 ? -i : i;

    j = (uint32_t)j < n ? j : 2 * ((int32_t)n - 1) - j;
    return (uint32_t)j < n ? (uint32_t)j : stk_mirror(i, n);
}

STK_PIC_FN stk_pic_v2 stk_pic_blur_across(const stk_pic_stage *g, const stk_action *a, uint32_t i)
{
    uint32_t w = g->s->w, x = i % w, half = a->v.u[0];
    const uint16_t *weight = stk_pic_weights(g->rec, a);
    const uint32_t *row = g->from + (i - x);
    uint16_t sum[3] = { stk_blur_begin(half), stk_blur_begin(half), stk_blur_begin(half) };

    for (uint32_t k = 0; k <= half; k++) {
        uint32_t p = row[stk_pic_mirror((int32_t)(x - k), w)];
        uint32_t q = row[stk_pic_mirror((int32_t)(x + k), w)];

        for (int c = 0; c < 3; c++)
            sum[c] = (uint16_t)(sum[c] + stk_blur_pair(p >> 8 * c & 255, q >> 8 * c & 255, weight[k]));
    }
    return stk_pic_sums(sum);
}

STK_PIC_FN uint32_t stk_pic_blur_down(const stk_pic_stage *g, const stk_action *a, uint32_t i)
{
    uint32_t w = g->s->w, h = g->s->h, x = i % w, y = i / w, half = a->v.u[1];
    const uint16_t *weight = stk_pic_weights(g->rec, a) + STK_PIC_WEIGHTS;
    const stk_pic_v2 *at = (const stk_pic_v2 *)(const void *)g->from + x;
    uint16_t sum[3] = { stk_blur_begin(half), stk_blur_begin(half), stk_blur_begin(half) };

    for (uint32_t k = 0; k <= half; k++) {
        stk_pic_v2 p = at[(uint64_t)stk_pic_mirror((int32_t)(y - k), h) * w];
        stk_pic_v2 q = at[(uint64_t)stk_pic_mirror((int32_t)(y + k), h) * w];

        sum[0] = (uint16_t)(sum[0] + stk_blur_pair_down((uint16_t)p.x, (uint16_t)q.x, weight[k]));
        sum[1] = (uint16_t)(sum[1] + stk_blur_pair_down((uint16_t)(p.x >> 16), (uint16_t)(q.x >> 16),
                                                        weight[k]));
        sum[2] = (uint16_t)(sum[2] + stk_blur_pair_down((uint16_t)p.y, (uint16_t)q.y, weight[k]));
    }
    return stk_px(stk_blur_end(sum[0]), stk_blur_end(sum[1]), stk_blur_end(sum[2]));
}

/* Pixels at the edge stay as they are. */
STK_PIC_FN uint32_t stk_pic_sharpened(const stk_pic_stage *g, const stk_action *a, uint32_t i)
{
    uint32_t w = g->s->w, h = g->s->h, x = i % w, y = i / w, out = 0;
    const uint32_t *at = g->from + i;

    if (x == 0 || y == 0 || x + 1 >= w || y + 1 >= h)
        return at[0];
    for (int c = 0; c < 3; c++) {
        int32_t sum = 4 * (int32_t)(at[0] >> 8 * c & 255);

        for (int64_t dy = -1; dy <= 1; dy++)
            for (int64_t dx = -1; dx <= 1; dx++)
                sum += (int32_t)(at[dy * w + dx] >> 8 * c & 255);
        out |= (uint32_t)stk_sharpen((int32_t)(at[0] >> 8 * c & 255), sum, 1 - a->v.f[0]) << 8 * c;
    }
    return out;
}

/* Output j of an axis of a view: its inputs are `step` apart, `in` of them; across: from the first on
 * that any output sees, down: all there are. */
STK_PIC_FN uint32_t stk_pic_filtered(const stk_pic_stage *g, const stk_action *a, uint32_t j,
                                     const uint32_t *from, uint32_t step, uint32_t in)
{
    const uint32_t *word = (const uint32_t *)(const void *)(stk_pic_tables_of(g->rec) + a->v.u[0]);
    uint32_t n = g->s->half == STK_PIC_HALF_DOWN ? g->s->h : g->s->w, shift = a->v.u[2];
    const int16_t *weight = (const int16_t *)(const void *)(word + n) + (uint64_t)j * a->v.u[1];
    uint32_t first = word[j] & 0xFFFF, count = word[j] >> 16;
    uint32_t sum[3] = { 1u << (shift - 1), 1u << (shift - 1), 1u << (shift - 1) };
    int32_t v[3];

    if (!count || count > a->v.u[1] || first >= in || count > in - first)
        return a->v.u[4];
    for (uint32_t k = 0; k < count; k++) {
        uint32_t px = from[(uint64_t)(first + k) * step];

        for (int c = 0; c < 3; c++)
            sum[c] += (px >> 8 * c & 255) * (uint32_t)(int32_t)weight[k];
    }
    for (int c = 0; c < 3; c++)
        v[c] = (int32_t)sum[c];
    return stk_pic_clamp3(v, shift);
}

/* The pass across makes the rows that the pass down sees: its first one is row u[5]. */
STK_PIC_FN uint32_t stk_pic_viewed(const stk_pic_stage *g, const stk_action *a, uint32_t i)
{
    uint32_t w = g->s->w, x = i % w, y = i / w, in = g->s->in_w;

    if (g->s->half == STK_PIC_HALF_DOWN)
        return stk_pic_filtered(g, a, y, g->from + x, w, g->s->in_h);
    y += a->v.u[5];
    if (y >= g->s->in_h || a->v.u[3] > in)
        return a->v.u[4];
    return stk_pic_filtered(g, a, x, g->from + (uint64_t)y * in + a->v.u[3], 1, in - a->v.u[3]);
}

STK_PIC_FN uint32_t stk_pic_warped(const stk_pic_stage *g, const stk_warp *m, uint32_t i)
{
    uint32_t w = g->s->w;
    int64_t sx, sy;

    stk_warp_at(m, i % w, i / w, &sx, &sy);
    return stk_warp_pixel(m, g->from, w, g->s->h, sx, sy);
}

STK_PIC_FN uint32_t stk_pic_headed(const stk_pic_stage *g, const stk_pic_known *k, uint32_t i)
{
    const stk_action *a = g->act + g->s->head - 1;

    switch (a->code) {
    case STK_ACT_BLUR: return stk_pic_blur_down(g, a, i);
    case STK_ACT_WARP: return stk_pic_warped(g, &k->warp, i);
    case STK_PIC_ACT_VIEW: return stk_pic_viewed(g, a, i);
    default: return stk_pic_sharpened(g, a, i);
    }
}

/* Pixel i of a step that is not a blur's pass across. */
STK_PIC_FN uint32_t stk_pic_made(const stk_pic_stage *g, const stk_pic_known *k, uint32_t i)
{
    uint32_t px = g->s->head ? stk_pic_headed(g, k, i) : g->from[i];

    for (uint32_t n = 0; n < g->s->n; n++)
        px = stk_pic_acted(g->act + g->s->first + n, k, px, g->s->w, i);
    return px;
}

/* ---- the output ---- */

/* An element of an erased rectangle of the output: a u8 is cut down, as the host does. */
STK_PIC_FN uint32_t stk_pic_erased_as(uint32_t dtype, float v)
{
    return dtype == STK_PIC_AS_U8 ? (uint32_t)(v < 0 ? 0 : v > 255 ? 255 : v) : stk_pic_as(dtype, v);
}

/* Elements of pixel i, after color: v; 1: an action in the row says what they are. */
STK_PIC_FN int stk_pic_row_acts(const stk_pic_stage *g, uint32_t i, float v[3])
{
    for (uint32_t n = 0; n < g->rec->n_row; n++) { /* the last that has it counts */
        const stk_action *a = g->act + g->rec->n_acts - 1 - n;
        uint32_t at = a->code == STK_ACT_ERASE_ROW ? stk_pic_inside(a, g->s->w, i) : UINT32_MAX;

        if (at == UINT32_MAX)
            continue;
        stk_erase_values(a, at, v);
        return 1;
    }
    return 0;
}

STK_PIC_FN void stk_pic_put_out(const stk_pic_launch *l, uint32_t dtype, const stk_pic_stage *g,
                                uint8_t *out, uint32_t i, uint32_t px)
{
    uint32_t w = g->s->w, h = g->s->h, elem = stk_pic_elem(dtype);
    float v[3];
    int erased = stk_pic_row_acts(g, i, v);

    for (uint32_t c = 0; c < 3; c++) {
        uint64_t at = l->packed ? (uint64_t)i * 3 + c : (uint64_t)c * w * h + i;
        uint32_t bits =
            erased ? stk_pic_erased_as(dtype, v[c])
                   : stk_pic_as(dtype, stk_pic_add(stk_pic_mul((float)(px >> 8 * c & 255), l->mul[c]),
                                                   l->add[c]));

        stk_pic_put_elem(out + at * elem, dtype, bits);
    }
}

/* ---- into the tile ---- */

/* Pixels x to x + 3 of row y of a viewed picture. */
STK_PIC_FN void stk_pic_tile4(const stk_pic_pass *p, uint32_t y, uint32_t x, uint32_t *tile)
{
    uint32_t w = ((const stk_pic_taps *)(const void *)p->taps)->x.n, px[4][3];

    stk_pic_channels4(p, y, x, px);
    for (uint32_t i = 0; i < 4; i++)
        if (x + i < w)
            tile[(uint64_t)y * w + x + i] = stk_px(px[i][0], px[i][1], px[i][2]);
}

/* Pixel i of a picture that the host sampled, of three bytes. */
STK_PIC_FN void stk_pic_tile1(const uint8_t *rgb, uint64_t i, uint32_t *tile)
{
    tile[i] = stk_px(rgb[3 * i], rgb[3 * i + 1], rgb[3 * i + 2]);
}

#endif

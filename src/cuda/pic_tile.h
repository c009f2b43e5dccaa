/* SPDX-License-Identifier: Apache-2.0 */
/* pic_tile.h - one step of a record's program, pixel by pixel, for the kernel and the host alike.
 *
 * The arithmetic is the CPU's (kern/point.h, near.h, stats.h, erase.h, warp.h).  What all pixels of
 * a step share (stk_pic_known) is made first, by a block of threads together.  Figures are sums and
 * maxima of whole numbers, so the order in which threads add to them does not matter. */
#ifndef STOKER_PIC_TILE_H
#define STOKER_PIC_TILE_H

#include "cuda/pic_view.h"
#include "kern/erase.h"
#include "kern/jpeg_loss.h"
#include "kern/pil.h"
#include "kern/pixel.h"
#include "kern/stats.h"
#include "kern/warp.h"

/* Before a loop that is seldom run: unrolled it would take registers from the others. */
#if defined(__CUDACC__)
#define STK_PIC_ONE_COPY _Pragma("unroll 1")
#else
#define STK_PIC_ONE_COPY
#endif

/* A step of a job. */
typedef struct stk_pic_stage {
    const stk_pic *rec;
    stk_pic_step s; /* a copy: what is written can't change it */
    const stk_action *act;
    const uint32_t *from;    /* area that is read */
    uint32_t *to;            /* ... and written */
    const uint32_t *figures; /* that the first action needs */
    uint32_t *into;          /* that are gathered */
    uint32_t last;           /* what is made is the output ... */
    const stk_pic_job *job;  /* ... of this */
    uint32_t n_row;          /* of the record */
} stk_pic_stage;

STK_PIC_FN stk_pic_stage stk_pic_stage_of(const stk_pic_launch *l, const stk_pic_job *j, uint32_t k)
{
    stk_pic_stage t;
    uint32_t *slots = (uint32_t *)(void *)(l->scratch + j->tile), *areas;
    uint64_t area;

    t.rec = (const stk_pic *)(const void *)(l->slab + j->rec);
    t.s = stk_pic_steps(t.rec)[k];
    t.act = stk_pic_acts(t.rec);
    areas = slots + (uint64_t)t.rec->prog.n_slots * STK_PIC_FIGURES;
    area = t.rec->prog.area;
    t.from = areas + (t.s.from_to & 255) * area;
    t.to = areas + (t.s.from_to >> 8) * area;
    t.figures = slots + (uint64_t)(t.s.slot ? t.s.slot - 1u : 0) * STK_PIC_FIGURES;
    t.into = slots + (uint64_t)t.s.into * STK_PIC_FIGURES;
    t.last = k + 1 == t.rec->prog.n_steps;
    t.job = j;
    t.n_row = t.rec->prog.n_row;
    return t;
}

/* The tile of a job, where the pass down writes it: area 0. */
STK_PIC_FN uint32_t *stk_pic_tile_at(const stk_pic_launch *l, const stk_pic_job *j,
                                     const stk_pic *r)
{
    return (uint32_t *)(void *)(l->scratch + j->tile) + (uint64_t)r->prog.n_slots * STK_PIC_FIGURES;
}

/* ---- figures ---- */

/* Of contrast: a sum of 64 bits.  Of autocontrast: the largest of 255 - value and of value, R, G,
 * B.  Of equalize: counts.  Zero is empty. */
STK_PIC_FN uint64_t stk_pic_gray_sum(const uint32_t *figures)
{
    return figures[0] | (uint64_t)figures[1] << 32;
}

typedef struct stk_pic_known { /* what the pixels of a step share */
    stk_warp warp;
    stk_pil_map map;
    float add;               /* contrast */
    uint8_t table[3][256];   /* autocontrast, equalize */
    uint64_t before[3][257]; /* equalize: pixels of lower values; the last: a step */
} stk_pic_known;

STK_PIC_FN int stk_pic_is_map(unsigned code)
{
    return code == STK_ACT_PIL_WARP || code == STK_ACT_MIX_WARP;
}

/* Thread t of n, before all wait for each other; then stk_pic_know(). */
STK_PIC_FN void stk_pic_know_first(stk_pic_known *k, const stk_pic_stage *g, uint32_t t)
{
    const stk_action *a = g->act + g->s.first;

    if (t == 0 && g->s.head && g->act[g->s.head - 1].code == STK_ACT_WARP)
        k->warp = stk_warp_of(g->act + g->s.head - 1);
    if (t == 0 && g->s.head && stk_pic_is_map(g->act[g->s.head - 1].code))
        k->map = stk_pil_map_of(g->act + g->s.head - 1, g->s.in_w, g->s.in_h);
    if (!g->s.slot)
        return;
    if (t == 0 && a->code == STK_ACT_CONTRAST)
        k->add = stk_contrast_add(a->v.f[0], stk_pic_gray_sum(g->figures),
                                  (uint64_t)g->s.in_w * g->s.in_h);
    if (t == 0 && a->code == STK_ACT_PIL_CONTRAST)
        k->add = (float)stk_pil_mean(stk_pic_gray_sum(g->figures), (uint64_t)g->s.in_w * g->s.in_h);
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
    const stk_action *a = g->act + g->s.first;

    if (!g->s.slot || a->code == STK_ACT_CONTRAST || a->code == STK_ACT_PIL_CONTRAST)
        return;
    for (uint32_t i = t; i < 768; i += n) {
        uint32_t c = i / 256, v = i % 256;

        k->table[c][v] = a->code == STK_ACT_EQUALIZE
                             ? stk_equalized(v, k->before[c][v], k->before[c][256])
                         : a->code == STK_ACT_PIL_AUTOCONTRAST
                             ? stk_pil_autocontrast(v, 255 - (g->figures[c] & 255),
                                                    g->figures[3 + c] & 255)
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

STK_PIC_FN uint32_t stk_pic_solarize_add3(uint32_t px, const stk_action *a)
{
    return stk_px(stk_pil_solarize_add(px & 255, a->v.u[0] & 255, a->v.u[1]),
                  stk_pil_solarize_add(px >> 8 & 255, a->v.u[0] & 255, a->v.u[1]),
                  stk_pil_solarize_add(px >> 16 & 255, a->v.u[0] & 255, a->v.u[1]));
}

/* Pixel i of a step's output is it in the action's rectangle?  Which of it; UINT32_MAX: it is
 * not. */
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

/* Four pixels: pixel j is pixel i + j * step of a step's output; the first n are there. */
typedef struct stk_pic_four {
    uint32_t px[4];
    uint32_t i, step, n;
} stk_pic_four;

/* px of all four, side by side ... */
#define STK_PIC_EACH(expr)                                                                         \
    for (uint32_t j = 0; j < 4; j++) {                                                             \
        uint32_t px = f->px[j];                                                                    \
                                                                                                   \
        f->px[j] = (expr);                                                                         \
    }                                                                                              \
    break

/* ... and one after the other, where four copies of the code would take too many registers: pixels
 * change places, so that none is looked up by number. */
#define STK_PIC_IN_TURN(expr)                                                                      \
    STK_PIC_ONE_COPY                                                                               \
    for (uint32_t j = 0; j < 4; j++) {                                                             \
        uint32_t px = f->px[0];                                                                    \
                                                                                                   \
        px = (expr);                                                                               \
        stk_pic_turn(f, px);                                                                       \
    }                                                                                              \
    break

STK_PIC_FN void stk_pic_turn(stk_pic_four *f, uint32_t last)
{
    f->px[0] = f->px[1];
    f->px[1] = f->px[2];
    f->px[2] = f->px[3];
    f->px[3] = last;
}

/* The code is looked at once for all four. */
STK_PIC_FN void stk_pic_act(const stk_action *a, const stk_pic_known *k, stk_pic_four *f,
                            uint32_t w)
{
    switch (a->code) {
    case STK_ACT_BRIGHTNESS: STK_PIC_EACH(stk_pic_linear3(px, a->v.f[0], 0));
    case STK_ACT_CONTRAST: STK_PIC_EACH(stk_pic_linear3(px, a->v.f[0], k->add));
    case STK_ACT_PIL_BRIGHTNESS: STK_PIC_EACH(stk_pil_blend3(0, px, a->v.f[0]));
    case STK_ACT_PIL_CONTRAST: STK_PIC_EACH(stk_pil_blend3((int32_t)k->add, px, a->v.f[0]));
    case STK_ACT_SOLARIZE_ADD: STK_PIC_EACH(stk_pic_solarize_add3(px, a));
    case STK_ACT_PIL_AUTOCONTRAST:
    case STK_ACT_AUTOCONTRAST:
    case STK_ACT_EQUALIZE: STK_PIC_EACH(stk_pic_table3(k, px));
#define STK_PIXEL(name)                                                                            \
    case STK_ACT_##name: STK_PIC_EACH(stk_pixel_##name(px, a));
#define STK_PIXEL_LARGE(name)                                                                      \
    case STK_ACT_##name: STK_PIC_IN_TURN(stk_pixel_##name(px, a));
#include "op/pixels.def"
    case STK_ACT_NOISE: STK_PIC_IN_TURN(stk_pt_noise(a, px, f->i + j * f->step));
    case STK_ACT_ERASE: STK_PIC_IN_TURN(stk_pic_erased(a, px, w, f->i + j * f->step));
    default: break;
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
    uint32_t w = g->s.w, x = i % w, half = a->v.u[0];
    const uint16_t *weight = stk_pic_weights(g->rec, a), begin = stk_blur_begin(a->v.u[4]);
    const uint32_t *row = g->from + (i - x);
    uint16_t sum[3] = { begin, begin, begin };

    STK_PIC_ONE_COPY
    for (uint32_t k = 0; k <= half; k++) {
        uint32_t p = row[stk_pic_mirror((int32_t)(x - k), w)];
        uint32_t q = row[stk_pic_mirror((int32_t)(x + k), w)];

        for (int c = 0; c < 3; c++)
            sum[c] = (uint16_t)(sum[c] +
                                stk_blur_pair(p >> 8 * c & 255, q >> 8 * c & 255, weight[k]));
    }
    return stk_pic_sums(sum);
}

STK_PIC_FN uint32_t stk_pic_blur_down(const stk_pic_stage *g, const stk_action *a, uint32_t i)
{
    uint32_t w = g->s.w, h = g->s.h, x = i % w, y = i / w, half = a->v.u[1];
    const uint16_t *weight = stk_pic_weights(g->rec, a) + STK_PIC_WEIGHTS;
    const stk_pic_v2 *at = (const stk_pic_v2 *)(const void *)g->from + x;
    const uint16_t begin = stk_blur_begin(a->v.u[5]);
    uint16_t sum[3] = { begin, begin, begin };

    STK_PIC_ONE_COPY
    for (uint32_t k = 0; k <= half; k++) {
        stk_pic_v2 p = at[(uint64_t)stk_pic_mirror((int32_t)(y - k), h) * w];
        stk_pic_v2 q = at[(uint64_t)stk_pic_mirror((int32_t)(y + k), h) * w];

        sum[0] = (uint16_t)(sum[0] + stk_blur_pair_down((uint16_t)p.x, (uint16_t)q.x, weight[k]));
        sum[1] = (uint16_t)(sum[1] + stk_blur_pair_down((uint16_t)(p.x >> 16),
                                                        (uint16_t)(q.x >> 16), weight[k]));
        sum[2] = (uint16_t)(sum[2] + stk_blur_pair_down((uint16_t)p.y, (uint16_t)q.y, weight[k]));
    }
    return stk_px(stk_blur_end(sum[0]), stk_blur_end(sum[1]), stk_blur_end(sum[2]));
}

/* Pixels at the edge stay as they are. */
STK_PIC_FN uint32_t stk_pic_sharpened(const stk_pic_stage *g, const stk_action *a, uint32_t i)
{
    uint32_t w = g->s.w, h = g->s.h, x = i % w, y = i / w, out = 0;
    const uint32_t *at = g->from + i;

    if (x == 0 || y == 0 || x + 1 >= w || y + 1 >= h)
        return at[0];
    for (int c = 0; c < 3; c++) {
        int32_t sum = 4 * (int32_t)(at[0] >> 8 * c & 255);

        for (int64_t dy = -1; dy <= 1; dy++)
            for (int64_t dx = -1; dx <= 1; dx++)
                sum += (int32_t)(at[dy * w + dx] >> 8 * c & 255);
        out |= (uint32_t)(a->code == STK_ACT_PIL_SHARPNESS
                              ? stk_pil_sharpen((int32_t)(at[0] >> 8 * c & 255), sum, a->v.f[0])
                              : stk_sharpen((int32_t)(at[0] >> 8 * c & 255), sum, 1 - a->v.f[0]))
               << 8 * c;
    }
    return out;
}

/* Output j of an axis of a view: its inputs are `step` apart, `in` of them; across: from the first
 * on that any output sees, down: all there are. */
STK_PIC_FN uint32_t stk_pic_filtered(const stk_pic_stage *g, const stk_action *a, uint32_t j,
                                     const uint32_t *from, uint32_t step, uint32_t in)
{
    const uint32_t *word = (const uint32_t *)(const void *)(stk_pic_tables_of(g->rec) + a->v.u[0]);
    uint32_t n = g->s.half == STK_PIC_HALF_DOWN ? g->s.h : g->s.w, shift = a->v.u[2];
    const int16_t *weight = (const int16_t *)(const void *)(word + n) + (uint64_t)j * a->v.u[1];
    const int32_t *fine = (const int32_t *)(const void *)(word + n) + (uint64_t)j * a->v.u[1];
    uint32_t first = word[j] & 0xFFFF, count = word[j] >> 16;
    uint32_t sum[3] = { 1u << (shift - 1), 1u << (shift - 1), 1u << (shift - 1) };
    int32_t v[3];

    if (!count || count > a->v.u[1] || first >= in || count > in - first)
        return a->v.u[4];
    for (uint32_t k = 0; k < count; k++) {
        uint32_t px = from[(uint64_t)(first + k) * step];
        uint32_t w = (uint32_t)(a->v.u[6] ? fine[k] : weight[k]);

        for (int c = 0; c < 3; c++)
            sum[c] += (px >> 8 * c & 255) * w;
    }
    for (int c = 0; c < 3; c++)
        v[c] = (int32_t)sum[c];
    return stk_pic_clamp3(v, shift);
}

/* The pass across makes the rows that the pass down sees: its first one is row u[5]. */
STK_PIC_FN uint32_t stk_pic_viewed(const stk_pic_stage *g, const stk_action *a, uint32_t i)
{
    uint32_t w = g->s.w, x = i % w, y = i / w, in = g->s.in_w;

    if (g->s.half == STK_PIC_HALF_DOWN)
        return stk_pic_filtered(g, a, y, g->from + x, w, g->s.in_h);
    y += a->v.u[5];
    if (y >= g->s.in_h || a->v.u[3] > in)
        return a->v.u[4];
    return stk_pic_filtered(g, a, x, g->from + (uint64_t)y * in + a->v.u[3], 1, in - a->v.u[3]);
}

STK_PIC_FN uint32_t stk_pic_warped(const stk_pic_stage *g, const stk_warp *m, uint32_t i)
{
    uint32_t w = g->s.w;
    int64_t sx, sy;

    stk_warp_at(m, i % w, i / w, &sx, &sy);
    return stk_warp_pixel(m, g->from, w, g->s.h, sx, sy);
}

/* Y, Cb and Cr of the four pixels at column x and row y of Cb's and Cr's. */
STK_PIC_FN uint32_t stk_pic_quad(const stk_pic_stage *g, uint32_t x, uint32_t y)
{
    return g->from[(uint64_t)y * 2 * g->s.w + (uint64_t)x * 2];
}

/* The second step of pic_loss.h: Cb and Cr at full size, as libjpeg brings them there, and
 * colors. */
STK_PIC_FN uint32_t stk_pic_colored(const stk_pic_stage *g, uint32_t i)
{
    uint32_t w = g->s.w, h = g->s.h, x = i % w, y = i / w, n = (w + 1) / 2, rows = (h + 1) / 2;
    uint32_t cx = x / 2, cy = y / 2, c[2];
    uint32_t ox = x & 1 ? (cx + 1 < n ? cx + 1 : cx) : (cx ? cx - 1 : 0);
    uint32_t oy = y & 1 ? (cy + 1 < rows ? cy + 1 : cy) : (cy ? cy - 1 : 0);
    uint32_t a = stk_pic_quad(g, cx, cy), b = stk_pic_quad(g, cx, oy);
    uint32_t d = stk_pic_quad(g, ox, cy), e = stk_pic_quad(g, ox, oy);

    for (int k = 0; k < 2; k++) {
        int at = 8 + 8 * k;
        uint32_t near = 3 * (a >> at & 255) + (b >> at & 255),
                 far = 3 * (d >> at & 255) + (e >> at & 255);

        c[k] = n > 2 ? stk_jpeg_grown(near, far, x & 1) : a >> at & 255;
    }
    return stk_jpeg_px((int32_t)(g->from[i] & 255), (int32_t)c[0], (int32_t)c[1]);
}

STK_PIC_FN uint32_t stk_pic_headed(const stk_pic_stage *g, const stk_pic_known *k, uint32_t i)
{
    const stk_action *a = g->act + g->s.head - 1;

    switch (a->code) {
    case STK_ACT_BLUR: return stk_pic_blur_down(g, a, i);
    case STK_ACT_WARP: return stk_pic_warped(g, &k->warp, i);
    case STK_ACT_PIL_WARP:
    case STK_ACT_MIX_WARP:
        return stk_pil_pixel(&k->map, g->from, g->s.w, g->s.h, i % g->s.w, i / g->s.w);
    case STK_ACT_PIL_BOX: return stk_pil_box(a, g->from, g->s.w, g->s.h, i);
    case STK_ACT_JPEG: return stk_pic_colored(g, i);
    case STK_PIC_ACT_VIEW: return stk_pic_viewed(g, a, i);
    default: return stk_pic_sharpened(g, a, i);
    }
}

/* Pixels i to i + 3 of the tile, i a multiple of 4; areas are whole fours. */
STK_PIC_FN stk_pic_four stk_pic_four_at(const stk_pic_stage *g, uint32_t i, uint32_t end)
{
    stk_pic_v4 four = *(const stk_pic_v4 *)(const void *)(g->from + i);
    stk_pic_four f = { { four.x, four.y, four.z, four.w }, i, 1, end - i < 4 ? end - i : 4 };

    return f;
}

/* ... as the step's head makes them. */
STK_PIC_FN stk_pic_four stk_pic_four_made(const stk_pic_stage *g, const stk_pic_known *k,
                                          uint32_t i, uint32_t end)
{
    stk_pic_four f = { { 0, 0, 0, 0 }, i, 1, end - i < 4 ? end - i : 4 };

    STK_PIC_ONE_COPY
    for (uint32_t j = 0; j < 4; j++)
        stk_pic_turn(&f, j < f.n ? stk_pic_headed(g, k, i + j) : 0);
    return f;
}

/* ... of versions that are mixed.  Such a step has its tile in one of the first areas
 * (pic_prog.h). */
STK_PIC_FN uint32_t stk_pic_mixed(const stk_pic_stage *g, const stk_action *a, uint32_t i,
                                  uint32_t px)
{
    uint64_t area = g->rec->prog.area;
    uint32_t *whole = g->to + (STK_PIC_AREAS - (g->s.from_to >> 8)) * area + i, out = 0;
    float *sum = (float *)(void *)(whole + area);

    if (a->code == STK_ACT_MIX_BEGIN)
        *whole = px;
    for (int c = 0; c < 3; c++, sum += area) {
        if (a->code == STK_ACT_MIX_BEGIN)
            *sum = 0;
        else if (a->code == STK_ACT_MIX_ADD)
            *sum = stk_pic_add(*sum, stk_pic_mul(a->v.f[0], (float)(px >> 8 * c & 255)));
        else
            out |= stk_pil_blend((int32_t)(*whole >> 8 * c & 255), (int32_t)stk_pt_cut(*sum),
                                 a->v.f[0])
                   << 8 * c;
    }
    return a->code == STK_ACT_MIX_END ? out : *whole;
}

STK_PIC_FN stk_pic_four stk_pic_four_mixed(const stk_pic_stage *g, uint32_t i, uint32_t end)
{
    stk_pic_four f = stk_pic_four_at(g, i, end);

    STK_PIC_ONE_COPY
    for (uint32_t j = 0; j < 4; j++)
        stk_pic_turn(&f, j < f.n ? stk_pic_mixed(g, g->act + g->s.head - 1, i + j, f.px[0]) : 0);
    return f;
}

STK_PIC_FN void stk_pic_acts_on(const stk_pic_stage *g, const stk_pic_known *k, stk_pic_four *f)
{
    for (uint32_t n = 0; n < g->s.n; n++)
        stk_pic_act(g->act + g->s.first + n, k, f, g->s.w);
}

/* Back to the tile. */
STK_PIC_FN void stk_pic_put_tile(const stk_pic_stage *g, const stk_pic_four *f)
{
    if (f->step == 1) {
        stk_pic_v4 four = { f->px[0], f->px[1], f->px[2], f->px[3] };

        *(stk_pic_v4 *)(void *)(g->to + f->i) = four;
        return;
    }
    for (uint32_t j = 0; j < 4; j++)
        if (j < f->n)
            g->to[f->i + j * f->step] = f->px[j];
}

/* ---- the output ---- */

/* An element of an erased rectangle of the output: a u8 is cut down, as the host does. */
STK_PIC_FN uint32_t stk_pic_erased_as(uint32_t dtype, float v)
{
    return dtype == STK_PIC_AS_U8 ? (uint32_t)(v < 0     ? 0
                                               : v > 255 ? 255
                                                         : v)
                                  : stk_pic_as(dtype, v);
}

/* Elements of pixel i, after color: v; 1: an action in the row says what they are. */
STK_PIC_FN int stk_pic_row_acts(const stk_pic_stage *g, uint32_t i, float v[3])
{
    for (uint32_t n = 0; n < g->n_row; n++) { /* the last that has it counts */
        const stk_action *a = g->act + g->rec->prog.n_acts - 1 - n;
        uint32_t at = a->code == STK_ACT_ERASE_ROW ? stk_pic_inside(a, g->s.w, i) : UINT32_MAX;

        if (at == UINT32_MAX)
            continue;
        stk_erase_values(a, at, v);
        return 1;
    }
    return 0;
}

/* Elements of one pixel, as stk_pic_as() gives them. */
STK_PIC_FN void stk_pic_elements(const stk_pic_launch *l, uint32_t dtype, uint32_t px,
                                 uint32_t bits[3])
{
    for (uint32_t c = 0; c < 3; c++)
        bits[c] = stk_pic_as(
            dtype, stk_pic_add(stk_pic_mul((float)(px >> 8 * c & 255), l->mul[c]), l->add[c]));
}

/* Elements of pixel i, of the picture or of an action in the row. */
STK_PIC_FN void stk_pic_acted(const stk_pic_launch *l, uint32_t dtype, const stk_pic_stage *g,
                              uint32_t i, uint32_t px, uint32_t bits[3])
{
    float v[3];

    stk_pic_elements(l, dtype, px, bits);
    if (stk_pic_row_acts(g, i, v))
        for (int c = 0; c < 3; c++)
            bits[c] = stk_pic_erased_as(dtype, v[c]);
}

/* A picture that has actions in the row: pixel by pixel. */
STK_PIC_FN void stk_pic_put_acted(const stk_pic_launch *l, uint32_t dtype, const stk_pic_stage *g,
                                  const stk_pic_dst *d, stk_pic_four f)
{
    uint32_t elem = stk_pic_elem(dtype);

    STK_PIC_ONE_COPY
    for (uint32_t j = 0; j < f.n; j++) {
        uint32_t i = f.i + j * f.step, bits[3];

        stk_pic_acted(l, dtype, g, i, f.px[0], bits);
        for (uint32_t c = 0; c < 3; c++)
            stk_pic_put_elem(d->at + ((uint64_t)i * d->step + c * d->plane) * elem, dtype, bits[c]);
        stk_pic_turn(&f, 0);
    }
}

/* A picture that is cut, or part of a larger one. */
STK_PIC_FN void stk_pic_put_laid(const stk_pic_launch *l, uint32_t dtype, const stk_pic_stage *g,
                                 const stk_pic_four *f)
{
    stk_pic_target t = stk_pic_target_of(l, g->job, g->s.w, g->s.h, 1);
    uint32_t w = g->s.w, v[4][3];

    for (uint32_t j = 0; j < 4; j++)
        stk_pic_acted(l, dtype, g, f->i + j * f->step, f->px[j], v[j]);
    if (f->step == 1 && w % 4 == 0) {
        stk_pic_store4(&t, dtype, f->i % w, f->i / w, f->n, v);
        return;
    }
    for (uint32_t j = 0; j < 4; j++) {
        uint32_t i = f->i + j * f->step;

        if (j < f->n) {
            stk_pic_dst d = stk_pic_dst_at(&t, i % w, i / w, dtype);

            stk_pic_store1(&d, dtype, v[j]);
        }
    }
}

/* `laid`: l->laid, which kernels know when they are compiled. */
STK_PIC_FN void stk_pic_put_out(const stk_pic_launch *l, uint32_t dtype, int laid,
                                const stk_pic_stage *g, const stk_pic_four *f)
{
    uint32_t elem = stk_pic_elem(dtype), v[4][3], all = (uint32_t)g->s.w * g->s.h;
    uint8_t *out = g->job->out;
    stk_pic_dst d = { out, l->packed ? 1 : all, l->packed ? 3u : 1u, all, 0, 1, 0 };

    if (laid) {
        stk_pic_put_laid(l, dtype, g, f);
        return;
    }
    if (g->n_row) {
        stk_pic_put_acted(l, dtype, g, &d, *f);
        return;
    }
    for (uint32_t j = 0; j < 4; j++)
        stk_pic_elements(l, dtype, f->px[j], v[j]);
    if (f->step == 1 && f->n == 4 && all % 4 == 0 && (uintptr_t)out % 16 == 0) {
        d.at += (uint64_t)f->i * d.step * elem;
        stk_pic_store_words(&d, dtype, v);
        return;
    }
    for (uint32_t j = 0; j < 4; j++)
        for (uint32_t c = 0; c < 3 && j < f->n; c++)
            stk_pic_put_elem(d.at + ((uint64_t)(f->i + j * f->step) * d.step + c * d.plane) * elem,
                             dtype, v[j][c]);
}

/* ---- into the tile ---- */

/* Pixels x to x + 3 of row y of a viewed picture. */
STK_PIC_FN void stk_pic_tile4(const stk_pic_pass *p, uint32_t y, uint32_t x, uint32_t *tile)
{
    uint32_t w = ((const stk_pic_taps *)(const void *)p->taps)->x.n, px[4][3];

    stk_pic_channels4(p, y, x, px);
    tile += (uint64_t)y * w + x;
    if (w % 4 == 0) { /* rows begin at multiples of 16 bytes */
        stk_pic_v4 four = { stk_px(px[0][0], px[0][1], px[0][2]),
                            stk_px(px[1][0], px[1][1], px[1][2]),
                            stk_px(px[2][0], px[2][1], px[2][2]),
                            stk_px(px[3][0], px[3][1], px[3][2]) };

        *(stk_pic_v4 *)(void *)tile = four;
        return;
    }
    for (uint32_t i = 0; i < 4; i++)
        if (x + i < w)
            tile[i] = stk_px(px[i][0], px[i][1], px[i][2]);
}

/* Pixel i of a picture that the host sampled, of three bytes. */
STK_PIC_FN void stk_pic_tile1(const uint8_t *rgb, uint64_t i, uint32_t *tile)
{
    tile[i] = stk_px(rgb[3 * i], rgb[3 * i + 1], rgb[3 * i + 2]);
}

#endif

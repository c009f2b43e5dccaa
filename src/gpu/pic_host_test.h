/* SPDX-License-Identifier: Apache-2.0 */
/* pic_host_test.h - tests only: runs a launch of pictures on the host.  It calls the kernels' own
 * functions in loops where the device has threads. */
#ifndef STOKER_PIC_HOST_TEST_H
#define STOKER_PIC_HOST_TEST_H

#include <stdlib.h>

#include "cuda/pic_blur.h"
#include "cuda/pic_frame.h"
#include "cuda/pic_loss.h"
#include "cuda/pic_sync.h"
#include "cuda/pic_unit.h"

static inline const stk_pic *host_rec(const stk_pic_launch *l, const stk_pic_job *j)
{
    return (const stk_pic *)(const void *)(l->slab + j->rec);
}

static inline void host_taps(const stk_pic_launch *l)
{
    for (uint32_t i = 0; i < l->n_jobs; i++) {
        const stk_pic_job *j = &l->job[i];
        const stk_pic *r = host_rec(l, j);
        uint8_t *to = l->scratch + j->taps;
        stk_pic_taps t = { 0 };

        t.ok = (uint32_t)stk_pic_open(l, j, &t);
        if (!t.ok)
            l->status[i] |= STK_PIC_BAD_RECORD;
        if (j->units - j->taps >= sizeof t)
            *(stk_pic_taps *)(void *)to = t;
        if (t.ok)
            memset(l->scratch + j->tile, 0, (size_t)r->prog.n_slots * STK_PIC_FIGURES * 4);
        if (!t.ok || !stk_pic_is_viewed(r))
            continue;
        for (uint32_t k = 0; k < t.x.n; k++)
            stk_pic_taps_one(to, &t.x, &r->x, k);
        for (uint32_t k = 0; k < t.y.n; k++)
            stk_pic_taps_one(to, &t.y, &r->y, k);
        for (uint32_t k = 0; k < 3; k++)
            stk_pic_keep(l, j, k, 3);
    }
}

static inline void host_sync(const stk_pic_launch *l)
{
    stk_sync *s = malloc(sizeof *s);

    for (uint32_t w = 0; w < l->n_sync; w++) {
        uint32_t job = l->sync[w].job;
        stk_sync_task k = { l->slab, l->slab_len, l->scratch, l->job + job, l->status + job, 0 };

        stk_sync_picture(s, &k);
    }
    free(s);
}

typedef struct host_block { /* what a block of threads shares */
    stk_pic_tables tables;
    stk_pic_shape shape;
    _Alignas(16) uint8_t slot[STK_PIC_SLOT];
} host_block;

static inline uint32_t host_unit(const stk_pic_launch *l, const stk_pic_job *j, host_block *b,
                                 const stk_pic_unit *units, uint32_t i)
{
    const stk_pic *r = host_rec(l, j);
    const uint8_t *data = stk_pic_data(l, j, r);
    stk_pic_unit u = stk_pic_unit_read(units, i);
    stk_pic_thread t;

    stk_pic_unit_begin(&t, &b->shape, &u, data, r->data_len);
    while (t.left) {
        for (uint32_t k = 0; k < b->shape.n_blocks && t.left; k++) {
            const stk_pic_place *p = &b->shape.block[k];

            stk_pic_unit_block(&t, p, &b->tables, b->slot);
            if (!t.bad && stk_pic_unit_seen(&t, &b->shape))
                stk_pic_unit_store(&t, &b->shape, p, t.last ? stk_pic_pairs(t.last) : 0, b->slot,
                                   l->scratch + j->planes);
            stk_pic_clear(b->slot);
        }
        stk_pic_unit_next(&t, &b->shape);
    }
    return stk_pic_unit_end(&t, &b->shape, units, i, j->n_units, r->data_len);
}

static inline void host_decode(const stk_pic_launch *l)
{
    host_block *b = aligned_alloc(64, (sizeof *b + 63) & ~(size_t)63);

    for (uint32_t w = 0; w < l->n_decode; w++) {
        const stk_pic_job *j = &l->job[l->decode[w].job];
        const stk_pic *r = host_rec(l, j);
        const stk_pic_taps *t = (const stk_pic_taps *)(const void *)(l->scratch + j->taps);
        const stk_pic_unit *units = (const stk_pic_unit *)(const void *)(r->kind == STK_PIC_WHOLE
                                                                             ? l->scratch + j->units
                                                                             : l->slab + j->rec +
                                                                                   r->units_at);
        int bad = 0;

        if (!t->ok || !r->need[2])
            continue;
        for (uint32_t i = 0; i < 128; i++)
            stk_pic_tables_begin(&b->tables, r, i, 128);
        for (uint32_t i = 0; i < 2 * STK_PIC_TABLES; i++)
            bad |= stk_pic_tables_codes(&b->tables, r, i);
        if (bad) {
            l->status[l->decode[w].job] |= STK_PIC_BAD_RECORD;
            continue;
        }
        for (uint32_t i = 0; i < 128; i++)
            stk_pic_tables_fill(&b->tables, r, i, 128);
        stk_pic_shape_init(&b->shape, r, t->plane);
        stk_pic_clear(b->slot);
        for (uint32_t i = 0; i < STK_PIC_UNITS && l->decode[w].first + i < j->n_units; i++)
            l->status[l->decode[w].job] |= host_unit(l, j, b, units, l->decode[w].first + i);
    }
    free(b);
}

/* Writes n pixels of row y of the picture, from x (a multiple of 4) on, to `line`. */
static inline void host_stage(const stk_pic_launch *l, const stk_pic_job *j, uint32_t y, uint32_t x,
                              uint32_t n, uint32_t *line)
{
    const stk_pic *r = host_rec(l, j);
    const stk_pic_taps *t = (const stk_pic_taps *)(const void *)(l->scratch + j->taps);
    stk_pic_line lines[3];
    stk_pic_reach reach;

    if (r->kind == STK_PIC_FRAME) {
        const uint8_t *base;
        const stk_pic_yuv *f = stk_pic_frame_of(l, j, r, &base);
        stk_pic_frame_row row = stk_pic_frame_row_of(f, base, y);

        for (uint32_t i = 0; i < n; i += 4)
            *(stk_pic_v4 *)(void *)(line + i) = stk_pic_frame4(&row, x + i);
        return;
    }

    if (r->kind == STK_PIC_ON_GPU)
        reach = stk_pic_reach_of(l->source + j->source, y);
    else
        for (unsigned c = 0; c < r->n_comps; c++)
            lines[c] = stk_pic_line_of(&t->plane[c], l->scratch + j->planes, y);
    for (uint32_t i = 0; i < n; i += 4)
        *(stk_pic_v4 *)(void *)(line + i) = r->kind == STK_PIC_ON_GPU
                                                ? stk_pic_reach4(&reach, x + i)
                                                : stk_pic_pixels4(lines, r->n_comps, x + i);
}

/* Rows `row` and `row` + 1, if the picture has the second. */
static inline void host_across_rows(const stk_pic_launch *l, const stk_pic_job *j, uint32_t row)
{
    const stk_pic *r = host_rec(l, j);
    const uint8_t *taps = l->scratch + j->taps;
    const stk_pic_taps *t = (const stk_pic_taps *)(const void *)taps;
    uint32_t pitch = stk_pic_row_pixels(t->x.n), two = row + 1 < r->need[3];
    uint32_t *to = (uint32_t *)(void *)(l->scratch + j->rows) + (uint64_t)row * pitch;
    _Alignas(16) uint32_t line[2][STK_PIC_LINE] = { 0 };

    for (uint32_t k = 0; k < t->x.n; k++)
        to[k] = to[two * pitch + k] = r->fill;
    for (uint32_t k = t->x.begin, n; k < t->x.end; k += n) {
        uint32_t lo, hi, x, base;

        n = stk_pic_tile(taps, &t->x, k, &lo, &hi);
        x = r->need[0] + lo;
        base = x & 3;
        for (uint32_t y = 0; y < 1 + two; y++)
            host_stage(l, j, r->need[1] + row + y, x & ~3u, base + hi - lo, line[y]);
        for (uint32_t i = k; i < k + n; i++) {
            stk_pic_v2 v = stk_pic_across2(taps, &t->x, i, line[0] + base, STK_PIC_LINE, lo);

            to[i] = v.x;
            if (two)
                to[pitch + i] = v.y;
        }
    }
}

static inline void host_across(const stk_pic_launch *l)
{
    for (uint32_t w = 0; w < l->n_across; w++) {
        const stk_pic_job *j = &l->job[l->across[w].job];
        const stk_pic *r = host_rec(l, j);

        if (!((const stk_pic_taps *)(const void *)(l->scratch + j->taps))->ok || !r->need[2])
            continue;
        for (uint32_t i = 0; i < STK_PIC_ACROSS_ROWS && l->across[w].first + i < r->need[3]; i += 2)
            host_across_rows(l, j, l->across[w].first + i);
    }
}

static inline void host_tile_row(const stk_pic_launch *l, const stk_pic_job *j, uint32_t y)
{
    const stk_pic *r = host_rec(l, j);
    stk_pic_pass p = stk_pic_pass_of(l, j, STK_PIC_AS_U8, r->fill);
    uint32_t *tile = stk_pic_tile_at(l, j, r);

    if (r->kind == STK_PIC_U8)
        for (uint32_t x = 0; x < r->x.n; x++)
            stk_pic_tile1(l->slab + j->rec + r->data_at, (uint64_t)y * r->x.n + x, tile);
    else
        for (uint32_t x = 0; x < r->x.n; x += 4)
            stk_pic_tile4(&p, y, x, tile);
}

static inline void host_down_row(const stk_pic_launch *l, const stk_pic_job *j, uint32_t y)
{
    const stk_pic *r = host_rec(l, j);
    const uint8_t *data = l->slab + j->rec + r->data_at;
    stk_pic_pass p = stk_pic_pass_of(l, j, l->dtype, r->fill);
    uint8_t *out = j->out;
    stk_pic_target t = stk_pic_target_of(l, j, r->x.n, r->y.n, (int)l->laid);
    uint64_t from = j->out_bytes * y / (r->y.n ? r->y.n : 1);

    if (r->kind == STK_PIC_READY && j->lay.w) {
        for (uint32_t x = 0; x < r->x.n; x++)
            stk_pic_move1(&t, l->dtype, r, y * r->x.n + x);
        return;
    }
    if (r->kind == STK_PIC_READY) {
        memcpy(out + from, data + from, j->out_bytes * (y + 1) / r->y.n - from);
        return;
    }
    if (r->kind == STK_PIC_U8) {
        for (uint32_t x = 0; x < r->x.n; x++) {
            stk_pic_dst d = stk_pic_dst_at(&t, x, y, l->dtype);

            stk_pic_color1(l, l->dtype, data + ((uint64_t)y * r->x.n + x) * 3, &d);
        }
        return;
    }
    for (uint32_t x = 0; x < r->x.n; x += 4)
        stk_pic_finish4(&p, y, x, &t);
}

static inline void host_down(const stk_pic_launch *l)
{
    for (uint32_t w = 0; w < l->n_down; w++) {
        const stk_pic_job *j = &l->job[l->down[w].job];
        const stk_pic *r = host_rec(l, j);

        if (!((const stk_pic_taps *)(const void *)(l->scratch + j->taps))->ok)
            continue;
        for (uint32_t i = 0; i < STK_PIC_DOWN_ROWS && l->down[w].first + i < r->y.n; i++)
            if (r->prog.n_steps)
                host_tile_row(l, j, l->down[w].first + i);
            else
                host_down_row(l, j, l->down[w].first + i);
    }
}

static inline void host_see(const stk_pic_stage *g, uint32_t px)
{
    int pil = g->s.wants == STK_ACT_PIL_CONTRAST;
    uint64_t gray = stk_pic_gray_sum(g->into) +
                    (uint32_t)(pil ? stk_pil_gray(px) : stk_pt_gray(px));

    if (pil || g->s.wants == STK_ACT_CONTRAST) {
        g->into[0] = (uint32_t)gray;
        g->into[1] = (uint32_t)(gray >> 32);
    }
    for (uint32_t c = 0; c < 3; c++) {
        uint32_t v = px >> 8 * c & 255;

        if (g->s.wants == STK_ACT_EQUALIZE)
            g->into[c * 256 + v]++;
        if (g->s.wants == STK_ACT_AUTOCONTRAST || g->s.wants == STK_ACT_PIL_AUTOCONTRAST) {
            g->into[c] = g->into[c] > 255 - v ? g->into[c] : 255 - v;
            g->into[3 + c] = g->into[3 + c] > v ? g->into[3 + c] : v;
        }
    }
}

static inline void host_finish(const stk_pic_launch *l, const stk_pic_stage *g,
                               const stk_pic_known *known, stk_pic_four *f)
{
    stk_pic_acts_on(g, known, f);
    if (g->last)
        stk_pic_put_out(l, l->dtype, (int)l->laid, g, f);
    else
        stk_pic_put_tile(g, f);
    for (uint32_t i = 0; g->s.wants && i < f->n; i++)
        host_see(g, f->px[i]);
}

static inline void host_blur(const stk_pic_launch *l, const stk_pic_stage *g, uint32_t first,
                             uint32_t step)
{
    stk_pic_blur_room *m = malloc(sizeof *m);
    stk_pic_known none = { 0 };

    for (uint32_t r = first; r < stk_pic_blur_count(g); r += step) {
        stk_pic_blur b = stk_pic_blur_of(g, r);

        for (uint32_t t = 0; t < STK_PIC_BLUR_THREADS; t++)
            stk_pic_blur_stage(m, g, &b, t);
        for (uint32_t t = 0; t < STK_PIC_BLUR_THREADS; t++)
            stk_pic_blur_rows(m, &b, t);
        for (uint32_t t = 0; t < 2 * STK_PIC_BLUR_THREADS; t++) {
            stk_pic_four f = stk_pic_blurred(m, g, &b, t / 2, t % 2);

            if (f.n)
                host_finish(l, g, &none, &f);
        }
    }
    free(m);
}

static inline void host_loss(const stk_pic_stage *g, uint32_t first, uint32_t step)
{
    stk_pic_loss_room *m = malloc(sizeof *m);

    for (uint32_t s = first; s < stk_pic_squares(g); s += step) {
        for (uint32_t t = 0; t < STK_PIC_LOSS_THREADS; t++)
            stk_pic_loss_fill(m, g, s, t);
        for (uint32_t t = 0; t < STK_PIC_LOSS_THREADS; t++)
            stk_pic_loss_blocks(m, t);
        for (uint32_t t = 0; t < STK_PIC_LOSS_THREADS; t++)
            stk_pic_loss_put(m, g, s, t);
    }
    free(m);
}

static inline void host_step_pixels(const stk_pic_launch *l, const stk_pic_stage *g, uint32_t from)
{
    const uint32_t all = (uint32_t)g->s.w * g->s.h;
    const uint32_t to = all - from < STK_PIC_TILE_PIXELS ? all : from + STK_PIC_TILE_PIXELS;
    stk_pic_known known = { 0 };

    for (uint32_t t = 0; t < 3; t++)
        stk_pic_know_first(&known, g, t);
    stk_pic_know(&known, g, 0, 1);
    for (uint32_t i = from; i < to; i += 4) {
        uint32_t sort = stk_pic_sort_of(&g->s, g->act);
        stk_pic_four f = sort == STK_PIC_PLAIN ? stk_pic_four_at(g, i, to)
                         : sort == STK_PIC_MIX ? stk_pic_four_mixed(g, i, to)
                                               : stk_pic_four_made(g, &known, i, to);

        host_finish(l, g, &known, &f);
    }
}

/* As on the device, a step of another sort than its launch is not run. */
static inline void host_step(const stk_pic_launch *l, const stk_pic_stage *g, uint32_t sort,
                             uint32_t from)
{
    const uint32_t all = (uint32_t)g->s.w * g->s.h;

    if (from >= all || stk_pic_sort_of(&g->s, g->act) != sort)
        return;
    if (sort == STK_PIC_WIDE_ACROSS)
        for (uint32_t i = from; i < all && i - from < STK_PIC_TILE_PIXELS; i++)
            ((stk_pic_v2 *)(void *)g->to)[i] = stk_pic_blur_across(g, g->act + g->s.head - 1, i);
    else if (sort == STK_PIC_LOSS)
        host_loss(g, from / STK_PIC_TILE_PIXELS * STK_PIC_SQUARES,
                  stk_pic_ceil(all, STK_PIC_TILE_PIXELS) * STK_PIC_SQUARES);
    else if (sort == STK_PIC_NEAR)
        host_blur(l, g, from / STK_PIC_TILE_PIXELS, stk_pic_ceil(all, STK_PIC_TILE_PIXELS));
    else
        host_step_pixels(l, g, from);
}

/* The n entries of one launch. */
static inline void host_round(const stk_pic_launch *l, uint32_t sort, const stk_pic_work *work,
                              uint32_t n)
{
    for (uint32_t w = 0; w < n; w++) {
        const stk_pic_job *j = &l->job[work[w].job];
        uint32_t k = work[w].first % STK_PIC_TILE_PIXELS;
        stk_pic_stage g;

        if (!((const stk_pic_taps *)(const void *)(l->scratch + j->taps))->ok ||
            k >= host_rec(l, j)->prog.n_steps)
            continue;
        g = stk_pic_stage_of(l, j, k);
        host_step(l, &g, sort, work[w].first - k);
    }
}

static inline void host_steps(const stk_pic_launch *l)
{
    const stk_pic_work *work = l->tile;

    for (uint32_t k = 0; k < l->n_rounds; k++) {
        host_round(l, l->round_sort[k], work, l->round_n[k]);
        work += l->round_n[k];
    }
}

static inline void host_run(const stk_pic_launch *l)
{
    host_taps(l);
    host_sync(l);
    host_decode(l);
    host_across(l);
    host_down(l);
    host_steps(l);
}

#endif

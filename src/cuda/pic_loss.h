/* SPDX-License-Identifier: Apache-2.0 */
/* pic_loss.h - the loss that saving as JPEG causes (kern/jpeg_loss.h), applied to a tile on a GPU
 * in two steps.  The kernel and the host's tests include it.
 *
 * The first makes Y, Cb, Cr of whole squares of 16 pixels, a block of threads eight squares at a
 * time, and leaves a pixel's three values in its word: those of Cb and Cr are of the four pixels
 * that share them.  The second brings Cb and Cr to full size and makes colors, pixel by pixel. */
#ifndef STOKER_PIC_LOSS_H
#define STOKER_PIC_LOSS_H

#include "cuda/pic_tile.h"

#define STK_PIC_SQUARES 8 /* at once */
#define STK_PIC_LOSS_THREADS 256

typedef struct stk_pic_loss_room {
    uint16_t q[2][64]; /* Y's, and that of Cb and Cr */
    uint8_t y[STK_PIC_SQUARES][256];
    uint8_t c[STK_PIC_SQUARES][2][64];
} stk_pic_loss_room;

STK_PIC_FN uint32_t stk_pic_squares(const stk_pic_stage *g)
{
    return stk_pic_ceil(g->s.w, 16) * stk_pic_ceil(g->s.h, 16);
}

/* Pixel (0, 0) of square `number`. */
STK_PIC_FN stk_pic_v2 stk_pic_square_at(const stk_pic_stage *g, uint32_t number)
{
    uint32_t across = stk_pic_ceil(g->s.w, 16);
    stk_pic_v2 at = { number % across * 16, number / across * 16 };

    return at;
}

/* A pixel; past the edge the last one again. */
STK_PIC_FN uint32_t stk_pic_edged(const stk_pic_stage *g, uint32_t x, uint32_t y)
{
    uint32_t w = g->s.w, h = g->s.h;

    return g->from[(uint64_t)(y < h ? y : h - 1) * w + (x < w ? x : w - 1)];
}

/* Cb and Cr of four pixels, at column x and row y of theirs; past the edge their last row again. */
STK_PIC_FN void stk_pic_halved(const stk_pic_stage *g, uint32_t x, uint32_t y, uint8_t out[2])
{
    uint32_t last = (g->s.h - 1u) / 2, sum[2] = { 0, 0 };

    y = y < last ? y : last;
    for (uint32_t k = 0; k < 4; k++) {
        uint32_t px = stk_pic_edged(g, 2 * x + k % 2, 2 * y + k / 2);
        int32_t r = stk_px_r(px), gr = stk_px_g(px), b = stk_px_b(px);

        sum[0] += stk_jpeg_cb(r, gr, b);
        sum[1] += stk_jpeg_cr(r, gr, b);
    }
    out[0] = stk_jpeg_half(sum[0], x);
    out[1] = stk_jpeg_half(sum[1], x);
}

/* ---- the first step: rounds of thread t, for squares from `first` on ---- */

STK_PIC_FN void stk_pic_loss_fill(stk_pic_loss_room *m, const stk_pic_stage *g, uint32_t first,
                                  uint32_t t)
{
    const uint16_t *q = stk_pic_weights(g->rec, g->act + g->s.head - 1);

    for (uint32_t i = t; i < 128; i += STK_PIC_LOSS_THREADS) /* whatever a record says: 1 to 255 */
        m->q[i / 64][i % 64] = (uint16_t)(q[i] < 1 ? 1 : q[i] > 255 ? 255 : q[i]);
    for (uint32_t i = t; i < STK_PIC_SQUARES * 256; i += STK_PIC_LOSS_THREADS) {
        stk_pic_v2 at = stk_pic_square_at(g, first + i / 256);
        uint32_t px = stk_pic_edged(g, at.x + i % 16, at.y + i / 16 % 16);

        m->y[i / 256][i % 256] = stk_jpeg_y(stk_px_r(px), stk_px_g(px), stk_px_b(px));
    }
    for (uint32_t i = t; i < STK_PIC_SQUARES * 64; i += STK_PIC_LOSS_THREADS) {
        stk_pic_v2 at = stk_pic_square_at(g, first + i / 64);
        uint8_t two[2];

        stk_pic_halved(g, at.x / 2 + i % 8, at.y / 2 + i / 8 % 8, two);
        m->c[i / 64][0][i % 64] = two[0];
        m->c[i / 64][1][i % 64] = two[1];
    }
}

/* Six blocks a square: four of Y, one of Cb, one of Cr. */
STK_PIC_FN void stk_pic_loss_blocks(stk_pic_loss_room *m, uint32_t t)
{
    uint32_t square = t / 6, k = t % 6;

    if (square >= STK_PIC_SQUARES)
        return;
    if (k < 4)
        stk_block_loss(m->y[square] + k / 2 * 128 + k % 2 * 8, 16, m->q[0]);
    else
        stk_block_loss(m->c[square][k - 4], 8, m->q[1]);
}

STK_PIC_FN void stk_pic_loss_put(const stk_pic_loss_room *m, const stk_pic_stage *g, uint32_t first,
                                 uint32_t t)
{
    for (uint32_t i = t; i < STK_PIC_SQUARES * 256; i += STK_PIC_LOSS_THREADS) {
        stk_pic_v2 at = stk_pic_square_at(g, first + i / 256);
        uint32_t x = at.x + i % 16, y = at.y + i / 16 % 16, half = i / 32 % 8 * 8 + i % 16 / 2;

        if (x < g->s.w && y < g->s.h)
            g->to[(uint64_t)y * g->s.w + x] = stk_px(m->y[i / 256][i % 256], m->c[i / 256][0][half],
                                                     m->c[i / 256][1][half]);
    }
}

#endif

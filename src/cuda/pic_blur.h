/* SPDX-License-Identifier: Apache-2.0 */
/* pic_blur.h - blurs with few taps on a GPU, in one step: a block of threads makes a rectangle of
 * the result in its shared memory.  The kernel and the host's tests include it.
 *
 * Three rounds, all threads through each before the next: pixels of the rectangle and around it are
 * copied (stage), rows are summed (across), columns are summed (down).  A thread makes four pixels
 * side by side, so that a pixel which it has loaded counts for four.  The sums are those of
 * kern/near.h: R and B, or R and G, are added as one word, because neither carries into the
 * other. */
#ifndef STOKER_PIC_BLUR_H
#define STOKER_PIC_BLUR_H

#include "cuda/pic_tile.h"

#define STK_PIC_BLUR_W 32 /* of a rectangle: a lane of a warp a column */
#define STK_PIC_BLUR_H 64
#define STK_PIC_BLUR_THREADS 256 /* warps: one for each four columns, then for each eight rows */
#define STK_PIC_BLUR_ROWS (STK_PIC_BLUR_H + 2 * STK_PIC_BLUR_NEAR)
/* Pitches, in words, are odd: threads that each take a row use different banks of the memory. */
#define STK_PIC_BLUR_PITCH (STK_PIC_BLUR_W + 2 * STK_PIC_BLUR_NEAR + 1)
#define STK_PIC_BLUR_SUMS (STK_PIC_BLUR_W + 1)

typedef struct stk_pic_blur_room {
    uint32_t px[STK_PIC_BLUR_ROWS * STK_PIC_BLUR_PITCH];
    uint32_t rg[STK_PIC_BLUR_ROWS * STK_PIC_BLUR_SUMS];
    uint16_t b[STK_PIC_BLUR_ROWS * (STK_PIC_BLUR_SUMS + 1)];
} stk_pic_blur_room;

typedef struct stk_pic_blur { /* one rectangle of one step */
    const stk_action *a;
    const uint16_t *weight; /* across; those down follow */
    uint32_t half_x, half_y;
    uint32_t x, y, rows; /* its first pixel; rows of it that there are */
} stk_pic_blur;

STK_PIC_FN uint32_t stk_pic_blur_count(const stk_pic_stage *g) /* rectangles of a step */
{
    return stk_pic_ceil(g->s.w, STK_PIC_BLUR_W) * stk_pic_ceil(g->s.h, STK_PIC_BLUR_H);
}

STK_PIC_FN stk_pic_blur stk_pic_blur_of(const stk_pic_stage *g, uint32_t rectangle)
{
    uint32_t across = stk_pic_ceil(g->s.w, STK_PIC_BLUR_W);
    stk_pic_blur b;

    b.a = g->act + g->s.head - 1;
    b.weight = stk_pic_weights(g->rec, b.a);
    b.half_x = b.a->v.u[0];
    b.half_y = b.a->v.u[1];
    b.x = rectangle % across * STK_PIC_BLUR_W;
    b.y = rectangle / across * STK_PIC_BLUR_H;
    b.rows = g->s.h - b.y < STK_PIC_BLUR_H ? g->s.h - b.y : STK_PIC_BLUR_H;
    return b;
}

/* ---- the rounds of thread t ---- */

STK_PIC_FN void stk_pic_blur_stage(stk_pic_blur_room *m, const stk_pic_stage *g,
                                   const stk_pic_blur *b, uint32_t t)
{
    uint32_t rows = b->rows + 2 * b->half_y, cols = STK_PIC_BLUR_W + 2 * b->half_x, w = g->s.w;

    for (uint32_t row = t / 32; row < rows; row += STK_PIC_BLUR_THREADS / 32) {
        uint32_t y = stk_pic_mirror((int32_t)(b->y + row - b->half_y), g->s.h);

        for (uint32_t col = t % 32; col < cols; col += 32) {
            uint32_t x = stk_pic_mirror((int32_t)(b->x + col - b->half_x), w);

            m->px[row * STK_PIC_BLUR_PITCH + col] = g->from[(uint64_t)y * w + x];
        }
    }
}

/* stk_blur_pair() of three channels.  G is 8 bits further up: 510 * 2^8 * 2^15 is less than
 * 2^32. */
STK_PIC_FN void stk_pic_blur_add(uint32_t sum[3], uint32_t p, uint32_t q, uint32_t weight)
{
    uint32_t rb = (p & 0xff00ff) + (q & 0xff00ff), g = (p & 0xff00) + (q & 0xff00);

    sum[0] += (rb & 0xffff) * weight >> 9;
    sum[1] += g * weight >> 17;
    sum[2] += (rb >> 16) * weight >> 9;
}

/* Sums of four pixels of a row, of which `at` is the first. */
STK_PIC_FN void stk_pic_blur_row4(const uint32_t *at, const uint16_t *weight, uint32_t half,
                                  uint32_t sum[4][3])
{
    uint32_t l[4] = { at[0], at[1], at[2], at[3] }, r[4] = { at[0], at[1], at[2], at[3] };

    for (uint32_t k = 0; k <= half; k++) {
        for (uint32_t j = 0; j < 4; j++)
            stk_pic_blur_add(sum[j], l[j], r[j], weight[k]);
        if (k == half)
            break;
        for (uint32_t j = 3; j > 0; j--) {
            l[j] = l[j - 1];
            r[3 - j] = r[4 - j];
        }
        l[0] = *(at - k - 1);
        r[3] = *(at + k + 4);
    }
}

STK_PIC_FN void stk_pic_blur_rows(stk_pic_blur_room *m, const stk_pic_blur *b, uint32_t t)
{
    uint32_t rows = b->rows + 2 * b->half_y, x = t / 32 * 4;
    uint32_t begin = stk_blur_begin(b->a->v.u[4]);

    for (uint32_t row = t % 32; row < rows; row += 32) {
        uint32_t sum[4][3];

        for (uint32_t j = 0; j < 4; j++)
            sum[j][0] = sum[j][1] = sum[j][2] = begin;
        stk_pic_blur_row4(m->px + row * STK_PIC_BLUR_PITCH + b->half_x + x, b->weight, b->half_x,
                          sum);
        for (uint32_t j = 0; j < 4; j++) {
            m->rg[row * STK_PIC_BLUR_SUMS + x + j] = sum[j][0] | sum[j][1] << 16;
            m->b[row * (STK_PIC_BLUR_SUMS + 1) + x + j] = (uint16_t)sum[j][2];
        }
    }
}

/* stk_blur_pair_down() of two sums that are one word. */
STK_PIC_FN void stk_pic_blur_add_down(uint32_t sum[3], uint32_t rg, uint32_t b, uint32_t weight)
{
    sum[0] += (rg & 0xffff) * weight >> 16;
    sum[1] += (rg >> 16) * weight >> 16;
    sum[2] += b * weight >> 16;
}

/* Sums of four pixels of a column, of which that at rg and b is the first. */
STK_PIC_FN void stk_pic_blur_column4(const uint32_t *rg, const uint16_t *b, const uint16_t *weight,
                                     uint32_t half, uint32_t sum[4][3])
{
    const uint32_t step = STK_PIC_BLUR_SUMS;
    uint32_t up[4], down[4], up_b[4], down_b[4];

    for (uint32_t j = 0; j < 4; j++) {
        up[j] = down[j] = rg[j * step];
        up_b[j] = down_b[j] = b[j * (step + 1)];
    }
    for (uint32_t k = 0; k <= half; k++) {
        for (uint32_t j = 0; j < 4; j++)
            stk_pic_blur_add_down(sum[j], up[j] + down[j], up_b[j] + down_b[j], weight[k]);
        if (k == half)
            break;
        for (uint32_t j = 3; j > 0; j--) {
            up[j] = up[j - 1];
            up_b[j] = up_b[j - 1];
            down[3 - j] = down[4 - j];
            down_b[3 - j] = down_b[4 - j];
        }
        up[0] = *(rg - (k + 1) * step);
        up_b[0] = *(b - (k + 1) * (step + 1));
        down[3] = rg[(k + 4) * step];
        down_b[3] = b[(k + 4) * (step + 1)];
    }
}

/* Four pixels of a column: round 0 or 1 of two. */
STK_PIC_FN stk_pic_four stk_pic_blurred(const stk_pic_blur_room *m, const stk_pic_stage *g,
                                        const stk_pic_blur *b, uint32_t t, uint32_t round)
{
    uint32_t row = t / 32 * 8 + round * 4, x = t % 32, begin = stk_blur_begin(b->a->v.u[5]);
    stk_pic_four f = { { 0, 0, 0, 0 }, (b->y + row) * g->s.w + b->x + x, g->s.w, 0 };
    uint32_t sum[4][3], at = row + b->half_y;

    if (row >= b->rows || b->x + x >= g->s.w)
        return f;
    f.n = b->rows - row < 4 ? b->rows - row : 4;
    for (uint32_t j = 0; j < 4; j++)
        sum[j][0] = sum[j][1] = sum[j][2] = begin;
    stk_pic_blur_column4(m->rg + at * STK_PIC_BLUR_SUMS + x,
                         m->b + at * (STK_PIC_BLUR_SUMS + 1) + x, b->weight + STK_PIC_WEIGHTS,
                         b->half_y, sum);
    for (uint32_t j = 0; j < 4; j++)
        f.px[j] = stk_px(stk_blur_end((uint16_t)sum[j][0]), stk_blur_end((uint16_t)sum[j][1]),
                         stk_blur_end((uint16_t)sum[j][2]));
    return f;
}

#endif

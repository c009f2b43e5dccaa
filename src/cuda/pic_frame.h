/* SPDX-License-Identifier: Apache-2.0 */
/* pic_frame.h - turns planes of a video's frame into pixels on a GPU, as kern/yuv.c does, for
 * threads that take four pixels each.  It computes in exact integers, so the bits are the same.
 *
 * The position of every sample is clamped to the planes.  That is right at the edges of a frame,
 * and keeps reads inside, whatever a record says. */
#ifndef STOKER_PIC_FRAME_H
#define STOKER_PIC_FRAME_H

#include "cuda/pic_view.h"

typedef struct stk_pic_frame_row { /* one row of a frame */
    const stk_pic_yuv *f;
    const uint8_t *luma;
    const uint8_t *a[2], *b[2]; /* two rows of U, of V */
    int32_t weight;             /* of b, of 4 */
} stk_pic_frame_row;

STK_PIC_FN uint32_t stk_pic_clamp_to(uint32_t v, uint32_t from, uint32_t n)
{
    return v < from ? 0 : v - from < n ? v - from : n - 1;
}

/* base: of a record's data; of a source NULL. */
STK_PIC_FN stk_pic_frame_row stk_pic_frame_row_of(const stk_pic_yuv *f, const uint8_t *base,
                                                  uint32_t y)
{
    uint32_t i = f->half_y ? y / 2 : y, other = i;
    stk_pic_frame_row r;

    r.f = f;
    r.luma = base + f->at[0] + (uint64_t)stk_pic_clamp_to(y, f->y, f->h) * f->stride;
    r.weight = 0;
    if (f->half_y && f->top) {
        other = i + 1;
        r.weight = y & 1 ? 2 : 0;
    } else if (f->half_y) {
        other = y & 1 ? i + 1 : i ? i - 1 : 0;
        r.weight = 1;
    }
    for (int k = 0; k < 2; k++) {
        const uint8_t *plane = base + f->at[k + 1];

        r.a[k] = plane + (uint64_t)stk_pic_clamp_to(i, f->cy, f->ch) * f->cstride;
        r.b[k] = plane + (uint64_t)stk_pic_clamp_to(other, f->cy, f->ch) * f->cstride;
    }
    return r;
}

STK_PIC_FN int32_t stk_pic_value(const stk_pic_yuv *f, const uint8_t *row, uint32_t at)
{
    return f->bytes == 1 ? row[at] : ((const uint16_t *)(const void *)row)[at] >> f->low;
}

/* Products and sums of what a record says, which may be anything: they wrap. */
STK_PIC_FN uint32_t stk_pic_times(int32_t a, int32_t b)
{
    return (uint32_t)a * (uint32_t)b;
}

/* U (k 0) or V between its rows at column i, 4 times as large. */
STK_PIC_FN int32_t stk_pic_blend(const stk_pic_frame_row *r, int k, uint32_t i)
{
    uint32_t at = stk_pic_clamp_to(i, r->f->cx, r->f->cw) * r->f->step;

    return (4 - r->weight) * stk_pic_value(r->f, r->a[k], at) +
           r->weight * stk_pic_value(r->f, r->b[k], at);
}

/* U or V of the pixels x to x + 3, 16 times as large. */
STK_PIC_FN void stk_pic_spread4(const stk_pic_frame_row *r, int k, uint32_t x, int32_t out[4])
{
    const stk_pic_yuv *f = r->f;
    int32_t t[4];

    if (!f->cw) {
        for (int i = 0; i < 4; i++)
            out[i] = (int32_t)stk_pic_times(f->c_zero, 16);
        return;
    }
    if (!f->half_x) {
        for (uint32_t i = 0; i < 4; i++)
            out[i] = 4 * stk_pic_blend(r, k, x + i);
        return;
    }
    for (uint32_t i = 0; i < 4; i++)
        t[i] = stk_pic_blend(r, k, x / 2 + i ? x / 2 + i - 1 : 0);
    for (int i = 0; i < 2; i++) {
        out[2 * i] = f->left ? 4 * t[i + 1] : 3 * t[i + 1] + t[i];
        out[2 * i + 1] = f->left ? 2 * (t[i + 1] + t[i + 2]) : 3 * t[i + 1] + t[i + 2];
    }
}

/* The pixels x to x + 3, x a multiple of 4; those that are not there mean nothing. */
STK_PIC_FN stk_pic_v4 stk_pic_frame4(const stk_pic_frame_row *r, uint32_t x)
{
    const stk_pic_yuv *f = r->f;
    const uint32_t shift = f->shift + 4;
    const uint32_t half = 1u << (shift - 1), gray = stk_pic_times(f->c_zero, 16);
    int32_t u[4], v[4];
    uint32_t px[4];
    stk_pic_v4 out;

    stk_pic_spread4(r, 0, x, u);
    stk_pic_spread4(r, 1, x, v);
    for (uint32_t i = 0; i < 4; i++) {
        int32_t l = stk_pic_value(f, r->luma, stk_pic_clamp_to(x + i, f->x, f->w));
        int32_t cu = (int32_t)((uint32_t)u[i] - gray), cv = (int32_t)((uint32_t)v[i] - gray);
        uint32_t y = ((uint32_t)l - (uint32_t)f->y_zero) * stk_pic_times(f->c_y, 16) + half;
        uint32_t g = y - stk_pic_times(f->gu, cu) - stk_pic_times(f->gv, cv);

        px[i] = stk_pic_clamp8((int32_t)(y + stk_pic_times(f->rv, cv)) >> shift) |
                stk_pic_clamp8((int32_t)g >> shift) << 8 |
                stk_pic_clamp8((int32_t)(y + stk_pic_times(f->bu, cu)) >> shift) << 16;
    }
    out.x = px[0];
    out.y = px[1];
    out.z = px[2];
    out.w = px[3];
    return out;
}

/* The planes of a frame, and what their addresses count from. */
STK_PIC_FN const stk_pic_yuv *stk_pic_frame_of(const stk_pic_launch *l, const stk_pic_job *j,
                                               const stk_pic *r, const uint8_t **base)
{
    *base = NULL;
    if (l->source)
        return &l->source[j->source].yuv;
    *base = l->slab + j->rec + r->data_at;
    return (const stk_pic_yuv *)(const void *)((const uint8_t *)r + r->units_at);
}

#endif

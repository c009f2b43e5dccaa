/* SPDX-License-Identifier: Apache-2.0 */
/* yuv.h - converts planes of a video frame to R, G, B, X, in integers, with the same bits
 * everywhere.  Rows of videos call it.
 *
 * The definition (docs/video.md): U and V are interpolated linearly to the place of each Y, by the
 * frame's siting; the matrix is applied in 13 bits, rounded once, at the end, where values of 10
 * and 12 bits also become 8.  A pixel does not depend on the rectangle that is asked for. */
#ifndef STOKER_KERN_YUV_H
#define STOKER_KERN_YUV_H

#include "base/cpu.h"
#include "base/err.h"

/* Where U and V are, as FFmpeg counts: H.273's number and one more. */
enum {
    STK_SITING_UNKNOWN,
    STK_SITING_LEFT,
    STK_SITING_CENTER,
    STK_SITING_TOP_LEFT,
    STK_SITING_TOP
};

typedef struct stk_yuv { /* coefficients of a matrix and range */
    int32_t y, rv, gu, gv, bu;
    int32_t y_zero, c_zero; /* values that mean black, and no color */
    uint32_t shift;
    int gbr;  /* no matrix: planes are G, B, R */
    int wide; /* values have two bytes */
} stk_yuv;

typedef struct stk_yuv_row { /* a row of Y in terms of two rows of U or V */
    const uint8_t *a, *b;
    int32_t weight; /* of b, of 4 */
    uint32_t step;  /* 2: U and V take turns */
    int wide;
} stk_yuv_row;

/* U and V on their way: 4 times as large after down(), 16 times after across(); of 12 bits, less
 * than 65,536. */
typedef struct stk_yuv_kern {
    void (*down)(const stk_yuv_row *r, uint32_t from, uint32_t n, uint16_t *out);
    void (*across)(const uint16_t *t, uint32_t n, int cosited, uint16_t *out);
    void (*color)(const stk_yuv *c, const void *luma, const uint16_t *u, const uint16_t *v,
                  uint32_t n, uint32_t *dst);
} stk_yuv_kern;
extern const stk_yuv_kern stk_yuv_c_kern, stk_yuv_avx2_kern, stk_yuv_avx512_kern;

/* STK_ENOTSUP: a matrix that is not known. */
int stk_yuv_init(stk_yuv *c, const stk_planes *p, stk_error *err);
/* Numbers that stk_yuv_rgbx() needs as room, for so many columns. */
#define STK_YUV_ROOM(w) (3 * (size_t)(w) + 32)
/* Pixels of `need`, which is inside p->area, to dst, without gaps. */
void stk_yuv_rgbx(stk_cpu level, const stk_yuv *c, const stk_planes *p, const stk_rect *need,
                  uint16_t *room, uint32_t *dst);

#endif

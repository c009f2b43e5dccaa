/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_idct.h - the pixel loops of our JPEG decoder: one table a CPU level, all give the same bits.
 *
 * Coefficients come in groups of four blocks: row r of block b is at group + r * 32 + b * 8, so
 * that one vector holds a row of all four.  A group's pixels are 32 x 8, side by side. */
#ifndef STOKER_JPEG_IDCT_H
#define STOKER_JPEG_IDCT_H

#include "base/cpu.h"
#include "codec/jpeg_core.h"

#define STK_JPEG_GROUP 256 /* coefficients of a group */

typedef struct stk_jpeg_kern {
    const char *name;
    /* A group to pixels.  q: natural order.  last: the place (zigzag) of the last coefficient of
     * each block that is not zero. */
    void (*idct)(uint8_t *dst, size_t stride, const int16_t *group, const uint16_t *q,
                 const uint8_t last[4]);
    /* A block of a group, 64 coefficients in natural order, to memory that is read much later. */
    void (*keep)(int16_t *dst, const int16_t *block);
    /* Rows: vectors take them in units of 16, so sources can be read and results written up to
     * 16 samples (32 of a doubled row) after their end.
     * Twice the columns: n samples to 2 n, from src[-1] to src[n]. */
    void (*up_h2)(uint8_t *dst, const uint8_t *src, size_t n);
    /* Twice the columns, between two rows: 3/4 near, 1/4 far. */
    void (*up_h2v2)(uint8_t *dst, const uint8_t *near, const uint8_t *far, size_t n);
    /* Between two rows; bias is 1 (far is above) or 2 (below). */
    void (*up_v2)(uint8_t *dst, const uint8_t *near, const uint8_t *far, size_t n, unsigned bias);
    /* n pixels R, G, B, 255 from rows of Y, Cb, Cr, as libjpeg-turbo rounds them. */
    void (*pack_rgb)(uint8_t *dst, const uint8_t *const src[3], size_t n);
} stk_jpeg_kern;

/* The table for a level; falls to the best one built that is not above it. */
const stk_jpeg_kern *stk_jpeg_kern_table(stk_cpu level);

extern const stk_jpeg_kern stk_jpeg_kern_c;
extern const stk_jpeg_kern stk_jpeg_kern_avx2, stk_jpeg_kern_avx512; /* where STK_HAVE_AVX2 */
void stk_jpeg_idct_avx512(uint8_t *dst, size_t stride, const int16_t *group, const uint16_t *q,
                          const uint8_t last[4]);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_idct.h - the pixel loops of our JPEG decoder: one table per CPU level, all with the same
 * result.  jpeg_base.c calls them.
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
    /* Turns a group into pixels.  q: quantizers in natural order.  last: by block, the place in
     * zigzag order of its last coefficient that is not zero. */
    void (*idct)(uint8_t *dst, size_t stride, const int16_t *group, const uint16_t *q,
                 const uint8_t last[4]);
    /* Copies a block of a group to 64 coefficients in natural order, past the caches: they are read
     * much later. */
    void (*keep)(int16_t *dst, const int16_t *block);
    /* The next functions work on rows in units of 16 samples: they may read sources and write
     * results up to 16 samples (32 of a doubled row) after the end.
     * Doubles the columns: n samples to 2 n, from src[-1] to src[n]. */
    void (*up_h2)(uint8_t *dst, const uint8_t *src, size_t n);
    /* Doubles the columns of a row between two rows: 3/4 near, 1/4 far. */
    void (*up_h2v2)(uint8_t *dst, const uint8_t *near, const uint8_t *far, size_t n);
    /* The same without doubling.  bias: 1: `far` is above; 2: below. */
    void (*up_v2)(uint8_t *dst, const uint8_t *near, const uint8_t *far, size_t n, unsigned bias);
    /* n pixels R, G, B, 255 from rows of Y, Cb, Cr, as libjpeg-turbo rounds them. */
    void (*pack_rgb)(uint8_t *dst, const uint8_t *const src[3], size_t n);
} stk_jpeg_kern;

/* The table for a level, or the best one of this build below it. */
const stk_jpeg_kern *stk_jpeg_kern_table(stk_cpu level);

extern const stk_jpeg_kern stk_jpeg_kern_c;
extern const stk_jpeg_kern stk_jpeg_kern_avx2, stk_jpeg_kern_avx512; /* where STK_HAVE_AVX2 */
void stk_jpeg_idct_avx512(uint8_t *dst, size_t stride, const int16_t *group, const uint16_t *q,
                          const uint8_t last[4]);

#endif

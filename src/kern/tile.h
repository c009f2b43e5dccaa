/* SPDX-License-Identifier: Apache-2.0 */
/* tile.h - runs the actions that ops drew on a tile of pixels, in order.  row/tiles.c calls it.
 *
 * An action is a code and its numbers.  Neighbouring actions on single pixels make one pass: the
 * tile goes through them in pieces that stay in L1, and those that are tables of 256 values become
 * one table.  Loops are compiled once for any machine and once for AVX2 (tile_body.h), from
 * arithmetic that a GPU shares (point.h, stats.h, near.h, warp.h): all give the same bits. */
#ifndef STOKER_KERN_TILE_H
#define STOKER_KERN_TILE_H

#include "base/cpu.h"
#include "base/err.h"
#include "base/philox.h"
#include "kern/tile_code.h"

typedef struct stk_channel_tables { /* one per channel: R, G, B */
    uint8_t of[3][256];
} stk_channel_tables;

typedef struct stk_figures_of { /* of a whole picture */
    uint64_t gray;              /* sum of stk_pt_gray() */
    uint32_t min, max;          /* of each channel, as pixels */
    uint32_t count[3][256];     /* pixels of each value */
} stk_figures_of;

typedef struct stk_quantizers { /* of a block, row by row */
    int32_t q[64];              /* 1..255 */
    uint32_t inverse[64];       /* of stk_quantized_by() */
} stk_quantizers;

typedef struct stk_tile_kern { /* n pixels in place, unless it is said otherwise */
    void (*linear)(uint32_t *px, size_t n, float mul, float add);
    void (*table)(uint32_t *px, size_t n, const stk_channel_tables *t);
    int table_is_quick; /* ... also than `linear` */
    /* by code, from STK_ACT_PIXEL + 1 on: op/pixels.def */
    void (*pixel[STK_PIXELS])(uint32_t *px, size_t n, const stk_action *a);
    uint64_t (*gray_sum)(const uint32_t *px, size_t n);
    void (*range)(const uint32_t *px, size_t n, uint32_t *min, uint32_t *max); /* widens both */
    void (*count)(const uint32_t *px, size_t n, uint32_t count[3][256]);       /* adds */
    /* n is even, or ends */
    void (*noise)(uint32_t *px, size_t n, uint64_t first, const stk_action *a);
    /* n bytes, from a row that has `half` pixels more on each side */
    void (*blur_across)(uint16_t *dst, const uint8_t *src, size_t n, const uint16_t *w,
                        uint32_t half);
    /* n bytes of 2 * half + 1 rows; rows[half] is the middle one */
    void (*blur_down)(uint8_t *dst, const uint16_t *const *rows, size_t n, const uint16_t *w,
                      uint32_t half);
    /* n pixels from three rows, of which src[1] is the middle one; one more on each side is read */
    void (*sharpen)(uint32_t *dst, const uint32_t *const src[3], size_t n, float away);
    /* JPEG (tile_jpeg_body.h): n pixels to Y, Cb, Cr; two rows of 2 n values to one of n; `width`
     * by 8 values in place, width a multiple of 8; rows of n > 2 values, the nearer first, to one
     * of 2 n; n pixels back */
    void (*jpeg_ycc)(uint8_t *const out[3], const uint32_t *px, size_t n);
    void (*jpeg_half)(uint8_t *dst, const uint8_t *a, const uint8_t *b, size_t n);
    void (*jpeg_loss)(uint8_t *px, size_t width, const stk_quantizers *q);
    void (*jpeg_grow)(uint8_t *dst, const uint8_t *a, const uint8_t *b, size_t n);
    void (*jpeg_rgb)(uint32_t *px, const uint8_t *y, const uint8_t *cb, const uint8_t *cr,
                     size_t n);
} stk_tile_kern;

extern const stk_tile_kern stk_tile_c, stk_tile_avx2, stk_tile_avx512,
    stk_tile_vbmi; /* where STK_HAVE_AVX2 */

/* memory of one picture, for actions that see many pixels at a time */
typedef struct stk_tile_room {
    stk_scratch *scratch;
    uint32_t *spare; /* what they make; they and the tile change places.  NULL: not asked for yet */
    uint8_t *lines;
    size_t spare_size, lines_size;
    uint32_t *mix; /* what MIX_BEGIN remembered ... */
    float *sum;    /* ... and the sum of versions so far, three values a pixel */
} stk_tile_room;

/* n actions of these codes, on a tile that may move to other memory of the scratch.  0 or
 * STK_ENOMEM. */
int stk_tile_run(const stk_tile_kern *k, const stk_action *a, uint32_t n, stk_tile *t,
                 stk_tile_room *room, stk_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* tile_jpeg_body.h - the loops of tile_jpeg.c, a part of tile_body.h.  The compiler makes the
 * vectors; only the transpose of a block is written with shuffles, which the compiler does not
 * find. */
#include <string.h>

#include "kern/jpeg_loss.h"
#include "kern/tile.h"

static void jpeg_ycc(uint8_t *const out[3], const uint32_t *px, size_t n)
{
    uint8_t *restrict y = out[0], *restrict cb = out[1], *restrict cr = out[2];

    for (size_t i = 0; i < n; i++) {
        int32_t r = stk_px_r(px[i]), g = stk_px_g(px[i]), b = stk_px_b(px[i]);

        y[i] = stk_jpeg_y(r, g, b);
        cb[i] = stk_jpeg_cb(r, g, b);
        cr[i] = stk_jpeg_cr(r, g, b);
    }
}

static void jpeg_half(uint8_t *restrict dst, const uint8_t *a, const uint8_t *b, size_t n)
{
    for (size_t x = 0; x < n; x++)
        dst[x] = stk_jpeg_half((uint32_t)(a[2 * x] + a[2 * x + 1] + b[2 * x] + b[2 * x + 1]),
                               (uint32_t)x);
}

static void jpeg_grow(uint8_t *restrict dst, const uint8_t *a, const uint8_t *b, size_t n)
{
    dst[0] = stk_jpeg_grown(3u * a[0] + b[0], 3u * a[0] + b[0], 0);
    for (size_t x = 0; x + 1 < n; x++) { /* the right half of x, and the left one of x + 1 */
        uint32_t l = 3u * a[x] + b[x], r = 3u * a[x + 1] + b[x + 1];

        dst[2 * x + 1] = stk_jpeg_grown(l, r, 1);
        dst[2 * x + 2] = stk_jpeg_grown(r, l, 0);
    }
    dst[2 * n - 1] = stk_jpeg_grown(3u * a[n - 1] + b[n - 1], 3u * a[n - 1] + b[n - 1], 1);
}

static void jpeg_rgb(uint32_t *restrict px, const uint8_t *y, const uint8_t *cb, const uint8_t *cr,
                     size_t n)
{
    for (size_t i = 0; i < n; i++)
        px[i] = stk_jpeg_px(y[i], cb[i], cr[i]);
}

/* ---- blocks ---- */

typedef int32_t eight __attribute__((vector_size(32)));

#define PICK(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)

/* Rows to columns: neighbours, then pairs, then halves change places. */
static inline void turn(eight x[8])
{
    eight t[8];

    for (int i = 0; i < 8; i += 2) {
        t[i] = PICK(x[i], x[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
        t[i + 1] = PICK(x[i], x[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    }
    for (int i = 0; i < 4; i++) {
        int k = i + (i & 2); /* 0, 1, 4, 5 */

        x[k] = PICK(t[k], t[k + 2], 0, 1, 8, 9, 4, 5, 12, 13);
        x[k + 2] = PICK(t[k], t[k + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
    for (int i = 0; i < 4; i++) {
        eight a = x[i], b = x[i + 4];

        x[i] = PICK(a, b, 0, 1, 2, 3, 8, 9, 10, 11);
        x[i + 4] = PICK(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

typedef union block {
    stk_block x;
    eight row[8];
} block;

static void block_loss(uint8_t *px, size_t stride, const stk_quantizers *q)
{
    block b;

    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++)
            b.x[i][j] = px[(size_t)i * stride + (size_t)j] - 128;
    turn(b.row); /* rows first, as columns */
    stk_dct_columns(b.x, 0);
    turn(b.row);
    stk_dct_columns(b.x, 1);
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++)
            b.x[i][j] = stk_quantized_by(b.x[i][j], q->q[8 * i + j], q->inverse[8 * i + j]);
    stk_idct_columns(b.x, 0);
    turn(b.row);
    stk_idct_columns(b.x, 1);
    turn(b.row);
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++)
            px[(size_t)i * stride + (size_t)j] = (uint8_t)stk_loss_clamp(b.x[i][j] + 128);
}

static void jpeg_loss(uint8_t *px, size_t width, const stk_quantizers *q)
{
    for (size_t x = 0; x < width; x += 8)
        block_loss(px + x, width, q);
}

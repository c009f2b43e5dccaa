/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_loss.h - the loss that saving as JPEG causes, for the op jpeg_artifacts, on the host and on
 * a GPU.  Colors go to Y, Cb, Cr and back.  Blocks go through libjpeg's "islow" transforms forth
 * and back, with coefficients rounded to multiples of the quantizer between.  It computes in
 * integers, bit for bit as libjpeg; nothing is encoded. */
#ifndef STOKER_KERN_JPEG_LOSS_H
#define STOKER_KERN_JPEG_LOSS_H

#include <stddef.h>
#include <stdint.h>

#include "kern/point.h"

#define STK_DCT_BITS 13
#define STK_DCT_PASS 2

STK_HD static inline int32_t stk_dct_down(int32_t v, int bits)
{
    return (v + (1 << (bits - 1))) >> bits;
}

typedef int32_t stk_block[8][8];

/* The odd half, which both directions share: a, b, c, d become the sums of the rotation. */
STK_HD static inline void stk_dct_odd(int32_t *a, int32_t *b, int32_t *c, int32_t *d)
{
    int32_t z1 = (*a + *d) * -7373, z2 = (*b + *c) * -20995, z3 = *a + *c, z4 = *b + *d,
            z5 = (z3 + z4) * 9633;

    z3 = z3 * -16069 + z5;
    z4 = z4 * -3196 + z5;
    *a = *a * 2446 + z1 + z3;
    *b = *b * 16819 + z2 + z4;
    *c = *c * 25172 + z2 + z3;
    *d = *d * 12299 + z1 + z4;
}

/* Down the columns; all eight at once make vectors. */
STK_HD static inline void stk_dct_columns(stk_block x, int last)
{
    int bits = last ? STK_DCT_BITS + STK_DCT_PASS : STK_DCT_BITS - STK_DCT_PASS;

    for (int i = 0; i < 8; i++) {
        int32_t t0 = x[0][i] + x[7][i], t7 = x[0][i] - x[7][i], t1 = x[1][i] + x[6][i],
                t6 = x[1][i] - x[6][i], t2 = x[2][i] + x[5][i], t5 = x[2][i] - x[5][i],
                t3 = x[3][i] + x[4][i], t4 = x[3][i] - x[4][i];
        int32_t even = t0 + t3, odd = t1 + t2, p = t0 - t3, q = t1 - t2, z = (p + q) * 4433;

        x[0][i] = last ? stk_dct_down(even + odd, STK_DCT_PASS)
                       : (even + odd) * (1 << STK_DCT_PASS);
        x[4][i] = last ? stk_dct_down(even - odd, STK_DCT_PASS)
                       : (even - odd) * (1 << STK_DCT_PASS);
        x[2][i] = stk_dct_down(z + p * 6270, bits);
        x[6][i] = stk_dct_down(z - q * 15137, bits);
        stk_dct_odd(&t4, &t5, &t6, &t7);
        x[7][i] = stk_dct_down(t4, bits);
        x[5][i] = stk_dct_down(t5, bits);
        x[3][i] = stk_dct_down(t6, bits);
        x[1][i] = stk_dct_down(t7, bits);
    }
}

STK_HD static inline void stk_idct_columns(stk_block x, int last)
{
    int bits = last ? STK_DCT_BITS + STK_DCT_PASS + 3 : STK_DCT_BITS - STK_DCT_PASS;

    for (int i = 0; i < 8; i++) {
        int32_t z = (x[2][i] + x[6][i]) * 4433, low = z - x[6][i] * 15137,
                high = z + x[2][i] * 6270;
        int32_t sum = (x[0][i] + x[4][i]) * (1 << STK_DCT_BITS),
                dif = (x[0][i] - x[4][i]) * (1 << STK_DCT_BITS);
        int32_t e0 = sum + high, e3 = sum - high, e1 = dif + low, e2 = dif - low;
        int32_t o0 = x[7][i], o1 = x[5][i], o2 = x[3][i], o3 = x[1][i];

        stk_dct_odd(&o0, &o1, &o2, &o3);
        x[0][i] = stk_dct_down(e0 + o3, bits);
        x[7][i] = stk_dct_down(e0 - o3, bits);
        x[1][i] = stk_dct_down(e1 + o2, bits);
        x[6][i] = stk_dct_down(e1 - o2, bits);
        x[2][i] = stk_dct_down(e2 + o1, bits);
        x[5][i] = stk_dct_down(e2 - o1, bits);
        x[3][i] = stk_dct_down(e3 + o0, bits);
        x[4][i] = stk_dct_down(e3 - o0, bits);
    }
}

STK_HD static inline void stk_block_turn(stk_block x)
{
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < i; j++) {
            int32_t was = x[i][j];

            x[i][j] = x[j][i];
            x[j][i] = was;
        }
}

/* ---- colors ---- */

STK_HD static inline uint8_t stk_jpeg_y(int32_t r, int32_t g, int32_t b)
{
    return (uint8_t)((19595 * r + 38470 * g + 7471 * b + 32768) >> 16);
}

STK_HD static inline uint8_t stk_jpeg_cb(int32_t r, int32_t g, int32_t b)
{
    return (uint8_t)((-11059 * r - 21709 * g + 32768 * b + (128 << 16) + 32767) >> 16);
}

STK_HD static inline uint8_t stk_jpeg_cr(int32_t r, int32_t g, int32_t b)
{
    return (uint8_t)((32768 * r - 27439 * g - 5329 * b + (128 << 16) + 32767) >> 16);
}

/* Four of Cb or Cr to one; halves are rounded down and up in turn, as libjpeg does. */
STK_HD static inline uint8_t stk_jpeg_half(uint32_t sum, uint32_t x)
{
    return (uint8_t)((sum + 1 + (x & 1)) >> 2);
}

/* One of Cb or Cr at full size: near and far are 3 a + b of its column and of the next, where a is
 * of the nearer row; right: that one is at the right. */
STK_HD static inline uint8_t stk_jpeg_grown(uint32_t near, uint32_t far, uint32_t right)
{
    return (uint8_t)((3 * near + far + 8 - right) >> 4);
}

STK_HD static inline uint32_t stk_loss_clamp(int32_t v)
{
    return (uint32_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

STK_HD static inline uint32_t stk_jpeg_px(int32_t y, int32_t cb, int32_t cr)
{
    cb -= 128;
    cr -= 128;
    return stk_px(stk_loss_clamp(y + ((91881 * cr + 32768) >> 16)),
                  stk_loss_clamp(y + ((-22554 * cb - 46802 * cr + 32768) >> 16)),
                  stk_loss_clamp(y + ((116130 * cb + 32768) >> 16)));
}

/* ---- blocks ---- */

/* What quality 1 to 100 divides by, of Y and of Cb and Cr, row by row: libjpeg's tables.  Host
 * only. */
void stk_jpeg_quantizers(uint16_t q[2][64], uint32_t quality);

/* Nearest multiple of the quantizer, of a coefficient that is 8 times as large. */
STK_HD static inline int32_t stk_quantized(int32_t v, int32_t q)
{
    int32_t size = v < 0 ? -v : v, n = (size + 4 * q) / (8 * q) * q;

    return v < 0 ? -n : n;
}

/* The same without a division, for sizes up to 2^14 and q up to 255: inverse is ceil(2^20 / q). */
STK_HD static inline int32_t stk_quantized_by(int32_t v, int32_t q, uint32_t inverse)
{
    uint32_t size = (uint32_t)(v < 0 ? -v : v);
    int32_t n = (int32_t)(((size + 4 * (uint32_t)q) >> 3) * inverse >> 20) * q;

    return v < 0 ? -n : n;
}

/* One block of samples in place.  q: quantizers, row by row. */
STK_HD static inline void stk_block_loss(uint8_t *px, size_t stride, const uint16_t q[64])
{
    stk_block x;

    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++)
            x[j][i] = px[(size_t)i * stride + (size_t)j] - 128; /* rows first, as columns */
    stk_dct_columns(x, 0);
    stk_block_turn(x);
    stk_dct_columns(x, 1);
    for (int i = 0; i < 64; i++)
        x[i / 8][i % 8] = stk_quantized(x[i / 8][i % 8], q[i]);
    stk_idct_columns(x, 0);
    stk_block_turn(x);
    stk_idct_columns(x, 1);
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) {
            int32_t v = x[j][i] + 128;

            px[(size_t)i * stride + (size_t)j] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
        }
}

#endif

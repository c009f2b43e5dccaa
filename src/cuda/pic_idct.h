/* SPDX-License-Identifier: Apache-2.0 */
/* pic_idct.h - the inverse DCT of one block of a JPEG, by one thread of a GPU.  pic_unit.h calls
 * it.
 *
 * The arithmetic is stk_jpeg_idct()'s.  A slot holds a block column by column, so that a column is
 * one 16-byte load; slots are 36 words apart, which keeps such loads of neighbouring threads in
 * different banks.  Everything between is in registers.  Where a value of the first row is so large
 * that the host would choose between wrapping and saturating, the thread says so instead, and the
 * picture goes to the host: pictures never come near. */
#ifndef STOKER_PIC_IDCT_H
#define STOKER_PIC_IDCT_H

#include "cuda/pic_geom.h"

#define STK_PIC_SLOT 144 /* bytes from one slot to the next */

#if defined(__CUDACC__)
typedef uint4 stk_pic_v4;
typedef uint2 stk_pic_v2;
#else
typedef struct stk_pic_v4 {
    _Alignas(16) uint32_t x;
    uint32_t y, z, w;
} stk_pic_v4;
typedef struct stk_pic_v2 {
    _Alignas(8) uint32_t x;
    uint32_t y;
} stk_pic_v2;
#endif

STK_PIC_FN int32_t stk_pic_low(uint32_t w)
{
    return (int16_t)(w & 0xFFFF);
}

STK_PIC_FN int32_t stk_pic_high(uint32_t w)
{
    return (int32_t)w >> 16;
}

/* Two values as 16 bits each, saturated. */
STK_PIC_FN uint32_t stk_pic_pack16(int32_t low, int32_t high)
{
#if defined(__CUDA_ARCH__)
    uint32_t v;

    asm("cvt.pack.sat.s16.s32 %0, %1, %2;" : "=r"(v) : "r"(high), "r"(low));
    return v;
#else
    return (uint16_t)stk_jpeg_sat16(low) | (uint32_t)(uint16_t)stk_jpeg_sat16(high) << 16;
#endif
}

/* Four values as bytes, saturated to 0..255. */
STK_PIC_FN uint32_t stk_pic_pack8(const int32_t v[4])
{
#if defined(__CUDA_ARCH__)
    uint32_t w;

    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, 0;" : "=r"(w) : "r"(v[3]), "r"(v[2]));
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %0;" : "+r"(w) : "r"(v[1]), "r"(v[0]));
    return w;
#else
    uint32_t w = 0;

    for (int i = 0; i < 4; i++)
        w |= (uint32_t)(v[i] < 0 ? 0 : v[i] > 255 ? 255 : v[i]) << 8 * i;
    return w;
#endif
}

/* stk_jpeg_idct8() of values in registers, `half` added to each result. */
STK_PIC_FN void stk_pic_idct8(const int32_t x[8], uint32_t half, int32_t out[8])
{
    uint32_t e0 = (uint32_t)((int16_t)(x[0] + x[4]) * 8192) + half;
    uint32_t e1 = (uint32_t)((int16_t)(x[0] - x[4]) * 8192) + half;
    uint32_t e2 = (uint32_t)(x[2] * 4433 - x[6] * 10704);
    uint32_t e3 = (uint32_t)(x[2] * 10703 + x[6] * 4433);
    int32_t s73 = (int16_t)(x[7] + x[3]), s51 = (int16_t)(x[5] + x[1]);
    int32_t z3 = s73 * -6436 + s51 * 9633, z4 = s73 * 9633 + s51 * 6437;
    uint32_t o7 = (uint32_t)(x[7] * -4927 - x[1] * 7373) + (uint32_t)z3;
    uint32_t o5 = (uint32_t)(x[5] * -4176 - x[3] * 20995) + (uint32_t)z4;
    uint32_t o3 = (uint32_t)(x[5] * -20995 + x[3] * 4177) + (uint32_t)z3;
    uint32_t o1 = (uint32_t)(x[7] * -7373 + x[1] * 4926) + (uint32_t)z4;
    uint32_t a0 = e0 + e3, a3 = e0 - e3, a1 = e1 + e2, a2 = e1 - e2;

    out[0] = (int32_t)(a0 + o1);
    out[7] = (int32_t)(a0 - o1);
    out[1] = (int32_t)(a1 + o3);
    out[6] = (int32_t)(a1 - o3);
    out[2] = (int32_t)(a2 + o5);
    out[5] = (int32_t)(a2 - o5);
    out[3] = (int32_t)(a3 + o7);
    out[4] = (int32_t)(a3 - o7);
}

/* A column of a slot; what the first pass makes of it.  *large gets bits of its first value. */
STK_PIC_FN void stk_pic_column(const stk_pic_v4 *slot, uint32_t column, int32_t out[8],
                               uint32_t *large)
{
    stk_pic_v4 v = slot[column];
    int32_t x[8] = { stk_pic_low(v.x), stk_pic_high(v.x), stk_pic_low(v.y), stk_pic_high(v.y),
                     stk_pic_low(v.z), stk_pic_high(v.z), stk_pic_low(v.w), stk_pic_high(v.w) };

    *large |= (uint32_t)(x[0] ^ x[0] >> 31);
    stk_pic_idct8(x, 1024, out);
    for (int r = 0; r < 8; r++)
        out[r] >>= 11;
}

/* Pairs of columns that are not all zero, by the last place of a block. */
STK_PIC_FN uint32_t stk_pic_pairs(uint32_t last)
{
    return last < 3 ? 1 : last < 10 ? 2 : last < 21 ? 3 : 4;
}

/* A slot to 8 rows of 8 samples.  pairs: of columns, those after them are zero; 0: a lone DC value.
 * 0, or 1: the values are none of a picture's. */
STK_PIC_FN int stk_pic_idct(const uint8_t *from, uint32_t pairs, uint8_t *to, uint32_t stride)
{
    const stk_pic_v4 *slot = (const stk_pic_v4 *)(const void *)from;
    uint32_t mid[8][4], large = 0;

    if (!pairs) {
        int32_t dc = *(const int16_t *)(const void *)from, v = (dc * 4 + 16) >> 5;
        uint32_t four = (uint32_t)((v < -128 ? -128 : v > 127 ? 127 : v) + 128) * 0x01010101u;
        stk_pic_v2 row = { four, four };

        for (int r = 0; r < 8; r++)
            *(stk_pic_v2 *)(void *)(to + (uint64_t)r * stride) = row;
        return (dc ^ dc >> 31) > 8191;
    }
    STK_PIC_UNROLL
    for (uint32_t p = 0; p < 4; p++) {
        int32_t a[8], b[8];

        if (p < pairs) {
            stk_pic_column(slot, 2 * p, a, &large);
            stk_pic_column(slot, 2 * p + 1, b, &large);
            for (int r = 0; r < 8; r++)
                mid[r][p] = stk_pic_pack16(a[r], b[r]);
        } else {
            for (int r = 0; r < 8; r++)
                mid[r][p] = 0;
        }
    }
    STK_PIC_UNROLL
    for (int r = 0; r < 8; r++) {
        int32_t x[8], v[8];
        stk_pic_v2 row;

        for (int p = 0; p < 4; p++) {
            x[2 * p] = stk_pic_low(mid[r][p]);
            x[2 * p + 1] = stk_pic_high(mid[r][p]);
        }
        stk_pic_idct8(x, 131072, v);
        for (int i = 0; i < 8; i++)
            v[i] = (v[i] >> 18) + 128;
        row.x = stk_pic_pack8(v);
        row.y = stk_pic_pack8(v + 4);
        *(stk_pic_v2 *)(void *)(to + (uint64_t)r * stride) = row;
    }
    return large > 8191;
}

/* Make a slot zero again. */
STK_PIC_FN void stk_pic_clear(uint8_t *slot)
{
    stk_pic_v4 zero = { 0, 0, 0, 0 };

    for (int i = 0; i < 8; i++)
        ((stk_pic_v4 *)(void *)slot)[i] = zero;
}

#endif

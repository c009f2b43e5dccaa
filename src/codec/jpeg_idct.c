/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_idct.c - the reference pixel loops of our JPEG decoder, and the choice of a table.
 *
 * Upsampling is libjpeg's triangle filter.  At a picture's edge that repeats the outermost
 * sample exactly, so callers put a copy of it after the edge and no loop here knows about
 * edges. */
#include "codec/jpeg_idct.h"

#include <stddef.h>

#include "config.h"

static void idct_c(uint8_t *dst, size_t stride, const int16_t *group, const uint16_t *q,
                   const uint8_t last[4])
{
    for (int b = 0; b < 4; b++) {
        if (last[b]) {
            stk_jpeg_idct(group + b * 8, 32, q, dst + b * 8, stride);
            continue;
        }
        /* what the whole transform gives for a lone DC value */
        int16_t dc = (int16_t)(uint16_t)((uint16_t)(group[b * 8] * (int32_t)q[0]) << 2);
        uint8_t v = stk_jpeg_clamp((dc + 16) >> 5);

        for (int r = 0; r < 8; r++)
            memset(dst + (size_t)r * stride + b * 8, v, 8);
    }
}

static void keep_c(int16_t *dst, const int16_t *block)
{
    for (size_t r = 0; r < 8; r++)
        memcpy(dst + r * 8, block + r * 32, 16);
}

static void up_h2_c(uint8_t *dst, const uint8_t *src, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned v = src[i] * 3u;

        dst[2 * i] = (uint8_t)((v + src[(ptrdiff_t)i - 1] + 1) >> 2);
        dst[2 * i + 1] = (uint8_t)((v + src[i + 1] + 2) >> 2);
    }
}

static void up_h2v2_c(uint8_t *dst, const uint8_t *near, const uint8_t *far, size_t n)
{
    unsigned before = near[-1] * 3u + far[-1], here = near[0] * 3u + far[0];

    for (size_t i = 0; i < n; i++) {
        unsigned after = near[i + 1] * 3u + far[i + 1];

        dst[2 * i] = (uint8_t)((here * 3 + before + 8) >> 4);
        dst[2 * i + 1] = (uint8_t)((here * 3 + after + 7) >> 4);
        before = here;
        here = after;
    }
}

static void up_v2_c(uint8_t *dst, const uint8_t *near, const uint8_t *far, size_t n, unsigned bias)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = (uint8_t)((near[i] * 3u + far[i] + bias) >> 2);
}

static uint8_t byte(int v)
{
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* Sixteen fractional bits, half added, as libjpeg's tables have it. */
static void pack_rgb_c(uint8_t *dst, const uint8_t *const src[3], size_t n)
{
    for (size_t i = 0; i < n; i++, dst += 4) {
        int y = src[0][i], cb = src[1][i] - 128, cr = src[2][i] - 128;

        dst[0] = byte(y + ((91881 * cr + 32768) >> 16));
        dst[1] = byte(y + ((-22554 * cb - 46802 * cr + 32768) >> 16));
        dst[2] = byte(y + ((116130 * cb + 32768) >> 16));
        dst[3] = 255;
    }
}

const stk_jpeg_kern stk_jpeg_kern_c = { .name = "c",
                                        .idct = idct_c,
                                        .keep = keep_c,
                                        .up_h2 = up_h2_c,
                                        .up_h2v2 = up_h2v2_c,
                                        .up_v2 = up_v2_c,
                                        .pack_rgb = pack_rgb_c };

const stk_jpeg_kern *stk_jpeg_kern_table(stk_cpu level)
{
#if STK_HAVE_AVX2
    if (level >= STK_CPU_AVX512)
        return &stk_jpeg_kern_avx512;
    if (level >= STK_CPU_AVX2)
        return &stk_jpeg_kern_avx2;
#endif
    (void)level;
    return &stk_jpeg_kern_c;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* kern_avx512.c - the loops that gain by AVX-512; all others are those of kern_avx2.c. */
#include <immintrin.h>

#include "kern/kern.h"

/* 16 pixels are 48 bytes, stored with 16 more that the next ones overwrite; the last ones alone. */
static uint32_t packed_copy(uint8_t *dst, const uint8_t *src, uint32_t n)
{
    const __m512i drop_x = _mm512_broadcast_i32x4(
        _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
    const __m512i close_up = _mm512_setr_epi32(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 3, 7, 11,
                                               15);
    uint32_t i = 0;

    for (; i + 16 <= n; i += 16) {
        __m512i x = _mm512_shuffle_epi8(_mm512_loadu_si512(src + 4 * (size_t)i), drop_x);

        x = _mm512_permutexvar_epi32(close_up, x);
        if (i + 22 <= n)
            _mm512_storeu_si512(dst + 3 * (size_t)i, x);
        else
            _mm512_mask_storeu_epi32(dst + 3 * (size_t)i, 0x0fff, x);
    }
    return i;
}

void stk_avx512_store_packed(void *dst, const uint8_t *src, uint32_t n, const stk_color *color)
{
    uint32_t done = color->dtype == STK_U8 && stk_color_plain(color) ? packed_copy(dst, src, n) : 0;

    if (done < n)
        stk_kern_avx2.store_packed((uint8_t *)dst + 3 * (size_t)done, src + 4 * (size_t)done,
                                   n - done, color);
}

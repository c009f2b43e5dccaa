/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_idct_avx512.c - the inverse DCT of four blocks at once with AVX-512; the other loops are
 * bound by memory and stay AVX2's. */
#include <immintrin.h>

#include "codec/jpeg_idct.h"

#define VINLINE static inline __attribute__((always_inline))
#define V __m512i
#define OP(name) _mm512_##name
#define ZERO _mm512_setzero_si512()
#define LOAD(p) _mm512_load_si512((const void *)(p))
#define QUANT(p) _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)(p)))
#include "codec/jpeg_idct_vec.h"

/* See jpeg_idct_avx2.c. */
static int wild(const int16_t *group, const uint16_t *q)
{
    __m512i d = _mm512_add_epi16(_mm512_mullo_epi16(LOAD(group), QUANT(q)),
                                 _mm512_set1_epi16(8192));

    return _mm512_test_epi16_mask(d, _mm512_set1_epi16((short)0xC000)) != 0;
}

void stk_jpeg_idct_avx512(uint8_t *dst, size_t stride, const int16_t *group, const uint16_t *q,
                          const uint8_t last[4])
{
    const __m512i rows = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    __m512i out[4];

    if (!(last[0] | last[1] | last[2] | last[3]) || wild(group, q)) {
        stk_jpeg_kern_avx2.idct(dst, stride, group, q, last);
        return;
    }
    if (only_few(last))
        few_blocks(group, q, out);
    else
        blocks(group, q, out);
    for (size_t i = 0; i < 4; i++) {
        __m512i two = _mm512_permutexvar_epi64(rows, out[i]);

        _mm256_storeu_si256((void *)(dst + 2 * i * stride), _mm512_castsi512_si256(two));
        _mm256_storeu_si256((void *)(dst + (2 * i + 1) * stride),
                            _mm512_extracti64x4_epi64(two, 1));
    }
}

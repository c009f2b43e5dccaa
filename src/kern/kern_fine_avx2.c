/* SPDX-License-Identifier: Apache-2.0 */
/* kern_fine_avx2.c - the filter with weights of 22 bits, with AVX2; same bits as kern_fine.c.
 *
 * A weight is two words, w = 256 * high + low with low in 0..255: each pair of taps takes two
 * multiply-adds, and the sums meet at the end.  What goes beyond 32 bits on the way comes back. */
#include <immintrin.h>
#include <string.h>

#include "kern/kern.h"
#include "kern/taps_core.h"

#define Z (-128) /* shuffle index: a zero byte */
#define TWICE(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)                                      \
    _mm256_setr_epi8(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, a, b, c, d, e, f, g, h, i, j, \
                     k, l, m, n, o, p)

typedef struct fine_sum {
    __m256i high, low;
} fine_sum;

static inline __m256i both(const void *lower, const void *upper)
{
    return _mm256_loadu2_m128i(upper, lower);
}

static inline __m256i whole(fine_sum s)
{
    __m256i half = _mm256_set1_epi32(1 << (STK_TAPS_SHIFT_MAX - 1));
    __m256i sum = _mm256_add_epi32(_mm256_slli_epi32(s.high, 8), _mm256_add_epi32(s.low, half));

    return _mm256_srai_epi32(sum, STK_TAPS_SHIFT_MAX);
}

static inline void add_pair(fine_sum *s, __m256i words, __m256i high, __m256i low)
{
    s->high = _mm256_add_epi32(s->high, _mm256_madd_epi16(words, high));
    s->low = _mm256_add_epi32(s->low, _mm256_madd_epi16(words, low));
}

/* Outputs i and i + 1, one a lane: their four channels. */
static inline __m256i across(const uint8_t *src, const stk_taps *t, size_t i, size_t other)
{
    const __m256i px01 = TWICE(0, Z, 4, Z, 1, Z, 5, Z, 2, Z, 6, Z, 3, Z, 7, Z);
    const __m256i px23 = TWICE(8, Z, 12, Z, 9, Z, 13, Z, 10, Z, 14, Z, 11, Z, 15, Z);
    const __m256i high01 = TWICE(1, 2, 5, 6, 1, 2, 5, 6, 1, 2, 5, 6, 1, 2, 5, 6);
    const __m256i low01 = TWICE(0, Z, 4, Z, 0, Z, 4, Z, 0, Z, 4, Z, 0, Z, 4, Z);
    const __m256i high23 = TWICE(9, 10, 13, 14, 9, 10, 13, 14, 9, 10, 13, 14, 9, 10, 13, 14);
    const __m256i low23 = TWICE(8, Z, 12, Z, 8, Z, 12, Z, 8, Z, 12, Z, 8, Z, 12, Z);
    const uint8_t *p0 = src + (size_t)t->first[i] * 4, *p1 = src + (size_t)t->first[other] * 4;
    const int32_t *w0 = t->fine + i * t->stride, *w1 = t->fine + other * t->stride;
    fine_sum s = { _mm256_setzero_si256(), _mm256_setzero_si256() };

    for (uint32_t k = 0; k < t->stride; k += 4) {
        __m256i px = both(p0 + 4 * (size_t)k, p1 + 4 * (size_t)k), w = both(w0 + k, w1 + k);

        add_pair(&s, _mm256_shuffle_epi8(px, px01), _mm256_shuffle_epi8(w, high01),
                 _mm256_shuffle_epi8(w, low01));
        add_pair(&s, _mm256_shuffle_epi8(px, px23), _mm256_shuffle_epi8(w, high23),
                 _mm256_shuffle_epi8(w, low23));
    }
    return whole(s);
}

void stk_avx2_hresample_fine(uint8_t *dst, const uint8_t *src, const stk_taps *t)
{
    for (size_t i = 0; i < t->n; i += 2) {
        size_t other = i + 1 < t->n ? i + 1 : i;
        __m256i v = across(src, t, i, other);
        __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
        __m128i px = _mm_packus_epi16(words, words);

        if (other > i) {
            _mm_storel_epi64((void *)(dst + 4 * i), px);
        } else {
            int32_t last = _mm_cvtsi128_si32(px);

            memcpy(dst + 4 * i, &last, 4);
        }
    }
}

/* ---- down ---- */

/* 32 bytes of two rows; of each lane its bytes 0..3, 4..7, 8..11, 12..15. */
static inline void down_pair(fine_sum s[4], __m256i r0, __m256i r1, int32_t w0, int32_t w1)
{
    const __m256i zero = _mm256_setzero_si256();
    uint32_t high = (uint32_t)(w0 >> 8 & 0xffff) | (uint32_t)(w1 >> 8) << 16;
    __m256i h = _mm256_set1_epi32((int)high);
    __m256i l = _mm256_set1_epi32((w0 & 255) | (w1 & 255) << 16);
    __m256i lo = _mm256_unpacklo_epi8(r0, r1), hi = _mm256_unpackhi_epi8(r0, r1);

    add_pair(&s[0], _mm256_unpacklo_epi8(lo, zero), h, l);
    add_pair(&s[1], _mm256_unpackhi_epi8(lo, zero), h, l);
    add_pair(&s[2], _mm256_unpacklo_epi8(hi, zero), h, l);
    add_pair(&s[3], _mm256_unpackhi_epi8(hi, zero), h, l);
}

void stk_avx2_vresample_fine(uint8_t *dst, const uint8_t *const *rows, const int32_t *w,
                             uint32_t taps, size_t bytes)
{
    if (bytes < 32) {
        stk_c_vresample_fine(dst, rows, w, taps, bytes);
        return;
    }
    for (size_t from = 0; from < bytes; from += 32) {
        size_t at = from + 32 <= bytes ? from : bytes - 32;
        fine_sum s[4];
        __m256i a, b;

        memset(s, 0, sizeof s);
        for (uint32_t k = 0; k < taps; k += 2) {
            uint32_t next = k + 1 < taps ? k + 1 : k;

            down_pair(s, _mm256_loadu_si256((const void *)(rows[k] + at)),
                      _mm256_loadu_si256((const void *)(rows[next] + at)), w[k],
                      next > k ? w[next] : 0);
        }
        a = _mm256_packs_epi32(whole(s[0]), whole(s[1]));
        b = _mm256_packs_epi32(whole(s[2]), whole(s[3]));
        _mm256_storeu_si256((void *)(dst + at), _mm256_packus_epi16(a, b));
    }
}

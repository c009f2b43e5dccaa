/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_idct_avx2.c - the pixel loops of our JPEG decoder with AVX2; same bits as jpeg_idct.c.
 *
 * Rows are worked on in units of 16: the tables' callers have room after every row. */
#include <immintrin.h>

#include "codec/jpeg_idct.h"

#define VINLINE static inline __attribute__((always_inline))
#define V __m256i
#define OP(name) _mm256_##name
#define ZERO _mm256_setzero_si256()
#define LOAD(p) _mm256_load_si256((const void *)(p))
#define QUANT(p) _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)(p)))
#include "codec/jpeg_idct_vec.h"

static void lone_dc(uint8_t *dst, size_t stride, const int16_t *group, const uint16_t *q)
{
    uint64_t v[4];
    __m256i row;

    for (int b = 0; b < 4; b++) {
        int16_t dc = (int16_t)(uint16_t)((uint16_t)(group[b * 8] * (int32_t)q[0]) << 2);

        v[b] = stk_jpeg_clamp((dc + 16) >> 5) * 0x0101010101010101u;
    }
    row = _mm256_setr_epi64x((int64_t)v[0], (int64_t)v[1], (int64_t)v[2], (int64_t)v[3]);
    for (size_t r = 0; r < 8; r++)
        _mm256_storeu_si256((void *)(dst + r * stride), row);
}

/* Row 0 beyond 14 bits: what only damaged files have, and jpeg_core.h treats apart. */
static int wild(const int16_t *group, const uint16_t *q)
{
    __m256i k = QUANT(q), off = _mm256_set1_epi16(8192), top = _mm256_set1_epi16((short)0xC000);
    __m256i a = _mm256_add_epi16(_mm256_mullo_epi16(LOAD(group), k), off);
    __m256i b = _mm256_add_epi16(_mm256_mullo_epi16(LOAD(group + 16), k), off);

    return !_mm256_testz_si256(_mm256_or_si256(a, b), top);
}

static void idct_avx2(uint8_t *dst, size_t stride, const int16_t *group, const uint16_t *q,
                      const uint8_t last[4])
{
    int few = only_few(last);

    if (!(last[0] | last[1] | last[2] | last[3])) {
        lone_dc(dst, stride, group, q);
        return;
    }
    if (wild(group, q)) {
        stk_jpeg_kern_c.idct(dst, stride, group, q, last);
        return;
    }
    for (int half = 0; half < 2; half++, group += 16, dst += 16) {
        __m256i out[4];

        if (few)
            few_blocks(group, q, out);
        else
            blocks(group, q, out);
        for (size_t i = 0; i < 4; i++) {
            __m256i two = _mm256_permute4x64_epi64(out[i], 0xD8);

            _mm_storeu_si128((void *)(dst + 2 * i * stride), _mm256_castsi256_si128(two));
            _mm_storeu_si128((void *)(dst + (2 * i + 1) * stride),
                             _mm256_extracti128_si256(two, 1));
        }
    }
}

/* Past the caches: tables and chunks are needed there. */
static void keep_avx2(int16_t *dst, const int16_t *block)
{
    for (size_t r = 0; r < 8; r++)
        _mm_stream_si128((void *)(dst + r * 8), _mm_load_si128((const void *)(block + r * 32)));
}

/* ---- upsampling ---- */

static inline __m256i words(const uint8_t *p)
{
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)p));
}

static inline __m256i times3(__m256i v)
{
    return _mm256_add_epi16(v, _mm256_add_epi16(v, v));
}

/* Even and odd columns to one row of 32. */
static inline void store2(uint8_t *dst, __m256i even, __m256i odd)
{
    _mm256_storeu_si256((void *)dst, _mm256_or_si256(even, _mm256_slli_epi16(odd, 8)));
}

static void up_h2_avx2(uint8_t *dst, const uint8_t *src, size_t n)
{
    const __m256i one = _mm256_set1_epi16(1), two = _mm256_set1_epi16(2);

    for (size_t i = 0; i < n; i += 16, src += 16) {
        __m256i here = times3(words(src));
        __m256i even = _mm256_add_epi16(_mm256_add_epi16(here, words(src - 1)), one);
        __m256i odd = _mm256_add_epi16(_mm256_add_epi16(here, words(src + 1)), two);

        store2(dst + 2 * i, _mm256_srli_epi16(even, 2), _mm256_srli_epi16(odd, 2));
    }
}

static inline __m256i between(const uint8_t *near, const uint8_t *far)
{
    return _mm256_add_epi16(times3(words(near)), words(far));
}

static void up_h2v2_avx2(uint8_t *dst, const uint8_t *near, const uint8_t *far, size_t n)
{
    const __m256i seven = _mm256_set1_epi16(7), eight = _mm256_set1_epi16(8);

    for (size_t i = 0; i < n; i += 16, near += 16, far += 16) {
        __m256i here = times3(between(near, far));
        __m256i even = _mm256_add_epi16(_mm256_add_epi16(here, between(near - 1, far - 1)), eight);
        __m256i odd = _mm256_add_epi16(_mm256_add_epi16(here, between(near + 1, far + 1)), seven);

        store2(dst + 2 * i, _mm256_srli_epi16(even, 4), _mm256_srli_epi16(odd, 4));
    }
}

static void up_v2_avx2(uint8_t *dst, const uint8_t *near, const uint8_t *far, size_t n,
                       unsigned bias)
{
    const __m256i add = _mm256_set1_epi16((short)bias);

    for (size_t i = 0; i < n; i += 16) {
        __m256i v = _mm256_srli_epi16(_mm256_add_epi16(between(near + i, far + i), add), 2);

        _mm_storeu_si128((void *)(dst + i), _mm_packus_epi16(_mm256_castsi256_si128(v),
                                                             _mm256_extracti128_si256(v, 1)));
    }
}

/* ---- pixels ---- */

static inline void store16(uint8_t *dst, __m128i a, __m128i b, __m128i c)
{
    const __m128i full = _mm_set1_epi8(-1);
    __m128i ab0 = _mm_unpacklo_epi8(a, b), ab1 = _mm_unpackhi_epi8(a, b);
    __m128i cx0 = _mm_unpacklo_epi8(c, full), cx1 = _mm_unpackhi_epi8(c, full);

    _mm_storeu_si128((void *)dst, _mm_unpacklo_epi16(ab0, cx0));
    _mm_storeu_si128((void *)(dst + 16), _mm_unpackhi_epi16(ab0, cx0));
    _mm_storeu_si128((void *)(dst + 32), _mm_unpacklo_epi16(ab1, cx1));
    _mm_storeu_si128((void *)(dst + 48), _mm_unpackhi_epi16(ab1, cx1));
}

static inline __m128i load16(const uint8_t *p)
{
    return _mm_loadu_si128((const void *)p);
}

/* (v * k + 32768) >> 16 for |v| <= 128: the product of 2 v, halved with rounding. */
static inline __m256i scale(__m256i v, int k)
{
    __m256i p = _mm256_mulhi_epi16(_mm256_add_epi16(v, v), _mm256_set1_epi16((short)k));

    return _mm256_srai_epi16(_mm256_add_epi16(p, _mm256_set1_epi16(1)), 1);
}

static inline __m128i bytes(__m256i v)
{
    return _mm_packus_epi16(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
}

static inline __m256i green(__m256i cb, __m256i cr)
{
    const __m256i k = PAIR(-22554, 18734), half = _mm256_set1_epi32(32768);
    __m256i lo = _mm256_madd_epi16(_mm256_unpacklo_epi16(cb, cr), k);
    __m256i hi = _mm256_madd_epi16(_mm256_unpackhi_epi16(cb, cr), k);

    lo = _mm256_srai_epi32(_mm256_add_epi32(lo, half), 16);
    hi = _mm256_srai_epi32(_mm256_add_epi32(hi, half), 16);
    return _mm256_sub_epi16(_mm256_packs_epi32(lo, hi), cr);
}

/* Factors beyond 16 bits are split: 1.402 = 1 + .402, 1.772 = 2 - .228, .714 = 1 - .286. */
static void pack_rgb_avx2(uint8_t *dst, const uint8_t *const src[3], size_t n)
{
    const __m256i mid = _mm256_set1_epi16(128);

    for (size_t i = 0; i < n; i += 16) {
        __m256i y = words(src[0] + i);
        __m256i cb = _mm256_sub_epi16(words(src[1] + i), mid);
        __m256i cr = _mm256_sub_epi16(words(src[2] + i), mid);
        __m256i r = _mm256_add_epi16(y, _mm256_add_epi16(cr, scale(cr, 26345)));
        __m256i b = _mm256_add_epi16(_mm256_add_epi16(y, cb),
                                     _mm256_add_epi16(cb, scale(cb, -14942)));

        store16(dst + 4 * i, bytes(r), bytes(_mm256_add_epi16(y, green(cb, cr))), bytes(b));
    }
}

const stk_jpeg_kern stk_jpeg_kern_avx2 = { .name = "avx2",
                                           .idct = idct_avx2,
                                           .keep = keep_avx2,
                                           .up_h2 = up_h2_avx2,
                                           .up_h2v2 = up_h2v2_avx2,
                                           .up_v2 = up_v2_avx2,
                                           .pack_rgb = pack_rgb_avx2 };

const stk_jpeg_kern stk_jpeg_kern_avx512 = { .name = "avx512",
                                             .idct = stk_jpeg_idct_avx512,
                                             .keep = keep_avx2,
                                             .up_h2 = up_h2_avx2,
                                             .up_h2v2 = up_h2v2_avx2,
                                             .up_v2 = up_v2_avx2,
                                             .pack_rgb = pack_rgb_avx2 };

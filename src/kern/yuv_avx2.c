/* SPDX-License-Identifier: Apache-2.0 */
/* yuv_avx2.c - rows of planes -> R, G, B, X with AVX2: the bits of yuv_body.h.
 *
 * Of 8 bits, everything fits 16-bit words: 16 (Y - y0) and U or V take turns, and one multiply-add
 * makes both products of a channel.  Ends of rows, and values of 10 and 12 bits, go through
 * yuv_body.h, which this file compiles for AVX2. */
#include <immintrin.h>

#define YUV(name) stk_yuv_avx2_##name
#include "kern/yuv_body.h"

static inline __m256i load256(const void *p)
{
    return _mm256_loadu_si256(p);
}

static void down(const stk_yuv_row *r, uint32_t from, uint32_t n, uint16_t *out)
{
    const __m256i weights = _mm256_set1_epi16((int16_t)((4 - r->weight) | r->weight << 8));
    uint32_t i = 0;

    for (; !r->wide && r->step == 1 && i + 16 <= n; i += 16) {
        __m256i a = _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)(r->a + from + i)));
        __m256i b = _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)(r->b + from + i)));

        a = _mm256_or_si256(a, _mm256_slli_epi16(b, 8));
        _mm256_storeu_si256((void *)(out + i), _mm256_maddubs_epi16(a, weights));
    }
    YUV(down)(r, from + i, n - i, out + i);
}

/* a0 b0 a1 b1 ... of 16 words each. */
static inline void put_turns(uint16_t *out, __m256i a, __m256i b)
{
    __m256i lo = _mm256_unpacklo_epi16(a, b), hi = _mm256_unpackhi_epi16(a, b);

    _mm256_storeu_si256((void *)out, _mm256_permute2x128_si256(lo, hi, 0x20));
    _mm256_storeu_si256((void *)(out + 16), _mm256_permute2x128_si256(lo, hi, 0x31));
}

static void across(const uint16_t *t, uint32_t n, int cosited, uint16_t *out)
{
    uint32_t i = 0;

    for (; i + 16 <= n; i += 16) {
        __m256i mid = load256(t + i + 1), right = load256(t + i + 2), even, odd;

        if (cosited) {
            even = _mm256_slli_epi16(mid, 2);
            odd = _mm256_slli_epi16(_mm256_add_epi16(mid, right), 1);
        } else {
            __m256i three = _mm256_add_epi16(mid, _mm256_slli_epi16(mid, 1));

            even = _mm256_add_epi16(three, load256(t + i));
            odd = _mm256_add_epi16(three, right);
        }
        put_turns(out + 2 * (size_t)i, even, odd);
    }
    YUV(across)(t + i, n - i, cosited, out + 2 * (size_t)i);
}

/* Two factors, of the first and the second word of each pair. */
static inline __m256i pair(int32_t first, int32_t second)
{
    return _mm256_set1_epi32((int32_t)((uint32_t)(uint16_t)first | (uint32_t)second << 16));
}

/* Words of a at even places and of b at odd ones. */
static inline __m256i even_odd(__m256i a, __m256i b)
{
    return _mm256_blend_epi16(a, b, 0xaa);
}

/* 16 words of the sums of those at even and at odd places, 2^17 times as large: no word is moved.
 */
static inline __m256i narrowed(__m256i even, __m256i odd)
{
    return even_odd(_mm256_srai_epi32(even, 17), _mm256_srai_epi32(odd, 1));
}

static inline void put_pixels(uint32_t *dst, __m256i r, __m256i g, __m256i b)
{
    __m256i rb = _mm256_packus_epi16(r, b), gx = _mm256_packus_epi16(g, _mm256_setzero_si256());
    __m256i rg = _mm256_unpacklo_epi8(rb, gx), bx = _mm256_unpackhi_epi8(rb, gx);
    __m256i lo = _mm256_unpacklo_epi16(rg, bx), hi = _mm256_unpackhi_epi16(rg, bx);

    _mm256_storeu_si256((void *)dst, _mm256_permute2x128_si256(lo, hi, 0x20));
    _mm256_storeu_si256((void *)(dst + 8), _mm256_permute2x128_si256(lo, hi, 0x31));
}

/* Values of 8 bits, so that c->shift is 13. */
static uint32_t color8(const stk_yuv *c, const uint8_t *luma, const uint16_t *u, const uint16_t *v,
                       uint32_t n, uint32_t *dst)
{
    const __m256i zero = _mm256_set1_epi16((int16_t)c->y_zero);
    const __m256i gray = _mm256_set1_epi16((int16_t)(c->c_zero * 16));
    const __m256i half = _mm256_set1_epi32(1 << 16), root = _mm256_set1_epi16(1 << 8);
    const __m256i kr = pair(c->y, c->rv), kb = pair(c->y, c->bu);
    const __m256i kg = pair(c->y, -c->gu), kh = pair(-c->gv, 1 << 8); /* 2^8 * 2^8 is half */
    uint32_t i = 0;

    for (; i + 16 <= n; i += 16) {
        __m256i y = _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)(luma + i)));
        __m256i cu = _mm256_sub_epi16(load256(u + i), gray);
        __m256i cv = _mm256_sub_epi16(load256(v + i), gray), yv, yu, vh, yv2, yu2, vh2, r, g, b;

        y = _mm256_slli_epi16(_mm256_sub_epi16(y, zero), 4);
        yv = even_odd(y, _mm256_slli_epi32(cv, 16));
        yu = even_odd(y, _mm256_slli_epi32(cu, 16));
        vh = even_odd(cv, root);
        y = _mm256_srli_epi32(y, 16);
        yv2 = even_odd(y, cv), yu2 = even_odd(y, cu);
        vh2 = even_odd(_mm256_srli_epi32(cv, 16), root);
        r = narrowed(_mm256_add_epi32(_mm256_madd_epi16(yv, kr), half),
                     _mm256_add_epi32(_mm256_madd_epi16(yv2, kr), half));
        g = narrowed(_mm256_add_epi32(_mm256_madd_epi16(yu, kg), _mm256_madd_epi16(vh, kh)),
                     _mm256_add_epi32(_mm256_madd_epi16(yu2, kg), _mm256_madd_epi16(vh2, kh)));
        b = narrowed(_mm256_add_epi32(_mm256_madd_epi16(yu, kb), half),
                     _mm256_add_epi32(_mm256_madd_epi16(yu2, kb), half));
        put_pixels(dst + i, r, g, b);
    }
    return i;
}

static void color(const stk_yuv *c, const void *luma, const uint16_t *u, const uint16_t *v,
                  uint32_t n, uint32_t *dst)
{
    uint32_t done = c->wide ? 0 : color8(c, luma, u, v, n, dst);

    YUV(color)(c, (const uint8_t *)luma + done, u + done, v + done, n - done, dst + done);
}

const stk_yuv_kern stk_yuv_avx2_kern = { down, across, color };

/* SPDX-License-Identifier: Apache-2.0 */
/* yuv_avx512.c - rows of planes -> R, G, B, X with AVX-512: the loops of yuv_avx2.c, 32 values at a
 * time, and the bits of yuv_body.h, which does short rows and values of 10 and 12 bits. */
#include <immintrin.h>

#define YUV(name) stk_yuv_avx512_##name
#include "kern/yuv_body.h"

static inline __m512i load512(const void *p)
{
    return _mm512_loadu_si512(p);
}

static inline __m512i words_of(const uint8_t *p)
{
    return _mm512_cvtepu8_epi16(_mm256_loadu_si256((const void *)p));
}

/* 32 values from k on; at the end of a row the last 32, some of them again. */
static inline uint32_t upto(uint32_t k, uint32_t n)
{
    return k + 32 <= n ? k : n - 32;
}

static void down(const stk_yuv_row *r, uint32_t from, uint32_t n, uint16_t *out)
{
    const __m512i weights = _mm512_set1_epi16((int16_t)((4 - r->weight) | r->weight << 8));

    if (r->wide || r->step != 1 || n < 32) {
        YUV(down)(r, from, n, out);
        return;
    }
    for (uint32_t k = 0; k < n; k += 32) {
        const uint32_t i = upto(k, n);
        __m512i a = words_of(r->a + from + i), b = words_of(r->b + from + i);

        a = _mm512_or_si512(a, _mm512_slli_epi16(b, 8));
        _mm512_storeu_si512(out + i, _mm512_maddubs_epi16(a, weights));
    }
}

/* The halves of each pair of 128 bits take turns. */
static inline void put_turns(void *out, __m512i lo, __m512i hi)
{
    const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);

    _mm512_storeu_si512(out, _mm512_permutex2var_epi64(lo, first, hi));
    _mm512_storeu_si512((uint8_t *)out + 64, _mm512_permutex2var_epi64(lo, second, hi));
}

static void across(const uint16_t *t, uint32_t n, int cosited, uint16_t *out)
{
    if (n < 32) {
        YUV(across)(t, n, cosited, out);
        return;
    }
    for (uint32_t k = 0; k < n; k += 32) {
        const uint32_t i = upto(k, n);
        __m512i mid = load512(t + i + 1), right = load512(t + i + 2), even, odd;

        if (cosited) {
            even = _mm512_slli_epi16(mid, 2);
            odd = _mm512_slli_epi16(_mm512_add_epi16(mid, right), 1);
        } else {
            __m512i three = _mm512_add_epi16(mid, _mm512_slli_epi16(mid, 1));

            even = _mm512_add_epi16(three, load512(t + i));
            odd = _mm512_add_epi16(three, right);
        }
        put_turns(out + 2 * (size_t)i, _mm512_unpacklo_epi16(even, odd),
                  _mm512_unpackhi_epi16(even, odd));
    }
}

/* Two factors, of the first and the second word of each pair. */
static inline __m512i pair(int32_t first, int32_t second)
{
    return _mm512_set1_epi32((int32_t)((uint32_t)(uint16_t)first | (uint32_t)second << 16));
}

/* Words of a at even places and of b at odd ones. */
static inline __m512i even_odd(__m512i a, __m512i b)
{
    return _mm512_mask_blend_epi16(0xaaaaaaaa, a, b);
}

/* Words of the sums of those at even and at odd places, 2^17 times as large. */
static inline __m512i narrowed(__m512i even, __m512i odd)
{
    return even_odd(_mm512_srai_epi32(even, 17), _mm512_srai_epi32(odd, 1));
}

static inline void put_pixels(uint32_t *dst, __m512i r, __m512i g, __m512i b)
{
    __m512i rb = _mm512_packus_epi16(r, b), gx = _mm512_packus_epi16(g, _mm512_setzero_si512());
    __m512i rg = _mm512_unpacklo_epi8(rb, gx), bx = _mm512_unpackhi_epi8(rb, gx);

    put_turns(dst, _mm512_unpacklo_epi16(rg, bx), _mm512_unpackhi_epi16(rg, bx));
}

/* At least 32 values of 8 bits, so that c->shift is 13. */
static void color8(const stk_yuv *c, const uint8_t *luma, const uint16_t *u, const uint16_t *v,
                   uint32_t n, uint32_t *dst)
{
    const __m512i zero = _mm512_set1_epi16((int16_t)c->y_zero);
    const __m512i gray = _mm512_set1_epi16((int16_t)(c->c_zero * 16));
    const __m512i half = _mm512_set1_epi32(1 << 16), root = _mm512_set1_epi16(1 << 8);
    const __m512i kr = pair(c->y, c->rv), kb = pair(c->y, c->bu);
    const __m512i kg = pair(c->y, -c->gu), kh = pair(-c->gv, 1 << 8); /* 2^8 * 2^8 is half */

    for (uint32_t k = 0; k < n; k += 32) {
        const uint32_t i = upto(k, n);
        __m512i y = _mm512_slli_epi16(_mm512_sub_epi16(words_of(luma + i), zero), 4);
        __m512i cu = _mm512_sub_epi16(load512(u + i), gray);
        __m512i cv = _mm512_sub_epi16(load512(v + i), gray), y2 = _mm512_srli_epi32(y, 16);
        __m512i yu = even_odd(y, _mm512_slli_epi32(cu, 16)), yu2 = even_odd(y2, cu), r, g, b;

        r = narrowed(
            _mm512_add_epi32(_mm512_madd_epi16(even_odd(y, _mm512_slli_epi32(cv, 16)), kr), half),
            _mm512_add_epi32(_mm512_madd_epi16(even_odd(y2, cv), kr), half));
        g = narrowed(
            _mm512_add_epi32(_mm512_madd_epi16(yu, kg), _mm512_madd_epi16(even_odd(cv, root), kh)),
            _mm512_add_epi32(_mm512_madd_epi16(yu2, kg),
                             _mm512_madd_epi16(even_odd(_mm512_srli_epi32(cv, 16), root), kh)));
        b = narrowed(_mm512_add_epi32(_mm512_madd_epi16(yu, kb), half),
                     _mm512_add_epi32(_mm512_madd_epi16(yu2, kb), half));
        put_pixels(dst + i, r, g, b);
    }
}

static void color(const stk_yuv *c, const void *luma, const uint16_t *u, const uint16_t *v,
                  uint32_t n, uint32_t *dst)
{
    if (c->wide || n < 32)
        YUV(color)(c, luma, u, v, n, dst);
    else
        color8(c, luma, u, v, n, dst);
}

const stk_yuv_kern stk_yuv_avx512_kern = { down, across, color };

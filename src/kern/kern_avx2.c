/* SPDX-License-Identifier: Apache-2.0 */
/* kern_avx2.c - the kernels with AVX2 and F16C; same bits as kern_c.c.
 *
 * Both resamplers pair bytes of two taps as 16-bit words and let one multiply-add take the
 * pair; sums of 32 bits are exact.  Ends of rows: the last full vector is moved back over what
 * is already done (dst never overlaps a source), so that no byte outside of the row is touched;
 * rows shorter than a vector go to the reference.  This file alone is compiled for AVX2, and
 * calls nothing that might be inlined elsewhere. */
#include <immintrin.h>
#include <string.h>

#include "kern/kern.h"
#include "kern/tile.h"

#define Z (-128) /* shuffle index: a zero byte */

static inline __m256i load256(const void *p)
{
    return _mm256_loadu_si256(p);
}

static inline __m128i load64(const void *p)
{
    return _mm_loadl_epi64(p);
}

static inline __m128i load32(const void *p)
{
    int32_t v;

    memcpy(&v, p, sizeof v);
    return _mm_cvtsi32_si128(v);
}

/* ---- across ---- */

/* Four pixels a lane -> words of one tap pair, by channel: r0 r1 g0 g1 b0 b1 x0 x1. */
static inline __m256i taps01(__m256i px)
{
    return _mm256_shuffle_epi8(px,
                               _mm256_setr_epi8(0, Z, 4, Z, 1, Z, 5, Z, 2, Z, 6, Z, 3, Z, 7, Z, 0,
                                                Z, 4, Z, 1, Z, 5, Z, 2, Z, 6, Z, 3, Z, 7, Z));
}

static inline __m256i taps23(__m256i px)
{
    return _mm256_shuffle_epi8(px, _mm256_setr_epi8(8, Z, 12, Z, 9, Z, 13, Z, 10, Z, 14, Z, 11, Z,
                                                    15, Z, 8, Z, 12, Z, 9, Z, 13, Z, 10, Z, 14, Z,
                                                    11, Z, 15, Z));
}

/* Outputs i and i+1, one a lane, of a filter with two taps. */
static inline __m256i across2(const uint8_t *src, const stk_taps *t, size_t i, __m256i half)
{
    const __m256i pick = _mm256_setr_epi8(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6,
                                          7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7);
    __m256i px = _mm256_set_m128i(load64(src + (size_t)t->first[i + 1] * 4),
                                  load64(src + (size_t)t->first[i] * 4));
    __m256i w = _mm256_shuffle_epi8(_mm256_broadcastq_epi64(load64(t->weight + 2 * i)), pick);

    return _mm256_add_epi32(half, _mm256_madd_epi16(taps01(px), w));
}

/* The same of a filter with four: its 16 bytes of weights are in a row. */
static inline __m256i across4(const uint8_t *src, const stk_taps *t, size_t i, __m256i half)
{
    const __m256i pick01 = _mm256_setr_epi8(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 8, 9,
                                            10, 11, 8, 9, 10, 11, 8, 9, 10, 11, 8, 9, 10, 11);
    const __m256i pick23 = _mm256_add_epi8(pick01, _mm256_set1_epi8(4));
    __m256i px = _mm256_loadu2_m128i((const void *)(src + (size_t)t->first[i + 1] * 4),
                                     (const void *)(src + (size_t)t->first[i] * 4));
    __m256i w = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)(t->weight + 4 * i)));
    __m256i a = _mm256_madd_epi16(taps01(px), _mm256_shuffle_epi8(w, pick01));
    __m256i b = _mm256_madd_epi16(taps23(px), _mm256_shuffle_epi8(w, pick23));

    return _mm256_add_epi32(_mm256_add_epi32(half, a), b);
}

/* The same of any even number; `stride` is a constant where the filter is a common one. */
static inline __attribute__((always_inline)) __m256i across_any(const uint8_t *src,
                                                                const stk_taps *t, size_t i,
                                                                __m256i sum, uint32_t stride)
{
    const uint8_t *p0 = src + (size_t)t->first[i] * 4, *p1 = src + (size_t)t->first[i + 1] * 4;
    const int16_t *w0 = t->weight + i * stride, *w1 = w0 + stride;
    uint32_t k = 0;

    for (; k + 4 <= stride; k += 4) {
        __m256i px = _mm256_loadu2_m128i((const void *)(p1 + 4 * (size_t)k),
                                         (const void *)(p0 + 4 * (size_t)k));
        __m256i w = _mm256_set_m128i(load64(w1 + k), load64(w0 + k));

        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(taps01(px), _mm256_shuffle_epi32(w, 0x00)));
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(taps23(px), _mm256_shuffle_epi32(w, 0x55)));
    }
    if (k < stride) {
        __m256i px = _mm256_set_m128i(load64(p1 + 4 * (size_t)k), load64(p0 + 4 * (size_t)k));
        __m256i w = _mm256_set_m128i(load32(w1 + k), load32(w0 + k));

        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(taps01(px), _mm256_shuffle_epi32(w, 0x00)));
    }
    return sum;
}

static inline __m256i across6(const uint8_t *src, const stk_taps *t, size_t i, __m256i half)
{
    return across_any(src, t, i, half, 6);
}

static inline __m256i across8(const uint8_t *src, const stk_taps *t, size_t i, __m256i half)
{
    return across_any(src, t, i, half, 8);
}

/* Eight taps of one output, four a lane; w: their weights, in both lanes. */
static inline __m256i across_taps8(__m256i sum, const uint8_t *p, __m256i w)
{
    const __m256i pick01 = _mm256_setr_epi32(0, 0, 0, 0, 2, 2, 2, 2);
    const __m256i pick23 = _mm256_setr_epi32(1, 1, 1, 1, 3, 3, 3, 3);
    __m256i px = load256(p), w01, w23;

    w01 = _mm256_castps_si256(_mm256_permutevar_ps(_mm256_castsi256_ps(w), pick01));
    w23 = _mm256_castps_si256(_mm256_permutevar_ps(_mm256_castsi256_ps(w), pick23));
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(taps01(px), w01));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(taps23(px), w23));
}

static inline __m256i weights8(const int16_t *w)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)w));
}

/* The same of more than eight.  The last eight are taken together, those without weight that were
 * taken already. */
static inline __m256i across_n(const uint8_t *src, const stk_taps *t, size_t i, __m256i half)
{
    static const int16_t ones[16] = { 0, 0, 0, 0, 0, 0, 0, 0, -1, -1, -1, -1, -1, -1, -1, -1 };
    const uint32_t stride = t->stride, rest = stride % 8;
    const uint8_t *p0 = src + (size_t)t->first[i] * 4, *p1 = src + (size_t)t->first[i + 1] * 4;
    const int16_t *w0 = t->weight + i * stride, *w1 = w0 + stride;
    __m256i a = _mm256_setzero_si256(), b = a;
    uint32_t k = 0;

    for (; k + 8 <= stride; k += 8) {
        a = across_taps8(a, p0 + 4 * (size_t)k, weights8(w0 + k));
        b = across_taps8(b, p1 + 4 * (size_t)k, weights8(w1 + k));
    }
    if (rest) {
        __m256i mask = weights8(ones + rest);

        k = stride - 8;
        a = across_taps8(a, p0 + 4 * (size_t)k, _mm256_and_si256(weights8(w0 + k), mask));
        b = across_taps8(b, p1 + 4 * (size_t)k, _mm256_and_si256(weights8(w1 + k), mask));
    }
    return _mm256_add_epi32(half, _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20),
                                                   _mm256_permute2x128_si256(a, b, 0x31)));
}

/* Pairs (0,1) (2,3) (4,5) (6,7) -> eight pixels in order. */
static inline void put8(uint8_t *dst, const __m256i s[4], __m128i shift)
{
    __m256i a = _mm256_packs_epi32(_mm256_sra_epi32(s[0], shift), _mm256_sra_epi32(s[1], shift));
    __m256i b = _mm256_packs_epi32(_mm256_sra_epi32(s[2], shift), _mm256_sra_epi32(s[3], shift));
    __m256i px = _mm256_packus_epi16(a, b);

    px = _mm256_permutevar8x32_epi32(px, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256((void *)dst, px);
}

#define ACROSS(one)                                                                                \
    for (size_t at = 0; at < t->n; at += 8) {                                                      \
        size_t i = at + 8 <= t->n ? at : t->n - 8;                                                 \
        __m256i s[4];                                                                              \
        for (int k = 0; k < 4; k++)                                                                \
            s[k] = one(src, t, i + 2 * k, half);                                                   \
        put8(dst + 4 * i, s, shift);                                                               \
    }

static void avx2_hresample(uint8_t *dst, const uint8_t *src, const stk_taps *t)
{
    __m256i half = _mm256_set1_epi32(1 << (t->shift - 1));
    __m128i shift = _mm_cvtsi32_si128((int)t->shift);

    if (t->stride == 1) {
        for (size_t i = 0; i < t->n; i++) {
            uint32_t px;

            memcpy(&px, src + (size_t)t->first[i] * 4, 4);
            px = t->count[i] ? px : 0;
            memcpy(dst + 4 * i, &px, 4);
        }
    } else if (t->n < 8) {
        stk_kern_c.hresample(dst, src, t);
    } else if (t->stride == 2) {
        ACROSS(across2)
    } else if (t->stride == 4) {
        ACROSS(across4)
    } else if (t->stride == 6) {
        ACROSS(across6)
    } else if (t->stride == 8) {
        ACROSS(across8)
    } else {
        ACROSS(across_n)
    }
}

/* ---- down ---- */

struct sums {
    __m256i s[4];
};

/* Add 32 bytes of two rows; w: the pair of weights in every dword. */
static inline void down_pair(struct sums *a, __m256i r0, __m256i r1, __m256i w)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i lo = _mm256_unpacklo_epi8(r0, r1), hi = _mm256_unpackhi_epi8(r0, r1);

    a->s[0] = _mm256_add_epi32(a->s[0], _mm256_madd_epi16(_mm256_unpacklo_epi8(lo, zero), w));
    a->s[1] = _mm256_add_epi32(a->s[1], _mm256_madd_epi16(_mm256_unpackhi_epi8(lo, zero), w));
    a->s[2] = _mm256_add_epi32(a->s[2], _mm256_madd_epi16(_mm256_unpacklo_epi8(hi, zero), w));
    a->s[3] = _mm256_add_epi32(a->s[3], _mm256_madd_epi16(_mm256_unpackhi_epi8(hi, zero), w));
}

static inline __m256i weight_pair(int16_t w0, int16_t w1)
{
    return _mm256_set1_epi32((int)((uint32_t)(uint16_t)w1 << 16 | (uint16_t)w0));
}

struct words { /* 32 sums: of each lane its bytes 0..7 in lo, 8..15 in hi */
    __m256i lo, hi;
};

/* 32 bytes of `taps` rows from `at` on, weighted and shifted `by`. */
static inline struct words down32(const uint8_t *const *rows, size_t at, const int16_t *w,
                                  uint32_t taps, __m256i half, __m128i by)
{
    struct sums a = { { half, half, half, half } };
    uint32_t k = 0;

    for (; k + 2 <= taps; k += 2)
        down_pair(&a, load256(rows[k] + at), load256(rows[k + 1] + at),
                  weight_pair(w[k], w[k + 1]));
    if (k < taps)
        down_pair(&a, load256(rows[k] + at), _mm256_setzero_si256(), weight_pair(w[k], 0));
    return (struct words){
        _mm256_packs_epi32(_mm256_sra_epi32(a.s[0], by), _mm256_sra_epi32(a.s[1], by)),
        _mm256_packs_epi32(_mm256_sra_epi32(a.s[2], by), _mm256_sra_epi32(a.s[3], by))
    };
}

static void avx2_vresample(uint8_t *dst, const uint8_t *const *rows, const int16_t *w,
                           uint32_t taps, uint32_t shift, size_t bytes)
{
    __m256i half = _mm256_set1_epi32(1 << (shift - 1));
    __m128i by = _mm_cvtsi32_si128((int)shift);

    if (bytes < 32) {
        stk_kern_c.vresample(dst, rows, w, taps, shift, bytes);
        return;
    }
    for (size_t from = 0; from < bytes; from += 32) {
        size_t at = from + 32 <= bytes ? from : bytes - 32;
        struct words v = down32(rows, at, w, taps, half, by);

        _mm256_storeu_si256((void *)(dst + at), _mm256_packus_epi16(v.lo, v.hi));
    }
}

/* ---- store ---- */

/* Eight colored values as type `dtype`, at element `at`. */
static inline void put_color(void *dst, size_t at, __m256 v, stk_dtype dtype)
{
    if (dtype == STK_F32) {
        _mm256_storeu_ps((float *)dst + at, v);
    } else if (dtype == STK_F16) {
        _mm_storeu_si128((void *)((uint16_t *)dst + at),
                         _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
    } else if (dtype == STK_BF16) {
        __m256i u = _mm256_castps_si256(v), top = _mm256_srli_epi32(u, 16);
        __m256i odd = _mm256_and_si256(top, _mm256_set1_epi32(1));
        __m256i near = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd);
        __m256i b = _mm256_srli_epi32(near, 16);
        __m128i h = _mm_packus_epi32(_mm256_castsi256_si128(b), _mm256_extracti128_si256(b, 1));

        _mm_storeu_si128((void *)((uint16_t *)dst + at), h);
    } else {
        __m256 in = _mm256_min_ps(_mm256_max_ps(v, _mm256_setzero_ps()), _mm256_set1_ps(255));
        __m256i b = _mm256_cvtps_epi32(in);
        __m128i h = _mm_packs_epi32(_mm256_castsi256_si128(b), _mm256_extracti128_si256(b, 1));

        _mm_storel_epi64((void *)((uint8_t *)dst + at), _mm_packus_epi16(h, h));
    }
}

static inline __m256 tint(__m256i u8, __m256 mul, __m256 add)
{
    return _mm256_add_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(u8), mul), add);
}

/* dtype is a constant where this is inlined. */
static inline __attribute__((always_inline)) void planar(void *dst, size_t plane,
                                                         const uint8_t *src, uint32_t n,
                                                         const stk_color *color, stk_dtype dtype)
{
    const __m256i byte = _mm256_set1_epi32(0xff);
    __m256 mul[3], add[3];

    for (int c = 0; c < 3; c++) {
        mul[c] = _mm256_set1_ps(color->mul[c]);
        add[c] = _mm256_set1_ps(color->add[c]);
    }
    for (size_t from = 0; from < n; from += 8) {
        size_t at = from + 8 <= n ? from : n - 8;
        __m256i px = load256(src + 4 * at);

        put_color(dst, at, tint(_mm256_and_si256(px, byte), mul[0], add[0]), dtype);
        px = _mm256_srli_epi32(px, 8);
        put_color(dst, at + plane, tint(_mm256_and_si256(px, byte), mul[1], add[1]), dtype);
        px = _mm256_srli_epi32(px, 8);
        put_color(dst, at + 2 * plane, tint(_mm256_and_si256(px, byte), mul[2], add[2]), dtype);
    }
}

/* u8 unchanged: 8 pixels to 8 bytes a plane. */
static void planar_copy(uint8_t *dst, size_t plane, const uint8_t *src, uint32_t n)
{
    const __m256i by_channel = _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, Z, Z, Z, Z,
                                                0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, Z, Z, Z, Z);

    for (size_t from = 0; from < n; from += 8) {
        size_t at = from + 8 <= n ? from : n - 8;
        __m256i px = _mm256_shuffle_epi8(load256(src + 4 * at), by_channel);
        __m128i a = _mm256_castsi256_si128(px), b = _mm256_extracti128_si256(px, 1);
        __m128i rg = _mm_unpacklo_epi32(a, b);

        _mm_storel_epi64((void *)(dst + at), rg);
        _mm_storel_epi64((void *)(dst + at + plane), _mm_unpackhi_epi64(rg, rg));
        _mm_storel_epi64((void *)(dst + at + 2 * plane), _mm_unpackhi_epi32(a, b));
    }
}

static void avx2_store_planar(void *dst, size_t plane, const uint8_t *src, uint32_t n,
                              const stk_color *color)
{
    if (n < 8)
        stk_kern_c.store_planar(dst, plane, src, n, color);
    else if (color->dtype == STK_F32)
        planar(dst, plane, src, n, color, STK_F32);
    else if (color->dtype == STK_F16)
        planar(dst, plane, src, n, color, STK_F16);
    else if (color->dtype == STK_BF16)
        planar(dst, plane, src, n, color, STK_BF16);
    else if (stk_color_plain(color))
        planar_copy(dst, plane, src, n);
    else
        planar(dst, plane, src, n, color, STK_U8);
}

/* Eight pixels without their X: 24 bytes in *lo (16) and *hi (8). */
static inline void squeeze(const uint8_t *src, __m128i *lo, __m128i *hi)
{
    const __m256i rgb = _mm256_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, Z, Z, Z, Z, 0, 1,
                                         2, 4, 5, 6, 8, 9, 10, 12, 13, 14, Z, Z, Z, Z);
    __m256i px = _mm256_shuffle_epi8(load256(src), rgb);
    __m128i b = _mm256_extracti128_si256(px, 1);

    *lo = _mm_or_si128(_mm256_castsi256_si128(px), _mm_slli_si128(b, 12));
    *hi = _mm_srli_si128(b, 4);
}

static inline __attribute__((always_inline)) void packed(void *dst, const uint8_t *src, uint32_t n,
                                                         const stk_color *color, stk_dtype dtype)
{
    float pattern[2][24];
    __m256 mul[3], add[3];

    for (int k = 0; k < 24; k++) {
        pattern[0][k] = color->mul[k % 3];
        pattern[1][k] = color->add[k % 3];
    }
    for (int k = 0; k < 3; k++) {
        mul[k] = _mm256_loadu_ps(pattern[0] + 8 * k);
        add[k] = _mm256_loadu_ps(pattern[1] + 8 * k);
    }
    for (size_t from = 0; from < n; from += 8) {
        size_t at = from + 8 <= n ? from : n - 8;
        __m128i lo, hi;

        squeeze(src + 4 * at, &lo, &hi);
        put_color(dst, 3 * at, tint(_mm256_cvtepu8_epi32(lo), mul[0], add[0]), dtype);
        lo = _mm_unpackhi_epi64(lo, lo);
        put_color(dst, 3 * at + 8, tint(_mm256_cvtepu8_epi32(lo), mul[1], add[1]), dtype);
        put_color(dst, 3 * at + 16, tint(_mm256_cvtepu8_epi32(hi), mul[2], add[2]), dtype);
    }
}

static void packed_copy(uint8_t *dst, const uint8_t *src, uint32_t n)
{
    for (size_t from = 0; from < n; from += 8) {
        size_t at = from + 8 <= n ? from : n - 8;
        __m128i lo, hi;

        squeeze(src + 4 * at, &lo, &hi);
        _mm_storeu_si128((void *)(dst + 3 * at), lo);
        _mm_storel_epi64((void *)(dst + 3 * at + 16), hi);
    }
}

static void avx2_store_packed(void *dst, const uint8_t *src, uint32_t n, const stk_color *color)
{
    if (n < 8)
        stk_kern_c.store_packed(dst, src, n, color);
    else if (color->dtype == STK_F32)
        packed(dst, src, n, color, STK_F32);
    else if (color->dtype == STK_F16)
        packed(dst, src, n, color, STK_F16);
    else if (color->dtype == STK_BF16)
        packed(dst, src, n, color, STK_BF16);
    else if (stk_color_plain(color))
        packed_copy(dst, src, n);
    else
        packed(dst, src, n, color, STK_U8);
}

static void avx2_load_planar(uint8_t *dst, const uint8_t *src, int64_t plane, uint32_t n)
{
    uint32_t i = 0;

    for (; i + 16 <= n; i += 16) {
        __m128i r = _mm_loadu_si128((const void *)(src + i)),
                g = _mm_loadu_si128((const void *)(src + i + plane)),
                b = _mm_loadu_si128((const void *)(src + i + 2 * plane)),
                zero = _mm_setzero_si128();
        __m128i rg = _mm_unpacklo_epi8(r, g), bx = _mm_unpacklo_epi8(b, zero);
        __m128i *to = (void *)(dst + 4 * (size_t)i);

        _mm_storeu_si128(to, _mm_unpacklo_epi16(rg, bx));
        _mm_storeu_si128(to + 1, _mm_unpackhi_epi16(rg, bx));
        rg = _mm_unpackhi_epi8(r, g);
        bx = _mm_unpackhi_epi8(b, zero);
        _mm_storeu_si128(to + 2, _mm_unpacklo_epi16(rg, bx));
        _mm_storeu_si128(to + 3, _mm_unpackhi_epi16(rg, bx));
    }
    stk_kern_c.load_planar(dst + 4 * (size_t)i, src + i, plane, n - i);
}

/* Eight pixels are 24 bytes, of which the second load begins at 12 and takes 4 more. */
static void avx2_load_packed(uint8_t *dst, const uint8_t *src, uint32_t n)
{
    const __m256i spread = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1));
    uint32_t i = 0;

    for (; i + 10 <= n; i += 8) {
        const uint8_t *p = src + 3 * (size_t)i;
        __m256i x = _mm256_loadu2_m128i((const void *)(p + 12), (const void *)p);

        _mm256_storeu_si256((void *)(dst + 4 * (size_t)i), _mm256_shuffle_epi8(x, spread));
    }
    stk_kern_c.load_packed(dst + 4 * (size_t)i, src + 3 * (size_t)i, n - i);
}

#define FINE_AVX2                                                                                  \
    .pack_fine = stk_c_pack_fine, .hresample_fine = stk_avx2_hresample_fine,                       \
    .vresample_fine = stk_avx2_vresample_fine
#define FINE_VNNI                                                                                  \
    .pack_fine = stk_vnni_pack_fine, .hresample_fine = stk_vnni_hresample_fine,                    \
    .vresample_fine = stk_vnni_vresample_fine, .fine_is_quick = 1
#define LOOPS                                                                                      \
    .hresample = avx2_hresample, .vresample = avx2_vresample, .store_planar = avx2_store_planar,   \
    .load_planar = avx2_load_planar, .load_packed = avx2_load_packed

const stk_kern stk_kern_avx2 = {
    .name = "avx2", LOOPS, FINE_AVX2, .store_packed = avx2_store_packed, .tile = &stk_tile_avx2
};

/* Loops of tiles gain by more, and this one. */
const stk_kern stk_kern_avx512 = { .name = "avx512",
                                   LOOPS,
                                   FINE_AVX2,
                                   .store_packed = stk_avx512_store_packed,
                                   .tile = &stk_tile_avx512 };
const stk_kern stk_kern_vbmi = { .name = "avx512 vbmi",
                                 LOOPS,
                                 FINE_VNNI,
                                 .store_packed = stk_avx512_store_packed,
                                 .tile = &stk_tile_vbmi };

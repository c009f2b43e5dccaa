/* SPDX-License-Identifier: Apache-2.0 */
/* kern_fine_vnni.c - the filter with weights of 22 bits, with AVX-512 VNNI; same bits as
 * kern_fine.c.
 *
 * A weight is three signed bytes, w = 65536 * a + 256 * b + c; one instruction multiplies four
 * pixels by one byte of four weights, so 12 bytes of weights stand for four taps.  What goes beyond
 * 32 bits on the way comes back. */
#include <immintrin.h>
#include <string.h>

#include "kern/kern.h"
#include "kern/taps_core.h"

#define MAX_DOWN 256 /* taps of a row whose bytes are made at once */

typedef struct quad { /* four weights: their lowest bytes, the middle ones, the highest */
    uint32_t c, b, a, zero;
} quad;

typedef struct digits { /* sums, by byte of the weight */
    __m512i c, b, a;
} digits;

static quad quad_of(const int32_t *w, uint32_t n)
{
    uint8_t byte[3][4] = { { 0 } };
    quad q = { 0 };

    for (uint32_t k = 0; k < n; k++) {
        int32_t c = (int8_t)(uint8_t)w[k], up = (w[k] - c) >> 8, b = (int8_t)(uint8_t)up;

        byte[0][k] = (uint8_t)c;
        byte[1][k] = (uint8_t)b;
        byte[2][k] = (uint8_t)((up - b) >> 8);
    }
    memcpy(&q.c, byte[0], 4);
    memcpy(&q.b, byte[1], 4);
    memcpy(&q.a, byte[2], 4);
    return q;
}

static inline __m512i whole(digits s)
{
    __m512i half = _mm512_set1_epi32(1 << (STK_TAPS_SHIFT_MAX - 1));
    __m512i sum = _mm512_add_epi32(s.c, half);

    sum = _mm512_add_epi32(sum, _mm512_slli_epi32(s.b, 8));
    sum = _mm512_add_epi32(sum, _mm512_slli_epi32(s.a, 16));
    return _mm512_srai_epi32(sum, STK_TAPS_SHIFT_MAX);
}

/* ---- across: four outputs, one a lane ---- */

void stk_vnni_pack_fine(const stk_taps *t)
{
    uint32_t quads = t->stride / 4;
    quad *to = t->packed;

    for (uint32_t i = 0; i < t->n; i += 4)
        for (uint32_t q = 0; q < quads; q++)
            for (uint32_t j = i; j < i + 4; j++)
                *to++ = j < t->n ? quad_of(t->fine + (size_t)j * t->stride + 4 * q, 4)
                                 : (quad){ 0 };
}

/* From four places; of each pixel by pixel to channel by channel. */
static inline __m512i pixels(const uint8_t *const p[4], size_t at)
{
    const __m512i channels = _mm512_broadcast_i32x4(
        _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    __m512i px = _mm512_castsi128_si512(_mm_loadu_si128((const void *)(p[0] + at)));

    px = _mm512_inserti32x4(px, _mm_loadu_si128((const void *)(p[1] + at)), 1);
    px = _mm512_inserti32x4(px, _mm_loadu_si128((const void *)(p[2] + at)), 2);
    px = _mm512_inserti32x4(px, _mm_loadu_si128((const void *)(p[3] + at)), 3);
    return _mm512_shuffle_epi8(px, channels);
}

void stk_vnni_hresample_fine(uint8_t *dst, const uint8_t *src, const stk_taps *t)
{
    const uint8_t *weights = t->packed;
    uint32_t quads = t->stride / 4;

    for (uint32_t i = 0; i < t->n; i += 4) {
        const uint8_t *p[4];
        digits s = { _mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512() };
        uint32_t there = t->n - i < 4 ? t->n - i : 4;
        __m128i out;

        for (uint32_t j = 0; j < 4; j++)
            p[j] = src + (size_t)t->first[j < there ? i + j : i] * 4;
        for (uint32_t q = 0; q < quads; q++, weights += 64) {
            __m512i px = pixels(p, 16 * (size_t)q), w = _mm512_loadu_si512(weights);

            s.c = _mm512_dpbusd_epi32(s.c, px, _mm512_shuffle_epi32(w, 0x00));
            s.b = _mm512_dpbusd_epi32(s.b, px, _mm512_shuffle_epi32(w, 0x55));
            s.a = _mm512_dpbusd_epi32(s.a, px, _mm512_shuffle_epi32(w, 0xAA));
        }
        out = _mm512_cvtusepi32_epi8(_mm512_max_epi32(whole(s), _mm512_setzero_si512()));
        _mm_mask_storeu_epi32(dst + 4 * (size_t)i, (__mmask8)((1u << there) - 1), out);
    }
}

/* ---- down ---- */

static inline void add_quad(digits *s, __m512i px, const quad *q)
{
    s->c = _mm512_dpbusd_epi32(s->c, px, _mm512_set1_epi32((int)q->c));
    s->b = _mm512_dpbusd_epi32(s->b, px, _mm512_set1_epi32((int)q->b));
    s->a = _mm512_dpbusd_epi32(s->a, px, _mm512_set1_epi32((int)q->a));
}

/* 64 bytes of four rows, those of `mask`; of each lane its bytes 0..3, 4..7, 8..11, 12..15. */
static inline void add_rows(digits s[4], const uint8_t *const *rows, uint32_t last, size_t at,
                            __mmask64 mask, const quad *q)
{
    __m512i r[4], lo01, hi01, lo23, hi23;

    for (uint32_t k = 0; k < 4; k++)
        r[k] = _mm512_maskz_loadu_epi8(mask, rows[k < last ? k : last] + at);
    lo01 = _mm512_unpacklo_epi8(r[0], r[1]);
    hi01 = _mm512_unpackhi_epi8(r[0], r[1]);
    lo23 = _mm512_unpacklo_epi8(r[2], r[3]);
    hi23 = _mm512_unpackhi_epi8(r[2], r[3]);
    add_quad(&s[0], _mm512_unpacklo_epi16(lo01, lo23), q);
    add_quad(&s[1], _mm512_unpackhi_epi16(lo01, lo23), q);
    add_quad(&s[2], _mm512_unpacklo_epi16(hi01, hi23), q);
    add_quad(&s[3], _mm512_unpackhi_epi16(hi01, hi23), q);
}

void stk_vnni_vresample_fine(uint8_t *dst, const uint8_t *const *rows, const int32_t *w,
                             uint32_t taps, size_t bytes)
{
    quad q[MAX_DOWN / 4];

    if (taps > MAX_DOWN) {
        stk_avx2_vresample_fine(dst, rows, w, taps, bytes);
        return;
    }
    for (uint32_t k = 0; k < taps; k += 4)
        q[k / 4] = quad_of(w + k, taps - k < 4 ? taps - k : 4);
    for (size_t at = 0; at < bytes; at += 64) {
        __mmask64 mask = bytes - at < 64 ? ~(__mmask64)0 >> (64 - (bytes - at)) : ~(__mmask64)0;
        digits s[4];
        __m512i lo, hi;

        for (int i = 0; i < 4; i++)
            s[i].c = s[i].b = s[i].a = _mm512_setzero_si512();
        for (uint32_t k = 0; k < taps; k += 4)
            add_rows(s, rows + k, taps - 1 - k, at, mask, &q[k / 4]);
        lo = _mm512_packs_epi32(whole(s[0]), whole(s[1]));
        hi = _mm512_packs_epi32(whole(s[2]), whole(s[3]));
        _mm512_mask_storeu_epi8(dst + at, mask, _mm512_packus_epi16(lo, hi));
    }
}

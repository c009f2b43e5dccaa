/* SPDX-License-Identifier: Apache-2.0 */
/* tile_table_body.h - changes pixels by tables of 256 values, a part of tile_body.h.  With VBMI a
 * table is in four registers, and 64 bytes are looked up at once.  Without it, nothing is faster
 * than one byte after the other. */
#include "kern/point.h"
#include "kern/tile.h"

static inline void table_plain(uint32_t *px, size_t n, const stk_channel_tables *t)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t x = px[i];

        px[i] = stk_px(t->of[0][x & 255], t->of[1][x >> 8 & 255], t->of[2][x >> 16 & 255]);
    }
}

#ifdef __AVX512VBMI__
#include <immintrin.h>
#include <string.h>

#define STK_TABLE_IS_QUICK 1

typedef struct quick { /* values 0..127 and 128..255 */
    __m512i a, b, c, d;
} quick;

static inline quick quick_table(const uint8_t t[256])
{
    return (quick){ _mm512_loadu_si512(t), _mm512_loadu_si512(t + 64), _mm512_loadu_si512(t + 128),
                    _mm512_loadu_si512(t + 192) };
}

static inline __m512i quick_values(__m512i x, const quick *t)
{
    return _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), _mm512_permutex2var_epi8(t->a, x, t->b),
                                  _mm512_permutex2var_epi8(t->c, x, t->d));
}

static void table(uint32_t *px, size_t n, const stk_channel_tables *t)
{
    const quick r = quick_table(t->of[0]), g = quick_table(t->of[1]), b = quick_table(t->of[2]);
    int same = !memcmp(t->of[0], t->of[1], 256) && !memcmp(t->of[0], t->of[2], 256);
    size_t i = 0;

    for (; same && i + 16 <= n; i += 16)
        _mm512_storeu_si512(px + i, quick_values(_mm512_loadu_si512(px + i), &r));
    for (; i + 16 <= n; i += 16) {
        __m512i x = _mm512_loadu_si512(px + i), v = quick_values(x, &r);

        v = _mm512_mask_blend_epi8(0x2222222222222222, v, quick_values(x, &g));
        v = _mm512_mask_blend_epi8(0x4444444444444444, v, quick_values(x, &b));
        _mm512_storeu_si512(px + i, v);
    }
    table_plain(px + i, n - i, t);
}
#else
#define STK_TABLE_IS_QUICK 0

static void table(uint32_t *px, size_t n, const stk_channel_tables *t)
{
    table_plain(px, n, t);
}
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* kern_c.c - the reference kernels, plain C: what every other table must match bit for bit.
 *
 * Sums are exact integers, so their order is free; color is one float multiplication and one
 * addition, rounded apart (the build forbids contraction to FMA).  f16 and bf16 are rounded here
 * by integer arithmetic, which is what the hardware does; mul and add are finite, so there is no
 * NaN to keep. */
#include "kern/kern.h"
#include "kern/tile.h"

#include <assert.h>
#include <string.h>

static uint8_t clamp8(int32_t v)
{
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static void c_hresample(uint8_t *dst, const uint8_t *src, const stk_taps *t)
{
    int32_t half = 1 << (t->shift - 1);

    for (uint32_t i = 0; i < t->n; i++) {
        const uint8_t *p = src + (size_t)t->first[i] * 4;
        const int16_t *w = t->weight + (size_t)i * t->stride;
        int32_t sum[4] = { half, half, half, half };

        for (uint32_t k = 0; k < t->stride; k++)
            for (int c = 0; c < 4; c++)
                sum[c] += p[4 * k + c] * w[k];
        for (int c = 0; c < 4; c++)
            dst[4 * (size_t)i + c] = clamp8(sum[c] >> t->shift);
    }
}

static void c_vresample(uint8_t *dst, const uint8_t *const *rows, const int16_t *w, uint32_t taps,
                        uint32_t shift, size_t bytes)
{
    int32_t half = 1 << (shift - 1), sum[64];

    for (size_t at = 0; at < bytes;
         at += 64) { /* in pieces, so that sums stay in registers or L1 */
        size_t n = bytes - at < 64 ? bytes - at : 64;

        for (size_t j = 0; j < n; j++)
            sum[j] = half;
        for (uint32_t k = 0; k < taps; k++)
            for (size_t j = 0; j < n; j++)
                sum[j] += rows[k][at + j] * w[k];
        for (size_t j = 0; j < n; j++)
            dst[at + j] = clamp8(sum[j] >> shift);
    }
}

static uint32_t float_bits(float v)
{
    uint32_t u;

    memcpy(&u, &v, sizeof u);
    return u;
}

static uint16_t f16_from(float v)
{
    uint32_t u = float_bits(v), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;

    if (a >= 0x47800000) /* 65536 and more */
        return (uint16_t)(sign | 0x7c00);
    if (a < 0x33000000) /* under half of the smallest subnormal */
        return (uint16_t)sign;
    if (a < 0x38800000) { /* subnormal: units of 2^-24 */
        uint32_t m = (a & 0x7fffff) | 0x800000, s = 126 - (a >> 23);
        uint32_t q = m >> s, rest = m & ((1u << s) - 1), tie = 1u << (s - 1);

        return (uint16_t)(sign | (q + (rest > tie || (rest == tie && (q & 1)))));
    }
    a += 0xfff + (a >> 13 & 1);
    return (uint16_t)(sign | (a - 0x38000000) >> 13);
}

static uint16_t bf16_from(float v)
{
    uint32_t u = float_bits(v);

    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static uint8_t u8_from(float v)
{
    v = v > 0 ? v : 0;
    v = v < 255 ? v : 255;
    return (uint8_t)((v + 8388608.0f) - 8388608.0f); /* 2^23: an f32 has no fraction up there */
}

/* n pixels; channel c of pixel i goes to element c*plane + i*step. */
struct place {
    size_t plane, step;
};

#define STORE(type, from)                                                                          \
    for (int c = 0; c < 3; c++) {                                                                  \
        type *out = (type *)dst + c * to.plane;                                                    \
        float mul = color->mul[c], add = color->add[c];                                            \
        for (size_t i = 0; i < n; i++)                                                             \
            out[i * to.step] = from((float)src[4 * i + c] * mul + add);                            \
    }

static inline void store(void *dst, struct place to, const uint8_t *src, uint32_t n,
                         const stk_color *color)
{
    if (color->dtype == STK_U8 && stk_color_plain(color)) {
        for (size_t i = 0; i < n; i++)
            for (size_t c = 0; c < 3; c++)
                ((uint8_t *)dst)[i * to.step + c * to.plane] = src[4 * i + c];
        return;
    }
    switch (color->dtype) {
    case STK_U8: STORE(uint8_t, u8_from) break;
    case STK_F16: STORE(uint16_t, f16_from) break;
    case STK_BF16: STORE(uint16_t, bf16_from) break;
    case STK_F32: STORE(float, ) break;
    default: assert(!"a dtype that the plan refuses");
    }
}

static void c_store_planar(void *dst, size_t plane, const uint8_t *src, uint32_t n,
                           const stk_color *color)
{
    store(dst, (struct place){ .plane = plane, .step = 1 }, src, n, color);
}

static void c_store_packed(void *dst, const uint8_t *src, uint32_t n, const stk_color *color)
{
    store(dst, (struct place){ .plane = 1, .step = 3 }, src, n, color);
}

/* Steps that are constants where it is called make a fast loop. */
static inline void load(uint8_t *dst, const uint8_t *src, int64_t step_x, int64_t step_c,
                        uint32_t n)
{
    for (uint32_t i = 0; i < n; i++, src += step_x) {
        dst[4 * i] = src[0];
        dst[4 * i + 1] = src[step_c];
        dst[4 * i + 2] = src[2 * step_c];
        dst[4 * i + 3] = 0;
    }
}

static void c_load_planar(uint8_t *dst, const uint8_t *src, int64_t plane, uint32_t n)
{
    load(dst, src, 1, plane, n);
}

static void c_load_packed(uint8_t *dst, const uint8_t *src, uint32_t n)
{
    load(dst, src, 3, 1, n);
}

const stk_kern stk_kern_c = { .name = "c",
                              .hresample = c_hresample,
                              .vresample = c_vresample,
                              .pack_fine = stk_c_pack_fine,
                              .hresample_fine = stk_c_hresample_fine,
                              .vresample_fine = stk_c_vresample_fine,
                              .store_planar = c_store_planar,
                              .store_packed = c_store_packed,
                              .load_planar = c_load_planar,
                              .load_packed = c_load_packed,
                              .tile = &stk_tile_c };

/* SPDX-License-Identifier: Apache-2.0 */
/* kern_fine.c - the filter with weights of 22 bits, plain C: what Pillow's own loops sum, and what
 * every other table must match bit for bit. */
#include "kern/kern.h"
#include "kern/taps_core.h"

#define HALF (1 << (STK_TAPS_SHIFT_MAX - 1))

static uint8_t clamp8(int32_t v)
{
    v >>= STK_TAPS_SHIFT_MAX;
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

void stk_c_pack_fine(const stk_taps *t)
{
    (void)t; /* the loops read t->fine */
}

void stk_c_hresample_fine(uint8_t *dst, const uint8_t *src, const stk_taps *t)
{
    for (uint32_t i = 0; i < t->n; i++) {
        const uint8_t *p = src + (size_t)t->first[i] * 4;
        const int32_t *w = t->fine + (size_t)i * t->stride;
        int32_t sum[4] = { HALF, HALF, HALF, HALF };

        for (uint32_t k = 0; k < t->stride; k++)
            for (int c = 0; c < 4; c++)
                sum[c] += p[4 * k + c] * w[k];
        for (int c = 0; c < 4; c++)
            dst[4 * (size_t)i + c] = clamp8(sum[c]);
    }
}

void stk_c_vresample_fine(uint8_t *dst, const uint8_t *const *rows, const int32_t *w, uint32_t taps,
                          size_t bytes)
{
    int32_t sum[64];

    for (size_t at = 0; at < bytes; at += 64) {
        size_t n = bytes - at < 64 ? bytes - at : 64;

        for (size_t j = 0; j < n; j++)
            sum[j] = HALF;
        for (uint32_t k = 0; k < taps; k++)
            for (size_t j = 0; j < n; j++)
                sum[j] += rows[k][at + j] * w[k];
        for (size_t j = 0; j < n; j++)
            dst[at + j] = clamp8(sum[j]);
    }
}

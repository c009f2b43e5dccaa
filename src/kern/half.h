/* SPDX-License-Identifier: Apache-2.0 */
/* half.h - converts f16 and bf16 from and to f32, for the host and a GPU: rounds to nearest even,
 * NaN stays NaN. */
#ifndef STOKER_KERN_HALF_H
#define STOKER_KERN_HALF_H

#include <stdint.h>
#include <string.h>

#include "kern/taps_core.h" /* STK_HD */

STK_HD static inline float stk_float_of(uint32_t bits)
{
    float f;

    memcpy(&f, &bits, sizeof f);
    return f;
}

STK_HD static inline uint32_t stk_bits_of(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    return bits;
}

STK_HD static inline uint16_t stk_bf16_from(float f)
{
    uint32_t x = stk_bits_of(f);

    if ((x & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(x >> 16 | 0x40);
    return (uint16_t)((x + 0x7fff + (x >> 16 & 1)) >> 16);
}

STK_HD static inline float stk_bf16_to(uint16_t h)
{
    return stk_float_of((uint32_t)h << 16);
}

/* Subnormals are rounded by adding a number whose last bit is theirs. */
STK_HD static inline uint16_t stk_f16_from(float f)
{
    uint32_t x = stk_bits_of(f), sign = x >> 16 & 0x8000, a = x & 0x7fffffffu;

    if (a > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00 | (a >> 13 & 0x3ff));
    if (a >= 0x477ff000u) /* 65520: rounds up to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (a < 0x38800000u) /* 2^-14 */
        return (uint16_t)(sign | (stk_bits_of(stk_float_of(a) + 0.5f) - 0x3f000000u));
    return (uint16_t)(sign | (a - 0x38000000u + 0xfff + (a >> 13 & 1)) >> 13);
}

STK_HD static inline float stk_f16_to(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, a = h & 0x7fff;

    if (a >= 0x7c00)
        return stk_float_of(sign | 0x7f800000u | (a & 0x3ff) << 13);
    if (a < 0x400) /* subnormal: a * 2^-24 */
        return stk_float_of(sign | stk_bits_of((float)a * 0x1p-24f));
    return stk_float_of(sign | ((a << 13) + 0x38000000u));
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* normal.h - makes two normally distributed numbers from 32 random bits (Box and Muller), for noise
 * on the host and on a GPU.
 *
 * The radius has 16 bits, so that numbers reach 4.7 deviations, and the angle 16.  Logarithm, sine
 * and cosine are polynomials in floats, each operation rounded by itself; a square root is exact by
 * IEEE. */
#ifndef STOKER_KERN_NORMAL_H
#define STOKER_KERN_NORMAL_H

#include <math.h>
#include <stdint.h>

#include "base/philox.h"
#include "kern/taps_core.h" /* STK_HD */

/* -2 ln((bits + 0.5) / 65536), bits < 65536: mantissa m in 0.707..1.414 and exponent e by whole
 * numbers, ln m by atanh((m - 1) / (m + 1)). */
STK_HD static inline float stk_minus_2ln(uint32_t bits)
{
    union {
        float f;
        int32_t i;
    } u;
    int32_t e;
    float s, z;

    u.f = (float)(int32_t)bits + 0.5f;
    e = (u.i - 0x3f3504f3) >> 23; /* sqrt(1/2) */
    u.i -= e * (1 << 23);
    s = (u.f - 1) / (u.f + 1);
    z = s * s;
    s = s * (2 + z * (0.6666667f + z * (0.4f + z * (0.2857143f + z * 0.2222222f))));
    return 2 * ((float)(16 - e) * 0.6931472f - s);
}

/* sine and cosine of bits / 65536 of a circle: an eighth on either side of 0, then by quarters. */
STK_HD static inline void stk_circle(uint32_t bits, float *sine, float *cosine)
{
    int32_t quarter = (int32_t)((bits + 8192) >> 14 & 3);
    float x = (float)((int32_t)bits - (int32_t)((bits + 8192) >> 14 << 14)) * 9.5873799e-5f;
    float z = x * x;
    float s = x * (1 + z * (-0.16666667f + z * (8.3333333e-3f + z * -1.9841270e-4f)));
    float c = 1 + z * (-0.5f + z * (4.1666667e-2f + z * (-1.3888889e-3f + z * 2.4801587e-5f)));
    float a = quarter & 1 ? c : s, b = quarter & 1 ? s : c;

    *sine = quarter & 2 ? -a : a;
    *cosine = (quarter + 1) & 2 ? -b : b;
}

typedef struct stk_pair {
    float a, b;
} stk_pair;

STK_HD static inline stk_pair stk_normal_pair(uint32_t bits)
{
    float r = sqrtf(stk_minus_2ln(bits >> 16)), s, c;
    stk_pair out;

    stk_circle(bits & 65535, &s, &c);
    out.a = r * c;
    out.b = r * s;
    return out;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* dot.h - the sum of products of two rows, for the resampler.  It has STK_DOT sums side by side,
 * which are added in a fixed order at the end, so the bits are the same at every CPU level. */
#ifndef STOKER_SOUND_DOT_H
#define STOKER_SOUND_DOT_H

#include "base/cpu.h"

#include <stddef.h>

#define STK_DOT 32

/* n is a multiple of STK_DOT; the rows need not be aligned. */
typedef float (*stk_dot_fn)(const float *a, const float *b, size_t n);

stk_dot_fn stk_dot_find(stk_cpu level);
float stk_dot_c(const float *a, const float *b, size_t n);
float stk_dot_avx2(const float *a, const float *b, size_t n);

static inline float stk_dot_sum(const float *sum)
{
    float s[STK_DOT];

    for (size_t k = 0; k < STK_DOT; k++)
        s[k] = sum[k];
    for (size_t half = STK_DOT / 2; half; half /= 2)
        for (size_t k = 0; k < half; k++)
            s[k] += s[k + half];
    return s[0];
}

#endif

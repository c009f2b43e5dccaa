/* SPDX-License-Identifier: Apache-2.0 */
/* near.h - blur and sharpness, which compute pixels from their neighbours, for the host and a GPU.
 *
 * A blur goes across, then down.  Both sum pairs of neighbours that have the same weight, 16 bits
 * by 16 bits of which the upper half is kept, so that a value has 7 bits of a fraction all the
 * way. */
#ifndef STOKER_KERN_NEAR_H
#define STOKER_KERN_NEAR_H

#include "kern/point.h"

#define STK_BLUR_SIDE 127 /* largest kernel, odd */
#define STK_BLUR_HALF (STK_BLUR_SIDE / 2)

/* exp(-x), 0 <= x: the series of x / 32, then to the 32nd power. */
STK_HD static inline double stk_exp_minus(double x)
{
    double r = -x / 32, s = 1;

    if (x > 40)
        return 0;
    for (int i = 16; i >= 1; i--)
        s = 1 + s * r / i;
    for (int i = 0; i < 5; i++)
        s = s * s;
    return s;
}

/* Weights of a Gaussian with so many taps on each side: w[0] is half of the middle one, w[k] that
 * of both neighbours k away; 2 * their sum is 65536. */
STK_HD static inline void stk_blur_weights(uint16_t *w, uint32_t half, double sigma)
{
    double total = 0.5, sum = 0;
    uint32_t before = 0;

    for (uint32_t k = 1; k <= half; k++)
        total += stk_exp_minus((double)k * k / (2 * sigma * sigma));
    for (uint32_t k = half + 1; k-- > 0;) { /* from the smallest on, rounded by running sum */
        uint32_t upto;

        sum += k ? stk_exp_minus((double)k * k / (2 * sigma * sigma)) : 0.5;
        upto = k ? (uint32_t)(sum / total * 32768 + 0.5) : 32768;
        w[k] = (uint16_t)(upto - before);
        before = upto;
    }
}

/* Where a place outside of 0..n - 1 is taken from: mirrored at the last pixel, as often as
 * needed. */
STK_HD static inline uint32_t stk_mirror(int64_t i, uint32_t n)
{
    int64_t period = 2 * ((int64_t)n - 1);

    if (n == 1)
        return 0;
    i %= period;
    i = i < 0 ? i + period : i;
    return (uint32_t)(i < n ? i : period - i);
}

/* A pair of 8-bit values, and a pair of sums; both with 7 bits of a fraction. */
STK_HD static inline uint16_t stk_blur_pair(uint32_t a, uint32_t b, uint16_t w)
{
    return (uint16_t)((uint32_t)(uint16_t)((a + b) << 7) * w >> 16);
}

STK_HD static inline uint16_t stk_blur_pair_down(uint16_t a, uint16_t b, uint16_t w)
{
    return (uint16_t)((uint32_t)(uint16_t)(a + b) * w >> 16);
}

/* What cutting down takes away on average from so many pairs, and back to 8 bits. */
STK_HD static inline uint16_t stk_blur_begin(uint32_t half)
{
    return (uint16_t)((half + 1) / 2);
}

STK_HD static inline uint8_t stk_blur_end(uint16_t sum)
{
    uint16_t v = (uint16_t)((sum + 64) >> 7);

    return (uint8_t)(v < 255 ? v : 255);
}

/* sum: of 3 x 3 values and 4 more of the middle one; 13 weights, rounded to nearest. */
STK_HD static inline int32_t stk_soft(int32_t sum)
{
    return (sum + 6) * 20165 >> 18;
}

STK_HD static inline uint8_t stk_sharpen(int32_t v, int32_t sum, float away)
{
    return (uint8_t)stk_pt_cut((float)v + (float)(stk_soft(sum) - v) * away);
}

#endif

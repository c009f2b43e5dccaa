/* SPDX-License-Identifier: Apache-2.0 */
/* stats.h - turns figures of a whole picture (sums, histograms) into tables of 256 values, for ops
 * such as contrast, autocontrast and equalize, on the host and on a GPU. */
#ifndef STOKER_KERN_STATS_H
#define STOKER_KERN_STATS_H

#include "kern/point.h"

/* What contrast adds to value * mul. */
STK_HD static inline float stk_contrast_add(float mul, uint64_t gray, uint64_t pixels)
{
    return (1 - mul) * (float)((double)gray / (double)pixels);
}

/* The range min..max of a channel stretched to 0..255; one value alone stays as it is. */
STK_HD static inline uint8_t stk_autocontrast(uint32_t v, uint32_t min, uint32_t max)
{
    float scale;

    if (min >= max)
        return (uint8_t)v;
    scale = (float)(max - min) * (1.0f / 255);
    return (uint8_t)stk_pt_cut((float)((int32_t)v - (int32_t)min) / scale);
}

/* How many pixels share a value of an equalized channel; 0: it stays as it is. */
STK_HD static inline uint64_t stk_equalize_step(const uint32_t count[256])
{
    uint64_t total = 0, last = 0;

    for (int i = 0; i < 256; i++) {
        total += count[i];
        last = count[i] ? count[i] : last;
    }
    return (total - last) / 255;
}

/* What value i becomes; before: pixels of lower values, and half a step. */
STK_HD static inline uint8_t stk_equalized(uint32_t i, uint64_t before, uint64_t step)
{
    uint64_t v = step ? before / step : (uint64_t)i;

    return (uint8_t)(v < 255 ? v : 255);
}

/* A channel's table from how often each value is there. */
STK_HD static inline void stk_equalize(uint8_t table[256], const uint32_t count[256])
{
    uint64_t step = stk_equalize_step(count), at = step / 2;

    for (uint32_t i = 0; i < 256; i++) {
        table[i] = stk_equalized(i, at, step);
        at += count[i];
    }
}

#endif

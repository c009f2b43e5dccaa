/* SPDX-License-Identifier: Apache-2.0 */
/* row_act.c - a rectangle of a row erased: by values in the row's own units, or by normal noise.
 *
 * Noise is addressed: pixel i of the rectangle has the numbers of block i, whatever the layout. */
#include "kern/row_act.h"

#include "kern/erase.h"
#include "kern/half.h"

static void put(void *dst, size_t at, float v, stk_dtype dtype)
{
    switch (dtype) {
    case STK_F16: ((uint16_t *)dst)[at] = stk_f16_from(v); break;
    case STK_BF16: ((uint16_t *)dst)[at] = stk_bf16_from(v); break;
    case STK_F32: ((float *)dst)[at] = v; break;
    default: ((uint8_t *)dst)[at] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v); break;
    }
}

void stk_row_act(const stk_action *a, const stk_sample_job *job, uint32_t channels)
{
    const uint32_t *r = a->v.u; /* x, y, w, h */
    size_t w = job->view->vis_w, plane = w * job->view->vis_h;
    int planar = job->layout == STK_CHW;
    float v[3];

    for (uint32_t y = 0; y < r[3]; y++)
        for (uint32_t x = 0; x < r[2]; x++) {
            size_t at = (size_t)(r[1] + y) * w + r[0] + x;

            stk_erase_values(a, y * r[2] + x, v);
            for (size_t c = 0; c < channels; c++)
                put(job->dst, planar ? at + c * plane : channels * at + c, v[c], job->dtype);
        }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* yuv_body.h - the loops of yuv.h, compiled once in plain C and once for AVX2.  They use only
 * integers, so both give the same bits.  The including file defines YUV(name) and the table of
 * functions. */
#include "kern/yuv.h"

/* Values [from, from + n) of two rows of U or V, blended in quarters: 4 times as large. */
static void YUV(down)(const stk_yuv_row *r, uint32_t from, uint32_t n, uint16_t *restrict out)
{
    const int32_t w1 = r->weight, w0 = 4 - w1;

    if (r->wide) {
        const uint16_t *a = (const uint16_t *)(const void *)r->a + from;
        const uint16_t *b = (const uint16_t *)(const void *)r->b + from;

        for (uint32_t i = 0; i < n; i++)
            out[i] = (uint16_t)(w0 * a[i] + w1 * b[i]);
    } else if (r->step == 1) {
        const uint8_t *a = r->a + from, *b = r->b + from;

        for (uint32_t i = 0; i < n; i++)
            out[i] = (uint16_t)(w0 * a[i] + w1 * b[i]);
    } else {
        for (uint32_t i = 0; i < n; i++)
            out[i] = (uint16_t)(w0 * r->a[r->step * (from + i)] + w1 * r->b[r->step * (from + i)]);
    }
}

/* t: values of a halved row, t[0] and t[n + 1] beyond both ends; out: two for each of n. */
static void YUV(across)(const uint16_t *restrict t, uint32_t n, int cosited, uint16_t *restrict out)
{
    if (cosited)
        for (uint32_t i = 0; i < n; i++) {
            out[2 * i] = (uint16_t)(4 * t[i + 1]);
            out[2 * i + 1] = (uint16_t)(2 * (t[i + 1] + t[i + 2]));
        }
    else
        for (uint32_t i = 0; i < n; i++) {
            out[2 * i] = (uint16_t)(3 * t[i + 1] + t[i]);
            out[2 * i + 1] = (uint16_t)(3 * t[i + 1] + t[i + 2]);
        }
}

static inline int32_t YUV(clip)(int32_t v)
{
    v = v < 0 ? 0 : v;
    return v > 255 ? 255 : v;
}

#define PIXELS(type)                                                                               \
    for (uint32_t i = 0; i < n; i++) {                                                             \
        int32_t y = cy * ((int32_t)((const type *)luma)[i] - zero) + half;                         \
        int32_t cu = u[i] - gray, cv = v[i] - gray;                                                \
                                                                                                   \
        dst[i] = (uint32_t)YUV(clip)((y + rv * cv) >> shift) |                                     \
                 (uint32_t)YUV(clip)((y - gu * cu - gv * cv) >> shift) << 8 |                      \
                 (uint32_t)YUV(clip)((y + bu * cu) >> shift) << 16;                                \
    }

static void YUV(color)(const stk_yuv *c, const void *luma, const uint16_t *restrict u,
                       const uint16_t *restrict v, uint32_t n, uint32_t *restrict dst)
{
    const int32_t cy = c->y * 16, rv = c->rv, gu = c->gu, gv = c->gv, bu = c->bu;
    const int32_t zero = c->y_zero, gray = c->c_zero * 16;
    const uint32_t shift = c->shift + 4;
    const int32_t half = 1 << (shift - 1);

    if (c->wide)
        PIXELS(uint16_t)
    else
        PIXELS(uint8_t)
}

/* SPDX-License-Identifier: Apache-2.0 */
/* lanes_body.h - moves eight rows of samples to the lanes of vectors, and back.  Kernels include
 * it, as they do fft_body.h. */
#ifndef STOKER_SOUND_LANES_BODY_H
#define STOKER_SOUND_LANES_BODY_H

#include <string.h>

#include "sound/fft_body.h"

#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)

/* Eight rows of eight to eight columns of eight. */
static inline __attribute__((always_inline)) void transpose(v8 *r)
{
    v8 t[8], u[8];

    for (int i = 0; i < 8; i += 2) {
        t[i] = SHUFFLE(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        t[i + 1] = SHUFFLE(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int i = 0; i < 8; i += 4)
        for (int k = 0; k < 2; k++) {
            u[i + 2 * k] = SHUFFLE(t[i + k], t[i + k + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            u[i + 2 * k + 1] = SHUFFLE(t[i + k], t[i + k + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    for (int i = 0; i < 4; i++) {
        r[i] = SHUFFLE(u[i], u[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        r[i + 4] = SHUFFLE(u[i], u[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

/* Eight rows of n samples to lanes: even samples are real parts, odd ones imaginary. */
static inline void stk_spread(const float *rows, uint32_t n, v8 *re, v8 *im)
{
    uint32_t i = 0;
    v8 r[8];

    for (; i + 8 <= n; i += 8) {
        for (int k = 0; k < 8; k++)
            memcpy(&r[k], rows + (size_t)k * n + i, sizeof *r);
        transpose(r);
        for (int k = 0; k < 4; k++) {
            re[i / 2 + (uint32_t)k] = r[2 * k];
            im[i / 2 + (uint32_t)k] = r[2 * k + 1];
        }
    }
    for (; i < n; i += 2)
        for (int k = 0; k < 8; k++) {
            re[i / 2][k] = rows[(size_t)k * n + i];
            im[i / 2][k] = rows[(size_t)k * n + i + 1];
        }
}

/* The inverse of stk_spread(). */
static inline void stk_gather(const v8 *re, const v8 *im, uint32_t n, float *rows)
{
    uint32_t i = 0;
    v8 r[8];

    for (; i + 8 <= n; i += 8) {
        for (uint32_t k = 0; k < 4; k++) {
            r[2 * k] = re[i / 2 + k];
            r[2 * k + 1] = im[i / 2 + k];
        }
        transpose(r);
        for (uint32_t k = 0; k < 8; k++)
            memcpy(rows + (size_t)k * n + i, &r[k], sizeof *r);
    }
    for (; i < n; i += 2)
        for (uint32_t k = 0; k < 8; k++) {
            rows[(size_t)k * n + i] = re[i / 2][k];
            rows[(size_t)k * n + i + 1] = im[i / 2][k];
        }
}

#endif

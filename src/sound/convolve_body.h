/* SPDX-License-Identifier: Apache-2.0 */
/* convolve_body.h - the kernel of convolve.h, for sixteen blocks at once.  The files that compile
 * it for a CPU define STK_CONVOLVE, the name of the function, and include it. */
#include "sound/convolve.h"
#include "sound/fft_body.h"

/* Real and imaginary parts are exchanged: a forward transform of that is the inverse one, exchanged
 * again. */
static void weigh(const stk_convolve_block *b, v8 *const z[2], v8 *re, v8 *im)
{
    for (uint32_t k = 0; k < b->fft->n; k++) {
        float c = b->taps[2 * k], d = b->taps[2 * k + 1];
        v8 tr = z[0][k] * c - z[1][k] * d, ti = z[0][k] * d + z[1][k] * c;

        re[k] = ti;
        im[k] = tr;
    }
}

void STK_CONVOLVE(stk_convolve_block *b)
{
    uint32_t n = b->fft->n;
    v8 *buf[4], *made[2], *free_half;

    buf[0] = (v8 *)(void *)b->work;
    for (int i = 1; i < 4; i++)
        buf[i] = buf[i - 1] + n;
    transform(b->fft, buf, made);
    for (uint32_t k = 0; !b->taps && k < n; k++) {
        b->made[2 * k] = made[0][k][0];
        b->made[2 * k + 1] = made[1][k][0];
    }
    if (!b->taps)
        return;
    free_half = made[0] == buf[0] ? buf[2] : buf[0];
    weigh(b, made, free_half, free_half + n);
    buf[2] = made[0];
    buf[3] = made[1];
    buf[0] = free_half;
    buf[1] = free_half + n;
    transform(b->fft, buf, made);
    b->re = (const float *)made[1];
    b->im = (const float *)made[0];
}

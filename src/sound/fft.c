/* SPDX-License-Identifier: Apache-2.0 */
/* fft.c - tables of fft.h. */
#include "sound/fft.h"

#include <math.h>

#include "base/err.h"
#include "base/mem.h"

static const uint8_t radices[] = { 19, 17, 13, 11, 7, 5, 4, 3, 2 };

static int find_stages(stk_fft *f, stk_error *err)
{
    uint32_t left = f->n;

    for (size_t i = 0; i < sizeof radices; i++)
        while (left && left % radices[i] == 0 && f->stages < STK_FFT_STAGES) {
            f->radix[f->stages++] = radices[i];
            left /= radices[i];
        }
    if (left == 1)
        return 0;
    return stk_fail(err, STK_EINVAL,
                    "a transform of %u samples: half of it must be a product of primes up to 19",
                    2 * f->n);
}

/* Of an odd radix above 5: cosines and sines of its points. */
static double *put_points(double *w, uint32_t r)
{
    for (uint32_t j = 0; r > 5 && j < r; j++) {
        w[j] = cos(2 * M_PI * j / r);
        w[r + j] = sin(2 * M_PI * j / r);
    }
    return r > 5 ? w + 2 * r : w;
}

int stk_fft_open(stk_fft *f, uint32_t n, stk_error *err)
{
    size_t room = (size_t)n * 4 + 2 * STK_FFT_ODD * STK_FFT_STAGES;
    double *w;

    *f = (stk_fft){ .n = n };
    STK_TRY(find_stages(f, err));
    w = f->exact = stk_zalloc(room, sizeof *w);
    f->twiddle = stk_zalloc(room, sizeof *f->twiddle);
    if (!w || !f->twiddle)
        return stk_fail_nomem(err, room * sizeof *w);
    for (uint32_t k = 0; k < f->stages; n /= f->radix[k++]) {
        uint32_t r = f->radix[k];

        w = put_points(w, r);
        for (uint32_t p = 0; p < n / r; p++)
            for (uint32_t j = 1; j < r; j++) {
                *w++ = cos(2 * M_PI * p * j / n);
                *w++ = -sin(2 * M_PI * p * j / n);
            }
    }
    for (size_t i = 0; i < room; i++)
        f->twiddle[i] = (float)f->exact[i];
    return 0;
}

void stk_fft_fini(stk_fft *f)
{
    stk_free(f->exact);
    stk_free(f->twiddle);
    *f = (stk_fft){ 0 };
}

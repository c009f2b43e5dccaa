/* SPDX-License-Identifier: Apache-2.0 */
/* fft.h - the plan of a complex Fourier transform: its radices and twiddle factors.  fft_body.h
 * runs it. */
#ifndef STOKER_SOUND_FFT_H
#define STOKER_SOUND_FFT_H

#include <stoker/plugin.h>

#define STK_FFT_STAGES 20
#define STK_FFT_ODD 19 /* the largest radix */

typedef struct stk_fft {
    uint32_t n, stages;
    uint8_t radix[STK_FFT_STAGES];
    double *exact;  /* factors of all stages, one after the other: re, im */
    float *twiddle; /* the same, rounded */
} stk_fft;

/* Plans a transform of n complex values.  STK_EINVAL: n has a prime factor above 19. */
int stk_fft_open(stk_fft *f, uint32_t n, stk_error *err);
void stk_fft_fini(stk_fft *f);

#endif

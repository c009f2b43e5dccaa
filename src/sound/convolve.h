/* SPDX-License-Identifier: Apache-2.0 */
/* convolve.h - convolves a recording with the response of a room, for the op `reverb`: each sample
 * becomes a sum of those around it, weighted by the response.
 *
 * The recording is cut into blocks, whose spectra are multiplied by the response's.  Sixteen blocks
 * are transformed at once: eight lanes, with one block as real and one as imaginary part. */
#ifndef STOKER_SOUND_CONVOLVE_H
#define STOKER_SOUND_CONVOLVE_H

#include "sound/fft.h"

#define STK_CONVOLVE_TAPS (1u << 21) /* most samples of a response */

typedef struct stk_convolver stk_convolver; /* Tables of all sizes met so far.  Thread: any. */

typedef struct stk_convolve_in {
    const float *data; /* n samples */
    uint64_t n;
    const float *tap; /* n_taps samples of the response, at least 1 */
    uint64_t n_taps;
    uint64_t shift; /* samples at the beginning of the result that are left out; below n_taps */
} stk_convolve_in;

int stk_convolver_open(stk_convolver **out, stk_error *err);
void stk_convolver_close(stk_convolver **c); /* NULL-safe, nulls */
/* out[i] = sum over k of tap[k] * data[i + shift - k], for i < n.  out is not data. */
int stk_convolve(stk_convolver *c, const stk_convolve_in *in, stk_scratch *scratch, float *out,
                 stk_error *err);

/* ---- for its kernels ---- */

#define STK_CONVOLVE_BLOCKS 16

typedef struct stk_convolve_block {
    const stk_fft *fft;
    float *work; /* 4 * n vectors of eight: the first 2 * n are the input, re and im */
    /* the response's spectrum times 1 / n: re, im; NULL: only the transform is wanted */
    const float *taps;
    float *made;          /* with taps NULL: lane 0 of the transform, re, im */
    const float *re, *im; /* otherwise: the result in `work`, n vectors each */
} stk_convolve_block;

void stk_convolve_block_c(stk_convolve_block *b);
void stk_convolve_block_avx2(stk_convolve_block *b);

#endif

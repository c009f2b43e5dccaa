/* SPDX-License-Identifier: Apache-2.0 */
/* resample_fft.h - the HQ resampler in blocks: the spectrum of a block of inputs, times that of the
 * filter, is the spectrum of the outputs at their rate.  resample.c calls it if the ratio allows
 * it; it costs about a fifth of a filter for each output.
 *
 * A block is `periods` of `down` inputs, which become `up` outputs each; the first and last
 * `margin` periods are not used, for the filter reaches past the block there.  Blocks count from
 * the recording's first sample and are always computed as a whole, eight side by side, so that a
 * part of a recording has the same bits as that part of the whole. */
#ifndef STOKER_SOUND_RESAMPLE_FFT_H
#define STOKER_SOUND_RESAMPLE_FFT_H

#include "sound/fft.h"

#define STK_BLOCK_LANES 8

typedef struct stk_block_rate stk_block_rate; /* read-only once made.  Thread: any. */

typedef struct stk_block_filter {
    uint64_t up, down; /* the ratio, without common factors */
    uint32_t reach;    /* inputs on each side of an output that it is made of */
    double (*tap)(const void *shape, double t); /* weight at t inputs from the filter's middle */
    const void *shape;
} stk_block_filter;

/* Sets *out to NULL if blocks do not work for this ratio. */
int stk_block_rate_open(stk_block_rate **out, const stk_block_filter *f, stk_error *err);
void stk_block_rate_close(stk_block_rate **b); /* NULL-safe, nulls */
/* Sets *in_from and *in_to to the inputs that outputs [from, to) are made of. */
void stk_block_rate_needs(const stk_block_rate *b, uint64_t from, uint64_t to, int64_t *in_from,
                          int64_t *in_to);
size_t stk_block_rate_work(const stk_block_rate *b); /* floats */

typedef struct stk_resample_in stk_resample_in;
void stk_block_rate_run(const stk_block_rate *b, const stk_resample_in *in, uint64_t from,
                        uint64_t n, float *out);

/* ---- for its kernels ---- */

struct stk_block_rate {
    uint64_t up, down;
    uint32_t periods, margin;
    uint32_t n_in, n_out;      /* inputs and outputs of a block; even */
    uint32_t top;              /* values of the spectrum that are not zero */
    stk_fft in, out;           /* transforms of n_in / 2 and n_out / 2 values */
    float *turn_in, *turn_out; /* exp(-2 pi i k / n): re, im */
    float *gain;               /* factor for value k of the spectrum, k < top */
    void (*run)(const stk_block_rate *b, float *work);
};

/* work: STK_BLOCK_LANES rows of n_in inputs, and room; then rows of n_out outputs are at its
 * start. */
void stk_block_resample_c(const stk_block_rate *b, float *work);
void stk_block_resample_avx2(const stk_block_rate *b, float *work);

#endif

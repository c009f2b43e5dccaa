/* SPDX-License-Identifier: Apache-2.0 */
/* kern.h - the pixel loops: one table a CPU level, kern_c.c is the reference, all give the same bits. */
#ifndef STOKER_KERN_H
#define STOKER_KERN_H

#include "base/cpu.h"
#include "base/err.h"

/* Filter weights of one axis: output i = sum over k < taps of weight[i*stride+k] * in[first[i]+k], rounded, >> shift.
 * Unused weights are zero.  An output with count[i] == 0 is black. */
typedef struct stk_taps {
    uint32_t n;                 /* outputs */
    uint32_t stride;            /* weights an output, even */
    uint32_t shift;             /* 1.0 is 1 << shift */
    uint32_t lo, hi;            /* inputs that any output touches: [lo, hi); first[] counts from lo */
    uint32_t *first, *count;
    int16_t *weight;
} stk_taps;

typedef struct stk_kern {
    /* One RGBX row of inputs -> t->n RGBX pixels.  Reads no byte beyond the pixels that taps name. */
    void (*hresample)(uint8_t *dst, const uint8_t *src, const stk_taps *t);
    /* `bytes` bytes of `taps` rows -> one row. */
    void (*vresample)(uint8_t *dst, const uint8_t *const *rows, const int16_t *w, uint32_t taps, uint32_t shift,
                      size_t bytes);
    /* n RGBX pixels -> planes dst, dst + plane, dst + 2*plane (elements), as u8 * mul + add.  By dtype. */
    void (*store_planar)(void *dst, size_t plane, const uint8_t *src, uint32_t n, const float *mul, const float *add,
                         stk_dtype dtype);
    /* The same, interleaved. */
    void (*store_packed)(void *dst, const uint8_t *src, uint32_t n, const float *mul, const float *add, stk_dtype dtype);
} stk_kern;

/* The table for a level; falls to the best one built that is not above it. */
const stk_kern *stk_kern_table(stk_cpu level);

#endif

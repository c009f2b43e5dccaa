/* SPDX-License-Identifier: Apache-2.0 */
/* rle.h - reads integers as Parquet packs them: runs, bit-packed groups, and deltas.  page.c and
 * values.c call it.
 *
 * Readers never leave their bytes.  A negative result says that the bytes end too early or are
 * invalid. */
#ifndef STOKER_PARQUET_RLE_H
#define STOKER_PARQUET_RLE_H

#include "base/err.h"

typedef struct stk_rle { /* the hybrid of runs and groups of 8 */
    const uint8_t *p, *end;
    uint32_t width;  /* bits of a value, 0..32 */
    uint64_t run;    /* values left of a run */
    uint64_t packed; /* values left of bit-packed groups */
    uint64_t bit;    /* bit at which the next value begins, from `bits` on */
    const uint8_t *bits;
    uint32_t value; /* value of the run */
} stk_rle;

void stk_rle_init(stk_rle *r, stk_bytes in, uint32_t width);
/* 1: the first n values are one run of this value, so they need not be written out. */
int stk_rle_is_run(stk_bytes in, uint32_t width, uint32_t value, uint64_t n);
/* Reads the next n values.  0 or STK_ECORRUPT. */
int stk_rle_take(stk_rle *r, uint32_t *dst, uint64_t n, stk_error *err);
/* The same as bytes, for levels: values are below 256 if width <= 8. */
int stk_rle_levels(stk_rle *r, uint8_t *dst, uint64_t n, stk_error *err);

/* Reads DELTA_BINARY_PACKED.  Sets *used to the bytes that it took, and *n to the number of values,
 * at most `cap`. */
int stk_delta_read(stk_bytes in, int64_t *dst, uint64_t cap, uint64_t *n, size_t *used,
                   stk_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* npy_head.h - reads the header of an .npy file.  The codec npy, arrays and checks call it. */
#ifndef STOKER_FORMAT_NPY_HEAD_H
#define STOKER_FORMAT_NPY_HEAD_H

#include "base/err.h"
#include "base/mem.h"

#define STK_NPY_HEAD 65548 /* most bytes of a header that is accepted */

typedef struct stk_npy {
    stk_dtype dtype;
    int swapped, fortran; /* true if bytes are swapped; if the first dimension varies fastest */
    uint32_t ndim;
    int64_t shape[STK_MAX_DIMS];
    uint64_t count;  /* number of elements; their bytes fit 64 bits */
    uint64_t offset; /* offset of the first element */
} stk_npy;

/* `in` is the beginning of a file.  If it is too short for the header, that is an error, and
 * out->offset says how many bytes hold the header; after other errors it is 0. */
int stk_npy_head(stk_bytes in, stk_npy *out, stk_error *err);

#endif

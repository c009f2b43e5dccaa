/* SPDX-License-Identifier: Apache-2.0 */
/* npy_head.h - what the header of an .npy file says. */
#ifndef STOKER_FORMAT_NPY_HEAD_H
#define STOKER_FORMAT_NPY_HEAD_H

#include "base/err.h"
#include "base/mem.h"

#define STK_NPY_HEAD 65548 /* bytes that hold any header that is read */

typedef struct stk_npy {
    stk_dtype dtype;
    int swapped, fortran; /* as it is stored in the file */
    uint32_t ndim;
    int64_t shape[STK_MAX_DIMS];
    uint64_t count;  /* elements; their bytes don't overflow */
    uint64_t offset; /* of the first one */
} stk_npy;

/* `in` begins where the file does and holds at least the whole header.  Where that is what it
 * lacks, out->offset says how many bytes hold it (else 0). */
int stk_npy_head(stk_bytes in, stk_npy *out, stk_error *err);

#endif

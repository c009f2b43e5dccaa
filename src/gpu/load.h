/* SPDX-License-Identifier: Apache-2.0 */
/* load.h - the CUDA part of this process, and which GPU is meant. */
#ifndef STOKER_DEVICE_LOAD_H
#define STOKER_DEVICE_LOAD_H

#include "base/err.h"
#include "cuda/cuda.h"

/* Open libstoker_cuda: STK_CUDA_LIB, else beside the code that asks, else where the system looks.
 * STK_ENOTSUP says what is missing.  Thread: any. */
int stk_cuda_load(const stk_cuda **out, stk_error *err);

/* The number of the GPU that "cuda" (the current one, else LOCAL_RANK's) or "cuda:N" names. */
int stk_cuda_find(const stk_cuda *t, const char *name, int *gpu, stk_error *err);

#endif

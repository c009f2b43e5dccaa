/* SPDX-License-Identifier: Apache-2.0 */
/* load.h - loads libstoker_cuda, once per process, and finds the GPU that a name means.  The plan,
 * transforms and tools call it before they use a GPU. */
#ifndef STOKER_DEVICE_LOAD_H
#define STOKER_DEVICE_LOAD_H

#include "base/err.h"
#include "cuda/cuda.h"

/* Opens libstoker_cuda: the file in STK_CUDA_LIB, else one beside this library, else where the
 * system looks.  STK_ENOTSUP: err says what is missing.  Thread: any. */
int stk_cuda_load(const stk_cuda **out, stk_error *err);

/* The number of the GPU that "cuda" (the current one, else LOCAL_RANK's) or "cuda:N" names. */
int stk_cuda_find(const stk_cuda *t, const char *name, int *gpu, stk_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* gather_run.h - launches the kernel of gather.cu, which copies rows out of arrays on the GPU.
 * base.cu calls it.  Returns a cudaError_t; *g is copied. */
#ifndef STOKER_GATHER_RUN_H
#define STOKER_GATHER_RUN_H

#include <cuda_runtime.h>

#include "cuda/gpu_gather.h"

#ifdef __cplusplus
extern "C"
#endif
    int
    stk_gather_run(const stk_gpu_gather *g, cudaStream_t stream);

#endif

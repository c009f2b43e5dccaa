/* SPDX-License-Identifier: Apache-2.0 */
/* blend_run.h - launches the kernel of blend.cu, which mixes rows of a batch.  base.cu calls it.
 * Returns a cudaError_t; *m is copied. */
#ifndef STOKER_BLEND_RUN_H
#define STOKER_BLEND_RUN_H

#include <cuda_runtime.h>

#include "kern/blend.h"

#ifdef __cplusplus
extern "C"
#endif
    int
    stk_blend_run(const stk_blend *m, cudaStream_t stream);

#endif

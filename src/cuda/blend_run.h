/* SPDX-License-Identifier: Apache-2.0 */
/* blend_run.h - the launch of blend.cu.  Returns a cudaError_t; m is copied. */
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

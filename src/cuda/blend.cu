/* SPDX-License-Identifier: Apache-2.0 */
/* blend.cu - rows of a batch mixed with each other (kern/blend.h): a row of blocks a pair, a thread
 * an element of both. */
#include "cuda/blend_run.h"

#define THREADS 256
#define MOST_BLOCKS 64 /* of a pair */

static __global__ void __launch_bounds__(THREADS) blend_kernel(const stk_blend m)
{
    for (uint32_t i = blockIdx.y; i < stk_blend_turns(&m); i += gridDim.y)
        for (uint64_t e = blockIdx.x * (uint64_t)THREADS + threadIdx.x; e < m.count;
             e += (uint64_t)gridDim.x * THREADS)
            stk_blend_one(&m, i, e);
}

extern "C" int stk_blend_run(const stk_blend *m, cudaStream_t stream)
{
    uint64_t wide = (m->count + THREADS - 1) / THREADS;
    uint32_t turns = stk_blend_turns(m);

    if (!turns || !wide)
        return 0;
    blend_kernel<<<dim3((unsigned)(wide < MOST_BLOCKS ? wide : MOST_BLOCKS),
                        turns < 65535 ? turns : 65535),
                   THREADS, 0, stream>>>(*m);
    return (int)cudaPeekAtLastError();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* gather.cu - rows out of arrays that are on the GPU (cuda/gpu_gather.h): a row of blocks an output
 * row, a thread an element. */
#include "cuda/gather_run.h"

#define THREADS 256
#define MOST_BLOCKS 64 /* of a row */

static __global__ void __launch_bounds__(THREADS) gather_kernel(const stk_gpu_gather g)
{
    uint32_t row = blockIdx.y;
    uint64_t at = g.at[row];

    if (!stk_gather_inside(&g, at))
        return;
    for (uint64_t i = blockIdx.x * (uint64_t)THREADS + threadIdx.x; i < g.count;
         i += (uint64_t)gridDim.x * THREADS)
        stk_gather_one(&g, at, row, i);
}

extern "C" int stk_gather_run(const stk_gpu_gather *g, cudaStream_t stream)
{
    uint64_t wide = (g->count + THREADS - 1) / THREADS;

    if (!g->rows || !g->count)
        return 0;
    gather_kernel<<<dim3((unsigned)(wide < MOST_BLOCKS ? wide : MOST_BLOCKS), g->rows), THREADS, 0,
                    stream>>>(*g);
    return (int)cudaPeekAtLastError();
}

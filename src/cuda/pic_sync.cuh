/* SPDX-License-Identifier: Apache-2.0 */
/* pic_sync.cuh - units of pictures without seek points, a block of threads a picture; what it does
 * is in cuda/pic_sync.h. */
#ifndef STOKER_PIC_SYNC_CUH
#define STOKER_PIC_SYNC_CUH

#include <cuda_runtime.h>

#include "cuda/pic_points.h"

/* points: NULL, or one for each of l.sync. */
static __global__ void __launch_bounds__(STK_SYNC_THREADS, 5)
    stk_pic_sync_kernel(stk_pic_launch l, const stk_pic_points *points)
{
    __shared__ stk_sync s;

    for (uint32_t w = blockIdx.x; w < l.n_sync; w += gridDim.x) {
        uint32_t job = l.sync[w].job;
        stk_sync_task k = { l.slab, l.slab_len, l.scratch, l.job + job, l.status + job, 0 };
        stk_pic_points where = { 0, 0, 0 };

        if (points)
            where = points[w];
        stk_sync_indexed(&s, &k, &where);
        __syncthreads();
    }
}

/* Units of the pictures that l->sync lists, in scratch memory where their jobs say; points too,
 * where `points` (the device's; one for each of l->sync) asks for them. */
static inline cudaError_t stk_pic_points_run(const stk_pic_launch *l, const stk_pic_points *points,
                                             cudaStream_t stream)
{
    uint32_t grid = l->blocks && l->blocks < l->n_sync ? l->blocks : l->n_sync;

    if (!grid)
        return cudaSuccess;
    stk_pic_sync_kernel<<<grid, STK_SYNC_THREADS, 0, stream>>>(*l, points);
    return cudaGetLastError();
}

static inline cudaError_t stk_pic_sync_run(const stk_pic_launch *l, cudaStream_t stream)
{
    return stk_pic_points_run(l, NULL, stream);
}

#endif

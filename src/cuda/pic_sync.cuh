/* SPDX-License-Identifier: Apache-2.0 */
/* pic_sync.cuh - the pass that finds units in scans without seek points. */
#ifndef STOKER_PIC_SYNC_CUH
#define STOKER_PIC_SYNC_CUH

#include <cuda_runtime.h>

#include "device/slab.h"

/* Fill scratch + job.units with job.n_units units for each entry of l->sync, `count` 0 where there
 * is nothing to do; status gets STK_PIC_BAD_SYNC where they were not found.  Runs behind the taps
 * kernel, which has checked records (stk_pic_taps.ok).  Returns a cudaError_t.  Weak: a build
 * without it says STK_PIC_BAD_SYNC of all such pictures. */
extern "C" __attribute__((weak)) int stk_pic_sync_run(const stk_pic_launch *l, cudaStream_t stream);

#endif

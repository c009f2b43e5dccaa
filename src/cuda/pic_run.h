/* SPDX-License-Identifier: Apache-2.0 */
/* pic_run.h - launches all kernels for a batch of pictures (cuda/slab.h) with one call.  base.cu
 * calls it. */
#ifndef STOKER_PIC_RUN_H
#define STOKER_PIC_RUN_H

#include <cuda_runtime.h>

#include "cuda/slab.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Everything after the copies of slab and lists, in order, on `stream`; nothing waits.  l is
 * copied.  The status words are zeroed before, on the same stream.  Returns a cudaError_t. */
int stk_pic_run(const stk_pic_launch *l, cudaStream_t stream);

/* One phase alone, for benches: taps, sync, decode, across, down, the steps of programs. */
enum {
    STK_PIC_TAPS,
    STK_PIC_SYNC,
    STK_PIC_DECODE,
    STK_PIC_ACROSS,
    STK_PIC_DOWN,
    STK_PIC_STEPS,
    STK_PIC_PHASES
};
int stk_pic_phase(const stk_pic_launch *l, int phase, cudaStream_t stream);
/* tile.cu */
int stk_pic_steps_run(const stk_pic_launch *l, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif

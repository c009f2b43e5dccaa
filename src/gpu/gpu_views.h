/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_views.h - runs chains on pictures that are on a GPU already, on a stream of the caller.
 * stk_transform calls it, and gpu_clips.c for decoded frames.
 *
 * A call queues one copy of small records and the kernels after it.  It waits for nothing, except
 * that the copy of the eighth call before it has finished. */
#ifndef STOKER_GPU_VIEWS_H
#define STOKER_GPU_VIEWS_H

#include <stoker/transform.h>

#include "chain/chain.h"
#include "gpu/load.h"
#include "kern/kern.h"

typedef struct stk_views stk_views; /* kernels and memory on one GPU.  Thread: any. */

typedef struct stk_views_job {
    const stk_picture *picture; /* pixels, and where the results go; both in GPU memory */
    /* Draws the views and actions of picture i.  stk_pic_on_gpu_takes() must accept the first
     * view. */
    int (*draw)(void *cookie, uint32_t i, stk_draws *d, stk_error *err);
    void *cookie;
    /* With `yuv`, instead of draw(): planes of the frames, and records that are written already. */
    const uint8_t *const *record;
    const stk_pic_yuv *yuv;
    uint32_t n;
    const stk_spec *spec; /* type, layout and color of the result */
    void *stream;
} stk_views_job;

typedef struct stk_views_options {
    uint32_t gpu;
    uint32_t blocks;         /* most blocks of threads at once; 0: no limit */
    uint64_t limit;          /* most bytes of GPU memory to work in; 0: what one picture needs */
    _Atomic uint64_t *bytes; /* bytes that are taken are added here; NULL: they are not counted */
} stk_views_options;

int stk_views_open(stk_views **out, const stk_views_options *o, stk_error *err);
int stk_views_run(stk_views *v, const stk_views_job *job, stk_error *err);
void stk_views_close(stk_views **v); /* waits for queued work */

#endif

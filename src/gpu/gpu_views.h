/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_views.h - chains of pictures that are on a GPU, made there on a stream of the caller's.
 *
 * What is queued is one copy of small records and the kernels after it; nothing is waited for, but
 * that the copy of the eighth call before this one is through. */
#ifndef STOKER_GPU_VIEWS_H
#define STOKER_GPU_VIEWS_H

#include <stoker/transform.h>

#include "chain/chain.h"
#include "gpu/load.h"
#include "kern/kern.h"

typedef struct stk_views stk_views; /* of one GPU.  Thread: any. */

typedef struct stk_views_job {
    const stk_picture *picture; /* pixels and where they go: the GPU's memory */
    /* What is seen of picture i and done to it; stk_pic_on_gpu_takes() the first view. */
    int (*draw)(void *cookie, uint32_t i, stk_draws *d, stk_error *err);
    void *cookie;
    uint32_t n;
    const stk_spec *spec; /* type, layout and color of what comes out */
    void *stream;
} stk_views_job;

int stk_views_open(stk_views **out, uint32_t gpu, stk_error *err);
int stk_views_run(stk_views *v, const stk_views_job *job, stk_error *err);
void stk_views_close(stk_views **v); /* waits for what was queued */

#endif

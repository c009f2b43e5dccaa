/* SPDX-License-Identifier: Apache-2.0 */
/* plan_gpu.c - the GPU that batches go to. */
#include <string.h>

#include "loader/parts.h"

int stk_plan_gpu_make(stk_plan_gpu *out, const stk_plan_input *in, const stk_plan *so_far,
                      stk_error *err)
{
    const stk_loader_options *o = in->o;
    stk_device_options d = { .name = o->device,
                             .memory_limit = o->device_memory_limit,
                             .sm_limit = o->sm_limit,
                             .transfers = o->in_flight,
                             .outputs = o->n_outputs };

    (void)so_far;
    if (!o->device || !strcmp(o->device, "cpu"))
        return 0;
    STK_TRY(stk_device_open(&out->device, &d, err));
    out->decode = !o->decode || !strcmp(o->decode, "gpu");
    out->alone = o->decode && out->decode;
    return 0;
}

void stk_plan_gpu_fini(stk_plan_gpu *p)
{
    stk_device_close(&p->device);
}

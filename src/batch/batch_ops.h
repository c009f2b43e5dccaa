/* SPDX-License-Identifier: Apache-2.0 */
/* batch_ops.h - ops on whole batches, such as mixup, which the option batch_ops= names.  The plan
 * makes a stage of each (loader/plan_batching.c), and workers run the stages. */
#ifndef STOKER_BATCH_OPS_H
#define STOKER_BATCH_OPS_H

#include "batch/stack.h"

typedef struct stk_batch_op stk_batch_op; /* Read-only once planned. */

typedef struct stk_batch_op_input { /* what ops are planned for */
    const stk_out_plan *outputs;
    uint32_t n_outputs;
    uint64_t seed;
} stk_batch_op_input;

/* Plans the ops of `text` ("mixup(image, label) | ...") for batches of these outputs.  *out is an
 * array of *n pointers that the caller owns; it borrows nothing. */
int stk_batch_ops_plan(stk_batch_op ***out, uint32_t *n, const char *text,
                       const stk_batch_op_input *in, stk_error *err);
void stk_batch_ops_close(stk_batch_op ***ops, uint32_t n);

/* A stk_stage.run; `state` is a stk_batch_op. */
int stk_batch_op_run(void *state, stk_batch *b, stk_ticket *ticket, stk_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* blocks.h - shuffle="block": an order that reads shards block by block, and the warning that an
 * exact shuffle reads remote shards sample by sample. The plan of the schedule calls it. */
#ifndef STOKER_BLOCKS_H
#define STOKER_BLOCKS_H

#include "loader/parts.h"

/* The block order for shuffle="block"; the sample set is complete. */
int stk_blocks_plan(stk_schedule *s, const stk_plan_input *in, const stk_plan_data *data,
                    stk_error *err);
/* Cuts the same samples into other streams.  Call while no slot is open. */
int stk_blocks_replan(stk_schedule *s, const stk_plan_data *data, uint64_t streams, uint64_t window,
                      stk_error *err);
/* STK_EINVAL: options of blocks are given for another order. */
int stk_blocks_check(const stk_loader_options *o, stk_error *err);
/* Logs one line if an exact shuffle reads remote shards sample by sample. */
int stk_blocks_warn(const stk_schedule *s, const stk_plan *so_far, stk_error *err);

#endif

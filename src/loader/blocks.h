/* SPDX-License-Identifier: Apache-2.0 */
/* blocks.h - shuffle="block": an order that reads shards block by block, and the warning that an
 * exact shuffle reads remote shards sample by sample. The plan of the schedule calls it. */
#ifndef STOKER_BLOCKS_H
#define STOKER_BLOCKS_H

#include "loader/parts.h"

/* The block order for shuffle="block"; the sample set is complete. */
int stk_blocks_plan(stk_schedule *s, const stk_plan_input *in, const stk_plan_data *data,
                    stk_error *err);
/* The same samples in other streams; no slot is open. */
int stk_blocks_replan(stk_schedule *s, const stk_plan_data *data, uint64_t streams, uint64_t window,
                      stk_error *err);
/* Refuse options of blocks for other orders. */
int stk_blocks_check(const stk_loader_options *o, stk_error *err);
/* One line, where an exact shuffle reads remote shards sample by sample. */
int stk_blocks_warn(const stk_schedule *s, const stk_plan *so_far, stk_error *err);

#endif

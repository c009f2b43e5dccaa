/* SPDX-License-Identifier: Apache-2.0 */
/* blocks.h - what a loader's order has to know of shards: where they begin, and that they are far
 * away. */
#ifndef STOKER_BLOCKS_H
#define STOKER_BLOCKS_H

#include "pipe/engine.h"

/* The block order for shuffle="block"; the roster and the deal stand. */
int stk_blocks_plan(stk_engine *e, const stk_loader_options *o, stk_error *err);
/* The same samples in other streams; nothing is under way. */
int stk_blocks_replan(stk_engine *e, uint64_t streams, uint64_t window, stk_error *err);
/* Refuse options of blocks for other orders. */
int stk_blocks_check(const stk_loader_options *o, stk_error *err);
/* One line, where an exact shuffle reads remote shards sample by sample. */
int stk_blocks_warn(const stk_engine *e, stk_error *err);

#endif

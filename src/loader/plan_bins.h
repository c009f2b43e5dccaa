/* SPDX-License-Identifier: Apache-2.0 */
/* plan_bins.h - plans batches by length: max_tokens, bucket and pack().  plan_schedule.c calls
 * it. */
#ifndef STOKER_PLAN_BINS_H
#define STOKER_PLAN_BINS_H

#include "loader/parts.h"

/* STK_EINVAL: options contradict each other. */
int stk_bins_check(const stk_loader_options *o, stk_error *err);
/* Fills s->lengths, s->binning and s->bins if the options ask for them.  Set, order and split must
 * be complete. */
int stk_bins_plan(stk_schedule *s, const stk_plan_input *in, const stk_plan *so_far,
                  stk_error *err);
/* Changes the window, and how many positions or batches stay together.  Call while no slot is
 * open. */
int stk_bins_replan(stk_schedule *s, uint64_t window, uint64_t together, stk_error *err);

#endif

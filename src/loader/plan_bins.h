/* SPDX-License-Identifier: Apache-2.0 */
/* plan_bins.h - max_tokens, bucket and pack(): batches that are made by length. */
#ifndef STOKER_PLAN_BINS_H
#define STOKER_PLAN_BINS_H

#include "loader/parts.h"

/* Refuse what contradicts itself. */
int stk_bins_check(const stk_loader_options *o, stk_error *err);
/* s->lengths, s->binning and s->bins, where the options ask for them; set, order and split are
 * complete. */
int stk_bins_plan(stk_schedule *s, const stk_plan_input *in, const stk_plan *so_far,
                  stk_error *err);
/* Another window, and other positions or batches that stay together; no slot is open. */
int stk_bins_replan(stk_schedule *s, uint64_t window, uint64_t together, stk_error *err);

#endif

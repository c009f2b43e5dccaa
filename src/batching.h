/* SPDX-License-Identifier: Apache-2.0 */
/* batching.h - max_tokens and bucket: batches that are made by length. */
#ifndef STOKER_BATCHING_H
#define STOKER_BATCHING_H

#include "pipe/engine.h"

/* Refuse what contradicts itself. */
int stk_batching_check(const stk_loader_options *o, stk_error *err);
/* e->schedule.bins, where the options ask for them; chains, deal and order stand.  A budget says how many
 * rows a batch may have: e->plan.batching.tickets. */
int stk_batching_plan(stk_engine *e, const stk_loader_options *o, stk_error *err);
/* Another window, and other positions or batches that stay together; nothing is under way. */
int stk_batching_replan(stk_engine *e, uint64_t window, uint64_t together, stk_error *err);
/* Memory for the positions of slots, whose number is known. */
int stk_batching_slots(stk_engine *e, stk_error *err);
void stk_batching_fini(stk_engine *e);

#endif

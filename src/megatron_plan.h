/* SPDX-License-Identifier: Apache-2.0 */
/* megatron_plan.h - shuffle="megatron": what a loader has to be for that, and its order. */
#ifndef STOKER_MEGATRON_PLAN_H
#define STOKER_MEGATRON_PLAN_H

#include "pipe/engine.h"

/* Makes e->schedule.order and the numbers of samples; outputs are planned. */
int stk_megatron_plan(stk_engine *e, const stk_loader_options *o, stk_error *err);

#endif

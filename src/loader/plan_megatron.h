/* SPDX-License-Identifier: Apache-2.0 */
/* plan_megatron.h - shuffle="megatron": what a loader has to be for that, and its order. */
#ifndef STOKER_PLAN_MEGATRON_H
#define STOKER_PLAN_MEGATRON_H

#include "loader/parts.h"

/* Makes the order, the sample set and the numbers of samples. */
int stk_megatron_plan(stk_schedule *s, const stk_plan_input *in, const stk_plan *so_far,
                      stk_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* plan_megatron.h - plans shuffle="megatron": checks that the loader suits it, and makes its order.
 * plan_schedule.c calls it. */
#ifndef STOKER_PLAN_MEGATRON_H
#define STOKER_PLAN_MEGATRON_H

#include "loader/parts.h"

/* Makes the order, the sample set and the numbers of samples. */
int stk_megatron_plan(stk_schedule *s, const stk_plan_input *in, const stk_plan *so_far,
                      stk_error *err);

#endif

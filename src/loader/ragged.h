/* SPDX-License-Identifier: Apache-2.0 */
/* ragged.h - decides what happens to rows of different shape: padded, packed, or a list.
 * plan_chains.c calls it. */
#ifndef STOKER_RAGGED_H
#define STOKER_RAGGED_H

#include "loader/parts.h"

/* For output i, whose chain is compiled.  A batch has at most `rows` rows. */
int stk_ragged_plan(stk_plan_chains *out, uint32_t i, const stk_plan_input *in, uint32_t rows,
                    stk_error *err);

#endif

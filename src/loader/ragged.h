/* SPDX-License-Identifier: Apache-2.0 */
/* ragged.h - what becomes of outputs whose rows may differ in shape: padded, packed, or a list. */
#ifndef STOKER_RAGGED_H
#define STOKER_RAGGED_H

#include "loader/parts.h"

/* Output i, whose chain is compiled; a batch has at most `rows`. */
int stk_ragged_plan(stk_plan_chains *out, uint32_t i, const stk_plan_input *in, uint32_t rows,
                    stk_error *err);

#endif

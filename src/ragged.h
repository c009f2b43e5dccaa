/* SPDX-License-Identifier: Apache-2.0 */
/* ragged.h - what becomes of outputs whose rows may differ in shape: padded, packed, or a list. */
#ifndef STOKER_RAGGED_H
#define STOKER_RAGGED_H

#include "pipe/engine.h"

/* Output i, whose chain is planned. */
int stk_ragged_plan(const stk_engine *e, uint32_t i, const stk_loader_options *o, stk_error *err);

#endif

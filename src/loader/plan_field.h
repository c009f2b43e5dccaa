/* SPDX-License-Identifier: Apache-2.0 */
/* plan_field.h - the chain of an output that only names a field with a known type, such as a
 * column of a table. plan_chains.c calls it. */
#ifndef STOKER_PLAN_FIELD_H
#define STOKER_PLAN_FIELD_H

#include "row/plan.h"

/* stk_chain_head.type; cookie: the stk_plan_data. */
int stk_plan_field_type(void *cookie, const stk_chain *c, stk_field_type *out, stk_error *err);

/* The fallback of a chain whose field has a type, as it would be stored; the chain owns it. */
int stk_plan_field_default(stk_chain *c, stk_bytes *out, stk_error *err);

#endif

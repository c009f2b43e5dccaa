/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h - a chain's text compiled to what a worker does for one row.  Read-only once planned. */
#ifndef STOKER_PLAN_H
#define STOKER_PLAN_H

#include "chain/chain.h"
#include "fetch/request.h"

/* Compile `text` for the output `name`, with what the registry has (NULL: the process's).  The
 * registry is read-only from now on and must stay as long as the chain. */
int stk_chain_plan(stk_chain *c, stk_registry *r, const char *name, const char *text,
                   stk_error *err);
/* The same for rows of arrays: types and shapes are theirs (array_plan.h). */
int stk_chain_plan_rows(stk_chain *c, stk_registry *r, const char *name, const char *text,
                        stk_error *err);
void stk_chain_fini(stk_chain *c);

/* How a field that feeds the chain is to be unpacked first (from(x) found x.gz); NULL: it is
 * not. */
const stk_codec *stk_chain_packed(const stk_chain *c, const stk_field *f);

/* Which field of a sample (by schema) feeds a chain, for one data set: UINT16_MAX where none
 * does.  STK_END: none does anywhere, but the chain has a default.  from(x) takes the field x,
 * else x.gz, else x.zst. */
int stk_chain_bind(const stk_chain *c, const char *output, const stk_index *ix, uint16_t **field_of,
                   stk_error *err);

#endif

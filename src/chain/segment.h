/* SPDX-License-Identifier: Apache-2.0 */
/* segment.h - plans the ops of a chain on pictures as passes of geometry, with changes of 8-bit
 * pixels between them.  chain.c calls it for each step.
 *
 *     picture -> view -> tile -> actions -> view -> ... -> type, layout, row -> actions in the row
 *
 * A crop, resize or mirror begins a new pass if an op before it changed pixels, so that it sees
 * what that op made.  It also begins one if it cannot be combined with the geometry before it
 * (stk_view.split), which can depend on the picture's size.  Otherwise there is one view, and its
 * pass goes straight into the row (kern/sample.h). */
#ifndef STOKER_CHAIN_SEGMENT_H
#define STOKER_CHAIN_SEGMENT_H

#include "base/expr.h"
#include "chain/chain.h"

/* Plans one op on pictures, with the chains inside it, into *s. */
int stk_segment_plan(stk_chain *c, stk_step *s, const stk_call *call, uint8_t number,
                     stk_error *err);
void stk_segment_fini(stk_step *s); /* frees all but s->state, which is the caller's */
/* chain.c: the error for a name that no step has.  Returns STK_EINVAL. */
int stk_chain_unknown(const stk_registry *r, const char *name, stk_error *err);
/* chain.c: adds a call to the chain's fingerprints.  exact: name of the argument that is always
 * counted as 1; NULL: none is. */
void stk_chain_print_call(stk_chain *c, const char *name, uint32_t version, const stk_args *args,
                          const char *exact);

int stk_view_is_identity(const stk_view *v); /* 1: it shows its source unchanged */

#endif

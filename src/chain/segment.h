/* SPDX-License-Identifier: Apache-2.0 */
/* segment.h - a chain that changes pixels: passes of geometry with work on 8-bit tiles between
 * them.
 *
 *     picture -> view -> tile -> actions -> view -> ... -> type, layout, row -> actions in the row
 *
 * A crop, resize or mirror after an op that changes pixels sees what that op made, as it would one
 * after the other; so does one that does not go together with the geometry before it
 * (stk_view.split), which can depend on the picture's size.  Else there is one view, and its pass
 * goes straight into the row (kern/sample.h). */
#ifndef STOKER_CHAIN_SEGMENT_H
#define STOKER_CHAIN_SEGMENT_H

#include "base/expr.h"
#include "chain/chain.h"

/* One op on pictures, and what is inside of it, into *s. */
int stk_segment_plan(stk_chain *c, stk_step *s, const stk_call *call, uint8_t number,
                     stk_error *err);
void stk_segment_fini(stk_step *s); /* all but s->state, which is the caller's */
/* A name that is not a step's (chain.c). */
int stk_chain_unknown(const stk_registry *r, const char *name, stk_error *err);
/* A call joins the fingerprints (chain.c); `exact`: the argument of pictures that is always 1. */
void stk_chain_print_call(stk_chain *c, const char *name, uint32_t version, const stk_args *args,
                          const char *exact);

int stk_view_is_identity(const stk_view *v); /* it shows its source as it is */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* deep.h - pictures of one channel of 16 bits under the views and warps of all others.
 *
 * A pixel has four bytes here too: a uint32_t whose lower half is the value, so that all that moves
 * pixels moves these.  Resizes are Pillow's of its mode I;16: first across, then down, in doubles,
 * rounded to 16 bits after each.  Plain C: such pictures are few and mostly small. */
#ifndef STOKER_KERN_DEEP_H
#define STOKER_KERN_DEEP_H

#include "base/err.h"
#include "kern/pixels.h"

/* What the view sees of `px`, which covers stk_sample_need(), into memory of the scratch; outside
 * of the picture the view's first fill, as a value.  0 or STK_ENOMEM. */
int stk_deep_sample(const stk_view *view, const stk_pixels *px, stk_tile *out, stk_scratch *scratch,
                    stk_error *err);
/* STK_ACT_WARP on a whole tile; t->data moves into memory of the scratch.  0 or STK_ENOMEM. */
int stk_deep_warp(const stk_action *a, stk_tile *t, stk_scratch *scratch, stk_error *err);

#endif

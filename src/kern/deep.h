/* SPDX-License-Identifier: Apache-2.0 */
/* deep.h - applies views and warps to pictures of one channel of 16 bits.  row/row_deep.c calls it.
 *
 * A pixel has four bytes here too: a uint32_t whose lower half is the value, so that all that moves
 * pixels moves these.  Resizes are Pillow's of its mode I;16: first across, then down, in doubles,
 * rounded to 16 bits after each.  Plain C: such pictures are few and mostly small. */
#ifndef STOKER_KERN_DEEP_H
#define STOKER_KERN_DEEP_H

#include "base/err.h"
#include "kern/pixels.h"

/* Makes *out, in scratch memory, of what the view sees of `px`, which covers stk_sample_need().
 * Pixels outside of the picture get the view's first fill.  0 or STK_ENOMEM. */
int stk_deep_sample(const stk_view *view, const stk_pixels *px, stk_tile *out, stk_scratch *scratch,
                    stk_error *err);
/* STK_ACT_WARP on a whole tile; t->data moves into memory of the scratch.  0 or STK_ENOMEM. */
int stk_deep_warp(const stk_action *a, stk_tile *t, stk_scratch *scratch, stk_error *err);

#endif

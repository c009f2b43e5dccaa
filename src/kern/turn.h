/* SPDX-License-Identifier: Apache-2.0 */
/* turn.h - turns a picture as it is stored upright, by EXIF's orientation.  Rows and transforms
 * call it.
 *
 * `turn` is that orientation, 1..8.  Decoders only see the stored picture, and ops only the upright
 * one.  The turn comes before sampling, so that the result is that of Pillow's exif_transpose()
 * followed by crop and resize. */
#ifndef STOKER_TURN_H
#define STOKER_TURN_H

#include "base/err.h"
#include "kern/pixels.h"

/* A filed picture's size, upright.  (The way back is the same.) */
stk_image_info stk_turn_size(unsigned turn, stk_image_info filed);

/* Where the upright rectangle `need` is in a filed picture of that size. */
stk_rect stk_turn_rect(unsigned turn, stk_image_info filed, const stk_rect *need);

/* *px covers stk_turn_rect(need) and becomes `need`, upright, in scratch.  Returns 0 or
 * STK_ENOMEM. */
int stk_turn_pixels(unsigned turn, stk_image_info filed, const stk_rect *need, stk_scratch *scratch,
                    stk_pixels *px, stk_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* boxes.h - places of a picture, as its draws move them: keypoints and boxes.
 *
 * A box is the rectangle around its corners, cut off at the canvas after each view and warp, as
 * torchvision does it. */
#ifndef STOKER_CHAIN_BOXES_H
#define STOKER_CHAIN_BOXES_H

#include "chain/chain.h"

typedef struct stk_spot {
    double x, y;
} stk_spot;

typedef struct stk_box {
    double x0, y0, x1, y1;
    double visible; /* share of it that is left */
} stk_box;

/* Of a picture as it is filed, w x h: where EXIF's turn puts it. */
stk_spot stk_spot_upright(unsigned turn, double w, double h, stk_spot p);

/* Answers whether it stayed on the canvas, its edge included, through all views and warps: what was
 * cut away does not come back where a later step widens the canvas. */
int stk_spot_move(const stk_draws *d, stk_spot *p);
void stk_box_upright(unsigned turn, double w, double h, stk_box *b);
void stk_box_move(const stk_draws *d, stk_box *b);

#endif

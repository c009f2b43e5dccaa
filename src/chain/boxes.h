/* SPDX-License-Identifier: Apache-2.0 */
/* boxes.h - moves keypoints and boxes of a picture to where the picture's draws put them.  Rows
 * with like() call it (row/row_boxes.c), and so does chain/draw.c for ops that look at boxes.
 *
 * A box becomes the rectangle around its moved corners.  After each view and warp it is cut off at
 * the canvas, as in torchvision. */
#ifndef STOKER_CHAIN_BOXES_H
#define STOKER_CHAIN_BOXES_H

#include "chain/chain.h"

typedef struct stk_spot { /* a keypoint, in pixels */
    double x, y;
} stk_spot;

typedef struct stk_box { /* pixels: left, top, right, bottom */
    double x0, y0, x1, y1;
    double visible; /* share of its area that was not cut off, 0..1 */
} stk_box;

/* Where the point is after EXIF's turn of a picture that is stored as w x h pixels. */
stk_spot stk_spot_upright(unsigned turn, double w, double h, stk_spot p);

/* 1: the point stayed on the canvas, edge included, through all views and warps.  A point that was
 * cut off does not come back when a later step makes the canvas larger. */
int stk_spot_move(const stk_draws *d, stk_spot *p);
void stk_box_upright(unsigned turn, double w, double h, stk_box *b);
void stk_box_move(const stk_draws *d, stk_box *b);

#endif

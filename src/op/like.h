/* SPDX-License-Identifier: Apache-2.0 */
/* like.h - the arguments of the step like(output), by which masks, boxes and keypoints follow the
 * geometry of their picture.  The plan sets them; rows read them (row/row_picture.c,
 * row/row_boxes.c). */
#ifndef STOKER_OP_LIKE_H
#define STOKER_OP_LIKE_H

#include "op/spec.h"

#define STK_LIKE_POINTS 64 /* keypoints that flip_idx can name */

typedef enum stk_box_format { STK_BOX_XYXY, STK_BOX_XYWH, STK_BOX_CXCYWH } stk_box_format;

typedef struct stk_like {
    /* pictures: filter and fill of this output; if not given, those of the other output */
    uint8_t filter_given, filter, fill_given, fill[3];
    stk_box_format format;
    int normalized; /* true if coordinates are shares of width and height */
    int points;     /* true if rows are (x, y) or (x, y, visibility), not boxes */
    int view_given;
    uint32_t view; /* with views(): number of the view that points and boxes follow */
    /* boxes below any of these are dropped: pixels of a side, pixels of the area, visible share */
    double min_size, min_area, min_visible;
    /* keypoint i of a mirrored picture is keypoint flip[i] of the original; n_flip 0: not given */
    uint32_t n_flip;
    uint8_t flip[STK_LIKE_POINTS];
} stk_like;

/* For an output that follows another one with like(): takes filter and fill of `from` if `l` does
 * not set them.  If `from` holds indices (STK_MODE_INDEX), nothing is taken. */
void stk_like_inherit(stk_like *l, const stk_like *from, stk_mode mode);

/* Copies the name of the output that the like() of a chain names.  0: the chain has no like(). */
int stk_like_leader(const char *chain, char *name, size_t room);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* like.h - the arguments of the step like(output): this row is moved as the row of another output
 * was. Masks, boxes and keypoints use it to follow their picture. */
#ifndef STOKER_OP_LIKE_H
#define STOKER_OP_LIKE_H

#include "op/spec.h"

#define STK_LIKE_POINTS 64 /* keypoints that flip_idx can name */

typedef enum stk_box_format { STK_BOX_XYXY, STK_BOX_XYWH, STK_BOX_CXCYWH } stk_box_format;

typedef struct stk_like {
    /* Of pictures: what like() says, or a mask needs.  Not given: the leader's own. */
    uint8_t filter_given, filter, fill_given, fill[3];
    stk_box_format format;
    int normalized; /* coordinates are shares of width and height */
    int points;     /* rows of (x, y) or (x, y, visibility), not boxes */
    int view_given;
    uint32_t view; /* of the picture's, that numbers follow */
    double min_size, min_area, min_visible;
    /* keypoint i of a mirrored picture is its keypoint flip[i]; 0: none is named */
    uint32_t n_flip;
    uint8_t flip[STK_LIKE_POINTS];
} stk_like;

/* `l` names a picture that is like() another one, too: what that one says of filter and fill holds
 * for it where it says nothing itself.  What its indices need does not. */
void stk_like_inherit(stk_like *l, const stk_like *from, stk_mode mode);

/* The output that the like() of a chain names, in `name`; 0: it has none. */
int stk_like_leader(const char *chain, char *name, size_t room);

#endif

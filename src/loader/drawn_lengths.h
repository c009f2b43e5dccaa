/* SPDX-License-Identifier: Apache-2.0 */
/* drawn_lengths.h - how many patches a picture has at a position of an epoch, where random crops
 * decide: drawn from its size, without reading it. */
#ifndef STOKER_DRAWN_LENGTHS_H
#define STOKER_DRAWN_LENGTHS_H

#include "loader/parts.h"

#define STK_SIZE_UNKNOWN UINT32_MAX /* a picture of unknown size counts as stk_drawn_part.bound */

typedef struct stk_drawn_part { /* an output whose numbers of patches are drawn */
    uint32_t output, part;      /* part: its number in binning.parts */
    uint32_t bound;             /* most patches of a picture */
    uint32_t multiple;          /* rows are rounded up to it; 0: they are not */
    uint32_t *size;             /* by global id: stk_size_packed(); 0: the sample has no picture */
} stk_drawn_part;

/* Width and height of a picture in one number. */
static inline uint32_t stk_size_packed(uint32_t w, uint32_t h)
{
    return w < 65536 && h < 65535 ? w << 16 | h : STK_SIZE_UNKNOWN;
}

/* Sets s->binning.drawn for n parts.  Takes the arrays part[i].size and zeros the parts; on failure
 * they stay the caller's. */
int stk_drawn_plan(stk_schedule *s, const stk_plan *so_far, stk_drawn_part *part, uint32_t n,
                   stk_error *err);

#endif

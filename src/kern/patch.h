/* SPDX-License-Identifier: Apache-2.0 */
/* patch.h - where a pixel goes in a picture that patches() cuts into patches, for the host and a
 * GPU.
 *
 * Patches come row by row, or in blocks; inside a patch values are (frame, y, x, channel), or
 * (channel, frame, y, x).  A picture has whole patches and whole blocks of them. */
#ifndef STOKER_PATCH_H
#define STOKER_PATCH_H

#include "kern/taps_core.h"

/* Elements from channel to channel of a pixel, from frame to frame, and of a patch. */
static STK_HD inline uint32_t stk_patch_channel(const stk_patch_spec *p)
{
    return p->first ? p->side * p->side * p->frames : 1;
}

static STK_HD inline uint32_t stk_patch_frame(const stk_patch_spec *p)
{
    return p->side * p->side * (p->first ? 1u : 3u);
}

static STK_HD inline uint32_t stk_patch_values(const stk_patch_spec *p)
{
    return p->side * p->side * 3u * p->frames;
}

/* The element of channel 0 of pixel (x, y) in the first frame; the picture is w pixels wide. */
static STK_HD inline uint64_t stk_patch_at(const stk_patch_spec *p, uint32_t w, uint32_t x,
                                           uint32_t y)
{
    uint32_t px = x / p->side, py = y / p->side, wide = w / p->side, b = p->block;
    uint32_t inside = y % p->side * p->side + x % p->side, n = py * wide + px;

    if (b > 1) /* blocks above, blocks before it, its place in the block */
        n = (py - py % b) * wide + px / b * b * b + py % b * b + px % b;
    return (uint64_t)n * stk_patch_values(p) + inside * (p->first ? 1u : 3u);
}

#endif

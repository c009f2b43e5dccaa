/* SPDX-License-Identifier: Apache-2.0 */
/* turn.c - a turn is: axes exchanged or not, then each filed axis mirrored or not. */
#include "kern/turn.h"

#include <string.h>

static int exchanges(unsigned turn)
{
    return turn >= 5;
}

static int mirrors_x(unsigned turn)
{
    return turn == 2 || turn == 3 || turn == 7 || turn == 8;
}

static int mirrors_y(unsigned turn)
{
    return turn == 3 || turn == 4 || turn == 6 || turn == 7;
}

stk_image_info stk_turn_size(unsigned turn, stk_image_info filed)
{
    return exchanges(turn) ? (stk_image_info){ filed.height, filed.width } : filed;
}

stk_rect stk_turn_rect(unsigned turn, stk_image_info filed, const stk_rect *need)
{
    stk_rect r = exchanges(turn) ? (stk_rect){ need->y, need->x, need->h, need->w } : *need;

    if (mirrors_x(turn))
        r.x = filed.width - r.x - r.w;
    if (mirrors_y(turn))
        r.y = filed.height - r.y - r.h;
    return r;
}

int stk_turn_pixels(unsigned turn, stk_image_info filed, const stk_rect *need, stk_scratch *scratch,
                    stk_pixels *px, stk_error *err)
{
    stk_rect r = stk_turn_rect(turn, filed, need);
    ptrdiff_t step_x = mirrors_x(turn) ? -4 : 4;
    ptrdiff_t step_y = mirrors_y(turn) ? -(ptrdiff_t)px->stride : (ptrdiff_t)px->stride;
    ptrdiff_t across = exchanges(turn) ? step_y : step_x, down = exchanges(turn) ? step_x : step_y;
    uint32_t first_x = mirrors_x(turn) ? r.x + r.w - 1 : r.x;
    uint32_t first_y = mirrors_y(turn) ? r.y + r.h - 1 : r.y;
    const uint8_t *first = px->data + (size_t)(first_y - px->area.y) * px->stride +
                           (size_t)(first_x - px->area.x) * 4;
    size_t stride = ((size_t)need->w * 4 + 63) & ~(size_t)63;
    uint8_t *out = stk_scratch_get(scratch, stride * need->h);

    if (!out)
        return stk_fail(err, STK_ENOMEM, "no memory for %ux%u pixels", need->w, need->h);
    for (uint32_t y = 0; y < need->h; y++)
        for (uint32_t x = 0; x < need->w; x++)
            memcpy(out + y * stride + (size_t)x * 4, first + down * y + across * x, 4);
    *px = (stk_pixels){ .data = out, .stride = stride, .area = *need };
    return 0;
}

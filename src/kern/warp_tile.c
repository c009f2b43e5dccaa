/* SPDX-License-Identifier: Apache-2.0 */
/* warp_tile.c - a tile under a matrix, row by row: warp.h has the arithmetic. */
#include "kern/warp.h"

#include "base/err.h"
#include "base/mem.h"

/* One row; of a flat matrix places are steps, and sums of whole numbers have no roundoff. */
static void warp_row(const stk_warp *m, const stk_tile *t, uint32_t y, uint32_t *to)
{
    int64_t sx, sy;

    stk_warp_at(m, 0, y, &sx, &sy);
    for (uint32_t x = 0; x < t->width; x++) {
        if (!m->flat)
            stk_warp_at(m, x, y, &sx, &sy);
        to[x] = stk_warp_pixel(m, t->data, t->width, t->height, sx, sy);
        sx += m->a;
        sy += m->d;
    }
}

int stk_warp_run(const stk_action *a, stk_tile *t, stk_scratch *scratch, stk_error *err)
{
    size_t size = (size_t)t->width * t->height * sizeof *t->data;
    const stk_warp m = stk_warp_of(a);
    uint32_t *to = stk_scratch_get(scratch, size);

    if (!to)
        return stk_fail(err, STK_ENOMEM, "no memory for %zu bytes", size);
    for (uint32_t y = 0; y < t->height; y++)
        warp_row(&m, t, y, to + (size_t)y * t->width);
    t->data = to;
    return 0;
}

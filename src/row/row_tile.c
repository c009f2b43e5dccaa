/* SPDX-License-Identifier: Apache-2.0 */
/* row_tile.c - a picture whose chain changes pixels: its passes and tiles are the chain's segments
 * (row/tiles.h), all else is row_picture.c's. */
#include "row/row.h"
#include "row/tiles.h"

int stk_tile_sample(stk_row *x, stk_draws *d, const stk_sample_job *job, stk_error *err)
{
    uint64_t most = x->plan->policy.max_pixels;

    for (uint32_t i = 0; i < d->n_passes; i++)
        if ((uint64_t)d->view[i].vis_w * d->view[i].vis_h > most)
            return stk_fail(err, STK_ELIMIT, "it would be %ux%u, over the limit of max_pixels",
                            d->view[i].vis_w, d->view[i].vis_h);
    return stk_segments_run(stk_row_chain(x), x->plan->rows.kern, d, job, &x->m->scratch, err);
}

const stk_row_work stk_work_tile = { .name = "tile",
                                     .make = stk_picture_make,
                                     .sample = stk_tile_sample };

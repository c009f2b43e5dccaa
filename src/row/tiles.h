/* SPDX-License-Identifier: Apache-2.0 */
/* tiles.h - runs the passes and pixel ops that a chain drew (chain/segment.h) on one picture, tile
 * by tile.  Rows and stk_transform call it. */
#ifndef STOKER_ROW_TILES_H
#define STOKER_ROW_TILES_H

#include "chain/chain.h"
#include "kern/sample.h"

uint32_t stk_draws_in_row(const stk_draws *d); /* the first action in the row, or n_actions */

/* Make the row: job->pixels are the picture's that the first view touches, job->view is the last
 * view, job->dst has room for it.  Returns 0 or STK_ENOMEM. */
int stk_segments_run(const stk_chain *c, const stk_kern *kern, const stk_draws *d,
                     const stk_sample_job *job, stk_scratch *scratch, stk_error *err);

#endif

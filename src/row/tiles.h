/* SPDX-License-Identifier: Apache-2.0 */
/* tiles.h - runs the passes and pixel ops that a chain drew (chain/segment.h) on one picture, tile
 * by tile.  Rows and stk_transform call it. */
#ifndef STOKER_ROW_TILES_H
#define STOKER_ROW_TILES_H

#include "chain/chain.h"
#include "kern/sample.h"

/* Index of the first action that changes the finished row; n_actions: there is none. */
uint32_t stk_draws_in_row(const stk_draws *d);

/* Makes the row at job->dst.  job->pixels has what the first view sees of the picture; job->view is
 * the last view.  Returns 0 or STK_ENOMEM. */
int stk_segments_run(const stk_chain *c, const stk_kern *kern, const stk_draws *d,
                     const stk_sample_job *job, stk_scratch *scratch, stk_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* pack_fit.h - which documents share a row: lengths in, row numbers out.  A pure function. */
#ifndef STOKER_PACK_FIT_H
#define STOKER_PACK_FIT_H

#include "base/err.h"
#include "base/mem.h"

#define STK_MAX_PACKED ((uint32_t)1 << 24) /* tokens of a row */

typedef enum stk_fit {
    STK_FIT_FIRST = 1, /* as they come, each into the first row that has room */
    STK_FIT_BEST = 2   /* the longest first, each into the row that it leaves the least room in;
                      * of several such rows the one that was filled last */
} stk_fit;

typedef struct stk_packer stk_packer; /* Thread: one. */

/* For rows of `block` and up to `most` lengths at a time. */
int stk_packer_open(stk_packer **out, stk_fit fit, uint32_t block, uint32_t most, stk_error *err);

/* row[i]: the row of length i, which is in 1..block; returns the number of rows.  Rows are numbered
 * in the order of the first length that each has. */
uint32_t stk_packer_run(stk_packer *p, const uint32_t *length, uint32_t n, uint32_t *row);
void stk_packer_close(stk_packer **p);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* pack_fit.h - decides which documents share a row: lengths in, row numbers out.  A pure function;
 * bins.c and plan_documents.c call it. */
#ifndef STOKER_PACK_FIT_H
#define STOKER_PACK_FIT_H

#include "base/err.h"
#include "base/mem.h"

#define STK_MAX_PACKED ((uint32_t)1 << 24) /* tokens of a row */

typedef enum stk_fit {
    /* In their order, each goes into the first row with room. */
    STK_FIT_FIRST = 1,
    /* Longest first, each goes into the row where it leaves the least room; among equal rows, the
     * one filled last. */
    STK_FIT_BEST = 2,
    /* As few rows as possible, about equally full: longest first, each goes into the emptiest row.
     * If that does not work out, some rows have one length more than others, of the shortest; else
     * STK_FIT_BEST is used.  For lengths of about the same size, of which best-fit puts the longest
     * together and leaves rows with no fitting last one. */
    STK_FIT_EVEN = 3
} stk_fit;

typedef struct stk_packer stk_packer; /* Thread: one. */

/* A packer for rows of `block` tokens, and at most `most` lengths in one run. */
int stk_packer_open(stk_packer **out, stk_fit fit, uint32_t block, uint32_t most, stk_error *err);

/* Sets row[i] to the row of length i, which is in 1..block, and returns the number of rows.  Rows
 * are numbered by their first length. */
uint32_t stk_packer_run(stk_packer *p, const uint32_t *length, uint32_t n, uint32_t *row);
void stk_packer_close(stk_packer **p);

#endif

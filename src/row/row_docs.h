/* SPDX-License-Identifier: Apache-2.0 */
/* row_docs.h - finds the documents of a row when documents are packed into rows again in every
 * epoch (repack=true).  A worker calls it before it reads the row. */
#ifndef STOKER_ROW_DOCS_H
#define STOKER_ROW_DOCS_H

#include "order/schedule.h"
#include "row/plan_array.h"

typedef struct stk_row_docs { /* the documents of one row.  Thread: worker.  Starts as zeros. */
    uint32_t n, cap;          /* documents of the row; entries that each array below has room for */
    uint64_t *position;       /* position of each document in the epoch */
    uint32_t *part;           /* which piece of its sample each is; STK_BIN_REST: the last one */
    stk_where *where;         /* the sample of each */
    stk_document *doc;        /* its tokens in the array */
} stk_row_docs;

/* Fills *d with the documents of row `bin` of an epoch. */
int stk_row_docs_find(stk_row_docs *d, const stk_schedule *s, const stk_packed *packed,
                      uint64_t epoch, uint64_t bin, stk_error *err);
void stk_row_docs_fini(stk_row_docs *d);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* row_docs.h - finds the documents of a row when documents are packed into rows again in every
 * epoch (repack). A worker calls it before it reads the row. */
#ifndef STOKER_ROW_DOCS_H
#define STOKER_ROW_DOCS_H

#include "order/schedule.h"
#include "row/plan_array.h"

typedef struct stk_row_docs { /* a worker's: the documents of a row that is packed again */
    uint32_t n, cap;
    uint64_t *position;
    uint32_t *part;
    stk_where *where;
    stk_document *doc;
} stk_row_docs;

/* repack: the documents of row `bin` of an epoch. */
int stk_row_docs_find(stk_row_docs *d, const stk_schedule *s, const stk_packed *packed,
                      uint64_t epoch, uint64_t bin, stk_error *err);
void stk_row_docs_fini(stk_row_docs *d);

#endif

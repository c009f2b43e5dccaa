/* SPDX-License-Identifier: Apache-2.0 */
/* array_plan.h - chains of arrays turned into a plan, and the documents of rows that are packed again
 * in every epoch. */
#ifndef STOKER_ARRAY_PLAN_H
#define STOKER_ARRAY_PLAN_H

#include "order/order.h"
#include "plan/plan_array.h"

typedef struct stk_row_docs { /* a worker's: the documents of a row that is packed anew */
    uint32_t n, cap;
    uint64_t *position;
    uint32_t *part;
    stk_where *where;
    stk_document *doc;
} stk_row_docs;

struct stk_engine;
/* Chains are planned (stk_chain_plan_rows); makes the outputs' shapes and the number of samples. */
int stk_array_plan_open(struct stk_engine *e, stk_error *err);
void stk_array_plan_close(stk_array_plan **p);

/* pack_plan.c: documents side by side, in place of windows. */
int stk_pack_plan(struct stk_engine *e, stk_error *err);
int stk_pack_settle(struct stk_engine *e, uint32_t output, stk_error *err); /* its type is known */
void stk_pack_close(stk_array_plan *p);
/* repack: the documents of row `bin` of an epoch. */
int stk_row_docs_find(struct stk_engine *e, stk_row_docs *d, uint64_t epoch, uint64_t bin,
                      stk_error *err);
void stk_row_docs_fini(stk_row_docs *d);

#endif

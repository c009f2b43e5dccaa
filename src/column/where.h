/* SPDX-License-Identifier: Apache-2.0 */
/* where.h - conditions on columns in the form of SQL, for where=: parses them, and finds the
 * samples that satisfy them.  where.c calls it for stk_dataset_where().
 *
 *     width >= 300 AND (label IN (1, 2) OR split = 'train') AND note IS NOT NULL
 *
 * It knows comparisons, IN, BETWEEN, LIKE, IS NULL, AND, OR and NOT, with the three truth values of
 * SQL: a comparison with NULL is neither true nor false, and only true rows are taken.  A condition
 * is evaluated for 1,024 rows at a time, node by node. */
#ifndef STOKER_WHERE_H
#define STOKER_WHERE_H

#include <stoker/dataset.h>

#include "base/err.h"

#define STK_WHERE_ROWS 1024u

typedef enum stk_where_type {
    STK_WHERE_I64 = 1,
    STK_WHERE_F64,
    STK_WHERE_TEXT,
    /* only for stk_condition_settle(): a column of F64 whose values are 32-bit floats */
    STK_WHERE_F32,
} stk_where_type;

typedef struct stk_where_values { /* values of one column, for up to STK_WHERE_ROWS rows */
    stk_where_type type;
    uint8_t valid[STK_WHERE_ROWS];
    union {
        int64_t i[STK_WHERE_ROWS];
        double f[STK_WHERE_ROWS];
        stk_bytes text[STK_WHERE_ROWS];
    } v;
} stk_where_values;

typedef struct stk_where_node stk_where_node;
typedef struct stk_condition { /* read-only once parsed */
    stk_where_node *node;
    uint32_t n, cap, root; /* nodes; number of the root */
    char **column;         /* names of the columns, each once; node.column is an index of it */
    uint32_t n_columns;
} stk_condition;

int stk_condition_parse(stk_condition *out, const char *text, stk_error *err);
void stk_condition_fini(stk_condition *c);
/* Call when the types of the columns are known: converts literals to them.  STK_EINVAL: one does
 * not fit. */
int stk_condition_settle(stk_condition *c, const stk_where_type *types, stk_error *err);
/* Sets take[i] to 1 for each of n rows for which the condition is true, else to 0.  room: work
 * memory of c->n * STK_WHERE_ROWS bytes. */
void stk_condition_eval(const stk_condition *c, const stk_where_values *const *columns, uint32_t n,
                        uint8_t *room, uint8_t *take);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* where.h - a condition on columns, as SQL writes it: which samples satisfy it.
 *
 *     width >= 300 AND (label IN (1, 2) OR split = 'train') AND note IS NOT NULL
 *
 * Comparisons, IN, BETWEEN, LIKE, IS NULL, AND, OR, NOT, with the three values of SQL: a comparison
 * with NULL is neither true nor false, and only what is true is taken.  Rows are looked at 1,024 at
 * a time, a node of the condition after the other. */
#ifndef STOKER_WHERE_H
#define STOKER_WHERE_H

#include <stoker/dataset.h>

#include "base/err.h"

#define STK_WHERE_ROWS 1024u

typedef enum stk_where_type {
    STK_WHERE_I64 = 1,
    STK_WHERE_F64,
    STK_WHERE_TEXT,
    /* of a column, for stk_condition_settle(): its values are F64 that a float holds */
    STK_WHERE_F32,
} stk_where_type;

typedef struct stk_where_values { /* of one column, for up to STK_WHERE_ROWS rows */
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
    uint32_t n, cap, root;
    char **column; /* names, each once; node.column counts them */
    uint32_t n_columns;
} stk_condition;

int stk_condition_parse(stk_condition *out, const char *text, stk_error *err);
void stk_condition_fini(stk_condition *c);
/* Types of its columns are known now: literals take them, or it is an error. */
int stk_condition_settle(stk_condition *c, const stk_where_type *types, stk_error *err);
/* n rows: take[i] is 1 where it is true.  `room`: c->n * STK_WHERE_ROWS bytes. */
void stk_condition_eval(const stk_condition *c, const stk_where_values *const *columns, uint32_t n,
                        uint8_t *room, uint8_t *take);

#endif

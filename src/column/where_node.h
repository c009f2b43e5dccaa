/* SPDX-License-Identifier: Apache-2.0 */
/* where_node.h - the tree of a condition, between the parser and the evaluator. */
#ifndef STOKER_WHERE_NODE_H
#define STOKER_WHERE_NODE_H

#include "column/where.h"

typedef enum stk_where_kind {
    STK_WHERE_OR = 1,
    STK_WHERE_AND,
    STK_WHERE_NOT,
    STK_WHERE_COMPARE, /* a op b */
    STK_WHERE_IS_NULL, /* a */
    STK_WHERE_LIKE,    /* a LIKE b's text */
    STK_WHERE_TRUTH,   /* a number that is not 0 */
    STK_WHERE_COLUMN,  /* a leaf: no truth of its own */
    STK_WHERE_LITERAL,
} stk_where_kind;

enum { STK_WHERE_EQ, STK_WHERE_NE, STK_WHERE_LT, STK_WHERE_LE, STK_WHERE_GT, STK_WHERE_GE };

enum { STK_WHERE_EXACT, STK_WHERE_AS_F64, STK_WHERE_AS_F32 };

struct stk_where_node {
    stk_where_kind kind;
    int op;
    uint32_t a, b;       /* nodes before this one */
    uint32_t column;     /* COLUMN */
    stk_where_type type; /* COLUMN once settled, LITERAL; 0: NULL */
    uint8_t narrow;      /* COLUMN: of floats of 32 bits */
    uint8_t as;          /* COMPARE: what both sides become first, once settled */
    uint8_t is_double;   /* LITERAL: written with an exponent */
    int8_t huge;         /* LITERAL: a whole number above (1) or below (-1) those of 64 bits */
    int64_t i;
    double f;
    char *text; /* LITERAL; owned */
    size_t len;
};

#endif

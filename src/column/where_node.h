/* SPDX-License-Identifier: Apache-2.0 */
/* where_node.h - the nodes of a condition's tree, which the parser makes and the evaluator reads.
 * Private to the files where*.c. */
#ifndef STOKER_WHERE_NODE_H
#define STOKER_WHERE_NODE_H

#include "column/where.h"

typedef enum stk_where_kind {
    STK_WHERE_OR = 1,
    STK_WHERE_AND,
    STK_WHERE_NOT,
    STK_WHERE_COMPARE, /* a op b */
    STK_WHERE_IS_NULL, /* a IS NULL */
    STK_WHERE_LIKE,    /* a LIKE b, which is a literal */
    STK_WHERE_TRUTH,   /* a is a number that is not 0 */
    STK_WHERE_COLUMN,  /* the value of a column */
    STK_WHERE_LITERAL,
} stk_where_kind;

enum { STK_WHERE_EQ, STK_WHERE_NE, STK_WHERE_LT, STK_WHERE_LE, STK_WHERE_GT, STK_WHERE_GE };

enum { STK_WHERE_EXACT, STK_WHERE_AS_F64, STK_WHERE_AS_F32 };

struct stk_where_node {
    stk_where_kind kind;
    int op;
    uint32_t a, b;       /* numbers of the operands, which come before this node */
    uint32_t column;     /* COLUMN: index in stk_condition.column */
    stk_where_type type; /* LITERAL, and COLUMN once settled; 0: NULL */
    uint8_t narrow;      /* COLUMN: true if its values are 32-bit floats */
    uint8_t as;          /* COMPARE, once settled: the type in which both sides are compared */
    uint8_t is_double;   /* LITERAL: true if it is written with an exponent */
    int8_t huge;         /* LITERAL: an integer above (1) or below (-1) the range of 64 bits */
    int64_t i;
    double f;
    char *text; /* LITERAL: its text, owned */
    size_t len;
};

#endif

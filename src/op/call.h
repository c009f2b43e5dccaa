/* SPDX-License-Identifier: Apache-2.0 */
/* call.h - the arguments of the step call(function), and the check of what the function returned.
 * The plan of a chain sets the arguments; the worker that runs the function reads them
 * (row/row_call.c). */
#ifndef STOKER_OP_CALL_H
#define STOKER_OP_CALL_H

#include "op/spec.h"

#define STK_CALL_NAME 160

typedef struct stk_call_step {
    char function[STK_CALL_NAME]; /* its name */
    uint32_t which;               /* number among functions of the same name */
    uint32_t number;              /* number by which stk_caller knows it; set at open */
    stk_kind kind;                /* what it is given */
    stk_out_kind out;
    /* what it is given: a picture's type and layout, if to() or normalize set them */
    stk_spec made;
    stk_kind gives;              /* what it returns */
    stk_dtype dtype;             /* type of numbers that it returns */
    uint32_t ndim;               /* sides of shape= */
    int64_t shape[STK_MAX_DIMS]; /* -1: this side may have any length */
    int shaped;                  /* true if shape= is given; otherwise numbers may have any shape */
} stk_call_step;

/* 0: numbers that a function returned have the type and shape that the chain says.  Otherwise
 * STK_ECORRUPT. */
int stk_call_check(const stk_call_step *c, const stk_value_row *row, stk_error *err);

#endif

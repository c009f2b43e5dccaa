/* SPDX-License-Identifier: Apache-2.0 */
/* call.h - the arguments of the step call(function), and the check of what the function returned.
 * The plan sets them up; the worker that runs the function reads them. */
#ifndef STOKER_OP_CALL_H
#define STOKER_OP_CALL_H

#include "op/spec.h"

#define STK_CALL_NAME 160

typedef struct stk_call_step {
    char function[STK_CALL_NAME];
    uint32_t which;  /* of several functions of this name */
    uint32_t number; /* what the caller knows it by; set when the loader is opened */
    stk_kind kind;   /* what it is given ... */
    stk_out_kind out;
    /* ... and how: of a picture its type and layout, where to() or normalize say them */
    stk_spec made;
    stk_kind gives;  /* ... and gives */
    stk_dtype dtype; /* of numbers */
    uint32_t ndim;   /* ... and their shape, a side -1 is any; 0 without `shaped`: any shape */
    int64_t shape[STK_MAX_DIMS];
    int shaped;
} stk_call_step;

/* Numbers that a function gave: of the type and shape that the chain says. */
int stk_call_check(const stk_call_step *c, const stk_value_row *row, stk_error *err);

#endif

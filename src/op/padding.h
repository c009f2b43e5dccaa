/* SPDX-License-Identifier: Apache-2.0 */
/* padding.h - reads the arguments of the ops that pad: `padding`, `fill`, `padding_mode`.  Their
 * plan() functions call it. */
#ifndef STOKER_OP_PADDING_H
#define STOKER_OP_PADDING_H

#include "op/spec.h"

/* Reads the argument `name`: one number, (left and right, top and bottom) or (left, top, right,
 * bottom), as in torchvision. */
int stk_spec_padding(const stk_args *args, const char *op, const char *name, stk_padding *out,
                     stk_error *err);

/* Reads the arguments `fill` and, if the op has one, `padding_mode`. */
int stk_spec_fill(const stk_args *args, const char *op, stk_padding *out, stk_error *err);

#define STK_ARG_FILL(value)                                                                        \
    {                                                                                              \
        "fill", STK_ARG_INTS, value, "0 to 255: gray, or (red, green, blue)"                       \
    }
#define STK_ARG_PADDING_MODE                                                                       \
    {                                                                                              \
        "padding_mode", STK_ARG_NAME, "constant", "constant, edge, reflect or symmetric"           \
    }

#endif

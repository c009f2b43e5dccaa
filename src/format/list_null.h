/* SPDX-License-Identifier: Apache-2.0 */
/* list_null.h - what stands for a null in a list: NaN among floats, and among whole numbers what
 * the user said (stk_dataset_options.list_null). */
#ifndef STOKER_FORMAT_LIST_NULL_H
#define STOKER_FORMAT_LIST_NULL_H

#include "base/err.h"

#define STK_LIST_NULL                                                                              \
    "the list has a null, for which its type has no value: say what stands for it, as in "         \
    "stoker.open(..., null=-1)"

/* 1: a number that is not a float. */
int stk_list_null_is_whole(stk_dtype t);
/* STK_EINVAL: lists of this type have no such value. */
int stk_list_null_check(int64_t value, stk_dtype t, const char *column, stk_error *err);
/* One value; fill: NULL, or what whole numbers have.  0: there is none, and zero is written. */
int stk_list_null_put(stk_dtype t, const int64_t *fill, uint8_t *dst);

#endif

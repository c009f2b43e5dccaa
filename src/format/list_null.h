/* SPDX-License-Identifier: Apache-2.0 */
/* list_null.h - replaces nulls in lists: by NaN among floats, and among integers by the value that
 * the user gave (stk_dataset_options.list_null).  Readers of Arrow and Parquet call it. */
#ifndef STOKER_FORMAT_LIST_NULL_H
#define STOKER_FORMAT_LIST_NULL_H

#include "base/err.h"

#define STK_LIST_NULL                                                                              \
    "the list has a null, for which its type has no value: say what stands for it, as in "         \
    "stoker.open(..., null=-1)"

/* 1: an integer type. */
int stk_list_null_is_whole(stk_dtype t);
/* STK_EINVAL: lists of this type can't hold the value. */
int stk_list_null_check(int64_t value, stk_dtype t, const char *column, stk_error *err);
/* Writes the value for one null.  fill: the value for integers; NULL: there is none.  0: nothing
 * replaces a null, and zero is written. */
int stk_list_null_put(stk_dtype t, const int64_t *fill, uint8_t *dst);

#endif

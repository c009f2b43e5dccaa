/* SPDX-License-Identifier: Apache-2.0 */
/* numeral.h - reads numbers written as text.  The codecs `int` and `float` and the typed columns of
 * an index call it. */
#ifndef STOKER_BASE_NUMERAL_H
#define STOKER_BASE_NUMERAL_H

#include "base/err.h"

#define STK_NUMBER_TEXT 512 /* most characters of a number, with its NUL */

stk_bytes stk_trimmed(stk_bytes s); /* without white space at both ends */

/* 1: all of `s` is a number, which *out is set to.  0: it is not.  -1: it is an integer that does
 * not fit 64 bits, or has STK_NUMBER_TEXT characters or more. */
int stk_number_i64(stk_bytes s, int64_t *out);
int stk_number_f64(stk_bytes s, double *out);

#endif

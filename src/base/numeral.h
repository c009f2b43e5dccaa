/* SPDX-License-Identifier: Apache-2.0 */
/* numeral.h - numbers written as text: `int` and `float` of a chain, typed columns of an index. */
#ifndef STOKER_BASE_NUMERAL_H
#define STOKER_BASE_NUMERAL_H

#include "base/err.h"

#define STK_NUMBER_TEXT 512 /* characters of a number, and the zero after them */

stk_bytes stk_trimmed(stk_bytes s); /* without white space at both ends */

/* All of `s` as a number: 1; 0: it is none; -1: an integer that does not fit 64 bits, a number of
 * STK_NUMBER_TEXT characters or more. */
int stk_number_i64(stk_bytes s, int64_t *out);
int stk_number_f64(stk_bytes s, double *out);

#endif

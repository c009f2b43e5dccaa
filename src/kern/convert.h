/* SPDX-License-Identifier: Apache-2.0 */
/* convert.h - converts elements of one type to another: widens tokens, turns rows of arrays into
 * floats.  Rows, columns and joined fields call it.
 *
 * The compiler turns the loops into vectors: convert_body.h is compiled once for any machine and
 * once for AVX2, and both give the same bits.  Integers that the new type can't hold are reported,
 * never wrapped. */
#ifndef STOKER_KERN_CONVERT_H
#define STOKER_KERN_CONVERT_H

#include "base/cpu.h"

#include <stoker/base.h>

/* Converts n elements.  src may be unaligned; dst is aligned and does not overlap it.  Not 0: some
 * value does not fit, and dst has no meaning. */
typedef int (*stk_convert_fn)(void *dst, const void *src, size_t n);

/* NULL: there is no such conversion (floats to integers, or from == to). */
stk_convert_fn stk_convert_find(stk_cpu level, stk_dtype from, stk_dtype to);

stk_convert_fn stk_convert_c(stk_dtype from, stk_dtype to);
stk_convert_fn stk_convert_avx2(stk_dtype from, stk_dtype to);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* convert.h - elements of one type as another: tokens widened, rows of arrays made floats.
 *
 * Loops that a compiler turns into vectors: convert_body.h is compiled once for any machine and
 * once for AVX2, and both give the same bits.  Whole numbers that the new type cannot hold are
 * told of and never wrapped in silence. */
#ifndef STOKER_KERN_CONVERT_H
#define STOKER_KERN_CONVERT_H

#include "base/cpu.h"

#include <stoker/base.h>

/* n elements; src may be unaligned, dst is not and does not overlap it.  0, or not 0: some value
 * does not fit, and dst has no meaning. */
typedef int (*stk_convert_fn)(void *dst, const void *src, size_t n);

/* NULL: there is none (floats to whole numbers, or from == to). */
stk_convert_fn stk_convert_find(stk_cpu level, stk_dtype from, stk_dtype to);

stk_convert_fn stk_convert_c(stk_dtype from, stk_dtype to);
stk_convert_fn stk_convert_avx2(stk_dtype from, stk_dtype to);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* convert.c - the loops of convert.h for any machine, and the choice by level. */
#define STK_CONVERT stk_convert_c
#include "kern/convert_body.h"

#include "config.h"

stk_convert_fn stk_convert_find(stk_cpu level, stk_dtype from, stk_dtype to)
{
#if STK_HAVE_AVX2
    if (level >= STK_CPU_AVX2)
        return stk_convert_avx2(from, to);
#endif
    (void)level;
    return stk_convert_c(from, to);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* dot.c - the loop of dot.h for any machine, and the choice by level. */
#define STK_DOT_NAME stk_dot_c
#include "sound/dot_body.h"

#include "config.h"

stk_dot_fn stk_dot_find(stk_cpu level)
{
#if STK_HAVE_AVX2
    if (level >= STK_CPU_AVX2)
        return stk_dot_avx2;
#endif
    (void)level;
    return stk_dot_c;
}

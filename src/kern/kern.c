/* SPDX-License-Identifier: Apache-2.0 */
/* kern.c - which table serves a CPU level.
 *
 * The level is the caller's (stk_cpu_level() at plan time), so that tests can run every
 * table that was built and a loader's choice can't change while it runs. */
#include "kern/kern.h"

#include "config.h"

const stk_kern *stk_kern_table(stk_cpu level)
{
#if STK_HAVE_AVX2
    if (level >= STK_CPU_AVX512 && __builtin_cpu_supports("avx512vbmi") &&
        __builtin_cpu_supports("avx512vnni"))
        return &stk_kern_vbmi;
    if (level >= STK_CPU_AVX512)
        return &stk_kern_avx512;
    if (level >= STK_CPU_AVX2)
        return &stk_kern_avx2;
#endif
    (void)level;
    return &stk_kern_c;
}

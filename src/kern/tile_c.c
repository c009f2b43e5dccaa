/* SPDX-License-Identifier: Apache-2.0 */
/* tile_c.c - the loops of tile.h for any machine, and the choice by level. */
#define STK_TILE stk_tile_c
#include "kern/tile_body.h"

#include "config.h"

const stk_tile_kern *stk_tile_kern_of(stk_cpu level)
{
#if STK_HAVE_AVX2
    if (level >= STK_CPU_AVX512)
        return &stk_tile_avx512;
    if (level >= STK_CPU_AVX2)
        return &stk_tile_avx2;
#endif
    (void)level;
    return &stk_tile_c;
}

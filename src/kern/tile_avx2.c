/* SPDX-License-Identifier: Apache-2.0 */
/* tile_avx2.c - the same loops, compiled with AVX2. */
#define STK_TILE stk_tile_avx2
#include "kern/tile_body.h"

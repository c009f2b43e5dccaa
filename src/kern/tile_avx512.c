/* SPDX-License-Identifier: Apache-2.0 */
/* tile_avx512.c - the same loops, compiled with AVX-512. */
#define STK_TILE stk_tile_avx512
#include "kern/tile_body.h"

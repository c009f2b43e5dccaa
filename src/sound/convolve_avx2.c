/* SPDX-License-Identifier: Apache-2.0 */
/* convolve_avx2.c - blocks of convolve.h for machines with AVX2. */
#define STK_CONVOLVE stk_convolve_block_avx2
#include "sound/convolve_body.h"

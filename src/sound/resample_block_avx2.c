/* SPDX-License-Identifier: Apache-2.0 */
/* resample_block_avx2.c - blocks of resample_fft.h for machines with AVX2. */
#define STK_BLOCK stk_block_resample_avx2
#include "sound/resample_block_body.h"

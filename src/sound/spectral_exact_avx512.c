/* SPDX-License-Identifier: Apache-2.0 */
/* spectral_exact_avx512.c - the same, compiled with AVX-512: twice as many
 * frames at a time. */
#define STK_EXACT stk_spectral_exact_avx512
#define STK_WIDTH 8
#include "sound/spectral_exact_body.h"

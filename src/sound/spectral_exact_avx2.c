/* SPDX-License-Identifier: Apache-2.0 */
/* spectral_exact_avx2.c - the same, compiled with AVX2. */
#define STK_EXACT stk_spectral_exact_avx2
#define STK_WIDTH 4
#include "sound/spectral_exact_body.h"

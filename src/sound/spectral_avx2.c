/* SPDX-License-Identifier: Apache-2.0 */
/* spectral_avx2.c - the same frames, compiled with AVX2. */
#define STK_BLOCK stk_spectral_block_avx2
#define STK_FINISH stk_spectral_finish_avx2
#include "sound/spectral_body.h"

/* SPDX-License-Identifier: Apache-2.0 */
/* spectral_exact_c.c - frames in double precision for any machine. */
#define STK_EXACT stk_spectral_exact_c
#define STK_WIDTH 4
#include "sound/spectral_exact_body.h"

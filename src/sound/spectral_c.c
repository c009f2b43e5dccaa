/* SPDX-License-Identifier: Apache-2.0 */
/* spectral_c.c - frames for any machine. */
#define STK_BLOCK stk_spectral_block_c
#define STK_FINISH stk_spectral_finish_c
#include "sound/spectral_body.h"

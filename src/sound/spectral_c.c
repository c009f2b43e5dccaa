/* SPDX-License-Identifier: Apache-2.0 */
/* spectral_c.c - frames for any machine. */
#define STK_BLOCK stk_spectral_block_c
#include "sound/spectral_body.h"

/* SPDX-License-Identifier: Apache-2.0 */
/* resample_block_c.c - blocks of resample_fft.h for any machine. */
#define STK_BLOCK stk_block_resample_c
#include "sound/resample_block_body.h"

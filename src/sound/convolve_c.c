/* SPDX-License-Identifier: Apache-2.0 */
/* convolve_c.c - blocks of convolve.h for any machine. */
#define STK_CONVOLVE stk_convolve_block_c
#include "sound/convolve_body.h"

/* SPDX-License-Identifier: Apache-2.0 */
/* tile_vbmi.c - the same loops, compiled with AVX-512 and VBMI: tables are quick. */
#define STK_TILE stk_tile_vbmi
#include "kern/tile_body.h"

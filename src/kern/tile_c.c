/* SPDX-License-Identifier: Apache-2.0 */
/* tile_c.c - the loops of tile.h for any machine. */
#define STK_TILE stk_tile_c
#include "kern/tile_body.h"

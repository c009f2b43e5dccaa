/* SPDX-License-Identifier: Apache-2.0 */
/* tile_big.h - actions that see more than one pixel at a time.  tile_run.c calls it.  Each makes
 * the tile in other memory; the next such action uses the first memory again. */
#ifndef STOKER_KERN_TILE_BIG_H
#define STOKER_KERN_TILE_BIG_H

#include "kern/tile.h"

int stk_tile_big(const stk_tile_kern *k, const stk_action *a, stk_tile *t, stk_tile_room *room,
                 stk_error *err);

/* Changes a tile as saving it as JPEG of that quality (1..100) would; `memory` has
 * stk_tile_jpeg_bytes(). */
size_t stk_tile_jpeg_bytes(const stk_tile *t);
void stk_tile_jpeg(const stk_tile_kern *k, stk_tile *t, uint32_t quality, uint8_t *memory);

#endif

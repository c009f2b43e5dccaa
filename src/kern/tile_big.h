/* SPDX-License-Identifier: Apache-2.0 */
/* tile_big.h - actions that see more than one pixel at a time: they make the tile in other memory, which
 * the next of them uses in turn. */
#ifndef STOKER_KERN_TILE_BIG_H
#define STOKER_KERN_TILE_BIG_H

#include "kern/tile.h"

int stk_tile_big(const stk_tile_kern *k, const stk_action *a, stk_tile *t, stk_tile_room *room,
                 stk_error *err);

#endif

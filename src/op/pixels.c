/* SPDX-License-Identifier: Apache-2.0 */
/* pixels.c - the ops of pixels.def: each has its arguments, plan and draw in its own file, beside
 * the kernel that CPU and GPU share. */
#include "kern/tile.h"
#include "op/random.h"

#define STK_PIXEL_OPS
#include "op/pixels.def"

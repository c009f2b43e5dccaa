/* SPDX-License-Identifier: Apache-2.0 */
/* pixel.h - the kernels of the ops that op/pixels.def lists, for the host and a GPU. */
#ifndef STOKER_KERN_PIXEL_H
#define STOKER_KERN_PIXEL_H

#include <stoker/plugin.h>

#include "kern/pil.h"
#include "kern/point.h"

#define STK_PIXEL_KERNELS
#include "op/pixels.def"

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* exif.h - how a camera was held, read from a picture's bytes. */
#ifndef STOKER_EXIF_H
#define STOKER_EXIF_H

#include "base/err.h"

/* EXIF's orientation, 1..8, of a JPEG, PNG (also as text, a raw profile) or WebP; 1 where it says
 * nothing or nonsense. */
unsigned stk_exif_turn(stk_bytes picture);

#endif

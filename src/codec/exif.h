/* SPDX-License-Identifier: Apache-2.0 */
/* exif.h - reads from a picture's EXIF data how the camera was held, so that the picture can be
 * turned upright. */
#ifndef STOKER_EXIF_H
#define STOKER_EXIF_H

#include "base/err.h"

/* EXIF's orientation, 1..8, of a JPEG, PNG (also as text, a raw profile) or WebP; 1 where it says
 * nothing or nonsense. */
unsigned stk_exif_turn(stk_bytes picture);
/* The same of a picture's first bytes; 0: only the rest can say. */
unsigned stk_exif_turn_head(stk_bytes head);

#endif

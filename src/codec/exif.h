/* SPDX-License-Identifier: Apache-2.0 */
/* exif.h - reads from a picture's EXIF data how the camera was held, so that the picture can be
 * turned upright.  Rows, and whatever measures pictures, call it (row/row_picture.c,
 * column/media_look.c). */
#ifndef STOKER_EXIF_H
#define STOKER_EXIF_H

#include "base/err.h"

/* The EXIF orientation, 1..8, of a JPEG, PNG (also as text in a raw profile) or WebP.  1: there is
 * none, or it is invalid. */
unsigned stk_exif_turn(stk_bytes picture);
/* The same from a picture's first bytes.  0: it may be in the rest. */
unsigned stk_exif_turn_head(stk_bytes head);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_turbo.h - libjpeg-turbo after the decoder's table: every JPEG there is.  jpeg.c asks it for
 * those that our own decoder does not read. */
#ifndef STOKER_JPEG_TURBO_H
#define STOKER_JPEG_TURBO_H

#include "base/err.h"

extern const stk_decoder stk_jpeg_turbo;

#endif

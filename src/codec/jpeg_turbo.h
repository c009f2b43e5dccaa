/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_turbo.h - decodes any JPEG with libjpeg-turbo.  jpeg.c calls it for those that our own
 * decoder does not take. */
#ifndef STOKER_JPEG_TURBO_H
#define STOKER_JPEG_TURBO_H

#include "codec/decoders.h"

int stk_jpeg_turbo_open(void **ctx, stk_error *err);
void stk_jpeg_turbo_close(void *ctx);
int stk_jpeg_turbo_header(void *ctx, stk_bytes in, stk_media_info *out, stk_error *err);
/* May be called several times after a header() that succeeded. */
int stk_jpeg_turbo_pixels(void *ctx, const stk_decode_request *ask, stk_scratch *scratch,
                          stk_pixels *out, stk_error *err);

#endif

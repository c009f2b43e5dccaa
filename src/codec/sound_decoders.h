/* SPDX-License-Identifier: Apache-2.0 */
/* sound_decoders.h - finds the decoder for the sound of a file.  A file with pictures and sound has
 * a decoder for each.  Rows and tools call it for chains with sound. */
#ifndef STOKER_CODEC_SOUND_DECODERS_H
#define STOKER_CODEC_SOUND_DECODERS_H

#include "codec/decoders.h"

/* Of stk_decoder.can, beside STK_DECODER_GPU: the sound of files that another decoder may know.
 * stk_decoders_find() passes it over. */
enum { STK_DECODER_SOUND_TRACK = 2 };

/* As stk_decoders_find(), but returns the decoder of a file's sound if there is one.  `in` is all
 * of the field. */
int stk_decoders_find_sound(stk_decoders *d, stk_bytes in, const stk_decoder **out, void **ctx,
                            stk_error *err);

#endif

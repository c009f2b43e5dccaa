/* SPDX-License-Identifier: Apache-2.0 */
/* codec.h - declares the codecs and decoders that registry.def lists, for code that names one. */
#ifndef STOKER_CODEC_H
#define STOKER_CODEC_H

#include "base/err.h"
#include "base/mem.h"

#define STK_CODEC(name) extern const stk_codec stk_codec_##name;
#define STK_DECODER(name) extern const stk_decoder stk_decoder_##name;
#include "registry.def"

#endif

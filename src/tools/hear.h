/* SPDX-License-Identifier: Apache-2.0 */
/* hear.h - measures how a recording sounds: loudness, clipping, silence.  `stoker describe` calls
 * it. */
#ifndef STOKER_TOOLS_HEAR_H
#define STOKER_TOOLS_HEAR_H

#include "base/scratch.h"
#include "codec/decoders.h"

typedef struct stk_heard {
    double seconds;
    double loudness; /* root of the mean square of all samples, in dB of full scale; or -200 */
    double clipped;  /* share of samples at full scale */
    double silent;   /* share of pieces of 20 ms in which no sample is above -60 dB */
} stk_heard;

/* Decodes `in` and measures it.  1: *out and *info are set.  0: it is not sound.  Negative: a bad
 * recording. */
int stk_hear(stk_decoders *decoders, stk_scratch *scratch, stk_bytes in, stk_media_info *info,
             stk_heard *out);

#endif

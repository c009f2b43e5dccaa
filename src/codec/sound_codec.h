/* SPDX-License-Identifier: Apache-2.0 */
/* sound_codec.h - what `sound` in a chain says, and the resamplers that a worker keeps for it. */
#ifndef STOKER_CODEC_SOUND_CODEC_H
#define STOKER_CODEC_SOUND_CODEC_H

#include "sound/resample.h"

#define STK_CHANNEL_ALL -1
#define STK_CHANNEL_RANDOM -2

typedef struct stk_sound {  /* the codec's state */
    uint32_t rate;          /* 0: as it is stored */
    int mono;               /* the mean of all channels */
    int channel;            /* this one; or STK_CHANNEL_* */
    stk_resample_kind kind; /* of the filter */
} stk_sound;

/* The resampler of a recording of that rate, of a worker's context.  NULL: it has the rate that is
 * wanted. */
int stk_sound_resampler(void *ctx, const stk_sound *s, uint32_t from, const stk_rate_change **out,
                        stk_error *err);
int stk_resample_kind_of(const char *name, stk_resample_kind *out, stk_error *err);

#endif

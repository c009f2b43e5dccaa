/* SPDX-License-Identifier: Apache-2.0 */
/* sound_codec.h - what `sound` in a chain says, and the resamplers that a worker keeps for it. */
#ifndef STOKER_CODEC_SOUND_CODEC_H
#define STOKER_CODEC_SOUND_CODEC_H

#include "sound/resample.h"

#define STK_CHANNEL_ALL -1
#define STK_CHANNEL_RANDOM -2
#define STK_CHANNEL_FIELD -3

typedef struct stk_sound {  /* the codec's state */
    uint32_t rate;          /* 0: as it is stored */
    int mono;               /* the mean of all channels */
    int channel;            /* this one; or STK_CHANNEL_* */
    stk_resample_kind kind; /* of the filter */
    char *field;            /* STK_CHANNEL_FIELD: whose value it is */
    double *given;          /* ... for every sample of the loader, once that is bound */
} stk_sound;

/* sound(channel=FIELD): `values`, one for each sample of the loader, are the state's from now
 * on. */
void stk_sound_bind(void *state, double *values);

/* The resampler of a recording of that rate, of a worker's context.  NULL: it has the rate that is
 * wanted. */
int stk_sound_resampler(void *ctx, const stk_sound *s, uint32_t from, const stk_rate_change **out,
                        stk_error *err);
int stk_resample_kind_of(const char *name, stk_resample_kind *out, stk_error *err);

#endif

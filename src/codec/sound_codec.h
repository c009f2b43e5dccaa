/* SPDX-License-Identifier: Apache-2.0 */
/* sound_codec.h - the arguments of the codec `sound`, and the resamplers that a worker has for it.
 * The plan sets the arguments; rows and transforms read them (row/sound_span.c). */
#ifndef STOKER_CODEC_SOUND_CODEC_H
#define STOKER_CODEC_SOUND_CODEC_H

#include "sound/resample.h"

#define STK_CHANNEL_ALL -1
#define STK_CHANNEL_RANDOM -2
#define STK_CHANNEL_FIELD -3

typedef struct stk_sound {  /* the codec's state */
    uint32_t rate;          /* samples per second; 0: as it is stored */
    int mono;               /* true if rows are the mean of all channels */
    int channel;            /* number of the channel that is taken; or STK_CHANNEL_* */
    stk_resample_kind kind; /* filter for resampling */
    char *field;            /* STK_CHANNEL_FIELD: the field that has the channel's number */
    double *given;          /* its value for every sample of the loader; NULL: not bound yet */
} stk_sound;

/* For sound(channel=FIELD): sets the values of the field, one for each sample of the loader.  The
 * state owns them from now on. */
void stk_sound_bind(void *state, double *values);

/* Sets *out to the resampler for a recording of rate `from`; ctx: the worker's.  NULL: it has the
 * wanted rate already. */
int stk_sound_resampler(void *ctx, const stk_sound *s, uint32_t from, const stk_rate_change **out,
                        stk_error *err);
int stk_resample_kind_of(const char *name, stk_resample_kind *out, stk_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* sound_span.h - draws which samples of a recording a row is made of, and turns them into the
 * row's first value: channels chosen or mixed, resampled, with silence added.  Loaders
 * (row_sound.c) and transforms (tools/transform_sound.c) call it, so both make the same bits. */
#ifndef STOKER_ROW_SOUND_SPAN_H
#define STOKER_ROW_SOUND_SPAN_H

#include "chain/chain.h"
#include "codec/sound_codec.h"

typedef struct stk_clip_span { /* the time that an output's clip shows, for part(of=...) */
    uint64_t row;              /* number of its sample + 1 */
    int timed;                 /* 0: its frames have no times */
    double from, seconds;      /* seconds: its beginning in the video, and its length */
} stk_clip_span;

typedef struct stk_sound_draw { /* what one row of sound draws from */
    const stk_chain *chain;     /* has a step `sound` */
    stk_address at;             /* address of its random numbers; path is not read */
    uint64_t sample;            /* its number among all of the loader's; or STK_NO_SAMPLE */
    uint64_t most;              /* most samples of a row, in and out; more is STK_ELIMIT */
    void *ctx;                  /* the worker's state of `sound` */
    const stk_clip_span *clip;  /* with part(of=...): the clip's time; NULL: not known */
} stk_sound_draw;

typedef struct stk_sound_span { /* what is wanted of a recording */
    stk_media_info info;
    double rate;                     /* samples per second of the row */
    uint64_t from, to;               /* samples of the row, counted at that rate */
    uint64_t lead, tail;             /* samples of silence before and after them */
    uint64_t in_from, in_to;         /* samples of the recording that they are made of */
    const stk_rate_change *resample; /* NULL: the rate stays */
    int channel;                     /* this one; STK_CHANNEL_ALL: all, or their mean */
    uint32_t channels;               /* channels of the row */
} stk_sound_span;

/* Draws all fields but info, which the caller sets before. */
int stk_sound_span_draw(stk_sound_span *s, const stk_sound_draw *d, stk_error *err);

typedef struct stk_sound_taker { /* collects what a decoder sends */
    const stk_sound_span *s;
    float *out;      /* s->channels rows of in_to - in_from samples, in scratch memory */
    uint64_t filled; /* samples received so far, per channel */
} stk_sound_taker;

int stk_sound_taker_init(stk_sound_taker *t, const stk_sound_span *s, stk_scratch *scratch,
                         stk_error *err);
/* A stk_media_sink's function for sound; cookie: the taker. */
int stk_sound_take(void *cookie, uint64_t first, const float *const *channel, uint32_t n,
                   stk_error *err);

/* Sets *row to what the next steps of the chain get.  All samples must have been received. */
int stk_sound_span_row(const stk_sound_taker *t, const stk_sound_draw *d, stk_scratch *scratch,
                       stk_value_row *row, stk_error *err);

/* Sets *rng to the random numbers of a step. */
static inline void stk_sound_rng(const stk_sound_draw *d, const stk_step *s, stk_rng *rng)
{
    stk_address at = d->at;

    at.path = stk_path(s->number);
    stk_rng_at(rng, &at);
}

#endif

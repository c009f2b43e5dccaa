/* SPDX-License-Identifier: Apache-2.0 */
/* sound_span.h - which samples of a recording a chain's row is made of, and the row's first samples
 * made of them.  Loaders (row_sound.c) and transforms (tools/transform_sound.c) share it, so that
 * both have the same bits. */
#ifndef STOKER_ROW_SOUND_SPAN_H
#define STOKER_ROW_SOUND_SPAN_H

#include "chain/chain.h"
#include "codec/sound_codec.h"

typedef struct stk_clip_span { /* while an output's clip is shown: part(of=...) */
    uint64_t row;              /* number of its sample + 1 */
    int timed;                 /* 0: its frames have no times */
    double from, seconds;
} stk_clip_span;

typedef struct stk_sound_draw { /* who draws */
    const stk_chain *chain;     /* has `sound` */
    stk_address at;             /* path is not read */
    uint64_t sample;            /* its number among all of the loader's; or STK_NO_SAMPLE */
    uint64_t most;              /* samples of a row, in and out: more is STK_ELIMIT */
    void *ctx;                  /* the worker's, of `sound` */
    const stk_clip_span *clip;  /* of a chain with part(of=...) */
} stk_sound_draw;

typedef struct stk_sound_span { /* what is wanted of a recording */
    stk_media_info info;
    double rate;                     /* of what comes out */
    uint64_t from, to;               /* samples of it */
    uint64_t lead, tail;             /* samples of silence before and after them */
    uint64_t in_from, in_to;         /* samples of the recording that hold them */
    const stk_rate_change *resample; /* NULL: none is needed */
    int channel;                     /* this one; STK_CHANNEL_ALL: all, or their mean */
    uint32_t channels;               /* that come out */
} stk_sound_span;

/* Of a recording of which s->info is known. */
int stk_sound_span_draw(stk_sound_span *s, const stk_sound_draw *d, stk_error *err);

typedef struct stk_sound_taker { /* a sink */
    const stk_sound_span *s;
    float *out;      /* s->channels rows of in_to - in_from samples, in scratch memory */
    uint64_t filled; /* samples so far */
} stk_sound_taker;

int stk_sound_taker_init(stk_sound_taker *t, const stk_sound_span *s, stk_scratch *scratch,
                         stk_error *err);
/* The sink's function: cookie is the taker. */
int stk_sound_take(void *cookie, uint64_t first, const float *const *channel, uint32_t n,
                   stk_error *err);

/* The row that the chain's further steps get, of all that was taken. */
int stk_sound_span_row(const stk_sound_taker *t, const stk_sound_draw *d, stk_scratch *scratch,
                       stk_value_row *row, stk_error *err);

/* The random numbers of a step. */
static inline void stk_sound_rng(const stk_sound_draw *d, const stk_step *s, stk_rng *rng)
{
    stk_address at = d->at;

    at.path = stk_path(s->number);
    stk_rng_at(rng, &at);
}

#endif

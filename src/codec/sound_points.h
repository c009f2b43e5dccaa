/* SPDX-License-Identifier: Apache-2.0 */
/* sound_points.h - what decoders of sound share: the seek points of a recording, which have one
 * layout for all codecs; which bytes hold some of its samples; and how samples are handed out.
 *
 * A mark is a place where decoding can begin: from byte `offset` of the field on, the decoder gives
 * samples from number `sample` on.  Marks ascend; the first is at the recording's first byte. */
#ifndef STOKER_CODEC_SOUND_POINTS_H
#define STOKER_CODEC_SOUND_POINTS_H

#include "base/err.h"
#include "base/mem.h"

#define STK_SOUND_CHANNELS 256 /* most channels of a recording */
#define STK_SOUND_RATE 4000000 /* most samples per second */
/* Largest magnitude of a float, where full scale is 1.  Squares of sums of such numbers are finite,
 * and integers that a program stored as floats still fit. */
#define STK_SOUND_LOUDEST 1e10f
#define STK_SOUND_BLOCK 4096 /* samples handed out at once, if the codec has no block size */

typedef struct stk_sound_mark {
    uint64_t sample, offset;
} stk_sound_mark;

typedef struct stk_sound_points {
    char tag; /* stk_decoder.tag of the decoder that made them */
    uint32_t rate, channels;
    uint64_t units;
    uint64_t begin, end; /* bytes of the field that hold sound */
    uint32_t lead;       /* bytes [0, lead) of the field are needed too */
    uint32_t run_up;     /* samples before the first wanted one that are decoded, too */
    uint32_t after;      /* marks after the last wanted sample up to which bytes are needed */
    stk_bytes setup;     /* what the decoder stores for itself */
    uint32_t n_marks;
    const uint8_t *mark; /* as stored */
} stk_sound_points;

/* Reads points as they are stored.  STK_ECORRUPT: they contradict themselves. */
int stk_sound_points_open(stk_sound_points *out, stk_bytes in, stk_error *err);
stk_sound_mark stk_sound_points_mark(const stk_sound_points *p, uint32_t i);
/* Number of the last mark whose sample is at most `sample`; 0: there is none. */
uint32_t stk_sound_points_find(const stk_sound_points *p, uint64_t sample);
/* Number of the mark at byte `offset`; n_marks: there is none. */
uint32_t stk_sound_points_at(const stk_sound_points *p, uint64_t offset);

/* A decoder's know() and ranges(). */
int stk_sound_know(const stk_media_points *p, uint32_t track, stk_media_info *out, stk_error *err);
int stk_sound_ranges(const stk_media_points *p, const stk_media_ask *ask, uint64_t session_at,
                     stk_media_range out[STK_MEDIA_RANGES], uint32_t *n, stk_error *err);

/* ---- making them ---- */

typedef struct stk_sound_marks { /* marks that are collected while a field is read */
    stk_sound_mark *at;          /* in scratch memory; NULL: none are wanted */
    uint32_t n;
    uint64_t step; /* least number of samples between two marks */
} stk_sound_marks;

/* Room for marks.  When it is full, every other mark goes and the step doubles. */
int stk_sound_marks_init(stk_sound_marks *m, uint32_t rate, stk_scratch *scratch, stk_error *err);
void stk_sound_marks_add(stk_sound_marks *m, uint64_t sample, uint64_t offset);
/* The points as they are stored; p->mark and p->n_marks are not read. */
int stk_sound_points_make(const stk_sound_points *p, const stk_sound_marks *m, stk_scratch *scratch,
                          stk_bytes *out, stk_error *err);

/* ---- samples ---- */

/* What a decoder's header() returns for a recording. */
stk_media_info stk_sound_info(uint32_t rate, uint32_t channels, uint64_t units);
/* STK_ECORRUPT, with the format's name: no recording has such a rate or number of channels. */
int stk_sound_check(const char *format, uint32_t rate, uint32_t channels, stk_error *err);
/* STK_EINVAL: *ask is not inside a recording of `units` samples. */
int stk_sound_check_ask(const stk_media_ask *ask, uint64_t units, stk_error *err);
/* Passes those of n decoded samples, from number `first` on, to the job's sink that it asks for. */
int stk_sound_give(const stk_media_job *job, uint64_t first, float *const *channel, uint32_t n,
                   uint32_t channels, stk_error *err);

typedef struct stk_sound_block { /* decoded samples */
    uint64_t first;
    float *const *channel;
    uint32_t n, channels;
} stk_sound_block;
/* The same for a codec whose samples may be any floats.  STK_ECORRUPT: a sample that is asked for
 * is not finite, or over STK_SOUND_LOUDEST. */
int stk_sound_give_floats(const char *format, const stk_media_job *job, const stk_sound_block *b,
                          stk_error *err);

/* Numbers of the field, least byte first. */
static inline uint32_t stk_le16(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8;
}
static inline uint32_t stk_le32(const uint8_t *p)
{
    return stk_le16(p) | stk_le16(p + 2) << 16;
}
static inline uint64_t stk_le64(const uint8_t *p)
{
    return stk_le32(p) | (uint64_t)stk_le32(p + 4) << 32;
}

#endif

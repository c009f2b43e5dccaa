/* SPDX-License-Identifier: Apache-2.0 */
/* ogg_sound.h - recordings in Ogg, whatever their codec: where packets and their samples are, and
 * the functions of a decoder's table, by what a codec says of its packets. */
#ifndef STOKER_CODEC_OGG_SOUND_H
#define STOKER_CODEC_OGG_SOUND_H

#include "codec/ogg_pages.h"
#include "codec/sound_points.h"

typedef struct stk_ogg_codec {
    const char *name;
    char tag;
    const char *magic; /* of its first packet */
    size_t magic_len;
    uint32_t heads;  /* packets before the sound */
    uint32_t run_up; /* samples before a part that are decoded */
    uint32_t after;  /* marks after a part up to which bytes are needed */
    int keeps_head;  /* points have the first packet, and no other is needed; else all are read */
    void *(*open)(void);
    void (*close)(void *c);
    /* Header packet number i; of the last one: rate, channels and the samples to skip. */
    int (*head)(void *c, uint32_t i, stk_bytes packet, stk_media_info *info, uint64_t *skip,
                stk_error *err);
    void (*restart)(void *c); /* no packet has come */
    /* Samples that come out with this packet; negative: it is damaged. */
    int64_t (*samples)(void *c, stk_bytes packet);
    /* ... and these; valid until the next call. */
    int (*decode)(void *c, stk_bytes packet, float *channel[STK_SOUND_CHANNELS], uint32_t *n,
                  stk_error *err);
} stk_ogg_codec;

/* A decoder's functions. */
int stk_ogg_probe(const stk_ogg_codec *k, stk_bytes head);
int stk_ogg_open(const stk_ogg_codec *k, void **out, stk_error *err);
void stk_ogg_close(void *p);
int stk_ogg_header(void *p, stk_bytes in, const stk_media_points *points, stk_media_info *out,
                   stk_error *err);
int stk_ogg_decode(void *p, const stk_media_job *job, stk_error *err);
int stk_ogg_points(void *p, const stk_media_reader *read, stk_scratch *scratch, stk_bytes *out,
                   stk_error *err);

#endif

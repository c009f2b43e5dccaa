/* SPDX-License-Identifier: Apache-2.0 */
/* ogg_sound.h - decodes recordings in Ogg, whatever their codec.  opus.c and vorbis.c each describe
 * their packets in a stk_ogg_codec; all other functions of their decoders are here. */
#ifndef STOKER_CODEC_OGG_SOUND_H
#define STOKER_CODEC_OGG_SOUND_H

#include "codec/ogg_pages.h"
#include "codec/sound_points.h"

typedef struct stk_ogg_codec { /* how a codec stores sound in packets */
    const char *name;
    const char *lacks; /* error if this build has no library for the codec; NULL: it has one */
    char tag;
    const char *magic; /* first bytes of its first packet */
    size_t magic_len;
    uint32_t heads;  /* header packets before the sound, at least */
    uint32_t run_up; /* samples before a part that must be decoded, too */
    uint32_t after;  /* a part needs bytes up to so many points after it */
    int keeps_head;  /* points hold the first packet, and no other header is needed */
    void *(*open)(void);
    void (*close)(void *c);
    /* Reads header packet i.  With the last one, rate, channels and samples to skip are set.
     * STK_PENDING: it is not the last one, though as many as `heads` says were read. */
    int (*head)(void *c, uint32_t i, stk_bytes packet, stk_media_info *info, uint64_t *skip,
                stk_error *err);
    void (*restart)(void *c); /* forgets packets that were decoded before */
    /* How many samples this packet gives; negative: it is damaged. */
    int64_t (*samples)(void *c, stk_bytes packet);
    /* The samples of this packet; valid until the next call. */
    int (*decode)(void *c, stk_bytes packet, float *channel[STK_SOUND_CHANNELS], uint32_t *n,
                  stk_error *err);
} stk_ogg_codec;

/* The functions of a decoder. */
int stk_ogg_probe(const stk_ogg_codec *k, stk_bytes head);
int stk_ogg_open(const stk_ogg_codec *k, void **out, stk_error *err);
void stk_ogg_close(void *p);
int stk_ogg_header(void *p, stk_bytes in, const stk_media_points *points, stk_media_info *out,
                   stk_error *err);
int stk_ogg_decode(void *p, const stk_media_job *job, stk_error *err);
int stk_ogg_measure(void *p, const stk_media_reader *read, stk_media_info *out, stk_error *err);
int stk_ogg_points(void *p, const stk_media_reader *read, stk_scratch *scratch, stk_bytes *out,
                   stk_error *err);

/* The decoder of the codec `codec` of this file. */
#define STK_OGG_DECODER(id, letter, text)                                                          \
    static int id##_probe(stk_bytes head)                                                          \
    {                                                                                              \
        return stk_ogg_probe(&codec, head);                                                        \
    }                                                                                              \
    static int id##_open(void **out, stk_error *err)                                               \
    {                                                                                              \
        return stk_ogg_open(&codec, out, err);                                                     \
    }                                                                                              \
    const stk_decoder stk_decoder_##id = { .abi = STK_PLUGIN_ABI,                                  \
                                           .size = sizeof(stk_decoder),                            \
                                           .name = #id,                                            \
                                           .help = text,                                           \
                                           .probe = id##_probe,                                    \
                                           .open = id##_open,                                      \
                                           .header = stk_ogg_header,                               \
                                           .decode = stk_ogg_decode,                               \
                                           .close = stk_ogg_close,                                 \
                                           .tag = letter,                                          \
                                           .know = stk_sound_know,                                 \
                                           .ranges = stk_sound_ranges,                             \
                                           .points = stk_ogg_points,                               \
                                           .measure = stk_ogg_measure }

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* sound_track.h - reads the packets of one sound track from the tables of its container, and
 * decodes them with libavcodec.  The decoders of sound tracks call it (sound_track*.c).
 *
 * Packets are the frames of a stk_video_track.  The samples of a recording are those that its
 * packets give, one after the other, without `skip` of them at the beginning, which only the codec
 * needs, and without those after `keep`. */
#ifndef STOKER_VIDEO_SOUND_TRACK_H
#define STOKER_VIDEO_SOUND_TRACK_H

#include "video/track.h"

const char *stk_sound_coding_name(stk_sound_coding coding);

/* The first sound track of a file, read through `read`: packets, coding, setup, skip and keep. */
int stk_mp4_read_sound(stk_video_track *t, const stk_media_reader *read, stk_error *err);
int stk_matroska_read_sound(stk_video_track *t, const stk_media_reader *read, stk_error *err);
/* A file of ADTS frames: AAC without a container. */
int stk_adts_read(stk_video_track *t, const stk_media_reader *read, stk_error *err);
int stk_adts_probe(stk_bytes head);
/* Call after all packets were added.  STK_ECORRUPT: the track can't be used. */
int stk_sound_track_end(stk_video_track *t, stk_error *err);

extern const stk_decoder stk_decoder_mp4_sound, stk_decoder_matroska_sound;

/* ---- libav_sound.c ---- */

typedef struct stk_libav_sound stk_libav_sound; /* A decoder of one stream.  Thread: worker. */

typedef struct stk_libav_setup {
    stk_sound_coding coding;
    stk_bytes setup;
} stk_libav_setup;

typedef struct stk_libav_samples { /* samples of one packet; valid until the next call */
    uint32_t number;               /* number of the packet */
    uint32_t rate, channels, n;
    void *data[8];  /* by channel */
    uint32_t bytes; /* bytes of a sample; 4: floats, or integers if `whole` is set */
    int whole;
} stk_libav_samples;

/* lib: from stk_libav_open(). */
int stk_libav_sound_open(stk_libav_sound **out, void *lib, const stk_libav_setup *how,
                         stk_error *err);
void stk_libav_sound_close(stk_libav_sound **s); /* NULL-safe, nulls */
/* Sends packet `number`; no bytes: there are no more. */
int stk_libav_sound_send(stk_libav_sound *s, stk_bytes in, uint32_t number, stk_error *err);
/* STK_END: it wants another packet. */
int stk_libav_sound_receive(stk_libav_sound *s, stk_libav_samples *out, stk_error *err);

#endif

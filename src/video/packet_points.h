/* SPDX-License-Identifier: Apache-2.0 */
/* packet_points.h - the points of a sound track: what is needed to decode a part of it, and where
 * its packets are.  The decoders of sound tracks make and read them (sound_track*.c). */
#ifndef STOKER_VIDEO_PACKET_POINTS_H
#define STOKER_VIDEO_PACKET_POINTS_H

#include "video/track.h"

typedef struct stk_packet_points {
    char tag; /* stk_decoder.tag of the decoder that made them */
    stk_sound_coding coding;
    uint32_t rate, channels;
    uint32_t per, last; /* samples of a packet; of the last packet */
    uint64_t skip, units, field;
    int64_t first_us; /* when the first unit is heard */
    uint32_t number;  /* number of the track in its file */
    uint32_t n;       /* packets */
    stk_bytes setup;
    /* tables as they are stored */
    uint32_t n_runs, width;
    const uint8_t *run, *size;
} stk_packet_points;

/* Reads points as they are stored.  STK_ECORRUPT: they contradict themselves. */
int stk_packet_points_open(stk_packet_points *out, stk_bytes in, stk_error *err);
/* Sets frame[0..to - from) to the places of packets [from, to).  STK_ECORRUPT: one is outside of
 * the field. */
int stk_packet_points_find(const stk_packet_points *p, uint32_t from, uint32_t to,
                           stk_video_frame *frame, stk_error *err);
/* Makes points as they are stored, from frame[0..p->n); the tables in *p are not read. */
int stk_packet_points_make(const stk_packet_points *p, const stk_video_frame *frame,
                           stk_scratch *scratch, stk_bytes *out, stk_error *err);

#endif

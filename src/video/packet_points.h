/* SPDX-License-Identifier: Apache-2.0 */
/* packet_points.h - points of a sound track: what decoding a part needs to know of it, and where
 * its packets are. */
#ifndef STOKER_VIDEO_PACKET_POINTS_H
#define STOKER_VIDEO_PACKET_POINTS_H

#include "video/track.h"

typedef struct stk_packet_points {
    char tag; /* the decoder's */
    stk_sound_coding coding;
    uint32_t rate, channels;
    uint32_t per, last; /* samples of a packet, of the last one */
    uint64_t skip, units, field;
    int64_t first_us; /* when the first unit is heard */
    uint32_t number;  /* of the track in its file */
    uint32_t n;       /* packets */
    stk_bytes setup;
    /* as stored */
    uint32_t n_runs, width;
    const uint8_t *run, *size;
} stk_packet_points;

/* Points as they are stored; what cannot be is STK_ECORRUPT. */
int stk_packet_points_open(stk_packet_points *out, stk_bytes in, stk_error *err);
/* Places of packets [from, to) into frame[0..]: inside the field, or STK_ECORRUPT. */
int stk_packet_points_find(const stk_packet_points *p, uint32_t from, uint32_t to,
                           stk_video_frame *frame, stk_error *err);
/* As they are stored, of frame[0..p->n); the last two lines of *p are not read. */
int stk_packet_points_make(const stk_packet_points *p, const stk_video_frame *frame,
                           stk_scratch *scratch, stk_bytes *out, stk_error *err);

#endif

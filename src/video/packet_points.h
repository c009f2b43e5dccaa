/* SPDX-License-Identifier: Apache-2.0 */
/* packet_points.h - the points of a sound track: what is needed to decode a part of it, and where
 * its packets are.  The decoders of sound tracks make and read them (sound_track*.c).
 *
 *     head        80 bytes: rate, channels, counts; then the codec's setup
 *     directory   one entry of 24 bytes per block of STK_PACKET_BLOCK packets
 *     blocks      about 2 bytes per packet, and more where packets of other tracks are between
 *
 * So a part needs the head, a few entries and a few blocks, however long the track is.  Numbers are
 * little-endian; varints have 7 bits per byte; signed ones are folded.  Points may be hostile. */
#ifndef STOKER_VIDEO_PACKET_POINTS_H
#define STOKER_VIDEO_PACKET_POINTS_H

#include "video/track.h"

#define STK_PACKET_BLOCK 64u

typedef struct stk_packet_points {
    const stk_media_points *points; /* the points that the rest was read from */
    char tag;                       /* stk_decoder.tag of the decoder that made them */
    stk_sound_coding coding;
    uint32_t rate, channels;
    uint32_t per, last; /* samples of a packet; of the last packet, with Opus of the first */
    uint64_t skip, units, field;
    int64_t first_us; /* when the first unit is heard */
    uint32_t number;  /* number of the track in its file */
    uint32_t n;       /* packets */
    uint32_t setup_len;
    uint32_t bytes; /* bytes of the points */
} stk_packet_points;

typedef struct stk_packet_block {     /* packets that follow each other */
    uint32_t first, n;                /* number of the first packet; how many there are */
    uint64_t sample;                  /* samples of all packets before these */
    uint32_t count[STK_PACKET_BLOCK]; /* samples of each packet */
    stk_video_frame frame[STK_PACKET_BLOCK];
} stk_packet_block;

/* Reads points as they are stored.  STK_ECORRUPT: they contradict themselves. */
int stk_packet_points_open(stk_packet_points *out, const stk_media_points *points, stk_error *err);
/* Sets *out to the codec's setup; valid until the next slice(). */
int stk_packet_points_setup(const stk_packet_points *p, stk_bytes *out, stk_error *err);
/* Reads the block that has packet `number`.  STK_ECORRUPT: a packet is outside of the field. */
int stk_packet_points_block(const stk_packet_points *p, uint32_t number, stk_packet_block *out,
                            stk_error *err);
/* Sets *number to the packet that has this sample; past the end, to the last packet. */
int stk_packet_points_at(const stk_packet_points *p, uint64_t sample, uint32_t *number,
                         stk_error *err);

typedef struct stk_packet_list { /* what points are made of: p->n packets */
    const stk_video_frame *frame;
    uint32_t (*samples)(const void *cookie, uint32_t i); /* samples of packet i, at least 1 */
    const void *cookie;
} stk_packet_list;

/* Makes points as they are stored; setup_len and bytes of *p are not read. */
int stk_packet_points_make(const stk_packet_points *p, stk_bytes setup, const stk_packet_list *list,
                           stk_scratch *scratch, stk_bytes *out, stk_error *err);

#endif

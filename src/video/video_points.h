/* SPDX-License-Identifier: Apache-2.0 */
/* video_points.h - the points of a video, by which a clip is found, so that only its packets are
 * read.  The index stores them; the decoder of videos and clips read them.
 *
 *     head        88 bytes: size, rate, counts; then the codec's setup
 *     directory   one entry of 32 bytes per unit
 *     units       about 4 to 6 bytes per frame, in decode order
 *     sound       points of the file's sound track (packet_points.h), where it has one
 *
 * A unit begins at a keyframe and has whole groups of pictures, with at least STK_UNIT_FRAMES
 * frames if the video is long enough.  No frame of it is shown before one of an earlier unit.  So
 * the unit of a show number, a time or a decode number is found in a few steps.  However long the
 * video is, a clip needs only the head, a few entries and one or two units.  Numbers are
 * little-endian; varints have 7 bits per byte; signed ones are folded.
 *
 * Points may be hostile: whatever they say, reading them is safe, and takes memory in proportion to
 * their bytes. */
#ifndef STOKER_VIDEO_POINTS_H
#define STOKER_VIDEO_POINTS_H

#include "video/track.h"

#define STK_UNIT_FRAMES 64u

typedef struct stk_video_head {
    const stk_media_points *points; /* the points that it was read from */
    stk_video_codec codec;
    uint32_t turn, width, height, tracks, number;
    uint8_t matrix, full_range, siting;
    uint32_t num, den;
    uint32_t n, shown;  /* frames: all, and those that are shown */
    int64_t first, end; /* times */
    uint64_t field;
    uint32_t setup_len, units, step;
    uint32_t keys, longest; /* keyframes; frames of the longest group of pictures */
    uint32_t bytes;         /* bytes of the points without those of the sound */
    uint32_t sound;         /* bytes of the sound's points, which follow them */
} stk_video_head;

/* Packs points to dst and returns their bytes; dst NULL: only counts.  0: they would be too
 * large. */
size_t stk_video_points_pack(stk_video_track *t, char tag, uint8_t *dst);

/* Points of a video and, where there are some, of its sound: together, in scratch memory. */
int stk_video_points_join(stk_bytes video, stk_bytes sound, stk_scratch *scratch, stk_bytes *out,
                          stk_error *err);

typedef struct stk_sound_within { /* points of a sound track inside those of a video */
    stk_media_points points;
    const stk_media_points *of;
    uint64_t from;
    uint32_t len;
} stk_sound_within;
/* 1: `of` has them; *out stays where it is as long as they are used. */
int stk_video_points_sound(stk_sound_within *out, const stk_media_points *of);

int stk_video_points_open(stk_video_head *h, const stk_media_points *p, stk_error *err);
/* The codec's setup; valid until the next slice() of p. */
int stk_video_points_setup(const stk_video_head *h, stk_bytes *out, stk_error *err);

typedef struct stk_video_unit { /* in scratch memory */
    uint32_t number;
    uint32_t decode, n;   /* its first decode number, and its frames */
    uint32_t show, shown; /* its first show number, and its frames that are shown */
    stk_video_frame *frame;
    uint32_t *rank;  /* by frame: its show number in the unit; UINT32_MAX: it is hidden */
    uint32_t *shows; /* by show number in the unit: the frame */
} stk_video_unit;

int stk_video_unit_read(const stk_video_head *h, uint32_t number, stk_scratch *scratch,
                        stk_video_unit *out, stk_error *err);
/* Set *out to the unit with the frame of this show number, or decode number. */
int stk_video_unit_of_show(const stk_video_head *h, uint32_t show, uint32_t *out, stk_error *err);
int stk_video_unit_of_decode(const stk_video_head *h, uint32_t decode, uint32_t *out,
                             stk_error *err);
/* Sets *show to the show number of the last frame whose time is not after `time`, or 0 for times
 * before the first, and *exact to its time. */
int stk_video_show_at(const stk_video_head *h, int64_t time, stk_scratch *scratch, uint32_t *show,
                      int64_t *exact, stk_error *err);

/* A time in microseconds, rounded to nearest; seconds as a time, rounded down. */
int64_t stk_video_us(const stk_video_head *h, int64_t time);
int64_t stk_video_time(const stk_video_head *h, double seconds);

#endif

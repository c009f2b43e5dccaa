/* SPDX-License-Identifier: Apache-2.0 */
/* clip.h - finds the packets that have to be decoded for the wanted frames of a video.  The decoder
 * of videos (video.c), sessions and rows for GPUs call it.
 *
 * Packets come in runs.  A run begins at a keyframe and ends with the last wanted frame that is
 * decoded from it; the decoder begins again for each run.  A frame that is shown before its
 * keyframe needs the keyframe before that one. */
#ifndef STOKER_VIDEO_CLIP_H
#define STOKER_VIDEO_CLIP_H

#include "video/video_points.h"

#define STK_NOT_WANTED UINT32_MAX

typedef struct stk_clip_packet {
    uint64_t at; /* offset in the field */
    uint32_t size;
    uint32_t want;   /* index of its frame among the wanted ones; or STK_NOT_WANTED */
    uint32_t decode; /* its decode number */
    uint8_t begins;  /* true for the first packet of a run */
    uint8_t leading; /* true if shown before the keyframe of its run: it may fail to decode */
    uint8_t run_up;  /* true for packets before those that are needed: they may fail, too */
} stk_clip_packet;

typedef struct stk_clip_want { /* one wanted frame */
    uint32_t decode, start;    /* decode numbers of the frame, and of its run's keyframe */
    uint32_t proper; /* decode number of the keyframe that it needs; `start` may be earlier */
    uint32_t i;      /* index in the list of wanted frames */
    int64_t time;
} stk_clip_want;

typedef struct stk_clip { /* in scratch memory */
    stk_clip_packet *packet;
    uint32_t n;
    stk_clip_want *want; /* by decode number */
    uint32_t n_want;
} stk_clip;

/* Fills in want[0..ask->n_frames): the wanted frames by decode number, each with its keyframe. */
int stk_clip_find(const stk_video_head *h, const stk_media_ask *ask, stk_scratch *scratch,
                  stk_clip_want *want, stk_error *err);
/* Fills in *out with the packets for ask->frame (show numbers, ascending, each once).  back: how
 * many keyframes earlier than needed runs begin. */
int stk_clip_plan(const stk_video_head *h, const stk_media_ask *ask, uint32_t back,
                  stk_scratch *scratch, stk_clip *out, stk_error *err);
/* Adds bytes to ranges that ascend and do not touch.  There is memory for STK_MEDIA_RANGES + 1; if
 * there would be so many, the two nearest are joined. */
void stk_clip_range_add(stk_media_range *r, uint32_t *n, uint64_t at, uint64_t len);
/* The bytes of all packets, joined into at most STK_MEDIA_RANGES ranges. */
int stk_clip_ranges(const stk_clip *c, const stk_video_head *h,
                    stk_media_range out[STK_MEDIA_RANGES], uint32_t *n, stk_error *err);

#endif

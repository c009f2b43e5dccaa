/* SPDX-License-Identifier: Apache-2.0 */
/* clip.h - which packets make the frames that are wanted.
 *
 * A run of packets begins at a keyframe and ends with the last wanted frame that is decoded from
 * it; between runs the decoder begins again.  A frame that is shown before its keyframe needs the
 * keyframe before that one. */
#ifndef STOKER_VIDEO_CLIP_H
#define STOKER_VIDEO_CLIP_H

#include "video/video_points.h"

#define STK_NOT_WANTED UINT32_MAX

typedef struct stk_clip_packet {
    uint64_t at;
    uint32_t size;
    uint32_t want;   /* which of the wanted frames it is; or STK_NOT_WANTED */
    uint32_t decode; /* its decode number */
    uint8_t begins;  /* the first of a run */
    uint8_t leading; /* shown before the keyframe of its run: it may fail to decode */
    uint8_t run_up;  /* before what is needed: likewise */
} stk_clip_packet;

typedef struct stk_clip_want { /* one wanted frame */
    uint32_t decode, start;    /* decode numbers: its own, and of its run's keyframe */
    uint32_t proper;           /* of the keyframe from which on it depends on all frames */
    uint32_t i;                /* in the list that was asked for */
    int64_t time;
} stk_clip_want;

typedef struct stk_clip { /* in scratch memory */
    stk_clip_packet *packet;
    uint32_t n;
    stk_clip_want *want; /* by decode number */
    uint32_t n_want;
} stk_clip;

/* The wanted frames by decode number, each with its own keyframe; want: ask->n_frames. */
int stk_clip_find(const stk_video_head *h, const stk_media_ask *ask, stk_scratch *scratch,
                  stk_clip_want *want, stk_error *err);
/* frame: show numbers, ascending, each once.  back: begin so many keyframes earlier than needed. */
int stk_clip_plan(const stk_video_head *h, const stk_media_ask *ask, uint32_t back,
                  stk_scratch *scratch, stk_clip *out, stk_error *err);
/* Adds bytes to ascending ranges that do not touch, of which there is room for one more than
 * STK_MEDIA_RANGES; the two that are nearest are joined where there would be so many. */
void stk_clip_range_add(stk_media_range *r, uint32_t *n, uint64_t at, uint64_t len);
/* The bytes of all packets, joined into at most STK_MEDIA_RANGES ranges. */
int stk_clip_ranges(const stk_clip *c, const stk_video_head *h,
                    stk_media_range out[STK_MEDIA_RANGES], uint32_t *n, stk_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* clip_codec.h - what video(...) of a chain asks for, and which frames that is. */
#ifndef STOKER_VIDEO_CLIP_CODEC_H
#define STOKER_VIDEO_CLIP_CODEC_H

#include "video/video_points.h"

#define STK_CLIP_FRAMES 4096u
#define STK_CLIP_OFFSETS 16u

typedef enum stk_clip_start {
    STK_START_RANDOM,
    STK_START_CENTER,
    STK_START_AT,          /* frame number `first`, or the one at a time of another output's */
    STK_START_UNIFORM,     /* all over the video: floor(x + 0.5), as DALI */
    STK_START_UNIFORM_EVEN /* ... halves to even numbers, as NumPy and Qwen */
} stk_clip_start;

typedef enum stk_clip_pad { STK_PAD_LAST, STK_PAD_WRAP, STK_PAD_ERROR } stk_clip_pad;

typedef struct stk_clip_how { /* the state of the codec video */
    uint32_t frames, stride;
    stk_clip_start start;
    uint64_t first;
    double fps; /* 0: by stride */
    stk_clip_pad pad;
    char at[64];   /* the output that has the time; "": none */
    int at_number; /* ... not a time but the number of the first frame */
    uint32_t step; /* of windows: frames from the first of one to that of the next; 0: none are */
    uint32_t at_output; /* ... its number, found when all outputs are planned */
    uint32_t n_at;      /* ... and how many it has: 1, or one for each frame */
    double tolerance;   /* with at: seconds that a frame may be from its time; 0: any */
    double timeout;     /* seconds of CPU time that a clip may take; 0: by its packets */
    double rate;        /* of numbered pictures: so many per second; 0: it is not known */
    int keyframes;      /* no other frames are counted */
    struct stk_points_cache *points; /* of fields that the index has none of */
    uint32_t n_offsets; /* frames at these distances from it, in seconds; 0: by stride or fps */
    double offset[STK_CLIP_OFFSETS];
} stk_clip_how;

typedef struct stk_clip_draw { /* what a clip depends on beside its video */
    stk_rng rng;
    const double *at; /* seconds, of how->at: how->n_at of them */
} stk_clip_draw;

/* When the frame with this show number is shown. */
int stk_clip_time(const stk_video_head *h, uint64_t show, stk_scratch *scratch, int64_t *out,
                  stk_error *err);
/* Show numbers of the clip's frames, in its order; frame: how->frames numbers. */
int stk_clip_pick(const stk_clip_how *how, const stk_video_head *h, stk_clip_draw *draw,
                  stk_scratch *scratch, uint64_t *frame, stk_error *err);

#endif

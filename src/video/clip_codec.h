/* SPDX-License-Identifier: Apache-2.0 */
/* clip_codec.h - the arguments of the codec video(...), and which frames of a video they mean.  The
 * plan sets the arguments; rows draw the frames (row/row_video.c). */
#ifndef STOKER_VIDEO_CLIP_CODEC_H
#define STOKER_VIDEO_CLIP_CODEC_H

#include "video/video_points.h"

#define STK_CLIP_FRAMES 4096u
#define STK_CLIP_OFFSETS 16u

typedef enum stk_clip_start {
    STK_START_RANDOM,
    STK_START_CENTER,
    STK_START_AT,          /* at frame number `first`, or at a time that another output has */
    STK_START_UNIFORM,     /* frames spread over the video, rounded by floor(x + 0.5), as in DALI */
    STK_START_UNIFORM_EVEN /* the same, halves rounded to even, as in NumPy and Qwen */
} stk_clip_start;

typedef enum stk_clip_pad { STK_PAD_LAST, STK_PAD_WRAP, STK_PAD_ERROR } stk_clip_pad;

typedef struct stk_clip_how { /* the state of the codec video */
    uint32_t frames, stride;
    stk_clip_start start;
    uint64_t first;
    double fps; /* frames per second of the clip; 0: by stride */
    stk_clip_pad pad;
    char at[64];        /* name of the output that has the time; "": none */
    int at_number;      /* true if that output has the number of the first frame, not a time */
    uint32_t step;      /* windows: frames from one's first to the next one's; 0: no windows */
    uint32_t at_output; /* index of the output `at`, set when all outputs are planned */
    uint32_t n_at;      /* numbers that it has: 1, or one for each frame */
    double tolerance;   /* with at: most seconds that a frame may be from its time; 0: any */
    double timeout;     /* most seconds of CPU time for a clip; 0: by its packets */
    double rate;        /* numbered pictures: pictures per second; 0: not known */
    int keyframes;      /* true if only keyframes are counted */
    struct stk_points_cache *points; /* points of fields for which the index has none */
    uint32_t n_offsets; /* frames are at these offsets from the time, in seconds; 0: not given */
    double offset[STK_CLIP_OFFSETS];
} stk_clip_how;

typedef struct stk_clip_draw { /* what a clip depends on besides its video */
    stk_rng rng;
    const double *at; /* how->n_at numbers from the output how->at, in seconds */
} stk_clip_draw;

/* Sets *out to the time at which the frame with this show number is shown. */
int stk_clip_time(const stk_video_head *h, uint64_t show, stk_scratch *scratch, int64_t *out,
                  stk_error *err);
/* Sets frame[0..how->frames) to the show numbers of the clip's frames, in its order. */
int stk_clip_pick(const stk_clip_how *how, const stk_video_head *h, stk_clip_draw *draw,
                  stk_scratch *scratch, uint64_t *frame, stk_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* clip_kinds.h - kinds of frames of which the GPU could not make clips, one after the other.  After
 * STK_CLIP_FAILURES in a row no more are tried.  gpu_clips.c asks. */
#ifndef STOKER_CLIP_KINDS_H
#define STOKER_CLIP_KINDS_H

#include "base/lock.h"
#include "video/frame_format.h"

#define STK_CLIP_FAILURES 8u
#define STK_CLIP_KINDS 64u /* whose clips failed; of more nothing is known */

typedef struct stk_clip_kind {
    stk_video_codec codec;
    uint32_t width, height, bits;
    uint32_t failed; /* in a row */
} stk_clip_kind;

typedef struct stk_clip_kinds { /* Thread: any. */
    stk_mutex lock;
    stk_clip_kind kind[STK_CLIP_KINDS]; /* lock */
    uint32_t n;                         /* lock */
} stk_clip_kinds;

void stk_clip_kinds_init(stk_clip_kinds *k);
void stk_clip_kinds_fini(stk_clip_kinds *k);

/* 1: no more clips of them are tried. */
int stk_clip_kinds_given_up(stk_clip_kinds *k, stk_video_codec codec, const stk_frame_format *f);
/* `failures` more clips failed; 0: one was made.  1: with these they are given up. */
int stk_clip_kinds_note(stk_clip_kinds *k, stk_video_codec codec, const stk_frame_format *f,
                        uint32_t failures);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* clip_kinds.h - counts failures of GPU decoding by kind of video: codec, size and bits.  After
 * STK_CLIP_FAILURES failed clips of a kind in a row, gpu_clips.c leaves that kind to workers. */
#ifndef STOKER_CLIP_KINDS_H
#define STOKER_CLIP_KINDS_H

#include "base/lock.h"
#include "video/frame_format.h"

#define STK_CLIP_FAILURES 8u
#define STK_CLIP_KINDS 64u /* kinds with failures that are counted; further kinds are not */

typedef struct stk_clip_kind {
    stk_video_codec codec;
    uint32_t width, height, bits;
    uint32_t failed; /* clips that failed in a row */
} stk_clip_kind;

typedef struct stk_clip_kinds { /* Thread: any. */
    stk_mutex lock;
    stk_clip_kind kind[STK_CLIP_KINDS]; /* lock */
    uint32_t n;                         /* lock */
} stk_clip_kinds;

void stk_clip_kinds_init(stk_clip_kinds *k);
void stk_clip_kinds_fini(stk_clip_kinds *k);

/* 1: no more clips of this kind are tried. */
int stk_clip_kinds_given_up(stk_clip_kinds *k, stk_video_codec codec, const stk_frame_format *f);
/* Counts `failures` more failed clips; 0: a clip was made, and the count begins again.  Returns 1
 * if the kind is given up with these. */
int stk_clip_kinds_note(stk_clip_kinds *k, stk_video_codec codec, const stk_frame_format *f,
                        uint32_t failures);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* clip_cache.h - decoded frames of clips in GPU memory: places in the arena of picture_cache.h, and
 * of each which frames they are and how long their lines.  gpu_clips.c puts there what NVDEC
 * decoded, and makes the clip of it when it is drawn again: crops and colors may be others then.
 *
 * A sample keeps the frames of which it was first made.  Where other ones are drawn the next time
 * (a clip that begins anywhere) they are decoded. */
#ifndef STOKER_CLIP_CACHE_H
#define STOKER_CLIP_CACHE_H

#include "gpu/nvdec.h"
#include "gpu/picture_cache.h"

typedef struct stk_clip_cache stk_clip_cache; /* Thread: any. */

/* The arena is the pictures', who outlive it. */
int stk_clip_cache_open(stk_clip_cache **out, stk_picture_cache *arena, stk_error *err);
void stk_clip_cache_close(stk_clip_cache **c);

typedef struct stk_clip_place {
    uint8_t *at; /* in the GPU's memory; NULL: nowhere */
    uint32_t stride;
    uint64_t frame;  /* bytes from frame to frame: luma, then chroma */
    uint64_t chroma; /* ... and from luma to chroma */
} stk_clip_place;

typedef struct stk_cached_clip { /* what a clip is known by */
    int on;                      /* 0: it is not cached */
    stk_cache_key of;
    uint64_t frames; /* a hash of their numbers */
} stk_cached_clip;

/* 1: they are there. */
int stk_clip_cache_find(stk_clip_cache *c, const stk_cached_clip *k, stk_clip_place *out);
/* Room for n frames whose lines are `stride` bytes apart.  0: there is none, or others of the
 * sample are there or on their way. */
int stk_clip_cache_claim(stk_clip_cache *c, const stk_cached_clip *k, const stk_frame_format *f,
                         uint32_t stride, uint32_t n, stk_clip_place *out);
/* What was claimed is there, or never will be. */
void stk_clip_cache_settle(stk_clip_cache *c, const stk_cached_clip *k, int there);

/* Frame i of a place. */
static inline stk_nvdec_frame stk_clip_place_frame(const stk_clip_place *p, uint32_t i)
{
    const uint8_t *at = p->at + i * p->frame;

    return (
        stk_nvdec_frame){ .luma = at, .chroma = at + p->chroma, .stride = p->stride, .want = i };
}

#endif

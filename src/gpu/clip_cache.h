/* SPDX-License-Identifier: Apache-2.0 */
/* clip_cache.h - cache of decoded frames of clips in GPU memory.  gpu_clips.c stores what NVDEC
 * decoded, and makes the clip from it when the same frames are drawn again, maybe with other crops
 * and colors.
 *
 * The frames are in the arena of picture_cache.h; this cache has their numbers and the layout of
 * their memory.  A sample keeps the frames of its first clip.  If other frames are drawn later (a
 * clip that begins anywhere), they are decoded. */
#ifndef STOKER_CLIP_CACHE_H
#define STOKER_CLIP_CACHE_H

#include "gpu/nvdec.h"
#include "gpu/picture_cache.h"

typedef struct stk_clip_cache stk_clip_cache; /* Thread: any. */

/* The arena must live longer than this cache. */
int stk_clip_cache_open(stk_clip_cache **out, stk_picture_cache *arena, stk_error *err);
void stk_clip_cache_close(stk_clip_cache **c);

typedef struct stk_clip_place { /* where the frames of a clip are */
    uint8_t *at;                /* first frame, in GPU memory; NULL: nowhere */
    uint32_t stride;            /* bytes from line to line */
    uint64_t frame;             /* bytes from one frame to the next */
    uint64_t chroma;            /* bytes from a frame's luma plane to its chroma plane */
} stk_clip_place;

typedef struct stk_cached_clip { /* identifies the frames of a clip */
    int on;                      /* 0: the clip is not cached */
    stk_cache_key of;
    uint64_t frames; /* hash of the frames' numbers */
} stk_cached_clip;

/* 1: the frames are in the cache, at *out. */
int stk_clip_cache_find(stk_clip_cache *c, const stk_cached_clip *k, stk_clip_place *out);
/* Claims room for n frames whose lines are `stride` bytes apart.  0: there is no room, or other
 * frames of the sample are cached or in flight. */
int stk_clip_cache_claim(stk_clip_cache *c, const stk_cached_clip *k, const stk_frame_format *f,
                         uint32_t stride, uint32_t n, stk_clip_place *out);
/* Ends a claim.  there: 1: the frames are at their place; 0: they will never be. */
void stk_clip_cache_settle(stk_clip_cache *c, const stk_cached_clip *k, int there);

/* Frame i of the frames at a place. */
static inline stk_nvdec_frame stk_clip_place_frame(const stk_clip_place *p, uint32_t i)
{
    const uint8_t *at = p->at + i * p->frame;

    return (
        stk_nvdec_frame){ .luma = at, .chroma = at + p->chroma, .stride = p->stride, .want = i };
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* decoders.h - the decoders of a registry, with one thread's contexts; and pictures through their
 * seam, for those who want pixels.  Thread: worker. */
#ifndef STOKER_CODEC_DECODERS_H
#define STOKER_CODEC_DECODERS_H

#include "base/registry.h"
#include "kern/pixels.h"

typedef struct stk_decoders {
    const stk_registry *registry;
    size_t n;   /* as many as there were at init() */
    void **ctx; /* opened at first use */
} stk_decoders;

int stk_decoders_init(stk_decoders *d, const stk_registry *registry, stk_error *err);
void stk_decoders_fini(stk_decoders *d);
/* The decoder that knows these bytes, and its context.  STK_END: none does. */
int stk_decoders_find(stk_decoders *d, stk_bytes in, const stk_decoder **out, void **ctx,
                      stk_error *err);
/* The decoder that made these points, and its context.  STK_END: none did. */
int stk_decoders_of_points(stk_decoders *d, stk_bytes points, const stk_decoder **out, void **ctx,
                           stk_error *err);
/* 1: these points were made of a field with these bytes; or who made them is not here. */
int stk_points_fit(stk_decoders *d, stk_bytes points, stk_bytes in, stk_scratch *scratch);
/* 1: what is kept of a field are points of this decoder. */
static inline int stk_points_are_of(const stk_decoder *d, stk_bytes points)
{
    return points.len && d->tag && points.data[0] == (uint8_t)d->tag;
}

/* ---- pictures, for callers ---- */

typedef struct stk_picture_source { /* a picture, and who decodes it */
    const stk_decoder *decoder;
    void *ctx;
    stk_bytes points;           /* that the index keeps; or none */
    const stk_media_part *part; /* what was read of it */
    uint32_t n_parts;
} stk_picture_source;

/* The size of a picture whose bytes are all there. */
int stk_picture_header(const stk_picture_source *from, stk_bytes in, stk_media_info *out,
                       stk_error *err);
/* The pixels that are wanted.  After stk_picture_header(), where the part is all of it. */
int stk_picture_pixels(const stk_picture_source *from, const stk_decode_request *ask,
                       stk_scratch *scratch, stk_pixels *out, stk_error *err);
/* The same where all bytes are there; from->part is not read. */
int stk_picture_whole(const stk_picture_source *from, stk_bytes in, const stk_decode_request *ask,
                      stk_scratch *scratch, stk_pixels *out, stk_error *err);
/* The reader of a field whose bytes are all there. */
stk_media_reader stk_media_here(const stk_bytes *in);

/* ---- pictures, for decoders ---- */

typedef int (*stk_pixels_fn)(void *ctx, const stk_decode_request *ask, stk_scratch *scratch,
                             stk_pixels *out, stk_error *err);
/* A decoder's decode(), by a function that makes pixels. */
int stk_pixels_give(stk_pixels_fn make, void *ctx, const stk_media_job *job, stk_error *err);

/* What a decoder that has read a picture's header says of it. */
static inline stk_media_info stk_picture_info(uint32_t width, uint32_t height)
{
    return (stk_media_info){
        .medium = STK_PICTURE, .tracks = 1, .width = width, .height = height, .units = 1
    };
}

#endif

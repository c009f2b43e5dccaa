/* SPDX-License-Identifier: Apache-2.0 */
/* decoders.h - finds the decoder for a field's bytes, with a context for one thread, and decodes
 * pictures to pixels.  Rows, transforms, indexing and tools call it.  Thread: worker. */
#ifndef STOKER_CODEC_DECODERS_H
#define STOKER_CODEC_DECODERS_H

#include "base/registry.h"
#include "kern/pixels.h"

typedef struct stk_decoders {
    const stk_registry *registry;
    size_t n;   /* decoders of the registry at init() */
    void **ctx; /* by decoder: its context; NULL: not opened yet */
} stk_decoders;

int stk_decoders_init(stk_decoders *d, const stk_registry *registry, stk_error *err);
void stk_decoders_fini(stk_decoders *d);
/* The decoder that knows these bytes, and its context.  STK_END: none does. */
int stk_decoders_find(stk_decoders *d, stk_bytes in, const stk_decoder **out, void **ctx,
                      stk_error *err);
/* The decoder that made these points, and its context.  STK_END: none did. */
int stk_decoders_of_points(stk_decoders *d, stk_bytes points, const stk_decoder **out, void **ctx,
                           stk_error *err);
/* 1: these points were made of a field with these bytes, or the decoder that made them is
 * missing. */
int stk_points_fit(stk_decoders *d, stk_bytes points, stk_bytes in, stk_scratch *scratch);
/* 1: these points were made by this decoder. */
static inline int stk_points_are_of(const stk_decoder *d, stk_bytes points)
{
    return points.len && d->tag && points.data[0] == (uint8_t)d->tag;
}

/* ---- pictures, for callers ---- */

typedef struct stk_picture_source { /* a picture, and its decoder */
    const stk_decoder *decoder;
    void *ctx;
    stk_bytes points;           /* its seek points from the index; or none */
    const stk_media_part *part; /* the parts of the field that were read */
    uint32_t n_parts;
} stk_picture_source;

/* The size of a picture; `in` is all of its bytes. */
int stk_picture_header(const stk_picture_source *from, stk_bytes in, stk_media_info *out,
                       stk_error *err);
/* The pixels that are wanted, of the parts in *from.  If the only part is the whole picture, call
 * stk_picture_header() before. */
int stk_picture_pixels(const stk_picture_source *from, const stk_decode_request *ask,
                       stk_scratch *scratch, stk_pixels *out, stk_error *err);
/* The same for a picture whose bytes are all in `in`; from->part is not used. */
int stk_picture_whole(const stk_picture_source *from, stk_bytes in, const stk_decode_request *ask,
                      stk_scratch *scratch, stk_pixels *out, stk_error *err);
/* A reader of a field whose bytes are all in memory. */
stk_media_reader stk_media_here(const stk_bytes *in);

/* ---- pictures, for decoders ---- */

typedef int (*stk_pixels_fn)(void *ctx, const stk_decode_request *ask, stk_scratch *scratch,
                             stk_pixels *out, stk_error *err);
/* Implements a decoder's decode() with a function that makes pixels. */
int stk_pixels_give(stk_pixels_fn make, void *ctx, const stk_media_job *job, stk_error *err);

/* What a decoder's header() returns for a picture of this size. */
static inline stk_media_info stk_picture_info(uint32_t width, uint32_t height)
{
    return (stk_media_info){
        .medium = STK_PICTURE, .tracks = 1, .width = width, .height = height, .units = 1
    };
}

#endif

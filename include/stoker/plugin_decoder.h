/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_decoder.h - the seam of decoders: pixels by content.  Part of plugin.h.
 *
 * UNSTABLE, as plugin.h is. */
#ifndef STOKER_PLUGIN_H
#include <stoker/plugin.h> /* which includes this where its own types are known */
#elif !defined(STOKER_PLUGIN_DECODER_H)
#define STOKER_PLUGIN_DECODER_H

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stk_rect {
    uint32_t x, y, w, h;
} stk_rect;

typedef struct stk_image_info {
    uint32_t width, height;
} stk_image_info;

typedef enum stk_lane { /* how a picture came about: counted in stats() */
                        STK_LANE_PLAIN,
                        STK_LANE_SEEK,     /* from seek points */
                        STK_LANE_MISFIT,   /* its seek points did not fit: decoded without */
                        STK_LANE_FALLBACK, /* not what the fast decoder reads */
                        STK_LANES
} stk_lane;

typedef struct stk_pixels { /* R, G, B, X: 4 bytes a pixel, X undefined; deep: a uint32_t each */
    uint8_t *data;          /* pixel (area.x, area.y) */
    size_t stride;
    stk_rect area; /* covers what was asked for, may be wider */
    stk_lane lane;
    int deep; /* values of 16 bits, as they were asked for */
} stk_pixels;

typedef struct stk_decode_request { /* what is wanted of a picture */
    stk_rect need;
    int index; /* palette indices, in R, G and B alike; one of several channels is refused */
    /* NULL, or: a decoder that can makes the rows of `need` from top to bottom and hands them over
     * in bands, so that they are used while they are in the cache.  A band's area is as wide as
     * `need`; its memory is used again after the call; one that begins at need.y begins the picture
     * again.  decode() then leaves out->data NULL, out->area as it was asked for.  A decoder may
     * pay no attention, and give all pixels as ever. */
    void (*band)(void *cookie, const stk_pixels *band);
    void *cookie;
    /* Values of one channel of 16 bits: a decoder that has them sets stk_pixels.deep.  What has 8
     * bits is refused, by a decoder or for it. */
    int deep;
    /* One channel of 16 bits becomes 8 by its high byte.  Else, and without `deep`, it is refused:
     * 8 bits do not hold it. */
    int high_byte;
} stk_decode_request;

enum { STK_DECODER_GPU = 1 /* OWN: the GPU can decode what it has read the header of */ };

typedef struct stk_decoder { /* chosen by content; one context a worker */
    uint32_t abi, size;
    const char *name, *help;
    int (*probe)(stk_bytes head); /* 0 or 1 */
    int (*open)(void **ctx, stk_error *err);
    /* `hint`: what the index keeps of these bytes to help decoding (seek points); no data: nothing.
     * decode() follows header() on the same bytes. */
    int (*header)(void *ctx, stk_bytes in, stk_bytes hint, stk_image_info *out, stk_error *err);
    int (*decode)(void *ctx, const stk_decode_request *ask, stk_scratch *scratch, stk_pixels *out,
                  stk_error *err);
    void (*close)(void *ctx);
    /* After decode(): what to give as `hint` the next time, in scratch memory.  STK_ECORRUPT:
     * there is nothing that helps.  NULL: never. */
    int (*learn)(void *ctx, stk_scratch *scratch, stk_bytes *out, stk_error *err);
    uint32_t can;
} stk_decoder;

#ifdef __cplusplus
}
#endif

#endif

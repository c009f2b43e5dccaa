/* SPDX-License-Identifier: Apache-2.0 */
/* pixels.h - a decoded picture, or the part of it that was asked for, while a row is made.
 *
 * Decoders of pictures make stk_pixels; codec/decoders.h passes them through the table of
 * decoders. */
#ifndef STOKER_PIXELS_H
#define STOKER_PIXELS_H

#include <stoker/plugin.h>

typedef struct stk_image_info {
    uint32_t width, height;
} stk_image_info;

struct stk_pixel_rows;

typedef struct stk_pixels { /* R, G, B, X: 4 bytes a pixel, X undefined; deep: a uint32_t each */
    uint8_t *data;          /* pixel (area.x, area.y) */
    size_t stride;
    stk_rect area; /* covers what was asked for, may be wider */
    stk_lane lane;
    int deep;                          /* values of 16 bits, as they were asked for */
    const struct stk_pixel_rows *rows; /* not NULL: data is, and a pass asks for rows in order */
} stk_pixels;

/* Pixels that are made while a pass goes down the picture: they stay in the nearest cache. */
typedef struct stk_pixel_rows {
    void *cookie;
    uint32_t most;                                                     /* rows in one call */
    void (*make)(void *cookie, const stk_rect *rows, stk_pixels *out); /* valid until the next */
} stk_pixel_rows;

typedef struct stk_decode_request { /* what is wanted of a picture */
    stk_rect need;
    int index; /* stk_media_ask says what these three mean */
    int deep, high_byte;
    void (*band)(void *cookie, const stk_pixels *band); /* stk_media_sink.rows; or NULL */
    void *cookie;
} stk_decode_request;

/* The smallest rectangle that has both; an empty one adds nothing. */
static inline void stk_rect_widen(stk_rect *all, const stk_rect *r)
{
    uint32_t x1 = all->x + all->w, y1 = all->y + all->h;

    if (!r->w || !r->h)
        return;
    if (!all->w) {
        *all = *r;
        return;
    }
    x1 = x1 > r->x + r->w ? x1 : r->x + r->w;
    y1 = y1 > r->y + r->h ? y1 : r->y + r->h;
    all->x = all->x < r->x ? all->x : r->x;
    all->y = all->y < r->y ? all->y : r->y;
    all->w = x1 - all->x;
    all->h = y1 - all->y;
}

#endif

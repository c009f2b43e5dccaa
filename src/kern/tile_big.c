/* SPDX-License-Identifier: Apache-2.0 */
/* tile_big.c - blur, sharpness, pixels that move, and rectangles that are erased. */
#include "kern/tile_big.h"

#include <string.h>

#include "base/mem.h"
#include "kern/pil.h"

/* ---- memory ---- */

static int spare(const stk_tile *t, stk_tile_room *room, stk_error *err)
{
    size_t size = (size_t)t->width * t->height * 4;

    if (room->spare_size >= size)
        return 0;
    room->spare = stk_scratch_get(room->scratch, size);
    room->spare_size = room->spare ? size : 0;
    return room->spare ? 0 : stk_fail_nomem(err, size);
}

static int lines(stk_tile_room *room, size_t size, stk_error *err)
{
    if (room->lines_size >= size)
        return 0;
    room->lines = stk_scratch_get(room->scratch, size);
    room->lines_size = room->lines ? size : 0;
    return room->lines ? 0 : stk_fail_nomem(err, size);
}

/* The tile is now what was made in the spare memory. */
static void swap(stk_tile *t, stk_tile_room *room)
{
    uint32_t *was = t->data;

    t->data = room->spare;
    room->spare = was;
    room->spare_size = (size_t)t->width * t->height * 4; /* as much as the tile's, at least */
}

/* ---- blur ---- */

typedef struct blur {
    const stk_tile_kern *k;
    const stk_tile *t;
    uint32_t half[2]; /* across, down */
    uint16_t w[2][STK_BLUR_HALF + 1];
    uint32_t *wide; /* a row with `half` pixels more on each side */
    uint16_t *ring; /* rows that are blurred across: as many as one output row touches */
    size_t row;     /* values of one of them */
    int64_t next;   /* the row to be made next, counted from -half */
} blur;

static uint16_t *ring_row(const blur *b, int64_t y)
{
    return b->ring + (size_t)((uint64_t)(y + b->half[1]) % (2 * b->half[1] + 1)) * b->row;
}

/* Rows up to y, of which those outside are mirrored. */
static void across(blur *b, int64_t y)
{
    uint32_t w = b->t->width, half = b->half[0];

    for (; b->next <= y; b->next++) {
        const uint32_t *src = b->t->data + (size_t)stk_mirror(b->next, b->t->height) * w;

        memcpy(b->wide + half, src, (size_t)w * 4);
        for (uint32_t i = 1; i <= half; i++) {
            b->wide[half - i] = src[stk_mirror(-(int64_t)i, w)];
            b->wide[half + w - 1 + i] = src[stk_mirror((int64_t)w - 1 + i, w)];
        }
        b->k->blur_across(ring_row(b, b->next), (const uint8_t *)b->wide, (size_t)w * 4, b->w[0],
                          half);
    }
}

static int run_blur(const stk_tile_kern *k, const stk_action *a, stk_tile *t, stk_tile_room *room,
                    stk_error *err)
{
    blur b = { .k = k, .t = t, .half = { a->v.u[0], a->v.u[1] }, .row = (size_t)t->width * 4 };
    const uint16_t *rows[STK_BLUR_SIDE];
    size_t wide = ((size_t)t->width + 2 * b.half[0]) * 4;
    uint32_t taps = 2 * b.half[1] + 1;

    STK_TRY(spare(t, room, err));
    STK_TRY(lines(room, b.row * 2 * taps + wide, err));
    b.ring = (uint16_t *)(void *)room->lines;
    b.wide = (uint32_t *)(void *)(room->lines + b.row * 2 * taps);
    b.next = -(int64_t)b.half[1];
    for (int i = 0; i < 2; i++)
        stk_blur_weights(b.w[i], b.half[i], a->v.f[2]);
    for (uint32_t y = 0; y < t->height; y++) {
        across(&b, (int64_t)y + b.half[1]);
        for (uint32_t i = 0; i < taps; i++)
            rows[i] = ring_row(&b, (int64_t)y + i - b.half[1]);
        k->blur_down((uint8_t *)(room->spare + (size_t)y * t->width), rows, b.row, b.w[1],
                     b.half[1]);
    }
    swap(t, room);
    return 0;
}

/* ---- sharpness ---- */

/* Pixels at the edge stay as they are, as torchvision leaves them. */
static int run_sharpness(const stk_tile_kern *k, const stk_action *a, stk_tile *t,
                         stk_tile_room *room, stk_error *err)
{
    size_t w = t->width;

    if (t->width <= 2 || t->height <= 2)
        return 0;
    STK_TRY(spare(t, room, err));
    memcpy(room->spare, t->data, w * 4);
    for (uint32_t y = 1; y + 1 < t->height; y++) {
        const uint32_t *at = t->data + y * w, *const src[3] = { at - w + 1, at + 1, at + w + 1 };
        uint32_t *dst = room->spare + y * w;

        dst[0] = at[0];
        k->sharpen(dst + 1, src, w - 2, 1 - a->v.f[0]);
        dst[w - 1] = at[w - 1];
    }
    memcpy(room->spare + (t->height - 1) * w, t->data + (t->height - 1) * w, w * 4);
    swap(t, room);
    return 0;
}

/* The same by Pillow's blend. */
static uint32_t pil_sharpened(const stk_tile *t, const uint32_t *at, float factor)
{
    uint32_t out = 0;

    for (int c = 0; c < 3; c++) {
        int32_t v = (int32_t)(*at >> 8 * c & 255), sum = 4 * v;

        for (int64_t dy = -1; dy <= 1; dy++)
            for (int64_t dx = -1; dx <= 1; dx++)
                sum += (int32_t)(at[dy * t->width + dx] >> 8 * c & 255);
        out |= (uint32_t)stk_pil_sharpen(v, sum, factor) << 8 * c;
    }
    return out;
}

static int run_pil_sharpness(const stk_action *a, stk_tile *t, stk_tile_room *room, stk_error *err)
{
    size_t w = t->width, all = w * t->height;

    STK_TRY(spare(t, room, err));
    for (size_t i = 0; i < all; i++) {
        size_t x = i % w, y = i / w;
        int edge = !x || !y || x + 1 >= w || y + 1 >= t->height;

        room->spare[i] = edge ? t->data[i] : pil_sharpened(t, t->data + i, a->v.f[0]);
    }
    swap(t, room);
    return 0;
}

static int run_pil_box(const stk_action *a, stk_tile *t, stk_tile_room *room, stk_error *err)
{
    size_t all = (size_t)t->width * t->height;

    STK_TRY(spare(t, room, err));
    for (size_t i = 0; i < all; i++)
        room->spare[i] = stk_pil_box(a, t->data, t->width, t->height, (uint32_t)i);
    swap(t, room);
    return 0;
}

/* ---- Pillow's transform() ---- */

static int run_pil_warp(const stk_action *a, stk_tile *t, stk_tile_room *room, stk_error *err)
{
    const stk_pil_map p = stk_pil_map_of(a, t->width, t->height);

    STK_TRY(spare(t, room, err));
    for (uint32_t y = 0; y < t->height; y++)
        for (uint32_t x = 0; x < t->width; x++)
            room->spare[(size_t)y * t->width + x] = stk_pil_pixel(&p, t->data, t->width, t->height,
                                                                  x, y);
    swap(t, room);
    return 0;
}

/* ---- versions that are mixed: AugMix, as timm sums and blends ---- */

static int mix_begin(const stk_tile *t, stk_tile_room *room, stk_error *err)
{
    size_t n = (size_t)t->width * t->height;

    room->mix = stk_scratch_get(room->scratch, n * sizeof *room->mix);
    room->sum = room->mix ? stk_scratch_get(room->scratch, 3 * n * sizeof *room->sum) : NULL;
    if (!room->sum)
        return stk_fail_nomem(err, n * 16);
    memcpy(room->mix, t->data, n * sizeof *room->mix);
    memset(room->sum, 0, 3 * n * sizeof *room->sum);
    return 0;
}

static void mix_add(float weight, stk_tile *t, const stk_tile_room *room)
{
    size_t n = (size_t)t->width * t->height;

    for (size_t i = 0; i < n; i++)
        for (int c = 0; c < 3; c++)
            room->sum[3 * i + (size_t)c] += weight * (float)(t->data[i] >> 8 * c & 255);
    memcpy(t->data, room->mix, n * sizeof *room->mix);
}

static void mix_end(float share, stk_tile *t, const stk_tile_room *room)
{
    size_t n = (size_t)t->width * t->height;

    for (size_t i = 0; i < n; i++) {
        uint32_t out = 0;

        for (int c = 0; c < 3; c++)
            out |= stk_pil_blend((int32_t)(room->mix[i] >> 8 * c & 255),
                                 (int32_t)stk_pt_cut(room->sum[3 * i + (size_t)c]), share)
                   << 8 * c;
        t->data[i] = out;
    }
}

/* ---- a rectangle ---- */

static void run_erase(const stk_action *a, stk_tile *t)
{
    const uint32_t *r = a->v.u; /* x, y, w, h */
    const stk_rng_stream s = { { r[5], r[6] }, { r[7], r[8], r[9] } };
    uint32_t fill = 0, bits[4];

    if (!r[4])
        fill = stk_px((uint32_t)a->v.f[5], (uint32_t)a->v.f[6], (uint32_t)a->v.f[7]);
    for (uint32_t y = 0, i = 0; y < r[3]; y++)
        for (uint32_t x = 0; x < r[2]; x++, i++) {
            if (r[4] && i % 4 == 0)
                stk_rng_stream_block(&s, i / 4, bits);
            t->data[(size_t)(r[1] + y) * t->width + r[0] + x] = r[4] ? bits[i % 4] >> 8 : fill;
        }
}

int stk_tile_big(const stk_tile_kern *k, const stk_action *a, stk_tile *t, stk_tile_room *room,
                 stk_error *err)
{
    if (!t->width || !t->height)
        return 0;
    switch (a->code) {
    case STK_ACT_BLUR: return run_blur(k, a, t, room, err);
    case STK_ACT_SHARPNESS: return run_sharpness(k, a, t, room, err);
    case STK_ACT_PIL_SHARPNESS: return run_pil_sharpness(a, t, room, err);
    case STK_ACT_PIL_BOX: return run_pil_box(a, t, room, err);
    case STK_ACT_PIL_WARP:
    case STK_ACT_MIX_WARP: return run_pil_warp(a, t, room, err);
    case STK_ACT_MIX_BEGIN: return mix_begin(t, room, err);
    case STK_ACT_MIX_ADD: mix_add(a->v.f[0], t, room); return 0;
    case STK_ACT_MIX_END: mix_end(a->v.f[0], t, room); return 0;
    case STK_ACT_JPEG:
        STK_TRY(lines(room, stk_tile_jpeg_bytes(t), err));
        stk_tile_jpeg(k, t, a->v.u[0], room->lines);
        return 0;
    default: run_erase(a, t); return 0;
    }
}

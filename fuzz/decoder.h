/* SPDX-License-Identifier: Apache-2.0 */
/* decoder.h - feeds any bytes to a decoder of pictures, and checks that it gives pixels or a clean
 * error, in bounded memory and time.  The fuzz targets of decoders include it.
 *
 * Two regions, drawn from a hash of the bytes, are decoded by one context; where both succeed,
 * the pixels they share are the same. */
#ifndef STOKER_FUZZ_DECODER_H
#define STOKER_FUZZ_DECODER_H

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/rng.h"
#include "codec/codec.h"
#include "codec/decoders.h"
#include "codec/exif.h"
#include "fuzz.h"

#define MAX_PIXELS ((uint64_t)1 << 20)

static stk_rect random_region(stk_rng *rng, const stk_media_info *info)
{
    stk_rect r = { stk_rng_below(rng, info->width), stk_rng_below(rng, info->height), 0, 0 };

    r.w = 1 + stk_rng_below(rng, info->width - r.x);
    r.h = 1 + stk_rng_below(rng, info->height - r.y);
    return r;
}

static void check_error(int rc, const stk_error *err)
{
    FUZZ_CHECK(rc < 0 && err->code == rc && err->message[0] && !strchr(err->message, '\n'));
    FUZZ_CHECK(rc == STK_ECORRUPT || rc == STK_ENOTSUP || rc == STK_ELIMIT);
}

static const uint8_t *pixel(const stk_pixels *p, uint32_t x, uint32_t y)
{
    return p->data + (size_t)(y - p->area.y) * p->stride + (size_t)(x - p->area.x) * 4;
}

static void check_pixels(const stk_pixels *p, const stk_rect *n)
{
    FUZZ_CHECK(p->area.x <= n->x && p->area.x + p->area.w >= n->x + n->w);
    FUZZ_CHECK(p->area.y <= n->y && p->area.y + p->area.h >= n->y + n->h);
    FUZZ_CHECK(p->stride >= (size_t)p->area.w * 4);
}

static void check_shared(const stk_pixels *pa, const stk_rect *a, const stk_pixels *pb,
                         const stk_rect *b)
{
    uint32_t x0 = a->x > b->x ? a->x : b->x, y0 = a->y > b->y ? a->y : b->y;
    uint32_t x1 = a->x + a->w < b->x + b->w ? a->x + a->w : b->x + b->w;
    uint32_t y1 = a->y + a->h < b->y + b->h ? a->y + a->h : b->y + b->h;

    for (uint32_t y = y0; y < y1; y++)
        for (uint32_t x = x0; x < x1; x++)
            FUZZ_CHECK(!memcmp(pixel(pa, x, y), pixel(pb, x, y), 3));
}

static int fuzz_decoder(const stk_decoder *d, const uint8_t *data, size_t size)
{
    stk_bytes in = { size ? data : (const uint8_t *)"", size };
    int deep = !strcmp(d->name, "png") || !strcmp(d->name, "ppm"); /* those that know of it */
    stk_scratch scratch = { 0 };
    stk_media_info info;
    stk_pixels px[2];
    stk_rect need[2];
    stk_error err;
    stk_rng rng;
    void *ctx;
    int rc;

    FUZZ_CHECK(d->open(&ctx, &err) == 0);
    FUZZ_CHECK(stk_exif_turn(in) - 1 < 8);
    rc = stk_picture_header(&(stk_picture_source){ .decoder = d, .ctx = ctx }, in, &info, &err);
    if (rc < 0)
        check_error(rc, &err);
    if (rc == 0 && (uint64_t)info.width * info.height <= MAX_PIXELS) {
        stk_rng_init(&rng, stk_hash64(0, in.data, in.len), 0, 0, 0, 0);
        for (int i = 0; i < 2 && rc == 0; i++) {
            need[i] = random_region(&rng, &info);
            rc = stk_picture_whole(&(stk_picture_source){ .decoder = d, .ctx = ctx }, in,
                                   &(stk_decode_request){ .need = need[i],
                                                          .deep = deep && size & 2,
                                                          .high_byte = size & 1 },
                                   &scratch, &px[i], &err);
            if (rc < 0)
                check_error(rc, &err);
            else
                check_pixels(&px[i], &need[i]);
        }
        if (rc == 0)
            check_shared(&px[0], &need[0], &px[1], &need[1]);
    }
    d->close(ctx);
    stk_scratch_fini(&scratch);
    return 0;
}

#endif

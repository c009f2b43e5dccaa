/* SPDX-License-Identifier: Apache-2.0 */
/* encode_webp.c - pictures to WebP by libwebp, lossy or lossless; gray is written as RGB. */
#include "codec/encode.h"

#include <config.h>

#if STK_HAVE_WEBP

#include <webp/encode.h>

#include "base/mem.h"

/* WebP has no gray: three equal channels, in memory of the caller's to free. */
static uint8_t *spread(const stk_encode_pixels *p)
{
    uint8_t *rgb = stk_alloc((size_t)p->width * p->height * 3), *d = rgb;

    for (uint32_t y = 0; rgb && y < p->height; y++)
        for (uint32_t x = 0; x < p->width; x++, d += 3)
            d[0] = d[1] = d[2] = p->data[y * p->stride + x];
    return rgb;
}

static int webp_encode(const stk_encoding *e, const stk_encode_in *in, stk_text *out,
                       stk_error *err)
{
    stk_encode_pixels p;
    uint8_t *bytes = NULL, *rgb = NULL;
    const uint8_t *from;
    size_t len;
    int stride, rc;

    STK_TRY(stk_encode_pixels_of(in, 0, &p, err));
    if (p.width > WEBP_MAX_DIMENSION || p.height > WEBP_MAX_DIMENSION)
        return stk_fail(err, STK_ELIMIT,
                        "encode(webp): a side has %u pixels at most, this picture is %u x %u",
                        WEBP_MAX_DIMENSION, p.width, p.height);
    if (p.channels == 1 && !(rgb = spread(&p)))
        return stk_fail_nomem(err, (size_t)p.width * p.height * 3);
    from = rgb ? rgb : p.data;
    stride = (int)(rgb ? p.width * 3 : p.stride);
    len = e->lossless
              ? WebPEncodeLosslessRGB(from, (int)p.width, (int)p.height, stride, &bytes)
              : WebPEncodeRGB(from, (int)p.width, (int)p.height, stride, (float)e->quality, &bytes);
    rc = len ? stk_text_put(out, bytes, len, err)
             : stk_fail(err, STK_ENOMEM, "libwebp could not write a picture of %u x %u", p.width,
                        p.height);
    WebPFree(bytes);
    stk_free(rgb);
    return rc;
}

#else
#define webp_encode NULL
#endif

const stk_encoder stk_encode_webp = { .name = "webp",
                                      .library = "libwebp",
                                      .pictures = 1,
                                      .low = 1,
                                      .high = 100,
                                      .usual = 80,
                                      .encode = webp_encode };

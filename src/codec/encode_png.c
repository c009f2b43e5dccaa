/* SPDX-License-Identifier: Apache-2.0 */
/* encode_png.c - pictures to PNG by libspng: gray or RGB of 8 bits, gray of 16. */
#include "codec/encode.h"

#include <config.h>

#if STK_HAVE_PNG

#include <spng.h>
#include <stdlib.h>

static int write_rows(spng_ctx *s, const stk_encode_pixels *p, int level)
{
    struct spng_ihdr ihdr = { .width = p->width,
                              .height = p->height,
                              .bit_depth = p->deep ? 16 : 8,
                              .color_type = p->channels == 3 ? SPNG_COLOR_TYPE_TRUECOLOR
                                                             : SPNG_COLOR_TYPE_GRAYSCALE };
    int rc = spng_set_option(s, SPNG_ENCODE_TO_BUFFER, 1);

    if (!rc)
        rc = spng_set_option(s, SPNG_IMG_COMPRESSION_LEVEL, level);
    if (!rc)
        rc = spng_set_ihdr(s, &ihdr);
    if (!rc)
        rc = spng_encode_image(s, NULL, 0, SPNG_FMT_PNG,
                               SPNG_ENCODE_PROGRESSIVE | SPNG_ENCODE_FINALIZE);
    for (uint32_t y = 0; !rc && y < p->height; y++)
        rc = spng_encode_row(s, p->data + y * p->stride,
                             (size_t)p->width * p->channels * (p->deep ? 2 : 1));
    return rc == SPNG_EOI ? 0 : rc;
}

static int png_encode(const stk_encoding *e, const stk_encode_in *in, stk_text *out, stk_error *err)
{
    stk_encode_pixels p;
    spng_ctx *s;
    void *bytes = NULL;
    size_t len = 0;
    int rc;

    STK_TRY(stk_encode_pixels_of(in, 1, &p, err));
    s = spng_ctx_new(SPNG_CTX_ENCODER);
    rc = s ? write_rows(s, &p, e->quality) : SPNG_EMEM;
    if (!rc)
        bytes = spng_get_png_buffer(s, &len, &rc);
    if (rc || !bytes)
        rc = stk_fail(err, rc == SPNG_EMEM ? STK_ENOMEM : STK_EINVAL,
                      "libspng could not write a picture of %u x %u: %s", p.width, p.height,
                      spng_strerror(rc));
    else
        rc = stk_text_put(out, bytes, len, err);
    free(bytes);
    spng_ctx_free(s);
    return rc;
}

#else
#define png_encode NULL
#endif

const stk_encoder stk_encode_png = { .name = "png",
                                     .library = "libspng",
                                     .pictures = 1,
                                     .low = 0,
                                     .high = 9,
                                     .usual = 6,
                                     .encode = png_encode };

/* SPDX-License-Identifier: Apache-2.0 */
/* webp - still WebP pictures by libwebp; the only file that knows its header.
 *
 * The library cuts while it decodes, which saves the rows below and the color of what is not
 * seen.  A cut is made two pixels larger on every side: chroma is interpolated from its
 * neighbours, and at the edge of a cut the library has none.  Alpha is dropped, not blended.
 *
 * As in Pillow, a file shorter than its RIFF header says is truncated, whatever part of it is
 * asked for.  Animations are refused: which frame was meant is not ours to guess.
 *
 * libwebp's working memory is malloc()'s: it takes no allocator.  It is bounded by the size of the
 * picture, at most 16383 a side, and counted beforehand by what its header says. */
#include "codec/codec.h"
#include "codec/decoders.h"

#include <config.h>

#include <string.h>

static int webp_probe(stk_bytes head)
{
    return head.len >= 12 && !memcmp(head.data, "RIFF", 4) && !memcmp(head.data + 8, "WEBP", 4);
}

#if STK_HAVE_WEBP

#include <webp/decode.h>

#define ALIGN 64
#define MARGIN 2u

typedef struct webp_ctx {
    stk_bytes in;
    uint32_t width, height;
    int lossless, alpha;
} webp_ctx;

/* What libwebp takes beside the pixels: rows that are filtered, and planes that it keeps whole.
 * Not the code tables of a lossless picture, which depend on its bytes. */
static size_t webp_memory(const webp_ctx *c)
{
    size_t area = (size_t)c->width * c->height, rows = (size_t)c->width * 256 + (64 << 10);

    if (c->lossless)
        return rows + area * 4 + area / 4;
    return rows + (c->alpha ? area * 5 + area / 4 : 0);
}

static int webp_fail(const webp_ctx *c, VP8StatusCode status, stk_error *err)
{
    switch (status) {
    case VP8_STATUS_OUT_OF_MEMORY: return stk_fail(err, STK_ENOMEM, "no memory to decode a WebP");
    case VP8_STATUS_UNSUPPORTED_FEATURE:
        return stk_fail(err, STK_ENOTSUP, "WebP uses a feature that libwebp does not know");
    case VP8_STATUS_NOT_ENOUGH_DATA:
        return stk_fail(err, STK_ECORRUPT, "WebP is truncated: its %zu bytes end too early",
                        c->in.len);
    default: return stk_fail(err, STK_ECORRUPT, "WebP: its data is damaged");
    }
}

static int webp_open(void **out, stk_error *err)
{
    *out = STK_NEW(webp_ctx);
    return *out ? 0 : stk_fail_nomem(err, sizeof(webp_ctx));
}

static void webp_close(void *p)
{
    stk_free(p);
}

static uint64_t riff_size(stk_bytes in)
{
    const uint8_t *p = in.data + 4;

    return 8 + (p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24);
}

static int read_header(webp_ctx *c, stk_error *err)
{
    WebPBitstreamFeatures f;
    VP8StatusCode status;

    if (!webp_probe(c->in))
        return stk_fail(err, STK_ECORRUPT, "WebP is truncated: its %zu bytes end in the header",
                        c->in.len);
    status = WebPGetFeatures(c->in.data, c->in.len, &f);
    if (status != VP8_STATUS_OK)
        return webp_fail(c, status, err);
    if (f.has_animation)
        return stk_fail(err, STK_ENOTSUP, "WebP is an animation: only still pictures are decoded");
    c->width = (uint32_t)f.width;
    c->height = (uint32_t)f.height;
    c->lossless = f.format == 2;
    c->alpha = f.has_alpha;
    return 0;
}

static int webp_header(void *p, stk_bytes in, const stk_media_points *points, stk_media_info *out,
                       stk_error *err)
{
    webp_ctx *c = p;
    int rc;

    (void)points;
    *c = (webp_ctx){ .in = in };
    rc = read_header(c, err);
    if (rc < 0)
        c->in = (stk_bytes){ 0 };
    *out = stk_picture_info(c->width, c->height);
    return rc;
}

/* One axis of the cut: `at` even, since chroma has half as many pixels. */
static void widen(uint32_t need, uint32_t n, uint32_t size, uint32_t *at, uint32_t *len)
{
    uint32_t end = size - need - n > MARGIN ? need + n + MARGIN : size;

    *at = need > MARGIN ? (need - MARGIN) & ~1u : 0;
    *len = end - *at;
}

static int decode_area(webp_ctx *c, const stk_rect *need, stk_scratch *scratch, stk_pixels *out,
                       stk_error *err)
{
    WebPDecoderConfig config;
    VP8StatusCode status;
    stk_rect *a = &out->area;

    if (!WebPInitDecoderConfig(&config))
        return stk_fail(err, STK_ENOTSUP, "libwebp is not the version this was built for");
    widen(need->x, need->w, c->width, &a->x, &a->w);
    widen(need->y, need->h, c->height, &a->y, &a->h);
    out->stride = ((size_t)a->w * 4 + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    out->data = stk_scratch_beside(scratch, webp_memory(c))
                    ? stk_scratch_get(scratch, out->stride * a->h)
                    : NULL;
    if (!out->data)
        return stk_fail(err, STK_ENOMEM, "no memory for %ux%u pixels", a->w, a->h);
    config.options.use_cropping = a->w < c->width || a->h < c->height;
    config.options.crop_left = (int)a->x;
    config.options.crop_top = (int)a->y;
    config.options.crop_width = (int)a->w;
    config.options.crop_height = (int)a->h;
    config.output.colorspace = MODE_RGBA;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = out->data;
    config.output.u.RGBA.stride = (int)out->stride;
    config.output.u.RGBA.size = out->stride * a->h;
    status = WebPDecode(c->in.data, c->in.len, &config);
    WebPFreeDecBuffer(&config.output);
    return status == VP8_STATUS_OK ? 0 : webp_fail(c, status, err);
}

static int webp_pixels(void *p, const stk_decode_request *ask, stk_scratch *scratch,
                       stk_pixels *out, stk_error *err)
{
    const stk_rect *need = &ask->need;
    webp_ctx *c = p;

    if (!c->in.data)
        return stk_fail(err, STK_EINVAL, "decode() needs a header() that succeeded");
    if (riff_size(c->in) > c->in.len)
        return stk_fail(err, STK_ECORRUPT,
                        "WebP is truncated: %zu of its %" PRIu64 " bytes are there", c->in.len,
                        riff_size(c->in));
    if (ask->index)
        return stk_fail(err, STK_ECORRUPT,
                        "image(mode=index): a WebP has colors, not indices: store PNG");
    if (!need->w || !need->h || need->x >= c->width || need->w > c->width - need->x ||
        need->y >= c->height || need->h > c->height - need->y)
        return stk_fail(err, STK_EINVAL, "region %ux%u at (%u, %u) is not inside the %ux%u picture",
                        need->w, need->h, need->x, need->y, c->width, c->height);
    return decode_area(c, need, scratch, out, err);
}

#else

static int webp_open(void **out, stk_error *err)
{
    *out = NULL;
    return stk_fail(err, STK_ENOTSUP,
                    "this build has no WebP: install libwebp's headers and build again");
}

static int webp_header(void *ctx, stk_bytes in, const stk_media_points *points, stk_media_info *out,
                       stk_error *err)
{
    (void)ctx, (void)in, (void)points, (void)out;
    return stk_fail(err, STK_ENOTSUP, "this build has no WebP");
}

static int webp_pixels(void *ctx, const stk_decode_request *ask, stk_scratch *scratch,
                       stk_pixels *out, stk_error *err)
{
    (void)ctx, (void)ask, (void)scratch, (void)out;
    return stk_fail(err, STK_ENOTSUP, "this build has no WebP");
}

static void webp_close(void *ctx)
{
    (void)ctx;
}

#endif

static int webp_decode(void *ctx, const stk_media_job *job, stk_error *err)
{
    return stk_pixels_give(webp_pixels, ctx, job, err);
}

const stk_decoder stk_decoder_webp = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_decoder),
    .name = "webp",
    .help = "WebP by libwebp: lossy and lossless stills; alpha is dropped",
    .probe = webp_probe,
    .open = webp_open,
    .header = webp_header,
    .decode = webp_decode,
    .close = webp_close
};

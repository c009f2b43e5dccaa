/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg.c - which of the two decoders reads a JPEG.
 *
 * Ours reads baseline pictures, only what the view sees.  What it does not read (progressive,
 * arithmetic, 12 bit, CMYK) or finds damaged goes to libjpeg-turbo, whose pixels or error then
 * count; what has seek points that do not fit is decoded without them.  The picture alone decides,
 * and the pixels are the same from either decoder, but for color after sampling, which is ours
 * only. */
#include "codec/codec.h"
#include "codec/jpeg_base.h"
#include "codec/jpeg_turbo.h"

typedef struct jpeg_ctx {
    stk_jpeg *own;
    void *turbo; /* NULL: not needed so far */
    stk_bytes in;
    stk_jpeg_head head;
    stk_jpeg_seek seek;
    int ours, has_seek, misfit;
} jpeg_ctx;

static int jpeg_probe(stk_bytes head)
{
    return head.len >= 3 && head.data[0] == 0xFF && head.data[1] == 0xD8 && head.data[2] == 0xFF;
}

static void jpeg_close(void *p)
{
    jpeg_ctx *c = p;

    if (!c)
        return;
    stk_jpeg_close(&c->own);
    if (c->turbo)
        stk_jpeg_turbo.close(c->turbo);
    stk_free(c);
}

static int jpeg_open(void **out, stk_error *err)
{
    jpeg_ctx *c = STK_NEW(jpeg_ctx);
    int rc;

    *out = NULL;
    if (!c)
        return stk_fail_nomem(err, sizeof *c);
    rc = stk_jpeg_open(&c->own, stk_cpu_level(), err);
    if (rc < 0) {
        stk_free(c);
        return rc;
    }
    *out = c;
    return 0;
}

static int turbo_header(jpeg_ctx *c, stk_image_info *out, stk_error *err)
{
    if (!c->turbo)
        STK_TRY(stk_jpeg_turbo.open(&c->turbo, err));
    return stk_jpeg_turbo.header(c->turbo, c->in, (stk_bytes){ 0 }, out, err);
}

/* Points of another picture are no use; of a changed one they show when a chunk ends. */
static int takes_points(jpeg_ctx *c, stk_bytes hint)
{
    stk_jpeg_head h;

    return hint.data && stk_jpeg_seek_open(&c->seek, &h, hint, NULL) == 0 &&
           h.width == c->head.width && h.height == c->head.height && h.n_comps == c->head.n_comps &&
           h.scan == c->head.scan && h.restart == c->head.restart;
}

#define PROOF 8 /* chunks that end where they should: the points are this picture's */

/* A small crop sees few chunks to their end; the file's checksum has to do then. */
static int fits(const jpeg_ctx *c, const stk_rect *need)
{
    uint64_t wide = need->w / (c->seek.chunk * 8u * c->head.max_h);
    uint64_t rows = need->h / (8u * c->head.max_v);

    return (!c->seek.rows_only && wide && (wide - 1) * rows >= PROOF) ||
           stk_jpeg_seek_check(&c->seek, &c->head, c->in, NULL) == 0;
}

static int jpeg_header(void *p, stk_bytes in, stk_bytes hint, stk_image_info *out, stk_error *err)
{
    jpeg_ctx *c = p;

    c->in = in;
    c->has_seek = c->misfit = 0;
    c->ours = stk_jpeg_parse(&c->head, in, NULL) == 0;
    if (!c->ours) {
        int rc = turbo_header(c, out, err);

        if (rc < 0)
            c->in = (stk_bytes){ 0 };
        return rc;
    }
    c->has_seek = takes_points(c, hint);
    c->misfit = hint.data && !c->has_seek;
    *out = (stk_image_info){ c->head.width, c->head.height };
    return 0;
}

static int turbo_decode(jpeg_ctx *c, const stk_decode_request *ask, stk_scratch *scratch,
                        stk_pixels *out, stk_error *err)
{
    stk_image_info info;

    out->lane = STK_LANE_FALLBACK; /* counted even where it fails too */
    if (c->ours)                   /* it has not seen this one yet */
        STK_TRY(turbo_header(c, &info, err));
    return stk_jpeg_turbo.decode(c->turbo, ask, scratch, out, err);
}

static int jpeg_decode(void *p, const stk_decode_request *ask, stk_scratch *scratch,
                       stk_pixels *out, stk_error *err)
{
    jpeg_ctx *c = p;
    stk_jpeg_job job = { .head = &c->head, .in = c->in };
    stk_lane lane = c->misfit ? STK_LANE_MISFIT : STK_LANE_PLAIN;
    int rc;

    if (!c->in.data)
        return stk_fail(err, STK_EINVAL, "decode() needs a header() that succeeded");
    if (ask->index && (!c->ours || c->head.n_comps != 1))
        return stk_fail(err, STK_ECORRUPT,
                        "image(mode=index): a JPEG of colors has no indices: store PNG");
    if (!c->ours)
        return turbo_decode(c, ask, scratch, out, err);
    if (c->has_seek) {
        int good = fits(c, &ask->need);

        job.seek = good ? &c->seek : NULL;
        lane = good ? STK_LANE_SEEK : STK_LANE_MISFIT;
    }
    rc = stk_jpeg_decode(c->own, &job, ask, scratch, out, err);
    if (rc < 0 && job.seek && (rc == STK_ESTALE || rc == STK_ECORRUPT)) {
        job.seek = NULL;
        lane = STK_LANE_MISFIT;
        rc = stk_jpeg_decode(c->own, &job, ask, scratch, out, err);
    }
    if (rc == STK_ECORRUPT)
        return turbo_decode(c, ask, scratch, out, err);
    out->lane = lane;
    return rc;
}

int stk_jpeg_peek(void *p, const stk_rect *need, stk_jpeg_job *out)
{
    const jpeg_ctx *c = p;

    if (!c->in.data || !c->ours)
        return STK_ENOTSUP;
    *out = (stk_jpeg_job){ .head = &c->head, .in = c->in };
    if (c->has_seek && fits(c, need))
        out->seek = &c->seek;
    return 0;
}

static int jpeg_learn(void *p, stk_scratch *scratch, stk_bytes *out, stk_error *err)
{
    jpeg_ctx *c = p;

    if (!c->in.data || !c->ours)
        return stk_fail(err, STK_ECORRUPT, "seek points are of baseline JPEGs");
    STK_TRY(stk_jpeg_seek_build(c->own, &c->head, c->in, scratch, out, err));
    if (!stk_jpeg_seek_pays(*out, c->in))
        return stk_fail(err, STK_ECORRUPT, "seek points would take more than 2.5 %% of the JPEG");
    return 0;
}

const stk_decoder stk_decoder_jpeg = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_decoder),
    .name = "jpeg",
    .help = "JPEG: baseline by our own decoder, only what is seen; all others by libjpeg-turbo",
    .probe = jpeg_probe,
    .open = jpeg_open,
    .header = jpeg_header,
    .decode = jpeg_decode,
    .close = jpeg_close,
    .learn = jpeg_learn,
    .can = STK_DECODER_GPU
};

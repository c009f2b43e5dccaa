/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg.c - which of the two decoders reads a JPEG, and what of it must be read.
 *
 * Ours reads baseline pictures, only what the view sees.  What it does not read (progressive,
 * arithmetic, 12 bit, CMYK) or finds damaged goes to libjpeg-turbo, whose pixels or error then
 * count; what has seek points that do not fit is decoded without them.  The picture alone decides,
 * and the pixels are the same from either decoder, but for color after sampling, which is ours
 * only.
 *
 * Its points are its seek points.  Of version 2 they have all that decoding some rows needs but the
 * rows themselves, which are one range, and a sum of each row.  Rows whose sum is another are
 * STK_ESTALE, and so is any damage: the whole file then decides. */
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
        stk_jpeg_turbo_close(c->turbo);
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

static int turbo_header(jpeg_ctx *c, stk_media_info *out, stk_error *err)
{
    if (!c->turbo)
        STK_TRY(stk_jpeg_turbo_open(&c->turbo, err));
    return stk_jpeg_turbo_header(c->turbo, c->in, out, err);
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

/* A small crop sees few chunks to their end; sums have to do then, of its rows or of the file. */
static int fits(const jpeg_ctx *c, const stk_rect *need)
{
    uint64_t wide = need->w / (c->seek.chunk * 8u * c->head.max_h);
    uint64_t rows = need->h / (8u * c->head.max_v);
    uint32_t y0, y1;

    if (!c->seek.rows_only && wide && (wide - 1) * rows >= PROOF)
        return 1;
    if (!c->seek.sum.data || !need->w || !need->h || c->in.len < c->head.scan)
        return stk_jpeg_seek_check(&c->seek, &c->head, c->in, NULL) == 0;
    stk_jpeg_rows(&c->head, need, &y0, &y1);
    return y1 <= c->seek.rows &&
           stk_jpeg_seek_check_rows(
               &c->seek, y0, y1, (stk_bytes){ c->in.data + c->head.scan, c->in.len - c->head.scan },
               0) == 0;
}

static int jpeg_header(void *p, stk_bytes in, const stk_media_points *points, stk_media_info *out,
                       stk_error *err)
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
    c->has_seek = takes_points(c, points->head);
    c->misfit = points->head.data && !c->has_seek;
    *out = stk_picture_info(c->head.width, c->head.height);
    return 0;
}

static int turbo_decode(jpeg_ctx *c, const stk_decode_request *ask, stk_scratch *scratch,
                        stk_pixels *out, stk_error *err)
{
    stk_media_info info;

    out->lane = STK_LANE_FALLBACK; /* counted even where it fails too */
    if (c->ours)                   /* it has not seen this one yet */
        STK_TRY(turbo_header(c, &info, err));
    return stk_jpeg_turbo_pixels(c->turbo, ask, scratch, out, err);
}

static int whole_pixels(void *p, const stk_decode_request *ask, stk_scratch *scratch,
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

/* ---- parts ---- */

static int stale(stk_error *err)
{
    return stk_fail(err, STK_ESTALE, "JPEG: what was read is not what its seek points describe");
}

/* Rows that were read by ranges(), as a job of our decoder's. */
static int part_job(jpeg_ctx *c, const stk_media_points *p, const stk_media_part *part,
                    const stk_rect *need, stk_jpeg_job *out, stk_error *err)
{
    uint32_t y0, y1;

    c->in = (stk_bytes){ 0 }; /* of header(); the head is the points' now */
    if (stk_jpeg_seek_open(&c->seek, &c->head, p->head, NULL) < 0 || !c->seek.sum.data ||
        part->offset < c->head.scan || part->offset > UINT32_MAX)
        return stale(err);
    stk_jpeg_rows(&c->head, need, &y0, &y1);
    if (y1 > c->seek.rows ||
        stk_jpeg_seek_check_rows(&c->seek, y0, y1, part->bytes, part->offset - c->head.scan) < 0)
        return stale(err);
    *out = (stk_jpeg_job){
        .head = &c->head, .in = part->bytes, .at = (uint32_t)part->offset, .seek = &c->seek
    };
    return 0;
}

static int is_inside(const stk_rect *need, uint32_t width, uint32_t height)
{
    return need->w && need->h && need->x < width && need->w <= width - need->x &&
           need->y < height && need->h <= height - need->y;
}

typedef struct part_ask { /* for stk_pixels_give() */
    jpeg_ctx *c;
    const stk_media_points *points;
    const stk_media_part *part;
} part_ask;

static int part_pixels(void *cookie, const stk_decode_request *ask, stk_scratch *scratch,
                       stk_pixels *out, stk_error *err)
{
    const part_ask *a = cookie;
    stk_jpeg_job job;
    int rc;

    STK_TRY(part_job(a->c, a->points, a->part, &ask->need, &job, err));
    if (ask->index && a->c->head.n_comps != 1) /* the whole file is refused */
        return stale(err);
    rc = stk_jpeg_decode(a->c->own, &job, ask, scratch, out, err);
    return rc == 0 || rc == STK_ENOMEM ? rc : stale(err);
}

/* The bytes that header() read, and not a part of them. */
static int is_whole(const jpeg_ctx *c, const stk_media_part *part, uint32_t n)
{
    return n == 1 && !part->offset && c->in.data && part->bytes.data == c->in.data;
}

static int jpeg_decode(void *p, const stk_media_job *job, stk_error *err)
{
    part_ask a = { p, job->points, job->part };

    if (job->n_parts == 1 && job->part->offset)
        return stk_pixels_give(part_pixels, &a, job, err);
    if (!is_whole(p, job->part, job->n_parts))
        return stk_fail(err, STK_EINVAL, "decode() needs a header() that succeeded");
    return stk_pixels_give(whole_pixels, p, job, err);
}

int stk_jpeg_peek(const stk_picture_source *from, const stk_rect *need, stk_jpeg_job *out)
{
    const stk_media_points points = { .head = from->points };
    jpeg_ctx *c = from->ctx;

    if (from->n_parts == 1 && from->part->offset)
        return need->w && need->h ? part_job(c, &points, from->part, need, out, NULL) : STK_ENOTSUP;
    if (!is_whole(c, from->part, from->n_parts) || !c->ours)
        return STK_ENOTSUP;
    *out = (stk_jpeg_job){ .head = &c->head, .in = c->in };
    if (c->has_seek && fits(c, need))
        out->seek = &c->seek;
    return 0;
}

/* ---- points ---- */

static int jpeg_know(const stk_media_points *p, uint32_t track, stk_media_info *out, stk_error *err)
{
    stk_jpeg_head head;
    stk_jpeg_seek seek;

    (void)track;
    STK_TRY(stk_jpeg_seek_open(&seek, &head, p->head, err));
    *out = stk_picture_info(head.width, head.height);
    out->turn = seek.turn;
    return 0;
}

static int jpeg_ranges(const stk_media_points *p, const stk_media_ask *ask, uint64_t session_at,
                       stk_media_range out[STK_MEDIA_RANGES], uint32_t *n, stk_error *err)
{
    stk_jpeg_head head;
    stk_jpeg_seek seek;
    uint64_t from, to;
    uint32_t y0, y1;

    (void)session_at;
    *n = 0;
    STK_TRY(stk_jpeg_seek_open(&seek, &head, p->head, err));
    if (!seek.sum.data || !is_inside(&ask->need, head.width, head.height))
        return 0;
    stk_jpeg_rows(&head, &ask->need, &y0, &y1);
    stk_jpeg_seek_bytes(&seek, y0, y1, &from, &to);
    if (from >= to)
        return 0;
    out[0] = (stk_media_range){ head.scan + from, to - from };
    *n = 1;
    return 0;
}

static int jpeg_points(void *p, const stk_media_reader *read, stk_scratch *scratch, stk_bytes *out,
                       stk_error *err)
{
    jpeg_ctx *c = p;
    stk_jpeg_head head;
    stk_bytes in;

    STK_TRY(read->read(read->cookie, 0, (size_t)read->size, &in, err));
    if (stk_jpeg_parse(&head, in, NULL) < 0)
        return stk_fail(err, STK_ECORRUPT, "seek points are of baseline JPEGs");
    STK_TRY(stk_jpeg_seek_build(c->own, &head, in, scratch, out, err));
    if (!stk_jpeg_seek_pays(*out, in))
        return stk_fail(err, STK_ECORRUPT, "seek points would take more than 2.5 %% of the JPEG");
    return 0;
}

/* Of older versions too, which points() would make otherwise. */
static int jpeg_fits(const stk_media_points *p, const stk_media_reader *read)
{
    stk_jpeg_head head;
    stk_jpeg_seek seek;
    stk_bytes in;

    return stk_jpeg_seek_open(&seek, &head, p->head, NULL) == 0 &&
           read->read(read->cookie, 0, (size_t)read->size, &in, NULL) == 0 &&
           stk_jpeg_seek_check(&seek, &head, in, NULL) == 0;
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
    .can = STK_DECODER_GPU,
    .tag = 'J',
    .know = jpeg_know,
    .ranges = jpeg_ranges,
    .points = jpeg_points,
    .fits = jpeg_fits
};

/* SPDX-License-Identifier: Apache-2.0 */
/* decoders.c - which decoder knows some bytes, and pictures through the seam.  The number of
 * decoders is taken once: one that is added later has no context here and is not used. */
#include "codec/sound_decoders.h"

#include <string.h>

#include "base/err.h"
#include "base/mem.h"

int stk_decoders_init(stk_decoders *d, const stk_registry *registry, stk_error *err)
{
    size_t n = stk_registry_count(registry, STK_PLUGIN_DECODER);

    *d = (stk_decoders){ registry, n, stk_zalloc(n + 1, sizeof *d->ctx) };
    if (d->ctx)
        return 0;
    d->n = 0;
    return stk_fail_nomem(err, n * sizeof *d->ctx);
}

void stk_decoders_fini(stk_decoders *d)
{
    for (size_t i = 0; i < d->n; i++) {
        const stk_decoder *decoder = stk_registry_get(d->registry, STK_PLUGIN_DECODER, i);

        if (d->ctx[i])
            decoder->close(d->ctx[i]);
    }
    stk_free(d->ctx);
    *d = (stk_decoders){ 0 };
}

static int open_context(stk_decoders *d, size_t i, const stk_decoder **out, void **ctx,
                        stk_error *err)
{
    *out = stk_registry_get(d->registry, STK_PLUGIN_DECODER, i);
    if (!d->ctx[i])
        STK_TRY((*out)->open(&d->ctx[i], err));
    *ctx = d->ctx[i];
    return 0;
}

/* Of those that decode sound tracks alone, or of the others. */
static int find(stk_decoders *d, stk_bytes in, uint32_t tracks, const stk_decoder **out, void **ctx,
                stk_error *err)
{
    for (size_t i = 0; i < d->n; i++) {
        const stk_decoder *decoder = stk_registry_get(d->registry, STK_PLUGIN_DECODER, i);

        if ((decoder->can & STK_DECODER_SOUND_TRACK) == tracks && decoder->probe(in))
            return open_context(d, i, out, ctx, err);
    }
    return STK_END;
}

int stk_decoders_find(stk_decoders *d, stk_bytes in, const stk_decoder **out, void **ctx,
                      stk_error *err)
{
    return find(d, in, 0, out, ctx, err);
}

int stk_decoders_find_sound(stk_decoders *d, stk_bytes in, const stk_decoder **out, void **ctx,
                            stk_error *err)
{
    int rc = find(d, in, STK_DECODER_SOUND_TRACK, out, ctx, err);

    return rc == STK_END ? find(d, in, 0, out, ctx, err) : rc;
}

int stk_decoders_of_points(stk_decoders *d, stk_bytes points, const stk_decoder **out, void **ctx,
                           stk_error *err)
{
    for (size_t i = 0; i < d->n && points.len; i++) {
        const stk_decoder *decoder = stk_registry_get(d->registry, STK_PLUGIN_DECODER, i);

        if (decoder->know && (uint8_t)decoder->tag == points.data[0])
            return open_context(d, i, out, ctx, err);
    }
    return STK_END;
}

int stk_points_fit(stk_decoders *d, stk_bytes points, stk_bytes in, stk_scratch *scratch)
{
    const stk_media_points p = { .head = points };
    const stk_media_reader whole = stk_media_here(&in);
    const stk_decoder *decoder;
    stk_bytes again;
    void *ctx;

    if (stk_decoders_of_points(d, points, &decoder, &ctx, NULL))
        return 1;
    if (decoder->fits)
        return decoder->fits(&p, &whole);
    if (!decoder->points)
        return 1;
    stk_scratch_reset(scratch);
    return decoder->probe(in) && decoder->points(ctx, &whole, scratch, &again, NULL) == 0 &&
           again.len == points.len && !memcmp(again.data, points.data, again.len);
}

/* ---- pictures, for callers ---- */

int stk_picture_header(const stk_picture_source *from, stk_bytes in, stk_media_info *out,
                       stk_error *err)
{
    const stk_media_points p = { .head = from->points };

    *out = (stk_media_info){ 0 };
    STK_TRY(from->decoder->header(from->ctx, in, &p, out, err));
    if (out->medium != STK_PICTURE)
        return stk_fail(err, STK_ENOTSUP,
                        "it is a %s (%s), not a picture: write %s in place of image",
                        out->medium == STK_SOUND ? "recording" : "video", from->decoder->name,
                        out->medium == STK_SOUND ? "sound(...)" : "video(...)");
    return 0;
}

static int read_here(void *cookie, uint64_t at, size_t len, stk_bytes *out, stk_error *err)
{
    const stk_bytes *in = cookie;

    if (at > in->len || len > in->len - at)
        return stk_fail(err, STK_ECORRUPT, "the field ends before byte %" PRIu64, at + len);
    *out = (stk_bytes){ in->data + at, len };
    return 0;
}

stk_media_reader stk_media_here(const stk_bytes *in)
{
    return (stk_media_reader){ (void *)(uintptr_t)in, in->len, read_here };
}

typedef struct taker { /* the sink of one picture */
    const stk_decode_request *ask;
    stk_pixels *out;
} taker;

static stk_pixels pixels_of(const stk_planes *p)
{
    return (stk_pixels){ .data = (uint8_t *)(uintptr_t)p->data[0],
                         .stride = p->stride[0],
                         .area = p->area,
                         .lane = p->lane,
                         .deep = p->kind == STK_PLANES_DEEP };
}

static int take_frame(void *cookie, uint32_t i, int64_t time_us, const stk_planes *p,
                      stk_error *err)
{
    const taker *t = cookie;

    (void)i, (void)time_us;
    if (p->kind != STK_PLANES_RGBX && p->kind != STK_PLANES_DEEP)
        return stk_fail(err, STK_ENOTSUP, "a decoder of pictures gave planes that are not RGB");
    *t->out = pixels_of(p);
    return 0;
}

static void take_rows(void *cookie, const stk_planes *p)
{
    const taker *t = cookie;
    stk_pixels band = pixels_of(p);

    t->ask->band(t->ask->cookie, &band);
}

static int decode_in_session(const stk_picture_source *from, stk_media_job *job, stk_error *err)
{
    const stk_decoder *d = from->decoder;
    int rc;

    if (d->start)
        STK_TRY(d->start(job->points, job->ask->track, &job->session, err));
    rc = d->decode(from->ctx, job, err);
    if (d->stop && job->session)
        d->stop(job->session);
    return rc;
}

int stk_picture_pixels(const stk_picture_source *from, const stk_decode_request *ask,
                       stk_scratch *scratch, stk_pixels *out, stk_error *err)
{
    taker t = { ask, out };
    const stk_media_points points = { .head = from->points };
    const stk_media_ask what = {
        .need = ask->need, .index = ask->index, .deep = ask->deep, .high_byte = ask->high_byte
    };
    const stk_media_sink sink = {
        .cookie = &t, .frame = take_frame, .rows = ask->band ? take_rows : NULL, .lane = &out->lane
    };
    stk_media_job job = { .points = &points,
                          .ask = &what,
                          .part = from->part,
                          .n_parts = from->n_parts,
                          .sink = &sink,
                          .scratch = scratch };

    return decode_in_session(from, &job, err);
}

int stk_picture_whole(const stk_picture_source *from, stk_bytes in, const stk_decode_request *ask,
                      stk_scratch *scratch, stk_pixels *out, stk_error *err)
{
    const stk_media_part part = { 0, in };
    stk_picture_source all = *from;

    all.part = &part;
    all.n_parts = 1;
    return stk_picture_pixels(&all, ask, scratch, out, err);
}

/* ---- pictures, for decoders ---- */

static stk_planes planes_of(const stk_pixels *p)
{
    return (stk_planes){ .kind = p->deep ? STK_PLANES_DEEP : STK_PLANES_RGBX,
                         .bits = p->deep ? 16 : 8,
                         .data = { p->data },
                         .stride = { p->stride },
                         .area = p->area,
                         .lane = p->lane };
}

static void give_rows(void *cookie, const stk_pixels *band)
{
    const stk_media_sink *sink = cookie;
    const stk_planes p = planes_of(band);

    sink->rows(sink->cookie, &p);
}

int stk_pixels_give(stk_pixels_fn make, void *ctx, const stk_media_job *job, stk_error *err)
{
    const stk_media_ask *ask = job->ask;
    const stk_media_sink *sink = job->sink;
    const stk_decode_request what = { .need = ask->need,
                                      .index = ask->index,
                                      .deep = ask->deep,
                                      .high_byte = ask->high_byte,
                                      .band = sink->rows ? give_rows : NULL,
                                      .cookie = (void *)(uintptr_t)sink };
    stk_pixels px = { 0 };
    stk_planes p;
    int rc = make(ctx, &what, job->scratch, &px, err);

    if (sink->lane)
        *sink->lane = px.lane;
    if (rc < 0)
        return rc;
    p = planes_of(&px);
    return sink->frame(sink->cookie, 0, 0, &p, err);
}

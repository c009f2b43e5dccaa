/* SPDX-License-Identifier: Apache-2.0 */
/* row_sound.c - a recording, or the part of it that is drawn.
 *
 * The part (sound_span.c) is drawn from how long the recording is: by its points before a byte is
 * read, else by its header.  Then the samples that it needs are read and decoded.  Draws are
 * addressed, so that make() draws what know() drew.
 *
 * The part of a clip's span is known when the clip is: know() of the clip comes first.  Where the
 * clip's time has to be read, the sound is read after it, as the clip is. */
#include "codec/sound_decoders.h"
#include "row/row_points.h"
#include "row/sound_span.h"
#include "video/video.h"

static void draw_of(const stk_row *x, void *ctx, stk_sound_draw *out)
{
    *out = (stk_sound_draw){ .chain = stk_row_chain(x),
                             .at = { .seed = x->plan->policy.seed,
                                     .position = x->position,
                                     .epoch = (uint32_t)x->batch->epoch,
                                     .output = x->output,
                                     .view = x->view },
                             .sample = stk_schedule_id(x->schedule, &x->where),
                             .most = x->plan->policy.max_pixels,
                             .ctx = ctx };
    if (out->chain->like.clip && x->m->clip_spans)
        out->clip = &x->m->clip_spans[out->chain->like.clip_output];
}

/* Batches are made by durations: a recording that is longer would not fit.  Durations of tables are
 * often rounded. */
#define ROUNDED 0.05
static int check_seconds(const stk_row *x, const stk_media_info *i, stk_error *err)
{
    const stk_schedule *s = x->schedule;
    double seconds = (double)i->units / i->rate;
    uint64_t sample = stk_schedule_id(s, &x->where);
    uint32_t said, counts;

    if (!s->seconds)
        return 0;
    said = s->seconds[sample];
    counts = stk_schedule_seconds(s, stk_chain_seconds(stk_row_chain(x), seconds, sample));
    if (counts <= said + ROUNDED * STK_SECOND)
        return 0;
    return stk_fail(
        err, STK_ECORRUPT,
        "the recording has %.3f seconds and counts %.3f, more than the %.3f that its "
        "batch was made for: give the lengths that the data has, or where a file's head is "
        "wrong, make points",
        seconds, (double)counts / STK_SECOND, (double)said / STK_SECOND);
}

/* What is drawn of a recording of which s->info is known. */
static int draw(stk_row *x, stk_sound_span *s, stk_sound_draw *d, stk_error *err)
{
    const stk_codec_work *work;

    STK_TRY(stk_row_parser(x, &work, err));
    draw_of(x, work->ctx, d);
    STK_TRY(stk_sound_span_draw(s, d, err));
    return check_seconds(x, &s->info, err);
}

/* ---- before it is read ---- */

typedef struct known { /* a field by its points; stays where it is as long as they are used */
    const stk_decoder *decoder;
    void *ctx;
    stk_media_points all, points; /* of the field; of its sound */
    stk_row_points more;
    stk_sound_within within; /* ... where they are those of a video */
} known;

/* The points of its clip's field, which were made when that was known, where it is the same. */
static stk_bytes points_of_clip(const stk_row *x)
{
    const stk_chain *c = stk_row_chain(x);
    const stk_wanted *want = &x->req->want[x->output], *clip;

    if (!c->like.clip)
        return (stk_bytes){ 0 };
    clip = &x->req->want[c->like.clip_output];
    return clip->hint_shared && clip->number == want->number && clip->file == want->file
               ? clip->hint
               : (stk_bytes){ 0 };
}

/* 1: want->hint is the beginning of points that the index has. */
static int in_pieces(const stk_row *x)
{
    const stk_wanted *want = &x->req->want[x->output];

    return want->hint.len == STK_POINTS_HEAD && want->hint.data != points_of_clip(x).data;
}

/* 1: there are points of its sound.  want->hint is their beginning, or all of them. */
static int use_points(stk_row *x, known *k)
{
    const stk_wanted *want = &x->req->want[x->output];
    stk_bytes tag;

    k->more = (stk_row_points){ .x = x };
    k->all = (stk_media_points){ .head = want->hint,
                                 .slice = in_pieces(x) ? stk_row_points_more : NULL,
                                 .cookie = &k->more };
    k->points = k->all;
    if (stk_decoders_of_points(&x->m->decoders, want->hint, &k->decoder, &k->ctx, NULL))
        return 0;
    if (!stk_video_is(k->decoder))
        return k->decoder->ranges != NULL;
    if (!stk_video_points_sound(&k->within, &k->all))
        return 0;
    k->points = k->within.points;
    return k->points.slice(k->points.cookie, 0, 1, &tag, NULL) == 0 &&
           stk_decoders_of_points(&x->m->decoders, tag, &k->decoder, &k->ctx, NULL) == 0 &&
           k->decoder->ranges && k->decoder->can & STK_DECODER_SOUND_TRACK;
}

/* Points that a decoder reads in pieces are not fetched whole. */
static void find_hint(stk_row *x)
{
    stk_wanted *want = &x->req->want[x->output];
    const stk_decoder *decoder;
    void *ctx;

    stk_picture_know_some(x, STK_POINTS_HEAD);
    if (!want->hint.data)
        want->hint = points_of_clip(x);
    if (want->hint.len == STK_POINTS_HEAD &&
        stk_decoders_of_points(&x->m->decoders, want->hint, &decoder, &ctx, NULL) == 0 &&
        !(decoder->can & STK_DECODER_SOUND_TRACK) && !stk_video_is(decoder))
        stk_picture_know_whole(x);
}

/* Of a part whose time has to be read first, this much is read of a local file; its bytes are when
 * the time is known. */
#define LATER 1u

static int is_later(const stk_ranged *g)
{
    return g->n == 1 && !g->range[0].offset && g->range[0].len == LATER;
}

/* The clip whose span it has is not known yet.  0: it is, or there is none. */
static int waits(stk_row *x)
{
    const stk_chain *c = stk_row_chain(x);
    const stk_wanted *want = &x->req->want[x->output];
    stk_ranged *g = &x->req->ranged[x->output];

    if (!c->like.clip || (x->m->clip_spans && x->m->clip_spans[c->like.clip_output].row ==
                                                  stk_schedule_id(x->schedule, &x->where) + 1))
        return 0;
    if (x->req->want[c->like.clip_output].second && !want->second) {
        stk_request_defer(x->req, x->output);
    } else if (!(want->file->source->can & STK_SOURCE_REMOTE)) {
        g->range[0] = (stk_media_range){ 0, LATER };
        g->n = 1;
    }
    return 1;
}

/* Which bytes hold the samples. */
static int ranges_of(const stk_row *x, const known *k, const stk_sound_span *s, stk_ranged *g)
{
    const stk_media_ask ask = { .from = s->in_from, .to = s->in_to };

    g->n = 0;
    if (k->decoder->ranges(&k->points, &ask, UINT64_MAX, g->range, &g->n, NULL) < 0 ||
        !stk_row_ranges_fit(g, x->req->want[x->output].place.len))
        g->n = 0;
    return g->n != 0;
}

static void know_parts(stk_row *x)
{
    stk_sound_draw d;
    stk_sound_span s;
    known k;

    if (!stk_row_may_read_parts(x) || !use_points(x, &k) ||
        k.decoder->know(&k.points, 0, &s.info, NULL) < 0 || waits(x) || draw(x, &s, &d, NULL) < 0)
        return;
    (void)ranges_of(x, &k, &s, &x->req->ranged[x->output]);
}

static void know(stk_row *x)
{
    stk_wanted *want = &x->req->want[x->output];
    stk_bytes lent;

    find_hint(x);
    know_parts(x);
    lent = points_of_clip(x); /* which the clip may let go of */
    if (!x->req->ranged[x->output].n && lent.data && want->hint.data == lent.data)
        want->hint = (stk_bytes){ 0 };
}

/* ---- decoding ---- */

typedef struct source { /* who decodes it, and what there is of it; stays where it is */
    known k;
    const stk_decoder *decoder;
    void *ctx;
    stk_media_points points;
    stk_media_part all[STK_MEDIA_RANGES];
    const stk_media_part *part;
    uint32_t n_parts;
} source;

/* Of a field that was read whole. */
static int find_whole(stk_row *x, source *from, stk_media_info *info, stk_error *err)
{
    stk_bytes in = x->req->want[x->output].bytes;
    int rc;

    if (x->req->want[x->output].unpack || stk_row_chain(x)->extracts)
        STK_TRY(stk_row_extract_more(x, &in, err));
    rc = stk_decoders_find_sound(&x->m->decoders, in, &from->decoder, &from->ctx, err);
    if (rc < 0)
        return rc;
    if (rc == STK_END)
        return stk_fail(err, STK_ECORRUPT,
                        in.len ? "these %zu bytes are not sound that this build decodes (first "
                                 "bytes %02x %02x)"
                               : "the recording is empty",
                        in.len, in.len ? in.data[0] : 0, in.len > 1 ? in.data[1] : 0);
    if (stk_row_ops_of(x)->from == &stk_from_recording && use_points(x, &from->k) &&
        from->k.decoder == from->decoder)
        from->points = from->k.points;
    from->all[0] = (stk_media_part){ 0, in };
    from->part = from->all;
    from->n_parts = 1;
    *info = (stk_media_info){ 0 };
    return from->decoder->header(from->ctx, in, &from->points, info, err);
}

static int find_source(stk_row *x, source *from, stk_media_info *info, stk_error *err)
{
    const stk_ranged *g = &x->req->ranged[x->output];

    *from = (source){ 0 };
    if (!g->n || stk_row_ops_of(x)->from != &stk_from_recording)
        return find_whole(x, from, info, err);
    if (!use_points(x, &from->k))
        return stk_fail(err, STK_ESTALE, "its points changed");
    from->decoder = from->k.decoder;
    from->ctx = from->k.ctx;
    from->points = from->k.points;
    from->part = g->part;
    from->n_parts = g->n;
    return from->decoder->know(&from->points, 0, info, err);
}

/* The bytes that know() could not tell, of a local file. */
static int read_later(stk_row *x, source *from, const stk_sound_span *s, stk_error *err)
{
    stk_wanted *want = &x->req->want[x->output];
    stk_ranged g = { 0 };

    if (s->in_from == s->in_to) {
        from->n_parts = 0;
        return 0;
    }
    if (!ranges_of(x, &from->k, s, &g))
        return stk_fail(err, STK_ESTALE, "its points are of another recording");
    for (uint32_t i = 0; i < g.n; i++) {
        const size_t len = (size_t)g.range[i].len;
        uint8_t *dst = stk_scratch_get(&x->m->scratch, len);

        if (!dst)
            return stk_fail_nomem(err, len);
        STK_TRY(stk_row_read_field(want, g.range[i].offset, len, dst, err));
        from->all[i] = (stk_media_part){ g.range[i].offset, { dst, len } };
        x->req->ranged[x->output].later += len;
    }
    from->part = from->all;
    from->n_parts = g.n;
    return 0;
}

static int decode(stk_row *x, const source *from, stk_sound_taker *t, stk_error *err)
{
    const stk_sound_span *s = t->s;
    const stk_media_ask ask = { .from = s->in_from, .to = s->in_to };
    stk_lane lane = STK_LANE_PLAIN;
    const stk_media_sink sink = { .cookie = t, .sound = stk_sound_take, .lane = &lane };
    const stk_media_job job = { .points = &from->points,
                                .ask = &ask,
                                .part = from->part,
                                .n_parts = from->n_parts,
                                .sink = &sink,
                                .scratch = &x->m->scratch };

    if (from->n_parts)
        STK_TRY(from->decoder->decode(from->ctx, &job, err));
    if (t->filled != s->in_to - s->in_from)
        return stk_fail(err, STK_ECORRUPT, "%s: %" PRIu64 " samples were decoded of %" PRIu64,
                        from->decoder->name, t->filled, s->in_to - s->in_from);
    return 0;
}

int stk_sound_value(stk_row *x, stk_value_row *row, stk_error *err)
{
    stk_sound_taker t;
    stk_sound_draw d;
    stk_sound_span s;
    source from;

    STK_TRY(find_source(x, &from, &s.info, err));
    STK_TRY(draw(x, &s, &d, err));
    if (is_later(&x->req->ranged[x->output]))
        STK_TRY(read_later(x, &from, &s, err));
    STK_TRY(stk_sound_taker_init(&t, &s, &x->m->scratch, err));
    STK_TRY(decode(x, &from, &t, err));
    return stk_sound_span_row(&t, &d, &x->m->scratch, row, err);
}

const stk_row_from stk_from_recording = { .name = "recording", .know = know };

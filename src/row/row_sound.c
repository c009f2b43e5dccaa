/* SPDX-License-Identifier: Apache-2.0 */
/* row_sound.c - a recording, or the part of it that is drawn.
 *
 * The part (sound_span.c) is drawn from how long the recording is: by its points before a byte is
 * read, else by its header.  Then the samples that it needs are read and decoded.  Draws are
 * addressed, so that make() draws what know() drew. */
#include "codec/sound_decoders.h"
#include "row/row.h"
#include "row/sound_span.h"

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

static void know(stk_row *x)
{
    stk_wanted *want = &x->req->want[x->output];
    stk_ranged *g = &x->req->ranged[x->output];
    const stk_decoder *decoder;
    stk_media_points points;
    stk_media_ask ask = { 0 };
    stk_sound_draw d;
    stk_sound_span s;
    void *ctx;

    stk_picture_know_whole(x);
    points = (stk_media_points){ .head = want->hint };
    if (!stk_row_may_read_parts(x) || stk_row_chain(x)->like.clip ||
        stk_decoders_of_points(&x->m->decoders, want->hint, &decoder, &ctx, NULL) ||
        !decoder->ranges || decoder->know(&points, 0, &s.info, NULL) < 0 ||
        draw(x, &s, &d, NULL) < 0)
        return;
    ask.from = s.in_from;
    ask.to = s.in_to;
    if (decoder->ranges(&points, &ask, UINT64_MAX, g->range, &g->n, NULL) < 0 ||
        !stk_row_ranges_fit(g, want->place.len))
        g->n = 0;
}

/* ---- decoding ---- */

typedef struct source { /* who decodes it, and what there is of it */
    const stk_decoder *decoder;
    void *ctx;
    stk_media_points points;
    stk_media_part all;
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
    if (stk_row_ops_of(x)->from == &stk_from_recording)
        from->points.head = x->req->want[x->output].hint;
    from->all = (stk_media_part){ 0, in };
    from->part = &from->all;
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
    from->points.head = x->req->want[x->output].hint;
    from->part = g->part;
    from->n_parts = g->n;
    if (stk_decoders_of_points(&x->m->decoders, from->points.head, &from->decoder, &from->ctx,
                               err) != 0)
        return stk_fail(err, STK_ESTALE, "its points changed");
    return from->decoder->know(&from->points, 0, info, err);
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
    STK_TRY(stk_sound_taker_init(&t, &s, &x->m->scratch, err));
    STK_TRY(decode(x, &from, &t, err));
    return stk_sound_span_row(&t, &d, &x->m->scratch, row, err);
}

const stk_row_from stk_from_recording = { .name = "recording", .know = know };

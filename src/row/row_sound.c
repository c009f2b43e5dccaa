/* SPDX-License-Identifier: Apache-2.0 */
/* row_sound.c - a recording, or the part of it that is drawn.
 *
 * The part is drawn in samples of the rate that the chain asks for, from how long the recording is:
 * by its points before a byte is read, else by its header.  Then the inputs of these samples are
 * read and decoded, mixed into one channel where that is asked for, and resampled.  Filters reach
 * past the cut, and their places count from the recording's start: a part has the same bits as that
 * part of the whole.  Draws are addressed, so that make() draws what know() drew. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "codec/sound_codec.h"
#include "codec/sound_decoders.h"
#include "codec/sound_points.h"
#include "op/sound.h"
#include "row/row.h"

typedef struct span { /* what is wanted of a recording */
    stk_media_info info;
    double rate;                     /* of what comes out */
    uint64_t from, to;               /* samples of it */
    uint64_t in_from, in_to;         /* samples of the recording that hold them */
    const stk_rate_change *resample; /* NULL: none is needed */
    int channel;                     /* this one; STK_CHANNEL_ALL: all, or their mean */
    uint32_t channels;               /* that come out */
} span;

static const stk_sound *state_of(const stk_row *x)
{
    return stk_row_chain(x)->sound->state;
}

/* The channel that the sample's field names.  A recording of one channel needs no number. */
static int channel_of_field(const stk_row *x, span *s, stk_error *err)
{
    const stk_sound *want = state_of(x);
    double v;

    if (!want->given)
        return stk_fail(err, STK_EINVAL,
                        "sound: the field %s says which channel, which only a loader knows",
                        want->field);
    v = want->given[stk_schedule_id(x->schedule, &x->where)];
    if (isnan(v) && s->info.channels > 1)
        return stk_fail(err, STK_ECORRUPT,
                        "the sample's field %s does not say which of its %u channels is meant",
                        want->field, s->info.channels);
    if (!isnan(v) && !(v >= 0 && v < s->info.channels && v == floor(v)))
        return stk_fail(err, STK_ECORRUPT,
                        "the sample's field %s is %g, which is no channel of a recording that has "
                        "%u: they are numbered from 0 on",
                        want->field, v, s->info.channels);
    s->channel = isnan(v) ? 0 : (int)v;
    return 0;
}

static int draw_channel(const stk_row *x, span *s, stk_error *err)
{
    const stk_sound *want = state_of(x);
    stk_rng rng;

    s->channel = want->channel;
    s->channels = want->mono || want->channel != STK_CHANNEL_ALL ? 1 : s->info.channels;
    if (want->channel == STK_CHANNEL_RANDOM) {
        stk_value_rng(x, stk_row_chain(x)->sound, &rng);
        s->channel = (int)stk_rng_below(&rng, s->info.channels);
    }
    if (want->channel == STK_CHANNEL_FIELD)
        return channel_of_field(x, s, err);
    if (s->channel >= (int)s->info.channels)
        return stk_fail(err, STK_ECORRUPT, "channel %d of a recording that has %u", s->channel,
                        s->info.channels);
    return 0;
}

static void find_inputs(span *s)
{
    int64_t from, to;

    s->in_from = s->from;
    s->in_to = s->to;
    if (!s->resample)
        return;
    stk_rate_change_needs(s->resample, s->from, s->to, &from, &to);
    s->in_from = from > 0 ? (uint64_t)from : 0;
    s->in_to = to > 0 ? (uint64_t)to : 0;
    if (s->in_to > s->info.units)
        s->in_to = s->info.units;
    if (s->in_from > s->in_to)
        s->in_from = s->in_to;
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
    return stk_fail(err, STK_ECORRUPT,
                    "the recording has %.3f seconds and counts %.3f, more than the %.3f that its "
                    "batch was made for: give the lengths that the data has",
                    seconds, (double)counts / STK_SECOND, (double)said / STK_SECOND);
}

/* A few bytes of silence may be days: so many samples, in or out, have no room in a row. */
static int check_size(const stk_row *x, const span *s, uint64_t n, stk_error *err)
{
    uint64_t most = x->plan->policy.max_pixels;

    if (n <= most / s->channels)
        return 0;
    return stk_fail(err, STK_ELIMIT,
                    "%" PRIu64 " samples of %u channels are over the limit of %" PRIu64
                    ": take a part with part() or random_part(), or raise max_pixels",
                    n, s->channels, most);
}

/* What is drawn of a recording of which s->info is known. */
static int draw(stk_row *x, span *s, stk_error *err)
{
    const stk_chain *c = stk_row_chain(x);
    const stk_sound *want = state_of(x);
    const stk_codec_work *work;

    if (s->info.medium != STK_SOUND)
        return stk_fail(err, STK_ECORRUPT, "this is a picture, not sound");
    if (!s->info.units)
        return stk_fail(err, STK_ECORRUPT, "the recording has no samples");
    STK_TRY(stk_row_parser(x, &work, err));
    STK_TRY(stk_sound_resampler(work->ctx, want, s->info.rate, &s->resample, err));
    s->rate = s->resample ? want->rate : s->info.rate;
    s->from = 0;
    s->to = s->resample ? stk_rate_change_length(s->resample, s->info.units) : s->info.units;
    for (const stk_step *p = c->sound + 1; p < c->step + c->n_steps && p->early; p++) {
        const stk_part_in in = { s->rate, s->to - s->from,
                                 stk_schedule_id(x->schedule, &x->where) };
        stk_part_of part;
        stk_rng rng;

        stk_value_rng(x, p, &rng);
        STK_TRY(stk_part_span(p->state, &rng, &in, &part, err));
        assert(part.from <= part.to && part.to <= in.n);
        s->to = s->from + part.to;
        s->from += part.from;
    }
    STK_TRY(check_seconds(x, &s->info, err));
    STK_TRY(draw_channel(x, s, err));
    find_inputs(s);
    STK_TRY(check_size(x, s, s->to - s->from, err));
    return check_size(x, s, s->in_to - s->in_from, err);
}

/* ---- before it is read ---- */

static void know(stk_row *x)
{
    stk_wanted *want = &x->req->want[x->output];
    stk_ranged *g = &x->req->ranged[x->output];
    const stk_decoder *decoder;
    stk_media_points points;
    stk_media_ask ask = { 0 };
    span s;
    void *ctx;

    stk_picture_know_whole(x);
    points = (stk_media_points){ .head = want->hint };
    if (!stk_row_may_read_parts(x) ||
        stk_decoders_of_points(&x->m->decoders, want->hint, &decoder, &ctx, NULL) ||
        !decoder->ranges || decoder->know(&points, 0, &s.info, NULL) < 0 || draw(x, &s, NULL) < 0)
        return;
    ask.from = s.in_from;
    ask.to = s.in_to;
    if (decoder->ranges(&points, &ask, UINT64_MAX, g->range, &g->n, NULL) < 0 ||
        !stk_row_ranges_fit(g, want->place.len))
        g->n = 0;
}

/* ---- decoding ---- */

typedef struct taker { /* the sink */
    const span *s;
    float *out;      /* s->channels rows of in_to - in_from samples */
    uint64_t filled; /* samples so far */
} taker;

static int take(void *cookie, uint64_t first, const float *const *channel, uint32_t n,
                stk_error *err)
{
    taker *t = cookie;
    const span *s = t->s;
    uint64_t len = s->in_to - s->in_from;
    float *out = t->out + t->filled, each = 1.0f / (float)s->info.channels;

    if (first != s->in_from + t->filled || n > len - t->filled)
        return stk_fail(err, STK_ECORRUPT, "sample %" PRIu64 " comes where %" PRIu64 " should",
                        first, s->in_from + t->filled);
    t->filled += n;
    if (s->channel >= 0 || s->info.channels == 1) {
        memcpy(out, channel[s->channel >= 0 ? s->channel : 0], n * sizeof *out);
        return 0;
    }
    for (uint32_t c = 0; s->channels > 1 && c < s->channels; c++)
        memcpy(out + c * len, channel[c], n * sizeof *out);
    if (s->channels > 1)
        return 0;
    for (uint32_t i = 0; i < n; i++)
        out[i] = channel[0][i] + channel[1][i];
    for (uint32_t c = 2; c < s->info.channels; c++)
        for (uint32_t i = 0; i < n; i++)
            out[i] += channel[c][i];
    for (uint32_t i = 0; i < n; i++)
        out[i] *= each;
    return 0;
}

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

static int decode(stk_row *x, const source *from, const span *s, float *out, stk_error *err)
{
    taker t = { .s = s, .out = out };
    const stk_media_ask ask = { .from = s->in_from, .to = s->in_to };
    stk_lane lane = STK_LANE_PLAIN;
    const stk_media_sink sink = { .cookie = &t, .sound = take, .lane = &lane };
    const stk_media_job job = { .points = &from->points,
                                .ask = &ask,
                                .part = from->part,
                                .n_parts = from->n_parts,
                                .sink = &sink,
                                .scratch = &x->m->scratch };

    STK_TRY(from->decoder->decode(from->ctx, &job, err));
    if (t.filled != s->in_to - s->in_from)
        return stk_fail(err, STK_ECORRUPT, "%s: %" PRIu64 " samples were decoded of %" PRIu64,
                        from->decoder->name, t.filled, s->in_to - s->in_from);
    return 0;
}

static int room(stk_row *x, uint64_t n, float **out, stk_error *err)
{
    *out = stk_scratch_get(&x->m->scratch, (size_t)n * sizeof **out + 1);
    return *out ? 0 : stk_fail_nomem(err, (size_t)n * sizeof **out);
}

int stk_sound_value(stk_row *x, stk_value_row *row, stk_error *err)
{
    source from;
    span s;
    uint64_t n, len;
    float *in, *out, *work;

    STK_TRY(find_source(x, &from, &s.info, err));
    STK_TRY(draw(x, &s, err));
    assert(s.in_from <= s.in_to && s.in_to <= s.info.units);
    len = s.in_to - s.in_from;
    n = s.to - s.from;
    STK_TRY(room(x, len * s.channels, &in, err));
    STK_TRY(decode(x, &from, &s, in, err));
    out = in;
    if (s.resample) {
        STK_TRY(room(x, n * s.channels, &out, err));
        STK_TRY(room(x, stk_rate_change_work(s.resample), &work, err));
        for (uint32_t c = 0; c < s.channels; c++)
            stk_rate_change_run(s.resample,
                                &(stk_resample_in){ in + c * len, (int64_t)s.in_from, len, work },
                                s.from, n, out + c * n);
    }
    *row = (stk_value_row){ .dtype = STK_F32, .ndim = 1, .data = out, .rate = s.rate };
    if (!state_of(x)->mono && state_of(x)->channel == STK_CHANNEL_ALL) {
        row->ndim = 2;
        row->shape[0] = s.channels;
    }
    row->shape[row->ndim - 1] = (int64_t)n;
    return 0;
}

const stk_row_from stk_from_recording = { .name = "recording", .know = know };

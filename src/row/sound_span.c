/* SPDX-License-Identifier: Apache-2.0 */
/* sound_span.c - which samples of a recording a row is made of.
 *
 * The part is drawn in samples of the rate that the chain asks for.  Its inputs are mixed into one
 * channel where that is asked for, and resampled.  Filters reach past the cut, and their places
 * count from the recording's start: a part has the same bits as that part of the whole. */
#include "row/sound_span.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "op/sound.h"

static const stk_sound *state_of(const stk_sound_draw *d)
{
    return d->chain->sound->state;
}

/* The channel that the sample's field names.  A recording of one channel needs no number. */
static int channel_of_field(const stk_sound_draw *d, stk_sound_span *s, stk_error *err)
{
    const stk_sound *want = state_of(d);
    double v;

    if (!want->given || d->sample == STK_NO_SAMPLE)
        return stk_fail(err, STK_EINVAL,
                        "sound: the field %s says which channel, which only a loader knows",
                        want->field);
    v = want->given[d->sample];
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

static int draw_channel(const stk_sound_draw *d, stk_sound_span *s, stk_error *err)
{
    const stk_sound *want = state_of(d);
    stk_rng rng;

    s->channel = want->channel;
    s->channels = want->mono || want->channel != STK_CHANNEL_ALL ? 1 : s->info.channels;
    if (want->channel == STK_CHANNEL_RANDOM) {
        stk_sound_rng(d, d->chain->sound, &rng);
        s->channel = (int)stk_rng_below(&rng, s->info.channels);
    }
    if (want->channel == STK_CHANNEL_FIELD)
        return channel_of_field(d, s, err);
    if (s->channel >= (int)s->info.channels)
        return stk_fail(err, STK_ECORRUPT, "channel %d of a recording that has %u", s->channel,
                        s->info.channels);
    return 0;
}

static void find_inputs(stk_sound_span *s)
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

/* A few bytes of silence may be days: so many samples, in or out, have no room in a row. */
static int check_size(const stk_sound_draw *d, const stk_sound_span *s, uint64_t n, stk_error *err)
{
    if (n <= d->most / s->channels)
        return 0;
    return stk_fail(err, STK_ELIMIT,
                    "%" PRIu64 " samples of %u channels are over the limit of %" PRIu64
                    ": take a part with part() or random_part(), or raise max_pixels",
                    n, s->channels, d->most);
}

/* The part that is heard while a clip is shown.  Where there is no sound there is silence, so that
 * both begin and end at the same times. */
static int take_span(const stk_sound_draw *d, stk_sound_span *s, stk_error *err)
{
    double n = (double)s->to, from, to;
    uint64_t want;

    if (!d->clip || d->clip->row != d->sample + 1)
        return stk_fail(err, STK_EINVAL,
                        "part(of=): how long it is is not known before its clip is made: say "
                        "lengths=, or leave batches by length");
    if (!d->clip->timed)
        return stk_fail(err, STK_ECORRUPT,
                        "part(of=): the clip's pictures have no times: video(rate=10, ...) says "
                        "how many there are in a second");
    want = stk_samples_of(d->clip->seconds, s->rate);
    STK_TRY(check_size(d, s, want, err));
    from = floor((d->clip->from - (double)s->info.first_us / 1e6) * s->rate + 0.5);
    to = from + (double)want;
    s->from = (uint64_t)(from < 0 ? 0 : from < n ? from : n);
    s->to = (uint64_t)(to < 0 ? 0 : to < n ? to : n);
    s->lead = from >= 0 ? 0 : (uint64_t)(-from < (double)want ? -from : (double)want);
    s->tail = want - s->lead - (s->to - s->from);
    return 0;
}

/* The parts that are drawn before anything is read. */
static int draw_parts(const stk_sound_draw *d, stk_sound_span *s, stk_error *err)
{
    const stk_chain *c = d->chain;

    if (c->like.clip)
        return take_span(d, s, err);
    for (const stk_step *p = c->sound + 1; p < c->step + c->n_steps && p->early; p++) {
        const stk_part_in in = { s->rate, s->to - s->from, d->sample };
        stk_part_of part;
        stk_rng rng;

        stk_sound_rng(d, p, &rng);
        STK_TRY(stk_part_span(p->state, &rng, &in, &part, err));
        assert(part.from <= part.to && part.to <= in.n);
        s->to = s->from + part.to;
        s->from += part.from;
    }
    return 0;
}

int stk_sound_span_draw(stk_sound_span *s, const stk_sound_draw *d, stk_error *err)
{
    const stk_sound *want = state_of(d);

    if (s->info.medium != STK_SOUND)
        return stk_fail(err, STK_ECORRUPT, "this is a picture, not sound");
    if (!s->info.units)
        return stk_fail(err, STK_ECORRUPT, "the recording has no samples");
    STK_TRY(stk_sound_resampler(d->ctx, want, s->info.rate, &s->resample, err));
    s->rate = s->resample ? want->rate : s->info.rate;
    s->from = s->lead = s->tail = 0;
    STK_TRY(draw_channel(d, s, err));
    s->to = s->resample ? stk_rate_change_length(s->resample, s->info.units) : s->info.units;
    STK_TRY(draw_parts(d, s, err));
    find_inputs(s);
    STK_TRY(check_size(d, s, s->to - s->from, err));
    return check_size(d, s, s->in_to - s->in_from, err);
}

/* ---- samples ---- */

static int room(stk_scratch *scratch, uint64_t n, float **out, stk_error *err)
{
    *out = stk_scratch_get(scratch, (size_t)n * sizeof **out + 1);
    return *out ? 0 : stk_fail_nomem(err, (size_t)n * sizeof **out);
}

int stk_sound_taker_init(stk_sound_taker *t, const stk_sound_span *s, stk_scratch *scratch,
                         stk_error *err)
{
    assert(s->in_from <= s->in_to && s->in_to <= s->info.units);
    *t = (stk_sound_taker){ .s = s };
    return room(scratch, (s->in_to - s->in_from) * s->channels, &t->out, err);
}

int stk_sound_take(void *cookie, uint64_t first, const float *const *channel, uint32_t n,
                   stk_error *err)
{
    stk_sound_taker *t = cookie;
    const stk_sound_span *s = t->s;
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

static int add_silence(const stk_sound_span *s, stk_scratch *scratch, float **samples,
                       stk_error *err)
{
    uint64_t n = s->to - s->from, all = s->lead + n + s->tail;
    float *out;

    STK_TRY(room(scratch, all * s->channels, &out, err));
    memset(out, 0, (size_t)(all * s->channels) * sizeof *out);
    for (uint32_t c = 0; c < s->channels; c++)
        memcpy(out + c * all + s->lead, *samples + c * n, (size_t)n * sizeof *out);
    *samples = out;
    return 0;
}

int stk_sound_span_row(const stk_sound_taker *t, const stk_sound_draw *d, stk_scratch *scratch,
                       stk_value_row *row, stk_error *err)
{
    const stk_sound_span *s = t->s;
    uint64_t n = s->to - s->from, len = s->in_to - s->in_from;
    float *out = t->out, *work;

    assert(t->filled == len);
    if (s->resample && n) {
        STK_TRY(room(scratch, n * s->channels, &out, err));
        STK_TRY(room(scratch, stk_rate_change_work(s->resample), &work, err));
        for (uint32_t c = 0; c < s->channels; c++)
            stk_rate_change_run(
                s->resample, &(stk_resample_in){ t->out + c * len, (int64_t)s->in_from, len, work },
                s->from, n, out + c * n);
    }
    if (s->lead || s->tail)
        STK_TRY(add_silence(s, scratch, &out, err));
    n += s->lead + s->tail;
    *row = (stk_value_row){ .dtype = STK_F32, .ndim = 1, .data = out, .rate = s->rate };
    if (!state_of(d)->mono && state_of(d)->channel == STK_CHANNEL_ALL) {
        row->ndim = 2;
        row->shape[0] = s->channels;
    }
    row->shape[row->ndim - 1] = (int64_t)n;
    return 0;
}

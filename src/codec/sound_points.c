/* SPDX-License-Identifier: Apache-2.0 */
/* sound_points.c - points of recordings.  On disk: 56 bytes of head, the decoder's setup, and 16
 * bytes for each mark, least byte first. */
#include "codec/sound_points.h"

#include <math.h>
#include <string.h>

#define VERSION 1
#define HEAD 56
#define MARK 16
#define MOST_MARKS 8192
#define PER_SECOND 2 /* marks, at first */

/* ---- reading ---- */

int stk_sound_points_open(stk_sound_points *out, stk_bytes in, stk_error *err)
{
    const uint8_t *p = in.data;
    uint64_t setup, marks;

    if (in.len < HEAD || p[1] != VERSION)
        return stk_fail(err, STK_ECORRUPT, "points of sound: %zu bytes, or of another version",
                        in.len);
    *out = (stk_sound_points){ .tag = (char)p[0],
                               .channels = stk_le16(p + 2),
                               .rate = stk_le32(p + 4),
                               .units = stk_le64(p + 8),
                               .begin = stk_le64(p + 16),
                               .end = stk_le64(p + 24),
                               .lead = stk_le32(p + 32),
                               .run_up = stk_le32(p + 36),
                               .after = stk_le32(p + 40),
                               .n_marks = stk_le32(p + 48) };
    setup = stk_le32(p + 44);
    marks = (uint64_t)out->n_marks * MARK;
    if (HEAD + setup + marks != in.len || out->begin > out->end || out->lead > out->end ||
        stk_sound_check("points", out->rate, out->channels, NULL) < 0)
        return stk_fail(err, STK_ECORRUPT, "points of sound: damaged");
    out->setup = (stk_bytes){ p + HEAD, (size_t)setup };
    out->mark = p + HEAD + setup;
    return 0;
}

stk_sound_mark stk_sound_points_mark(const stk_sound_points *p, uint32_t i)
{
    const uint8_t *m = p->mark + (size_t)i * MARK;

    return (stk_sound_mark){ stk_le64(m), stk_le64(m + 8) };
}

uint32_t stk_sound_points_find(const stk_sound_points *p, uint64_t sample)
{
    uint32_t lo = 0, hi = p->n_marks;

    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (stk_sound_points_mark(p, mid).sample <= sample)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

uint32_t stk_sound_points_at(const stk_sound_points *p, uint64_t offset)
{
    uint32_t lo = 0, hi = p->n_marks;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (stk_sound_points_mark(p, mid).offset < offset)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < p->n_marks && stk_sound_points_mark(p, lo).offset == offset ? lo : p->n_marks;
}

int stk_sound_know(const stk_media_points *p, uint32_t track, stk_media_info *out, stk_error *err)
{
    stk_sound_points s;

    (void)track;
    STK_TRY(stk_sound_points_open(&s, p->head, err));
    *out = stk_sound_info(s.rate, s.channels, s.units);
    return 0;
}

int stk_sound_ranges(const stk_media_points *p, const stk_media_ask *ask, uint64_t session_at,
                     stk_media_range out[STK_MEDIA_RANGES], uint32_t *n, stk_error *err)
{
    stk_sound_points s;
    uint64_t from, to;
    uint32_t last;

    (void)session_at;
    *n = 0;
    STK_TRY(stk_sound_points_open(&s, p->head, err));
    if (ask->from >= ask->to || ask->to > s.units || !s.n_marks)
        return 0;
    from = ask->from > s.run_up ? ask->from - s.run_up : 0;
    from = stk_sound_points_mark(&s, stk_sound_points_find(&s, from)).offset;
    last = stk_sound_points_find(&s, ask->to - 1) + 1 + s.after;
    to = last < s.n_marks ? stk_sound_points_mark(&s, last).offset : s.end;
    if (from >= to || to > s.end)
        return stk_fail(err, STK_ECORRUPT, "points of sound: marks do not ascend");
    if (from <= s.lead) /* too near to the start for two reads */
        return 0;
    if (s.lead)
        out[(*n)++] = (stk_media_range){ 0, s.lead };
    out[(*n)++] = (stk_media_range){ from, to - from };
    return 0;
}

/* ---- making ---- */

int stk_sound_marks_init(stk_sound_marks *m, uint32_t rate, stk_scratch *scratch, stk_error *err)
{
    *m = (stk_sound_marks){ .step = rate / PER_SECOND + 1 };
    m->at = stk_scratch_get(scratch, MOST_MARKS * sizeof *m->at);
    return m->at ? 0 : stk_fail_nomem(err, MOST_MARKS * sizeof *m->at);
}

void stk_sound_marks_add(stk_sound_marks *m, uint64_t sample, uint64_t offset)
{
    if (!m->at || (m->n && sample < m->at[m->n - 1].sample + m->step))
        return;
    if (m->n == MOST_MARKS) {
        for (uint32_t i = 0; i < MOST_MARKS / 2; i++)
            m->at[i] = m->at[2 * (size_t)i];
        m->n /= 2;
        m->step *= 2;
        stk_sound_marks_add(m, sample, offset);
        return;
    }
    m->at[m->n++] = (stk_sound_mark){ sample, offset };
}

static uint8_t *put(uint8_t *p, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        *p++ = (uint8_t)(v >> 8 * i);
    return p;
}

int stk_sound_points_make(const stk_sound_points *p, const stk_sound_marks *m, stk_scratch *scratch,
                          stk_bytes *out, stk_error *err)
{
    size_t len = HEAD + p->setup.len + (size_t)m->n * MARK;
    uint8_t *start = stk_scratch_get(scratch, len), *at = start;

    if (!start)
        return stk_fail_nomem(err, len);
    *at++ = (uint8_t)p->tag;
    *at++ = VERSION;
    at = put(at, p->channels, 2);
    at = put(at, p->rate, 4);
    at = put(at, p->units, 8);
    at = put(at, p->begin, 8);
    at = put(at, p->end, 8);
    at = put(at, p->lead, 4);
    at = put(at, p->run_up, 4);
    at = put(at, p->after, 4);
    at = put(at, p->setup.len, 4);
    at = put(at, m->n, 4);
    at = put(at, 0, 4);
    if (p->setup.len)
        memcpy(at, p->setup.data, p->setup.len);
    at += p->setup.len;
    for (uint32_t i = 0; i < m->n; i++) {
        at = put(at, m->at[i].sample, 8);
        at = put(at, m->at[i].offset, 8);
    }
    *out = (stk_bytes){ start, len };
    return 0;
}

/* ---- samples ---- */

stk_media_info stk_sound_info(uint32_t rate, uint32_t channels, uint64_t units)
{
    double us = rate ? (double)units / rate * 1e6 : 0;

    return (stk_media_info){ .medium = STK_SOUND,
                             .tracks = 1,
                             .rate = rate,
                             .channels = channels,
                             .units = units,
                             .duration_us = us < 0x1p62 ? (int64_t)us : INT64_MAX };
}

int stk_sound_check(const char *format, uint32_t rate, uint32_t channels, stk_error *err)
{
    if (!rate || rate > STK_SOUND_RATE)
        return stk_fail(err, STK_ECORRUPT, "%s: a rate of %u samples per second is not in 1..%d",
                        format, rate, STK_SOUND_RATE);
    if (!channels || channels > STK_SOUND_CHANNELS)
        return stk_fail(err, STK_ECORRUPT, "%s: %u channels are not in 1..%d", format, channels,
                        STK_SOUND_CHANNELS);
    return 0;
}

int stk_sound_check_ask(const stk_media_ask *ask, uint64_t units, stk_error *err)
{
    if (ask->from <= ask->to && ask->to <= units)
        return 0;
    return stk_fail(err, STK_EINVAL,
                    "samples %" PRIu64 " to %" PRIu64 " of a recording that has %" PRIu64,
                    ask->from, ask->to, units);
}

static int too_loud(const char *format, uint64_t sample, uint32_t channel, float v, stk_error *err)
{
    if (!isfinite(v))
        return stk_fail(err, STK_ECORRUPT,
                        "%s: sample %" PRIu64 " of channel %u is not a finite number", format,
                        sample, channel);
    return stk_fail(err, STK_ECORRUPT,
                    "%s: sample %" PRIu64 " of channel %u is %g, where full scale is 1: more than "
                    "%g is refused",
                    format, sample, channel, (double)v, (double)STK_SOUND_LOUDEST);
}

int stk_sound_give_floats(const char *format, const stk_media_job *job, const stk_sound_block *b,
                          stk_error *err)
{
    const stk_media_ask *ask = job->ask;
    uint64_t end = b->first + b->n < ask->to ? b->first + b->n : ask->to;
    uint32_t from = ask->from > b->first ? (uint32_t)(ask->from - b->first) : 0;
    uint32_t to = end > b->first ? (uint32_t)(end - b->first) : 0;

    for (uint32_t c = 0; ask->from < b->first + b->n && c < b->channels; c++) {
        const float *x = b->channel[c];
        int bad = 0;

        for (uint32_t i = from; i < to; i++) /* a loop that the compiler makes a vector of */
            bad |= !(fabsf(x[i]) <= STK_SOUND_LOUDEST);
        for (uint32_t i = from; bad && i < to; i++)
            if (!(fabsf(x[i]) <= STK_SOUND_LOUDEST))
                return too_loud(format, b->first + i, c, x[i], err);
    }
    return stk_sound_give(job, b->first, b->channel, b->n, b->channels, err);
}

int stk_sound_give(const stk_media_job *job, uint64_t first, float *const *channel, uint32_t n,
                   uint32_t channels, stk_error *err)
{
    const stk_media_ask *ask = job->ask;
    const float *at[STK_SOUND_CHANNELS];
    uint64_t from = first > ask->from ? first : ask->from, to = first + n;

    if (to > ask->to)
        to = ask->to;
    if (from >= to)
        return 0;
    for (uint32_t c = 0; c < channels; c++)
        at[c] = channel[c] + (from - first);
    return job->sink->sound(job->sink->cookie, from, at, (uint32_t)(to - from), err);
}

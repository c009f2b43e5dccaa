/* SPDX-License-Identifier: Apache-2.0 */
/* packet_points.c - points of sound tracks.  On disk, least byte first: a head of 80 bytes, the
 * codec's setup, the runs (packets with gaps of one length between them: the number of the first,
 * the bytes of a gap, and the byte at which the first begins), and every packet's size in `width`
 * bytes. */
#include "video/packet_points.h"

#include <string.h>

#include "codec/sound_points.h"

#define VERSION 1
#define HEAD 80
#define RUN 16
#define MOST_GAP 64 /* bytes between packets of a run, such as the head of a block */

int stk_packet_points_open(stk_packet_points *out, stk_bytes in, stk_error *err)
{
    const uint8_t *p = in.data;
    uint64_t setup;

    if (in.len < HEAD || p[1] != VERSION)
        return stk_fail(err, STK_ECORRUPT, "points of a sound track: %zu bytes, or another version",
                        in.len);
    *out = (stk_packet_points){ .tag = (char)p[0],
                                .coding = (stk_sound_coding)p[2],
                                .width = p[3],
                                .rate = stk_le32(p + 4),
                                .channels = stk_le32(p + 8),
                                .per = stk_le32(p + 12),
                                .last = stk_le32(p + 16),
                                .number = stk_le32(p + 20),
                                .skip = stk_le64(p + 24),
                                .units = stk_le64(p + 32),
                                .field = stk_le64(p + 40),
                                .first_us = (int64_t)stk_le64(p + 64),
                                .n = stk_le32(p + 48),
                                .n_runs = stk_le32(p + 52) };
    setup = stk_le32(p + 56);
    if (p[2] >= STK_CODINGS || (p[3] != 2 && p[3] != 4) || !out->n || !out->per || !out->n_runs ||
        HEAD + setup + (uint64_t)out->n_runs * RUN + (uint64_t)out->n * out->width != in.len ||
        stk_sound_check("points", out->rate, out->channels, NULL) < 0 ||
        out->units > (uint64_t)out->n * UINT16_MAX || out->skip > (uint64_t)out->n * UINT16_MAX)
        return stk_fail(err, STK_ECORRUPT, "points of a sound track: damaged");
    out->setup = (stk_bytes){ p + HEAD, (size_t)setup };
    out->run = p + HEAD + setup;
    out->size = out->run + (size_t)out->n_runs * RUN;
    return 0;
}

static uint32_t first_of(const stk_packet_points *p, uint32_t run)
{
    return run < p->n_runs ? stk_le32(p->run + (size_t)run * RUN) : p->n;
}

static uint32_t size_of(const stk_packet_points *p, uint32_t i)
{
    const uint8_t *at = p->size + (size_t)i * p->width;

    return p->width == 2 ? stk_le16(at) : stk_le32(at);
}

/* The last run that begins at packet i or before. */
static uint32_t run_of(const stk_packet_points *p, uint32_t i)
{
    uint32_t lo = 0, hi = p->n_runs;

    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (first_of(p, mid) <= i)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

typedef struct place { /* of a packet */
    uint32_t run, gap;
    uint64_t at;
} place;

static place begin_run(const stk_packet_points *p, uint32_t run)
{
    const uint8_t *r = p->run + (size_t)run * RUN;

    return (place){ run, stk_le32(r + 4), stk_le64(r + 8) };
}

int stk_packet_points_find(const stk_packet_points *p, uint32_t from, uint32_t to,
                           stk_video_frame *frame, stk_error *err)
{
    place at = begin_run(p, run_of(p, from));

    for (uint32_t i = first_of(p, at.run); i < to; i++) {
        uint32_t size = size_of(p, i);

        if (i > from && at.run + 1 < p->n_runs && first_of(p, at.run + 1) <= i)
            at = begin_run(p, at.run + 1);
        if (at.at > p->field || size > p->field - at.at)
            return stk_fail(err, STK_ECORRUPT, "points of a sound track: a packet past its end");
        if (i >= from)
            frame[i - from] = (stk_video_frame){ .at = at.at,
                                                 .size = size,
                                                 .flags = STK_FRAME_KEY };
        at.at += size + (uint64_t)at.gap;
    }
    return 0;
}

/* ---- making ---- */

static uint8_t *put(uint8_t *p, uint64_t v, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++)
        *p++ = (uint8_t)(v >> 8 * i);
    return p;
}

/* The bytes between packet i and the next; UINT32_MAX: they are not in one run. */
static uint32_t gap_after(const stk_packet_points *p, const stk_video_frame *f, uint32_t i)
{
    uint64_t end = f[i].at + f[i].size;

    if (i + 1 >= p->n || f[i + 1].at < end || f[i + 1].at - end >= MOST_GAP)
        return UINT32_MAX;
    return (uint32_t)(f[i + 1].at - end);
}

/* How many packets are in the run that begins with packet i; *gap: between two of them. */
static uint32_t run_length(const stk_packet_points *p, const stk_video_frame *f, uint32_t i,
                           uint32_t *gap)
{
    uint32_t n = 1;

    *gap = gap_after(p, f, i);
    if (*gap == UINT32_MAX)
        *gap = 0;
    else
        while (gap_after(p, f, i + n - 1) == *gap)
            n++;
    return n;
}

static void put_head(uint8_t *p, const stk_packet_points *s, uint32_t runs, uint32_t width)
{
    memset(p, 0, HEAD);
    *p++ = (uint8_t)s->tag;
    *p++ = VERSION;
    *p++ = (uint8_t)s->coding;
    *p++ = (uint8_t)width;
    p = put(p, s->rate, 4);
    p = put(p, s->channels, 4);
    p = put(p, s->per, 4);
    p = put(p, s->last, 4);
    p = put(p, s->number, 4);
    p = put(p, s->skip, 8);
    p = put(p, s->units, 8);
    p = put(p, s->field, 8);
    p = put(p, s->n, 4);
    p = put(p, runs, 4);
    p = put(p, s->setup.len, 4);
    p = put(p, 0, 4);
    put(p, (uint64_t)s->first_us, 8);
}

int stk_packet_points_make(const stk_packet_points *p, const stk_video_frame *frame,
                           stk_scratch *scratch, stk_bytes *out, stk_error *err)
{
    uint32_t runs = 0, width = 2, gap;
    uint8_t *start, *at;
    size_t len;

    for (uint32_t i = 0; i < p->n; i += run_length(p, frame, i, &gap))
        runs++;
    for (uint32_t i = 0; i < p->n; i++)
        width = frame[i].size > UINT16_MAX ? 4 : width;
    len = HEAD + p->setup.len + (size_t)runs * RUN + (size_t)p->n * width;
    start = at = stk_scratch_get(scratch, len);
    if (!start)
        return stk_fail_nomem(err, len);
    put_head(at, p, runs, width);
    at += HEAD;
    if (p->setup.len)
        memcpy(at, p->setup.data, p->setup.len);
    at += p->setup.len;
    for (uint32_t i = 0, n; i < p->n; i += n) {
        n = run_length(p, frame, i, &gap);
        at = put(put(put(at, i, 4), gap, 4), frame[i].at, 8);
    }
    for (uint32_t i = 0; i < p->n; i++)
        at = put(at, frame[i].size, width);
    *out = (stk_bytes){ start, len };
    return 0;
}

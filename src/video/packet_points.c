/* SPDX-License-Identifier: Apache-2.0 */
/* packet_points.c - see packet_points.h.  A packet is its size << 2, with what differs from a
 * packet that follows the one before without a gap and gives as many samples. */
#include "video/packet_points.h"

#include <string.h>

#include "codec/sound_points.h"

#define VERSION 2
#define HEAD 80u
#define ENTRY 24u
#define MOST_SAMPLES 65536u /* of a packet */

enum { HAS_GAP = 1, HAS_COUNT = 2 };

static int bad(const char *what, stk_error *err)
{
    return stk_fail(err, STK_ECORRUPT,
                    "points of a sound track: %s: run `stoker index --points --force`", what);
}

/* ---- reading ---- */

static int get(const stk_media_points *p, uint64_t at, uint32_t len, stk_bytes *out, stk_error *err)
{
    if (at <= p->head.len && len <= p->head.len - at) {
        *out = (stk_bytes){ p->head.data + at, len };
        return 0;
    }
    if (!p->slice)
        return bad("they end too early", err);
    STK_TRY(p->slice(p->cookie, at, len, out, err));
    return out->len < len ? bad("they end too early", err) : 0;
}

static uint32_t blocks_of(const stk_packet_points *p)
{
    return p->n / STK_PACKET_BLOCK + (p->n % STK_PACKET_BLOCK != 0);
}

static uint64_t fixed_of(const stk_packet_points *p)
{
    return HEAD + (uint64_t)p->setup_len + (uint64_t)blocks_of(p) * ENTRY;
}

int stk_packet_points_open(stk_packet_points *out, const stk_media_points *points, stk_error *err)
{
    const uint8_t *p;
    stk_bytes in;

    STK_TRY(get(points, 0, HEAD, &in, err));
    p = in.data;
    if (p[1] != VERSION)
        return bad("another version", err);
    *out = (stk_packet_points){ .points = points,
                                .tag = (char)p[0],
                                .coding = (stk_sound_coding)p[2],
                                .rate = stk_le32(p + 4),
                                .channels = stk_le32(p + 8),
                                .per = stk_le32(p + 12),
                                .last = stk_le32(p + 16),
                                .number = stk_le32(p + 20),
                                .skip = stk_le64(p + 24),
                                .units = stk_le64(p + 32),
                                .field = stk_le64(p + 40),
                                .n = stk_le32(p + 48),
                                .setup_len = stk_le32(p + 52),
                                .bytes = stk_le32(p + 56),
                                .first_us = (int64_t)stk_le64(p + 64) };
    if (p[2] >= STK_CODINGS || !out->n || out->n > STK_VIDEO_FRAMES || !out->per ||
        out->per > MOST_SAMPLES || out->last > MOST_SAMPLES || out->setup_len > STK_VIDEO_SETUP ||
        fixed_of(out) > out->bytes ||
        stk_sound_check("points", out->rate, out->channels, NULL) < 0 ||
        out->units > (uint64_t)out->n * MOST_SAMPLES || out->skip > (uint64_t)out->n * MOST_SAMPLES)
        return bad("a head that can't be", err);
    return 0;
}

int stk_packet_points_setup(const stk_packet_points *p, stk_bytes *out, stk_error *err)
{
    return get(p->points, HEAD, p->setup_len, out, err);
}

typedef struct entry { /* of the directory */
    uint64_t place, sample;
    uint32_t slice;
} entry;

/* Entry i; past the last one: where all of it ends. */
static int get_entry(const stk_packet_points *p, uint32_t i, entry *out, stk_error *err)
{
    stk_bytes in;

    if (i == blocks_of(p)) {
        *out = (entry){ 0, UINT64_MAX, p->bytes };
        return 0;
    }
    STK_TRY(get(p->points, HEAD + (uint64_t)p->setup_len + (uint64_t)i * ENTRY, ENTRY, &in, err));
    *out = (entry){ stk_le64(in.data), stk_le64(in.data + 8), stk_le32(in.data + 16) };
    return 0;
}

typedef struct varints {
    const uint8_t *p, *end;
    int bad;
} varints;

static uint64_t varint(varints *in)
{
    uint64_t v = 0;

    for (uint32_t shift = 0; shift < 64 && in->p < in->end; shift += 7) {
        uint8_t b = *in->p++;

        v |= (uint64_t)(b & 127) << shift;
        if (!(b & 128))
            return v;
    }
    in->bad = 1;
    return 0;
}

static uint64_t unfolded(uint64_t v)
{
    return v >> 1 ^ (0 - (v & 1));
}

/* The packets of a block; *all: samples that they give. */
static int read_packets(const stk_packet_points *p, varints in, uint64_t place,
                        stk_packet_block *out, uint64_t *all, stk_error *err)
{
    uint64_t count = p->per;

    *all = 0;
    for (uint32_t i = 0; i < out->n; i++) {
        uint64_t v = varint(&in), size = v >> 2;

        if (v & HAS_GAP)
            place += unfolded(varint(&in));
        if (v & HAS_COUNT)
            count = varint(&in);
        if (in.bad || size > STK_VIDEO_PACKET || place > p->field || size > p->field - place ||
            !count || count > MOST_SAMPLES)
            return bad("a damaged packet", err);
        out->frame[i] = (stk_video_frame){ .at = place,
                                           .size = (uint32_t)size,
                                           .flags = STK_FRAME_KEY };
        out->count[i] = (uint32_t)count;
        place += size;
        *all += count;
    }
    return 0;
}

int stk_packet_points_block(const stk_packet_points *p, uint32_t number, stk_packet_block *out,
                            stk_error *err)
{
    uint32_t block = number / STK_PACKET_BLOCK;
    entry e, next;
    uint64_t all;
    stk_bytes in;

    if (number >= p->n)
        return bad("no such packet", err);
    STK_TRY(get_entry(p, block, &e, err));
    STK_TRY(get_entry(p, block + 1, &next, err));
    if (e.slice < fixed_of(p) || next.slice < e.slice || next.slice > p->bytes ||
        e.sample > (uint64_t)p->n * MOST_SAMPLES)
        return bad("a damaged directory", err);
    out->first = block * STK_PACKET_BLOCK;
    out->n = p->n - out->first < STK_PACKET_BLOCK ? p->n - out->first : STK_PACKET_BLOCK;
    out->sample = e.sample;
    STK_TRY(get(p->points, e.slice, next.slice - e.slice, &in, err));
    STK_TRY(read_packets(p, (varints){ in.data, in.data + in.len, 0 }, e.place, out, &all, err));
    return next.sample != UINT64_MAX && next.sample != e.sample + all
               ? bad("a damaged directory", err)
               : 0;
}

#define GUESSES 3 /* then by halves */

int stk_packet_points_at(const stk_packet_points *p, uint64_t sample, uint32_t *number,
                         stk_error *err)
{
    uint32_t low = 0, high = blocks_of(p), i;
    stk_packet_block b;
    uint64_t at;

    for (uint32_t step = 0; high - low > 1; step++) {
        uint64_t guess = sample / p->per / STK_PACKET_BLOCK;
        uint32_t mid = low + (high - low) / 2;
        entry e;

        if (step < GUESSES) /* all packets may give as much as the first one */
            mid = guess + step <= low    ? low + 1
                  : guess + step >= high ? high - 1
                                         : (uint32_t)guess + step;
        STK_TRY(get_entry(p, mid, &e, err));
        if (e.sample <= sample)
            low = mid;
        else
            high = mid;
    }
    STK_TRY(stk_packet_points_block(p, low * STK_PACKET_BLOCK, &b, err));
    at = b.sample;
    for (i = 0; i + 1 < b.n && at + b.count[i] <= sample; i++)
        at += b.count[i];
    *number = b.first + i;
    return 0;
}

/* ---- making ---- */

typedef struct pen {
    uint8_t *dst; /* NULL: only counts */
    size_t len;
} pen;

static void put(pen *p, uint64_t v, uint32_t bytes)
{
    for (uint32_t i = 0; p->dst && i < bytes; i++)
        p->dst[p->len + i] = (uint8_t)(v >> (8 * i));
    p->len += bytes;
}

static void put_varint(pen *p, uint64_t v)
{
    while (v > 127) {
        put(p, (v & 127) | 128, 1);
        v >>= 7;
    }
    put(p, v, 1);
}

static void put_head(pen *p, const stk_packet_points *s, size_t setup, size_t bytes)
{
    put(p, (uint8_t)s->tag, 1);
    put(p, VERSION, 1);
    put(p, s->coding, 1);
    put(p, 0, 1);
    put(p, s->rate, 4);
    put(p, s->channels, 4);
    put(p, s->per, 4);
    put(p, s->last, 4);
    put(p, s->number, 4);
    put(p, s->skip, 8);
    put(p, s->units, 8);
    put(p, s->field, 8);
    put(p, s->n, 4);
    put(p, setup, 4);
    put(p, bytes, 4);
    put(p, 0, 4);
    put(p, (uint64_t)s->first_us, 8);
    put(p, 0, 8);
}

/* Entries at `dir`, packets at `p`; or only counted. */
static void put_packets(pen *p, pen *dir, const stk_packet_points *s, const stk_packet_list *l)
{
    uint64_t sample = 0, place = 0;
    uint32_t count = 0;

    for (uint32_t i = 0; i < s->n; i++) {
        const stk_video_frame *f = &l->frame[i];
        uint32_t samples = l->samples(l->cookie, i);
        int64_t gap;

        if (i % STK_PACKET_BLOCK == 0) {
            put(dir, f->at, 8);
            put(dir, sample, 8);
            put(dir, p->len, 4);
            put(dir, 0, 4);
            place = f->at;
            count = s->per;
        }
        gap = (int64_t)(f->at - place);
        put_varint(p, (uint64_t)f->size << 2 | (gap ? HAS_GAP : 0) |
                          (samples != count ? HAS_COUNT : 0));
        if (gap)
            put_varint(p, (uint64_t)gap << 1 ^ (uint64_t)(gap >> 63));
        if (samples != count)
            put_varint(p, samples);
        count = samples;
        sample += samples;
        place = f->at + f->size;
    }
}

int stk_packet_points_make(const stk_packet_points *p, stk_bytes setup, const stk_packet_list *list,
                           stk_scratch *scratch, stk_bytes *out, stk_error *err)
{
    size_t fixed = HEAD + setup.len + (size_t)blocks_of(p) * ENTRY;
    pen w = { .len = fixed }, dir = { 0 };
    size_t bytes;
    uint8_t *dst;

    put_packets(&w, &dir, p, list);
    bytes = w.len;
    if (bytes > INT32_MAX)
        return stk_fail(err, STK_ECORRUPT, "points of a sound track: too many packets");
    dst = stk_scratch_get(scratch, bytes);
    if (!dst)
        return stk_fail_nomem(err, bytes);
    w = (pen){ .dst = dst };
    put_head(&w, p, setup.len, bytes);
    if (setup.len)
        memcpy(dst + w.len, setup.data, setup.len);
    dir = (pen){ .dst = dst, .len = HEAD + setup.len };
    w.len = fixed;
    put_packets(&w, &dir, p, list);
    *out = (stk_bytes){ dst, bytes };
    return 0;
}

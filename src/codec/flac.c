/* SPDX-License-Identifier: Apache-2.0 */
/* flac - FLAC by our own code; flac_frame.c has the frames.
 *
 * Every frame that is used is checked by its checksum and must follow the one before it.  A part of
 * a recording begins at a frame that is found by its points, or else by looking for frame headers
 * around the place where it should be; a header that turns out to be none costs a decode from the
 * start, never other samples.
 *
 * The last frame must end the field and hold the last sample that the header promises, so that a
 * truncated recording is refused whatever part of it is wanted.  What follows the last frame (tags)
 * is found by decoding all frames. */
#include "codec/codec.h"
#include "codec/decoders.h"
#include "codec/flac_frame.h"
#include "codec/sound_points.h"

#include <string.h>

#define STREAMINFO 34
#define TAIL                                                                                       \
    ((uint64_t)1 << 20) /* bytes in which the last frame begins, where its size is not known */
#define SUMMED ((uint64_t)64 << 20) /* bytes of what may be the last frame, all tries together */
#define MOST_COUNTED ((uint64_t)1 << 34) /* samples of all channels: two days of stereo */
#define LEAST_FRAME 10                   /* bytes: header, one constant, checksum */
#define GUESSES 40

typedef struct flac_ctx {
    stk_flac frames;
    stk_flac_stream stream;
    stk_bytes in;
    uint64_t begin, units;
    stk_bytes points; /* of header(); or none */
} flac_ctx;

/* ---- metadata ---- */

/* Bytes of an ID3v2 tag in front. */
static uint64_t tag_bytes(stk_bytes head)
{
    const uint8_t *p = head.data;

    if (head.len < 10 || memcmp(p, "ID3", 3))
        return 0;
    return 10 + ((uint64_t)(p[6] & 127) << 21 | (uint64_t)(p[7] & 127) << 14 |
                 (uint64_t)(p[8] & 127) << 7 | (p[9] & 127));
}

static int flac_probe(stk_bytes head)
{
    uint64_t skip = tag_bytes(head);

    return skip < head.len && head.len - skip >= 4 && !memcmp(head.data + skip, "fLaC", 4);
}

static int truncated(size_t len, stk_error *err)
{
    return stk_fail(err, STK_ECORRUPT, "FLAC is truncated: its %zu bytes end in the header", len);
}

static int read_metadata(stk_bytes in, stk_flac_stream *s, uint64_t *begin, stk_error *err)
{
    uint64_t at = tag_bytes(in) + 4;

    for (int n = 0, last = 0; !last; n++) {
        uint64_t size;

        if (at > in.len || in.len - at < 4)
            return truncated(in.len, err);
        last = in.data[at] >> 7;
        size = (uint64_t)in.data[at + 1] << 16 | (uint64_t)in.data[at + 2] << 8 | in.data[at + 3];
        if (size > in.len - at - 4)
            return truncated(in.len, err);
        if (!n && ((in.data[at] & 127) || size < STREAMINFO))
            return stk_fail(err, STK_ECORRUPT, "FLAC: its first block is not STREAMINFO");
        if (!n)
            STK_TRY(stk_flac_stream_read(s, in.data + at + 4, err));
        at += 4 + size;
    }
    *begin = at;
    return stk_sound_check("FLAC", s->rate, s->channels, err);
}

/* ---- frames ---- */

static stk_bytes from_byte(stk_bytes in, uint64_t at)
{
    return (stk_bytes){ in.data + at, in.len - (size_t)at };
}

static int may_begin(const flac_ctx *c, stk_bytes in, stk_flac_head *h)
{
    return stk_flac_head_read(&c->frames, &c->stream, in, h) &&
           stk_flac_check_rate(&c->stream, h, NULL) == 0;
}

/* Where the last frame ends if it ends the field: how many samples there are.  0: it is not found,
 * of a file whose bytes look like frames everywhere too: sums are made of SUMMED bytes. */
static uint64_t units_at_end(flac_ctx *c, stk_bytes in)
{
    uint64_t summed = 0;
    uint64_t most = c->stream.max_frame ? c->stream.max_frame : TAIL, end = in.len, at;

    if (end - c->begin > 128 && !memcmp(in.data + end - 128, "TAG", 3))
        end -= 128;
    for (at = end; at > c->begin && end - at < most;) {
        stk_bytes rest;
        stk_flac_head h;

        at--;
        rest = (stk_bytes){ in.data + at, (size_t)(end - at) };
        if (*rest.data != 0xFF || rest.len < 2 || !may_begin(c, rest, &h))
            continue;
        if (!stk_flac_crc(&c->frames, rest))
            return h.first + h.block;
        summed += rest.len;
        if (summed > SUMMED)
            return 0;
    }
    return 0;
}

typedef struct walk { /* over frames, from a place on */
    stk_bytes in;     /* bytes from `base` of the field on */
    uint64_t base, at;
    uint64_t sample; /* the next one */
    stk_flac_head head;
} walk;

/* The next frame.  STK_END: no frame begins there. */
static int next_frame(flac_ctx *c, walk *w, stk_error *err)
{
    stk_bytes rest = from_byte(w->in, w->at);
    size_t size;

    if (!stk_flac_head_read(&c->frames, &c->stream, rest, &w->head))
        return STK_END;
    STK_TRY(stk_flac_check_rate(&c->stream, &w->head, err));
    if (w->head.first != w->sample)
        return stk_fail(err, STK_ECORRUPT,
                        "FLAC: after sample %" PRIu64 " follows the frame of sample %" PRIu64,
                        w->sample, w->head.first);
    STK_TRY(stk_flac_decode(&c->frames, &c->stream, &w->head, rest, &size, err));
    w->at += size;
    w->sample += w->head.block;
    return 0;
}

/* All frames one after another: how many samples they hold.  Frames of silence are so short that
 * counting them is bounded, too. */
static int walk_all(flac_ctx *c, stk_bytes in, stk_sound_marks *marks, uint64_t *units,
                    stk_error *err)
{
    walk w = { .in = in, .at = c->begin };
    int rc = 0;

    while (rc == 0) {
        uint64_t at = w.at, sample = w.sample;

        rc = next_frame(c, &w, err);
        if (rc == 0 && w.sample > MOST_COUNTED / c->stream.channels)
            return stk_fail(err, STK_ELIMIT,
                            "FLAC: frames of more than %" PRIu64 " samples are not counted",
                            MOST_COUNTED / c->stream.channels);
        if (rc == 0 && marks)
            stk_sound_marks_add(marks, sample, at);
    }
    *units = w.sample;
    return rc < 0 ? rc : 0;
}

static int count_units(flac_ctx *c, stk_bytes in, stk_error *err)
{
    uint64_t said = c->stream.units, found = units_at_end(c, in);

    if (!found || (said && found != said))
        STK_TRY(walk_all(c, in, NULL, &found, err));
    if (said && found != said)
        return stk_fail(err, STK_ECORRUPT,
                        "FLAC %s: its header says %" PRIu64 " samples, its frames have %" PRIu64,
                        found < said ? "is truncated" : "lies", said, found);
    c->units = found;
    return 0;
}

/* A frame in whose bytes, or after which, sample `want` comes; looked for by its header alone. */
static uint64_t guess_frame(const flac_ctx *c, stk_bytes in, uint64_t want, uint64_t *sample)
{
    uint64_t lo = c->begin, hi = in.len, first = 0, last = c->units;

    for (int i = 0; i < GUESSES && first + c->stream.max_block <= want && hi - lo > 64; i++) {
        double part = (double)(want - first) / (double)(last - first);
        uint64_t mid = lo + (uint64_t)(part * (double)(hi - lo)), at;
        stk_flac_head h;
        int found = 0;

        mid = mid - lo > c->stream.max_frame ? mid - c->stream.max_frame : lo + (hi - lo) / 4;
        for (at = mid > lo ? mid : lo + 1; at + 2 < hi && !found; at++)
            found = in.data[at] == 0xFF && (in.data[at + 1] & 0xFE) == 0xF8 &&
                    may_begin(c, from_byte(in, at), &h) && h.first > first && h.first < last;
        if (found && h.first <= want) {
            lo = at - 1;
            first = h.first;
        } else {
            hi = mid > lo ? mid : lo + 1;
            last = found ? h.first : last;
        }
    }
    *sample = first;
    return lo;
}

/* Where decoding begins for sample `want`. */
static void find_start(const flac_ctx *c, stk_bytes in, uint64_t want, walk *w)
{
    stk_sound_points p;

    *w = (walk){ .in = in, .at = c->begin };
    if (c->points.data && stk_sound_points_open(&p, c->points, NULL) == 0 && p.n_marks) {
        stk_sound_mark m = stk_sound_points_mark(&p, stk_sound_points_find(&p, want));

        if (m.sample <= want && m.offset > c->begin && m.offset < in.len) {
            w->at = m.offset;
            w->sample = m.sample;
            return;
        }
    }
    w->at = guess_frame(c, in, want, &w->sample);
}

/* Frames up to the last wanted sample, of which the first is decoded. */
static int give_frames(flac_ctx *c, const stk_media_job *job, walk *w, stk_error *err)
{
    int rc = 0;

    while (rc == 0) {
        STK_TRY(stk_sound_give(job, w->head.first, c->frames.channel, w->head.block,
                               c->stream.channels, err));
        if (w->sample >= job->ask->to)
            return 0;
        rc = next_frame(c, w, err);
    }
    if (rc < 0)
        return rc;
    return stk_fail(err, STK_ECORRUPT,
                    "FLAC: no frame begins at byte %" PRIu64 ", where that of sample %" PRIu64
                    " should",
                    w->base + w->at, w->sample);
}

static int decode_whole(flac_ctx *c, const stk_media_job *job, stk_error *err)
{
    stk_bytes in = job->part->bytes;
    walk w;
    int rc;

    if (job->ask->from == job->ask->to)
        return 0;
    find_start(c, in, job->ask->from, &w);
    rc = next_frame(c, &w, NULL);
    if (rc && w.at != c->begin) {
        w = (walk){ .in = in, .at = c->begin };
        rc = next_frame(c, &w, err);
    } else if (rc < 0) {
        rc = next_frame(c, &w, err); /* again, for its error */
    }
    if (rc)
        return rc < 0 ? rc : stk_fail(err, STK_ECORRUPT, "FLAC: it has no frame");
    return give_frames(c, job, &w, err);
}

/* ---- parts ---- */

static int stale(stk_error *err)
{
    return stk_fail(err, STK_ESTALE, "FLAC: what was read is not what its points describe");
}

static int decode_part(flac_ctx *c, const stk_media_job *job, stk_error *err)
{
    walk w = { .in = job->part->bytes, .base = job->part->offset };
    stk_sound_points p;
    uint32_t mark;
    int rc;

    c->in = (stk_bytes){ 0 };
    if (job->n_parts != 1 || stk_sound_points_open(&p, job->points->head, NULL) < 0 ||
        p.setup.len != STREAMINFO || stk_flac_stream_read(&c->stream, p.setup.data, NULL) < 0 ||
        c->stream.channels != p.channels)
        return stale(err);
    STK_TRY(stk_sound_check_ask(job->ask, p.units, err));
    mark = stk_sound_points_at(&p, job->part->offset);
    if (mark == p.n_marks)
        return stale(err);
    w.sample = stk_sound_points_mark(&p, mark).sample;
    rc = w.sample <= job->ask->from ? next_frame(c, &w, NULL) : STK_ESTALE;
    if (rc == 0)
        rc = give_frames(c, job, &w, err);
    return rc == STK_ECORRUPT || rc == STK_END || rc == STK_ESTALE ? stale(err) : rc;
}

/* ---- the decoder ---- */

static int flac_open(void **out, stk_error *err)
{
    flac_ctx *c = STK_NEW(flac_ctx);

    *out = c;
    if (!c)
        return stk_fail_nomem(err, sizeof *c);
    stk_flac_init(&c->frames);
    return 0;
}

static void flac_close(void *p)
{
    flac_ctx *c = p;

    if (c)
        stk_flac_fini(&c->frames);
    stk_free(c);
}

static int flac_header(void *p, stk_bytes in, const stk_media_points *points, stk_media_info *out,
                       stk_error *err)
{
    flac_ctx *c = p;
    int rc = flac_probe(in) ? read_metadata(in, &c->stream, &c->begin, err)
                            : truncated(in.len, err);

    c->in = (stk_bytes){ 0 };
    c->points = points->head;
    if (rc == 0)
        rc = count_units(c, in, err);
    if (rc < 0)
        return rc;
    c->in = in;
    *out = stk_sound_info(c->stream.rate, c->stream.channels, c->units);
    return 0;
}

/* By STREAMINFO, where it says how many samples there are and so many bytes can hold them. */
static int flac_measure(void *p, const stk_media_reader *read, stk_media_info *out, stk_error *err)
{
    uint64_t size = read->size, skip;
    stk_flac_stream s;
    stk_bytes in;

    (void)p;
    STK_TRY(read->read(read->cookie, 0, size < 10 ? (size_t)size : 10, &in, err));
    skip = tag_bytes(in);
    if (skip > size || size - skip < 8 + STREAMINFO)
        return truncated((size_t)size, err);
    STK_TRY(read->read(read->cookie, skip, 8 + STREAMINFO, &in, err));
    if (memcmp(in.data, "fLaC", 4) != 0 || in.data[4] & 127)
        return stk_fail(err, STK_ECORRUPT, "FLAC: its first block is not STREAMINFO");
    STK_TRY(stk_flac_stream_read(&s, in.data + 8, err));
    STK_TRY(stk_sound_check("FLAC", s.rate, s.channels, err));
    if (!s.units || s.units / s.max_block > size / LEAST_FRAME)
        return STK_END;
    *out = stk_sound_info(s.rate, s.channels, s.units);
    return 0;
}

static int flac_decode(void *p, const stk_media_job *job, stk_error *err)
{
    flac_ctx *c = p;

    if (job->part->offset)
        return decode_part(c, job, err);
    if (!c->in.data || job->part->bytes.data != c->in.data || job->n_parts != 1)
        return stk_fail(err, STK_EINVAL, "decode() needs a header() that succeeded");
    STK_TRY(stk_sound_check_ask(job->ask, c->units, err));
    return decode_whole(c, job, err);
}

static int flac_points(void *p, const stk_media_reader *read, stk_scratch *scratch, stk_bytes *out,
                       stk_error *err)
{
    flac_ctx *c = p;
    stk_sound_marks marks;
    stk_bytes in;
    uint64_t units, skip;

    STK_TRY(read->read(read->cookie, 0, (size_t)read->size, &in, err));
    if (!flac_probe(in))
        return truncated(in.len, err);
    STK_TRY(read_metadata(in, &c->stream, &c->begin, err));
    STK_TRY(stk_sound_marks_init(&marks, c->stream.rate, scratch, err));
    STK_TRY(walk_all(c, in, &marks, &units, err));
    if (c->stream.units && c->stream.units != units)
        return stk_fail(err, STK_ECORRUPT, "FLAC: its frames do not hold what its header says");
    skip = tag_bytes(in) + 8;
    return stk_sound_points_make(&(stk_sound_points){ .tag = 'F',
                                                      .rate = c->stream.rate,
                                                      .channels = c->stream.channels,
                                                      .units = units,
                                                      .begin = c->begin,
                                                      .end = in.len,
                                                      .setup = { in.data + skip, STREAMINFO } },
                                 &marks, scratch, out, err);
}

const stk_decoder stk_decoder_flac = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_decoder),
    .name = "flac",
    .help = "FLAC: 4 to 32 bits, up to 8 channels; a part is decoded from its frames alone",
    .probe = flac_probe,
    .open = flac_open,
    .header = flac_header,
    .decode = flac_decode,
    .close = flac_close,
    .tag = 'F',
    .know = stk_sound_know,
    .ranges = stk_sound_ranges,
    .points = flac_points,
    .measure = flac_measure
};

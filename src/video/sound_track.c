/* SPDX-License-Identifier: Apache-2.0 */
/* sound_track.c - the sound of MP4, Matroska and ADTS files through the seam of decoders: packets
 * by their container's tables, decoded by libavcodec.
 *
 * What a packet gives is known before it is decoded: as many samples as the first one, or for Opus
 * what its first bytes say.  A packet that gives another number is an error.  Decoding begins a
 * fixed number of packets before the first that is wanted, in a stream that is opened for it: some
 * decoders draw noise from a state that all packets before have changed, and no part may depend on
 * what was decoded last. */
#include "video/sound_track.h"

#include <math.h>
#include <string.h>

#include "codec/codec.h"
#include "codec/sound_decoders.h"
#include "codec/sound_points.h"
#include "video/clip.h"
#include "video/libav.h"
#include "video/packet_points.h"

#define RUN_UP 12 /* packets: MP3 borrows bits of up to nine before */
#define AFTER 2   /* packets that are read after the last wanted one: some decoders give it then */
#define OPUS_RATE 48000u
#define OPUS_RUN_UP 24000u /* samples, as opus.c has it */
#define CHANNELS 8

typedef struct sound_track_ctx { /* of one worker; of the field whose header was read last: */
    stk_video_track track;
    uint32_t first; /* the packet that track.frame begins with; of a part it is not 0 */
    uint32_t rate, channels;
    uint32_t per, last; /* samples of a packet, of the last one; of Opus see count_opus() */
    uint64_t skip, units;
    void *lib;
} sound_track_ctx;

const char *stk_sound_coding_name(stk_sound_coding coding)
{
    static const char *const names[STK_CODINGS] = { "other",  "AAC",  "MP3",  "AC-3",
                                                    "E-AC-3", "ALAC", "FLAC", "Opus" };

    return coding < STK_CODINGS ? names[coding] : "unknown";
}

int stk_sound_track_end(stk_video_track *t, stk_error *err)
{
    if (!t->n)
        return stk_fail(err, STK_ECORRUPT, "track %u: the sound has no packets", t->number);
    for (uint32_t i = 0; i < t->n; i++)
        if (t->frame[i].at > t->field || t->frame[i].size > t->field - t->frame[i].at)
            return stk_fail(err, STK_ECORRUPT,
                            "the file is truncated: packet %u of track %u is at byte %" PRIu64
                            " with %u bytes, and the file ends at %" PRIu64,
                            i, t->number, t->frame[i].at, t->frame[i].size, t->field);
    return 0;
}

static int sound_track_open(void **out, stk_error *err)
{
    *out = STK_NEW(sound_track_ctx);
    return *out ? 0 : stk_fail_nomem(err, sizeof(sound_track_ctx));
}

static void sound_track_close(void *p)
{
    sound_track_ctx *c = p;

    if (!c)
        return;
    if (c->lib)
        stk_libav_close(c->lib);
    stk_video_track_fini(&c->track);
    stk_free(c);
}

/* ---- what a packet gives ---- */

/* RFC 6716, 3.1: frames of a length that the first byte says, one, two, or as many as the second
 * byte says.  0: it is none. */
static uint32_t opus_samples(stk_bytes in)
{
    static const uint16_t silk[4] = { 480, 960, 1920, 2880 };
    uint32_t config, frame, n;

    if (!in.len)
        return 0;
    config = in.data[0] >> 3;
    frame = config < 12   ? silk[config & 3]
            : config < 16 ? 480u << (config & 1)
                          : 120u << (config & 3);
    n = (in.data[0] & 3) == 0 ? 1 : (in.data[0] & 3) < 3 ? 2 : in.len > 1 ? in.data[1] & 63 : 0;
    return frame * n <= 5760 ? frame * n : 0;
}

#define COUNT_SHIFT 16 /* of a frame's flags: from this bit on samples that an Opus packet gives */

static uint32_t samples_of(const sound_track_ctx *c, uint32_t i)
{
    if (c->track.sound.coding == STK_CODING_OPUS)
        return c->track.frame[i - c->first].flags >> COUNT_SHIFT;
    return i + 1 == c->track.n ? c->last : c->per;
}

/* Of Opus without the count of samples at the beginning that are left out: where a stream begins in
 * the middle there are none. */
static int open_stream(sound_track_ctx *c, stk_libav_sound **out, stk_error *err)
{
    stk_libav_setup how = { c->track.sound.coding, { c->track.setup, c->track.setup_len } };
    uint8_t head[19 + 257];

    *out = NULL;
    if (how.coding == STK_CODING_OPUS) {
        how.setup.len = how.setup.len < sizeof head ? how.setup.len : sizeof head;
        memset(head, 0, sizeof head);
        if (how.setup.len)
            memcpy(head, how.setup.data, how.setup.len);
        head[10] = head[11] = 0;
        how.setup.data = head;
    }
    if (!c->lib)
        STK_TRY(stk_libav_open(&c->lib, err));
    return stk_libav_sound_open(out, c->lib, &how, err);
}

/* What packet i alone gives.  out->data is not there any more. */
static int try_packet(sound_track_ctx *c, const stk_media_reader *read, uint32_t i,
                      stk_libav_samples *out, stk_error *err)
{
    const stk_video_frame *f = &c->track.frame[i];
    stk_libav_sound *s;
    stk_bytes in;
    int rc;

    STK_TRY(read->read(read->cookie, f->at, f->size, &in, err));
    rc = open_stream(c, &s, err);
    if (rc == 0)
        rc = stk_libav_sound_send(s, in, i, err);
    if (rc == 0)
        rc = stk_libav_sound_receive(s, out, err);
    if (rc == STK_END) {
        rc = stk_libav_sound_send(s, (stk_bytes){ 0 }, 0, err);
        rc = rc == 0 ? stk_libav_sound_receive(s, out, err) : rc;
    }
    stk_libav_sound_close(&s);
    if (rc == STK_END || (rc == 0 && !out->n))
        return stk_fail(err, STK_ECORRUPT, "packet %u of track %u gives no samples", i,
                        c->track.number);
    return rc;
}

/* ---- header ---- */

static uint64_t in_samples(uint64_t num, uint64_t den, uint32_t rate)
{
    double n = den ? floor((double)num / (double)den * rate + 0.5) : 0;

    return n < 0x1p60 ? (uint64_t)n : (uint64_t)1 << 60;
}

/* Which of all samples that the packets give are the recording. */
static int settle(sound_track_ctx *c, uint64_t all, stk_error *err)
{
    const stk_track_sound *s = &c->track.sound;
    const uint8_t *setup = c->track.setup;
    uint64_t keep = in_samples(s->keep_num, s->keep_den, c->rate);
    uint64_t pad = in_samples(s->pad_ns, 1000000000, c->rate);

    c->skip = in_samples(s->skip_num, s->skip_den, c->rate);
    if (s->coding == STK_CODING_OPUS && !s->skip_den && c->track.setup_len >= 19)
        c->skip = setup[10] | (uint32_t)setup[11] << 8;
    if (c->skip >= all)
        return stk_fail(err, STK_ECORRUPT,
                        "track %u: its first %" PRIu64 " samples are left out, and it has %" PRIu64,
                        c->track.number, c->skip, all);
    c->units = all - c->skip;
    if (s->keep_den && keep < c->units)
        c->units = keep;
    if (!s->keep_den)
        c->units -= pad < c->units ? pad : c->units;
    return 0;
}

#define NARROW 64u  /* bytes that are read at once where packets are apart, ... */
#define WIDE 65536u /* ... and at most where they are neighbours */

typedef struct window { /* bytes of the field that are there */
    const stk_media_reader *read;
    stk_bytes in;
    uint64_t at;
    size_t len; /* that are read next */
} window;

/* The first bytes of a packet. */
static int look(window *w, const stk_video_frame *f, stk_bytes *out, stk_error *err)
{
    uint64_t left = w->read->size > f->at ? w->read->size - f->at : 0;
    size_t need = f->size < 2 ? f->size : 2;

    if (f->at < w->at || f->at - w->at > w->in.len || w->in.len - (f->at - w->at) < need) {
        int near = f->at >= w->at && f->at - w->at < w->in.len + NARROW;

        w->len = near ? w->len * 4 : NARROW;
        w->len = w->len > WIDE ? WIDE : w->len;
        w->in = (stk_bytes){ 0 };
        STK_TRY(w->read->read(w->read->cookie, f->at, left < w->len ? (size_t)left : w->len, &w->in,
                              err));
        w->at = f->at;
    }
    *out = (stk_bytes){ w->in.data + (f->at - w->at), need };
    return 0;
}

/* Packets of Opus say themselves how many samples they give. */
static int count_opus(sound_track_ctx *c, const stk_media_reader *read, uint64_t *all,
                      stk_error *err)
{
    window w = { .read = read, .len = NARROW };

    if (c->rate != OPUS_RATE)
        return stk_fail(err, STK_ENOTSUP, "libavcodec gives Opus at %u samples per second",
                        c->rate);
    *all = 0;
    for (uint32_t i = 0; i < c->track.n; i++) {
        stk_bytes head = { 0 };
        uint32_t k;

        STK_TRY(look(&w, &c->track.frame[i], &head, err));
        k = opus_samples(head);
        if (!k)
            return stk_fail(err, STK_ECORRUPT, "packet %u of track %u is damaged", i,
                            c->track.number);
        c->track.frame[i].flags = STK_FRAME_KEY | k << COUNT_SHIFT;
        *all += k;
    }
    return 0;
}

/* By the first packet, and where the last one is shorter by that too; of Opus by all. */
static int measure(sound_track_ctx *c, const stk_media_reader *read, stk_error *err)
{
    stk_sound_coding coding = c->track.sound.coding;
    uint32_t n = c->track.n;
    stk_libav_samples made = { 0 };
    uint64_t all;

    c->first = 0;
    STK_TRY(try_packet(c, read, 0, &made, err));
    STK_TRY(stk_sound_check(stk_sound_coding_name(coding), made.rate, made.channels, err));
    c->rate = made.rate;
    c->channels = made.channels;
    c->per = c->last = made.n;
    if (n > 1 && (coding == STK_CODING_ALAC || coding == STK_CODING_FLAC)) {
        STK_TRY(try_packet(c, read, n - 1, &made, err));
        c->last = made.n;
    }
    all = (uint64_t)c->per * (n - 1) + c->last;
    if (coding == STK_CODING_OPUS)
        STK_TRY(count_opus(c, read, &all, err));
    return settle(c, all, err);
}

typedef int (*read_fn)(stk_video_track *t, const stk_media_reader *read, stk_error *err);

static int header_of(sound_track_ctx *c, read_fn read_track, stk_bytes in, stk_media_info *out,
                     stk_error *err)
{
    const stk_media_reader read = stk_media_here(&in);

    c->units = 0;
    STK_TRY(read_track(&c->track, &read, err));
    STK_TRY(measure(c, &read, err));
    *out = stk_sound_info(c->rate, c->channels, c->units);
    out->tracks = c->track.tracks;
    out->first_us = c->track.sound.first_us;
    return 0;
}

/* By the tables of a container that has them together.  STK_END: Opus, whose packets would all be
 * looked at. */
static int mp4_measure(void *p, const stk_media_reader *read, stk_media_info *out, stk_error *err)
{
    sound_track_ctx *c = p;

    c->units = 0;
    STK_TRY(stk_mp4_read_sound(&c->track, read, err));
    if (c->track.sound.coding == STK_CODING_OPUS)
        return STK_END;
    STK_TRY(measure(c, read, err));
    *out = stk_sound_info(c->rate, c->channels, c->units);
    out->tracks = c->track.tracks;
    c->units = 0; /* decode() follows header() */
    return 0;
}

/* ---- decoding ---- */

typedef struct run {
    sound_track_ctx *c;
    const stk_media_job *job;
    uint32_t next;     /* the packet whose samples come next */
    uint32_t end;      /* packets from this one on are not there */
    uint64_t at;       /* their number, of all that the packets give */
    uint64_t from, to; /* that are wanted, of the same */
    float *room;       /* CHANNELS rows of them, for those that are not floats */
    uint32_t room_n;
} run;

/* The bytes of packet i; none: no part has them. */
static stk_bytes packet(const run *r, uint32_t i)
{
    const stk_video_frame *f = &r->c->track.frame[i - r->c->first];

    for (uint32_t k = 0; k < r->job->n_parts; k++) {
        const stk_media_part *p = &r->job->part[k];

        if (f->at >= p->offset && f->at - p->offset <= p->bytes.len &&
            f->size <= p->bytes.len - (f->at - p->offset))
            return (stk_bytes){ p->bytes.data + (f->at - p->offset), f->size };
    }
    return (stk_bytes){ 0 };
}

static int damaged(const run *r, const char *why, stk_error *err)
{
    return stk_fail(err, STK_ECORRUPT, "packet %u of track %u (%s) can't be decoded: %s", r->next,
                    r->c->track.number, stk_sound_coding_name(r->c->track.sound.coding), why);
}

static void to_floats(const run *r, const stk_libav_samples *s, float *channel[CHANNELS])
{
    for (uint32_t k = 0; k < s->channels; k++) {
        float *out = r->room + (size_t)k * r->room_n;
        const int16_t *half = s->data[k];
        const int32_t *word = s->data[k];

        channel[k] = s->whole ? out : s->data[k];
        for (uint32_t i = 0; s->whole && s->bytes == 2 && i < s->n; i++)
            out[i] = (float)half[i] * 0x1p-15f;
        for (uint32_t i = 0; s->whole && s->bytes == 4 && i < s->n; i++)
            out[i] = (float)((double)word[i] * 0x1p-31);
    }
}

/* The samples of packet r->next. */
static int give(run *r, const stk_libav_samples *s, stk_error *err)
{
    uint64_t first = r->at, skip = r->c->skip;
    uint32_t n = samples_of(r->c, r->next), drop;
    float *channel[CHANNELS];

    if (s->rate != r->c->rate || s->channels != r->c->channels || s->n < n ||
        (s->n > n && r->next + 1 < r->c->track.n))
        return stk_fail(err, STK_ECORRUPT,
                        "packet %u of track %u gives %u samples of %u channels at %u per second, "
                        "where %u of %u at %u should come",
                        r->next, r->c->track.number, s->n, s->channels, s->rate, n, r->c->channels,
                        r->c->rate);
    r->next++;
    r->at += n;
    if (r->at <= r->from || r->at <= skip)
        return 0;
    to_floats(r, s, channel);
    drop = (uint32_t)(first < skip ? skip - first : 0);
    for (uint32_t k = 0; k < s->channels; k++)
        channel[k] += drop;
    return stk_sound_give_floats(
        stk_sound_coding_name(r->c->track.sound.coding), r->job,
        &(stk_sound_block){ first + drop - skip, channel, n - drop, s->channels }, err);
}

/* Packets that gave nothing: only before what is wanted. */
static int pass_to(run *r, uint32_t number, stk_error *err)
{
    while (r->next < number) {
        r->at += samples_of(r->c, r->next);
        if (r->at > r->from)
            return damaged(r, "it gives no samples", err);
        r->next++;
    }
    return 0;
}

static int take(run *r, stk_libav_sound *s, stk_error *err)
{
    stk_libav_samples made;
    int rc;

    while ((rc = stk_libav_sound_receive(s, &made, err)) == 0) {
        if (made.number < r->next || made.number >= r->c->track.n || !made.data[0])
            return damaged(r, "its samples come out of order", err);
        if (r->at >= r->to)
            continue;
        STK_TRY(pass_to(r, made.number, err));
        STK_TRY(give(r, &made, err));
    }
    return rc == STK_END ? 0 : rc;
}

static int run_packets(run *r, stk_libav_sound *s, stk_error *err)
{
    stk_error why = { 0 };

    for (uint32_t i = r->next; i < r->end && r->at < r->to; i++) {
        int rc = stk_libav_sound_send(s, packet(r, i), i, &why);

        if (rc == 0)
            rc = take(r, s, &why);
        if (rc == STK_ENOMEM)
            return stk_fail_nomem(err, 0);
        /* the first packets after a start in the middle may lack what was before them */
        if (rc < 0 && (!r->c->per || (uint64_t)(i + 1) * r->c->per > r->from))
            return why.code == STK_ECORRUPT ? damaged(r, why.message, err)
                                            : stk_fail(err, rc, "%s", why.message);
    }
    if (r->at < r->to && r->end == r->c->track.n) {
        STK_TRY(stk_libav_sound_send(s, (stk_bytes){ 0 }, 0, err));
        STK_TRY(take(r, s, err));
    }
    return r->at < r->to ? damaged(r, "it gives no samples", err) : 0;
}

/* Where decoding begins: its packet, and the number of its first sample.  begin_part() finds the
 * same by points. */
static void find_start(run *r)
{
    const sound_track_ctx *c = r->c;
    uint64_t at = 0, from = r->from > OPUS_RUN_UP ? r->from - OPUS_RUN_UP : 0;
    uint32_t i = 0;

    if (c->track.sound.coding != STK_CODING_OPUS) {
        uint64_t p = r->from / c->per;

        r->next = p > RUN_UP ? (uint32_t)(p - RUN_UP) : 0;
        r->at = (uint64_t)r->next * c->per;
        return;
    }
    for (uint32_t n; i + 1 < c->track.n && at + (n = samples_of(c, i)) <= from; i++)
        at += n;
    r->next = i;
    r->at = at;
}

/* Samples r->from to r->to - 1 of packets that are known. */
static int decode(run *r, stk_error *err)
{
    sound_track_ctx *c = r->c;
    stk_libav_sound *s = NULL;
    int rc;

    r->from = r->job->ask->from + c->skip;
    r->to = r->job->ask->to + c->skip;
    r->room_n = (c->per > c->last ? c->per : c->last) + 5760;
    r->room = stk_scratch_get(r->job->scratch, (size_t)r->room_n * CHANNELS * sizeof *r->room);
    if (!r->room)
        return stk_fail_nomem(err, (size_t)r->room_n * CHANNELS * sizeof *r->room);
    rc = open_stream(c, &s, err);
    if (rc == 0)
        rc = run_packets(r, s, err);
    stk_libav_sound_close(&s);
    return rc;
}

/* ---- points ---- */

typedef struct packets { /* that are read for a part */
    uint32_t a, b;
    uint64_t sample; /* that packet a begins with */
} packets;

/* The same packets that find_start() and run_packets() take of the whole. */
static int packets_of(const stk_packet_points *p, const stk_media_ask *ask, packets *out,
                      stk_error *err)
{
    uint64_t from = ask->from + p->skip, before;
    stk_packet_block b;
    uint32_t last;

    STK_TRY(stk_packet_points_at(p, ask->to - 1 + p->skip, &last, err));
    out->b = p->n - last > AFTER ? last + 1 + AFTER : p->n;
    if (p->coding == STK_CODING_OPUS) {
        STK_TRY(stk_packet_points_at(p, from > OPUS_RUN_UP ? from - OPUS_RUN_UP : 0, &out->a, err));
    } else {
        before = from / p->per;
        out->a = before > RUN_UP ? (uint32_t)(before - RUN_UP) : 0;
    }
    if (out->a >= out->b)
        return stk_fail(err, STK_ECORRUPT, "points of a sound track: packets out of order");
    STK_TRY(stk_packet_points_block(p, out->a, &b, err));
    out->sample = b.sample;
    for (uint32_t i = b.first; i < out->a; i++)
        out->sample += b.count[i - b.first];
    return 0;
}

static int track_know(const stk_media_points *points, uint32_t track, stk_media_info *out,
                      stk_error *err)
{
    stk_packet_points p;

    (void)track;
    STK_TRY(stk_packet_points_open(&p, points, err));
    *out = stk_sound_info(p.rate, p.channels, p.units);
    out->first_us = p.first_us;
    return 0;
}

typedef int (*each_fn)(void *cookie, const stk_video_frame *f, uint32_t samples, stk_error *err);

static int for_packets(const stk_packet_points *p, const packets *of, each_fn fn, void *cookie,
                       stk_error *err)
{
    stk_packet_block b = { 0 };

    for (uint32_t i = of->a; i < of->b; i++) {
        if (i == of->a || i == b.first + b.n)
            STK_TRY(stk_packet_points_block(p, i, &b, err));
        STK_TRY(fn(cookie, &b.frame[i - b.first], b.count[i - b.first], err));
    }
    return 0;
}

typedef struct ranges {
    stk_media_range all[STK_MEDIA_RANGES + 1];
    uint32_t n;
    uint64_t from, to; /* packets with little between them */
} ranges;

#define NEAR 1024u /* bytes between two packets that are read with them */

static int add_range(void *cookie, const stk_video_frame *f, uint32_t samples, stk_error *err)
{
    ranges *r = cookie;

    (void)samples, (void)err;
    if (r->to > r->from && (f->at < r->from || f->at > r->to + NEAR)) {
        stk_clip_range_add(r->all, &r->n, r->from, r->to - r->from);
        r->from = r->to = 0;
    }
    if (r->to == r->from)
        r->from = r->to = f->at;
    r->to = f->at + f->size > r->to ? f->at + f->size : r->to;
    return 0;
}

static int track_ranges(const stk_media_points *points, const stk_media_ask *ask,
                        uint64_t session_at, stk_media_range out[STK_MEDIA_RANGES], uint32_t *n,
                        stk_error *err)
{
    ranges r = { .n = 0 };
    stk_packet_points p;
    packets of;

    (void)session_at;
    *n = 0;
    STK_TRY(stk_packet_points_open(&p, points, err));
    if (ask->from >= ask->to || ask->to > p.units)
        return 0;
    STK_TRY(packets_of(&p, ask, &of, err));
    STK_TRY(for_packets(&p, &of, add_range, &r, err));
    if (r.to > r.from)
        stk_clip_range_add(r.all, &r.n, r.from, r.to - r.from);
    if (r.n == 1 && r.all[0].len >= p.field)
        return 0;
    memcpy(out, r.all, r.n * sizeof *out);
    *n = r.n;
    return 0;
}

static int stale(stk_error *err)
{
    return stk_fail(err, STK_ESTALE, "what was read is not what its points describe");
}

/* A packet of a part, into the table. */
static int add_packet(void *cookie, const stk_video_frame *f, uint32_t samples, stk_error *err)
{
    sound_track_ctx *c = cookie;
    stk_video_frame one = *f;

    if (c->track.sound.coding == STK_CODING_OPUS)
        one.flags |= (samples & UINT16_MAX) << COUNT_SHIFT;
    return stk_video_track_add(&c->track, &one, err);
}

/* The track as its points have it, with these packets alone. */
static int use_points(sound_track_ctx *c, const stk_packet_points *p, const packets *of,
                      stk_error *err)
{
    stk_video_track *t = &c->track;
    stk_bytes setup;

    stk_video_track_begin(t);
    t->field = p->field;
    STK_TRY(stk_packet_points_setup(p, &setup, err));
    STK_TRY(stk_video_track_setup(t, setup, err));
    t->sound = (stk_track_sound){ .wanted = 1, .coding = p->coding };
    t->number = p->number;
    c->rate = p->rate;
    c->channels = p->channels;
    c->per = p->per;
    c->last = p->last;
    c->skip = p->skip;
    c->first = of->a;
    STK_TRY(for_packets(p, of, add_packet, c, err));
    t->n = p->n; /* of which frame[] has those that are read */
    return 0;
}

/* The parts have all of its packets, which are what the points say. */
static int check_part(const run *r, const packets *of, stk_error *err)
{
    int opus = r->c->track.sound.coding == STK_CODING_OPUS;

    for (uint32_t i = of->a; i < of->b; i++) {
        stk_bytes in = packet(r, i);

        if (!in.data || (opus && opus_samples(in) != samples_of(r->c, i)))
            return stale(err);
    }
    return 0;
}

static int decode_part(sound_track_ctx *c, const stk_media_job *job, stk_error *err)
{
    run r = { .c = c, .job = job };
    stk_packet_points p;
    packets of;
    int rc;

    c->units = 0;
    if (stk_packet_points_open(&p, job->points, NULL) < 0 || job->ask->from >= job->ask->to ||
        job->ask->to > p.units || packets_of(&p, job->ask, &of, NULL) < 0)
        return stale(err);
    rc = use_points(c, &p, &of, err);
    if (rc < 0 && rc != STK_ENOMEM)
        rc = stale(err);
    r.next = of.a;
    r.at = of.sample;
    r.end = of.b;
    if (rc == 0)
        rc = check_part(&r, &of, err);
    if (rc == 0)
        rc = decode(&r, err);
    c->track.n = c->first = 0; /* of other packets nothing is known */
    c->track.field = UINT64_MAX;
    return rc == STK_ECORRUPT ? stale(err) : rc;
}

static uint32_t samples_at(const void *cookie, uint32_t i)
{
    return samples_of(cookie, i);
}

/* Of the track that was read. */
static int points_of(sound_track_ctx *c, char tag, const stk_media_reader *read,
                     stk_scratch *scratch, stk_bytes *out, stk_error *err)
{
    const stk_packet_list list = { c->track.frame, samples_at, c };
    stk_packet_points p;

    c->units = 0;
    STK_TRY(measure(c, read, err));
    p = (stk_packet_points){ .tag = tag,
                             .coding = c->track.sound.coding,
                             .rate = c->rate,
                             .channels = c->channels,
                             .per = c->per,
                             .last = c->last,
                             .skip = c->skip,
                             .units = c->units,
                             .field = c->track.field,
                             .first_us = c->track.sound.first_us,
                             .number = c->track.number,
                             .n = c->track.n };
    return stk_packet_points_make(&p, (stk_bytes){ c->track.setup, c->track.setup_len }, &list,
                                  scratch, out, err);
}

static int sound_track_decode(void *ctx, const stk_media_job *job, stk_error *err)
{
    sound_track_ctx *c = ctx;
    run r = { .c = c, .job = job, .end = c->track.n };

    if (job->n_parts != 1 || job->part->offset || job->part->bytes.len != c->track.field)
        return decode_part(c, job, err);
    STK_TRY(stk_sound_check_ask(job->ask, c->units, err));
    if (job->ask->from == job->ask->to)
        return 0;
    r.from = job->ask->from + c->skip;
    find_start(&r);
    return decode(&r, err);
}

/* ---- the decoders ---- */

#define CONTAINER(id, letter, probe_fn, read_track, measure_fn, text)                              \
    static int id##_header(void *ctx, stk_bytes in, const stk_media_points *p,                     \
                           stk_media_info *out, stk_error *err)                                    \
    {                                                                                              \
        (void)p;                                                                                   \
        return header_of(ctx, read_track, in, out, err);                                           \
    }                                                                                              \
    static int id##_points(void *ctx, const stk_media_reader *read, stk_scratch *scratch,          \
                           stk_bytes *out, stk_error *err)                                         \
    {                                                                                              \
        sound_track_ctx *c = ctx;                                                                  \
                                                                                                   \
        STK_TRY(read_track(&c->track, read, err));                                                 \
        return points_of(c, letter, read, scratch, out, err);                                      \
    }                                                                                              \
    const stk_decoder stk_decoder_##id = { .abi = STK_PLUGIN_ABI,                                  \
                                           .size = sizeof(stk_decoder),                            \
                                           .name = #id,                                            \
                                           .help = text,                                           \
                                           .probe = probe_fn,                                      \
                                           .open = sound_track_open,                               \
                                           .close = sound_track_close,                             \
                                           .header = id##_header,                                  \
                                           .decode = sound_track_decode,                           \
                                           .can = STK_DECODER_SOUND_TRACK,                         \
                                           .tag = letter,                                          \
                                           .know = track_know,                                     \
                                           .ranges = track_ranges,                                 \
                                           .points = id##_points,                                  \
                                           .measure = measure_fn };

CONTAINER(mp4_sound, 'm', stk_mp4_probe, stk_mp4_read_sound, mp4_measure,
          "sound in MP4, M4A and MOV by libavcodec: AAC, ALAC, MP3, AC-3, FLAC, Opus")
CONTAINER(matroska_sound, 'k', stk_matroska_probe, stk_matroska_read_sound, NULL,
          "sound in Matroska and WebM: the codecs of mp4_sound")
CONTAINER(adts, 'a', stk_adts_probe, stk_adts_read, NULL, "AAC in ADTS frames by libavcodec")

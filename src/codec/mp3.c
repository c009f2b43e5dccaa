/* SPDX-License-Identifier: Apache-2.0 */
/* mp3 - MPEG audio by libmpg123; the only file that knows its header.  Frames are found by
 * mp3_frames.c, and the library is given nothing else.
 *
 * A part equals that slice of the whole, bit for bit.  Decoding begins so many frames earlier that
 * the bit reservoir is full, and at a frame whose number is a multiple of 8: the library's
 * synthesis filter adds in an order that depends on the number of the frame. */
#include "codec/codec.h"
#include "codec/decoders.h"
#include "codec/mp3_frames.h"
#include "codec/sound_points.h"

#include <config.h>

#include <string.h>

#define SETUP 16 /* bytes of the points: samples of a frame, the delay */
#define EIGHT 8
#define MOST_FRAME 4096 /* bytes */

#if STK_HAVE_MP3

#include <mpg123.h>

typedef struct mp3_ctx {
    mpg123_handle *h;
    stk_mp3_stream stream;
    stk_bytes in;
    float *room; /* two channels of the longest frame */
} mp3_ctx;

static void mp3_close(void *p)
{
    mp3_ctx *c = p;

    if (c && c->h)
        mpg123_delete(c->h);
    if (c)
        stk_free(c->room);
    stk_free(c);
}

static int mp3_open(void **out, stk_error *err)
{
    mp3_ctx *c = STK_NEW(mp3_ctx);

    *out = NULL;
    if (!c)
        return stk_fail_nomem(err, sizeof *c);
    c->room = stk_zalloc(2 * 1152, sizeof *c->room);
    c->h = mpg123_init() == MPG123_OK ? mpg123_new(NULL, NULL) : NULL;
    if (!c->h || !c->room ||
        mpg123_param(c->h, MPG123_ADD_FLAGS,
                     MPG123_FORCE_FLOAT | MPG123_QUIET | MPG123_IGNORE_INFOFRAME |
                         MPG123_SKIP_ID3V2,
                     0) != MPG123_OK ||
        mpg123_param(c->h, MPG123_REMOVE_FLAGS, MPG123_GAPLESS, 0) != MPG123_OK) {
        mp3_close(c);
        return stk_fail(err, STK_ENOMEM, "libmpg123 can't be opened");
    }
    *out = c;
    return 0;
}

static int mp3_header(void *p, stk_bytes in, const stk_media_points *points, stk_media_info *out,
                      stk_error *err)
{
    mp3_ctx *c = p;
    int rc = stk_mp3_scan(&c->stream, in, NULL, NULL, err);

    (void)points;
    c->in = rc < 0 ? (stk_bytes){ 0 } : in;
    if (rc == 0)
        *out = stk_sound_info(c->stream.first.rate, c->stream.first.channels,
                              stk_mp3_units(&c->stream));
    return rc;
}

typedef struct feed { /* one decode */
    mp3_ctx *c;
    const stk_media_job *job;
    stk_mp3_walk walk;
    uint64_t fed, got;  /* frames */
    uint64_t first;     /* the number of the first frame */
    uint64_t last;      /* no more are needed from this one on */
    uint64_t reservoir; /* bytes of sound of the frames so far */
} feed;

/* A frame of layer 3 that needs bytes of frames before those that are fed is made silent, but its
 * own bytes are there for those after it.  The library would leave it out, and its filter would be
 * in another phase from then on. */
static const uint8_t *ready_frame(feed *f, uint8_t room[MOST_FRAME])
{
    const stk_mp3_head *h = &f->walk.head;
    const uint8_t *p = f->walk.in.data + f->walk.at;
    uint32_t at = p[1] & 1 ? 4 : 6, side = h->size - h->main - at;
    uint32_t back = h->version == 1 ? (uint32_t)p[at] << 1 | p[at + 1] >> 7 : p[at];
    uint64_t have = f->reservoir;

    f->reservoir += h->main;
    if (h->layer != 3 || !h->main || back <= have || h->size > MOST_FRAME)
        return p;
    memcpy(room, p, h->size);
    memset(room + at, 0, side);
    room[at] = (uint8_t)(h->version == 1 ? have >> 1 : have);
    room[at + 1] = (uint8_t)(h->version == 1 ? have << 7 : 0);
    return room;
}

/* A frame's samples, number f->first + f->got. */
static int give(feed *f, const float *sound, stk_error *err)
{
    const stk_mp3_stream *s = &f->c->stream;
    uint32_t n = s->first.samples, channels = s->first.channels, skip = 0;
    uint64_t at = (f->first + f->got++) * n;
    float *channel[2] = { f->c->room, f->c->room + 1152 };

    for (uint32_t k = 0; k < channels; k++)
        for (uint32_t i = 0; i < n; i++)
            channel[k][i] = sound[(size_t)i * channels + k];
    if (at < s->delay)
        skip = s->delay - at < n ? (uint32_t)(s->delay - at) : n;
    channel[0] += skip;
    channel[1] += skip;
    return stk_sound_give_floats(
        "MP3", f->job, &(stk_sound_block){ at + skip - s->delay, channel, n - skip, channels },
        err);
}

/* What the library has ready. */
static int take_ready(feed *f, stk_error *err)
{
    const stk_mp3_stream *s = &f->c->stream;

    for (;;) {
        unsigned char *sound = NULL;
        size_t bytes = 0;
        off_t number;
        int rc = mpg123_decode_frame(f->c->h, &number, &sound, &bytes);

        if (rc == MPG123_NEED_MORE)
            return 0;
        if (rc == MPG123_NEW_FORMAT)
            continue;
        if (rc != MPG123_OK)
            return stk_fail(err, STK_ECORRUPT, "MP3: frame %" PRIu64 ": %s", f->first + f->got,
                            mpg123_strerror(f->c->h));
        if (bytes != (size_t)s->first.samples * s->first.channels * sizeof(float) ||
            f->got >= f->fed)
            return stk_fail(err, STK_ECORRUPT, "MP3: frame %" PRIu64 " is damaged",
                            f->first + f->got);
        STK_TRY(give(f, (const float *)(const void *)sound, err));
    }
}

static int run(feed *f, stk_error *err)
{
    uint8_t room[MOST_FRAME];
    uint64_t skipped;
    int rc = 0;

    if (mpg123_open_feed(f->c->h) != MPG123_OK)
        return stk_fail(err, STK_ENOMEM, "MP3: %s", mpg123_strerror(f->c->h));
    while (rc == 0 && f->first + f->got < f->last) {
        rc = stk_mp3_next(&f->walk, &skipped, err);
        if (rc == 0 && mpg123_feed(f->c->h, ready_frame(f, room), f->walk.head.size) != MPG123_OK)
            rc = stk_fail(err, STK_ENOMEM, "MP3: %s", mpg123_strerror(f->c->h));
        if (rc == 0) {
            f->walk.at += f->walk.head.size;
            f->fed++;
            rc = take_ready(f, err);
        }
    }
    if (rc == STK_END) { /* the library looks for a header after the last frame */
        static const unsigned char nothing[2048];

        rc = mpg123_feed(f->c->h, nothing, sizeof nothing) == MPG123_OK ? 0 : STK_ECORRUPT;
        if (rc == 0)
            rc = take_ready(f, err);
    }
    mpg123_close(f->c->h);
    if (rc == 0 && f->first + f->got < f->last)
        return stk_fail(err, STK_ECORRUPT, "MP3: %" PRIu64 " frames were decoded of %" PRIu64,
                        f->got, f->last - f->first);
    return rc;
}

/* The frame at which decoding begins for a sample. */
static uint64_t first_frame(const stk_mp3_stream *s, uint64_t sample)
{
    uint64_t frame = (sample + s->delay) / s->first.samples, up = stk_mp3_run_up(s);

    return frame > up ? (frame - up) / EIGHT * EIGHT : 0;
}

static int decode_whole(mp3_ctx *c, const stk_media_job *job, stk_error *err)
{
    const stk_mp3_stream *s = &c->stream;
    feed f = { .c = c,
               .job = job,
               .walk = { .in = { c->in.data, (size_t)s->end }, .at = s->begin, .like = s->first },
               .first = first_frame(s, job->ask->from),
               .last = (job->ask->to + s->delay + s->first.samples - 1) / s->first.samples };
    uint64_t skipped;

    for (uint64_t i = 0; i < f.first; i++) {
        if (stk_mp3_next(&f.walk, &skipped, err) != 0)
            return stk_fail(err, STK_ECORRUPT, "MP3: its frames changed");
        f.walk.at += f.walk.head.size;
    }
    return run(&f, err);
}

/* ---- parts ---- */

static int stale(stk_error *err)
{
    return stk_fail(err, STK_ESTALE, "MP3: what was read is not what its points describe");
}

static int decode_part(mp3_ctx *c, const stk_media_job *job, stk_error *err)
{
    const stk_media_part *part = job->part;
    stk_sound_points p;
    stk_mp3_stream *s = &c->stream;
    feed f = { .c = c, .job = job, .walk = { .in = part->bytes, .base = part->offset } };
    uint32_t mark;
    int rc;

    c->in = (stk_bytes){ 0 };
    if (job->n_parts != 1 || stk_sound_points_open(&p, job->points->head, NULL) < 0 ||
        p.setup.len != SETUP || !stk_mp3_head_read(&s->first, part->bytes.data, part->bytes.len) ||
        s->first.rate != p.rate || s->first.channels != p.channels ||
        s->first.samples != stk_le32(p.setup.data) || job->ask->to > p.units)
        return stale(err);
    mark = stk_sound_points_at(&p, part->offset);
    if (mark == p.n_marks)
        return stale(err);
    s->delay = stk_le32(p.setup.data + 4);
    f.walk.like = s->first;
    if (part->offset != p.begin)
        f.first = (stk_sound_points_mark(&p, mark).sample + s->delay) / s->first.samples;
    f.last = (job->ask->to + s->delay + s->first.samples - 1) / s->first.samples;
    rc = run(&f, err);
    return rc == STK_ECORRUPT ? stale(err) : rc;
}

static int mp3_decode(void *p, const stk_media_job *job, stk_error *err)
{
    mp3_ctx *c = p;

    if (job->part->offset)
        return decode_part(c, job, err);
    if (!c->in.data || job->part->bytes.data != c->in.data || job->n_parts != 1)
        return stk_fail(err, STK_EINVAL, "decode() needs a header() that succeeded");
    STK_TRY(stk_sound_check_ask(job->ask, stk_mp3_units(&c->stream), err));
    return job->ask->from == job->ask->to ? 0 : decode_whole(c, job, err);
}

#else

static int mp3_open(void **out, stk_error *err)
{
    *out = NULL;
    return stk_fail(err, STK_ENOTSUP,
                    "this build has no MP3: install libmpg123's headers and build again");
}

static int mp3_header(void *ctx, stk_bytes in, const stk_media_points *points, stk_media_info *out,
                      stk_error *err)
{
    (void)ctx, (void)in, (void)points, (void)out;
    return stk_fail(err, STK_ENOTSUP, "this build has no MP3");
}

static int mp3_decode(void *ctx, const stk_media_job *job, stk_error *err)
{
    (void)ctx, (void)job;
    return stk_fail(err, STK_ENOTSUP, "this build has no MP3");
}

static void mp3_close(void *ctx)
{
    (void)ctx;
}

#endif

typedef struct marking { /* of points() */
    stk_sound_marks marks;
    const stk_mp3_stream *stream;
} marking;

/* Decoding begins at frames whose number is a multiple of 8. */
static void mark_frame(void *cookie, uint64_t frame, uint64_t at)
{
    marking *m = cookie;
    uint64_t sample = frame * m->stream->first.samples;

    if (frame % EIGHT == 0)
        stk_sound_marks_add(&m->marks, sample > m->stream->delay ? sample - m->stream->delay : 0,
                            at);
}

static int mp3_points(void *p, const stk_media_reader *read, stk_scratch *scratch, stk_bytes *out,
                      stk_error *err)
{
    uint8_t setup[SETUP] = { 0 };
    stk_mp3_stream s;
    marking m = { .stream = &s };
    stk_bytes in;

    (void)p;
    STK_TRY(read->read(read->cookie, 0, (size_t)read->size, &in, err));
    STK_TRY(stk_sound_marks_init(&m.marks, 44100, scratch, err));
    STK_TRY(stk_mp3_scan(&s, in, mark_frame, &m, err));
    for (int i = 0; i < 4; i++) {
        setup[i] = (uint8_t)(s.first.samples >> 8 * i);
        setup[4 + i] = (uint8_t)(s.delay >> 8 * i);
    }
    return stk_sound_points_make(
        &(stk_sound_points){ .tag = 'M',
                             .rate = s.first.rate,
                             .channels = s.first.channels,
                             .units = stk_mp3_units(&s),
                             .begin = s.begin,
                             .end = s.end,
                             .run_up = stk_mp3_run_up(&s) * s.first.samples,
                             .setup = { setup, SETUP } },
        &m.marks, scratch, out, err);
}

static int mp3_measure(void *p, const stk_media_reader *read, stk_media_info *out, stk_error *err)
{
    stk_mp3_stream s;
    int rc = stk_mp3_by_head(&s, read, err);

    (void)p;
    if (rc == 0)
        *out = stk_sound_info(s.first.rate, s.first.channels, stk_mp3_units(&s));
    return rc;
}

const stk_decoder stk_decoder_mp3 = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_decoder),
    .name = "mp3",
    .help = "MPEG audio by libmpg123: layers 1 to 3; parts are slices of the whole",
    .probe = stk_mp3_probe,
    .open = mp3_open,
    .header = mp3_header,
    .decode = mp3_decode,
    .close = mp3_close,
    .tag = 'M',
    .know = stk_sound_know,
    .ranges = stk_sound_ranges,
    .points = mp3_points,
    .measure = mp3_measure
};

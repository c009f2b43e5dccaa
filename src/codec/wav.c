/* SPDX-License-Identifier: Apache-2.0 */
/* wav - WAVE files by our own code: PCM of 8 to 32 bits, floats of 32 and 64, A-law and mu-law, in
 * RIFF, RF64 and BW64, also with the extensible format chunk.
 *
 * Whole numbers become floats in [-1, 1) by a division by 2^(bits - 1), as other readers do it, so
 * that up to 24 bits are exact.  A data chunk that reaches past the end of the file, that does not
 * hold whole frames, and floats that are no sound (not finite, huge) are errors.  A data chunk of
 * size 0xFFFFFFFF or 0x7FFFF000, as programs write it into a pipe, reaches to its end.
 *
 * Its points say where the samples are: what is wanted is one range. */
#include "codec/codec.h"
#include "codec/decoders.h"
#include "codec/sound_points.h"

#include <string.h>

enum { PCM = 1, FLOAT = 3, ALAW = 6, MULAW = 7, EXTENSIBLE = 0xFFFE };
#define SETUP 8 /* bytes of the points: kind, bytes of a value, bytes of a frame */
#define UNKNOWN 0xFFFFFFFFu
#define PIPED 0x7FFFF000u /* as SoX and eSpeak write it into a pipe */

typedef struct wav_head {
    uint32_t kind, width; /* width: bytes of a value */
    uint32_t rate, channels, frame;
    uint64_t data, units; /* data: where it begins */
} wav_head;

typedef struct wav_ctx {
    wav_head head;
    stk_bytes in;
    float *room; /* STK_SOUND_BLOCK values of every channel */
    uint32_t room_channels;
    float law[2][256]; /* of A-law, mu-law */
} wav_ctx;

/* ---- header ---- */

static int wav_probe(stk_bytes head)
{
    return head.len >= 12 && !memcmp(head.data + 8, "WAVE", 4) &&
           (!memcmp(head.data, "RIFF", 4) || !memcmp(head.data, "RF64", 4) ||
            !memcmp(head.data, "BW64", 4));
}

static int read_format(wav_head *h, stk_bytes c, stk_error *err)
{
    uint32_t bits;

    if (c.len < 16)
        return stk_fail(err, STK_ECORRUPT, "WAV: its format chunk has %zu bytes", c.len);
    h->kind = stk_le16(c.data);
    h->channels = stk_le16(c.data + 2);
    h->rate = stk_le32(c.data + 4);
    h->frame = stk_le16(c.data + 12);
    bits = stk_le16(c.data + 14);
    if (h->kind == EXTENSIBLE && c.len >= 26)
        h->kind = stk_le16(c.data + 24);
    STK_TRY(stk_sound_check("WAV", h->rate, h->channels, err));
    h->width = (bits + 7) / 8;
    if (!(h->kind == PCM && h->width >= 1 && h->width <= 4) &&
        !(h->kind == FLOAT && (bits == 32 || bits == 64)) &&
        !((h->kind == ALAW || h->kind == MULAW) && bits == 8))
        return stk_fail(err, STK_ENOTSUP,
                        "WAV: format %u of %u bits is not read: PCM of 8 to 32 bits, floats of 32 "
                        "and 64, A-law and mu-law are",
                        h->kind, bits);
    if (h->frame != h->width * h->channels)
        return stk_fail(err, STK_ECORRUPT,
                        "WAV: %u channels of %u bits in frames of %u bytes, which are not so large",
                        h->channels, bits, h->frame);
    return 0;
}

/* How many frames a data chunk holds that claims `size` bytes, of which `there` are in the file. */
static int read_data(wav_head *h, uint64_t size, uint64_t there, int open_end, stk_error *err)
{
    if (open_end)
        size = there - there % h->frame;
    if (size > there)
        return stk_fail(err, STK_ECORRUPT,
                        "WAV is truncated: its data has %" PRIu64 " bytes, of which %" PRIu64
                        " are there",
                        size, there);
    if (size % h->frame)
        return stk_fail(err, STK_ECORRUPT,
                        "WAV: data of %" PRIu64 " bytes is not whole frames of %u bytes", size,
                        h->frame);
    h->units = size / h->frame;
    return 0;
}

typedef struct wav_walk { /* chunks, as a reader gives them */
    const stk_media_reader *read;
    uint64_t at, long_data;
    int is_long, has_format;
} wav_walk;

#define MOST_CHUNKS 4096

/* One chunk.  1: it was the data. */
static int walk_chunk(wav_walk *w, wav_head *h, stk_error *err)
{
    uint64_t left = w->read->size - w->at;
    stk_bytes c;
    uint8_t id[4];
    uint32_t size;

    if (left < 8)
        return stk_fail(err, STK_ECORRUPT, "WAV is truncated: it ends before its data");
    STK_TRY(w->read->read(w->read->cookie, w->at, 8, &c, err));
    memcpy(id, c.data, 4);
    size = stk_le32(c.data + 4);
    left -= 8;
    w->at += 8;
    if (!memcmp(id, "data", 4) && !w->has_format)
        return stk_fail(err, STK_ECORRUPT, "WAV: its data comes before its format");
    if (!memcmp(id, "data", 4)) {
        int is_long = w->is_long && size == UNKNOWN;

        h->data = w->at;
        STK_TRY(read_data(h, is_long ? w->long_data : size, left,
                          !is_long && (size == UNKNOWN || size == PIPED), err));
        return 1;
    }
    if (size > left)
        return stk_fail(err, STK_ECORRUPT,
                        "WAV is truncated: a chunk of %u bytes, %" PRIu64 " are left", size, left);
    if (!memcmp(id, "ds64", 4) && size >= 24) {
        STK_TRY(w->read->read(w->read->cookie, w->at, 24, &c, err));
        w->long_data = stk_le64(c.data + 8);
    } else if (!memcmp(id, "fmt ", 4)) {
        STK_TRY(w->read->read(w->read->cookie, w->at, size < 40 ? size : 40, &c, err));
        STK_TRY(read_format(h, c, err));
        w->has_format = 1;
    }
    w->at += size + (size & 1);
    if (w->at > w->read->size)
        w->at = w->read->size;
    return 0;
}

static int read_head(const stk_media_reader *read, wav_head *h, stk_error *err)
{
    wav_walk w = { .read = read, .at = 12 };
    stk_bytes c;

    *h = (wav_head){ 0 };
    if (read->size < 12)
        return stk_fail(err, STK_ECORRUPT, "WAV is truncated: %" PRIu64 " bytes", read->size);
    STK_TRY(read->read(read->cookie, 0, 12, &c, err));
    w.is_long = c.data[0] != 'R' || c.data[1] != 'I';
    for (uint32_t i = 0; i < MOST_CHUNKS; i++) {
        int rc = walk_chunk(&w, h, err);

        if (rc)
            return rc < 0 ? rc : 0;
    }
    return stk_fail(err, STK_ECORRUPT, "WAV: more than %d chunks before its data", MOST_CHUNKS);
}

/* ---- values ---- */

static float alaw(uint8_t v)
{
    int x = v ^ 0x55, e = (x >> 4) & 7, m = (x & 15) << 4;

    m = e ? (m + 0x108) << (e - 1) : m + 8;
    return (float)(x & 0x80 ? m : -m) / 32768.0f;
}

static float mulaw(uint8_t v)
{
    int x = ~v & 0xFF, m = ((((x & 15) << 3) + 0x84) << ((x >> 4) & 7)) - 0x84;

    return (float)(x & 0x80 ? -m : m) / 32768.0f;
}

static void turn_pcm(const wav_head *h, const uint8_t *p, float *out, uint32_t n)
{
    size_t step = h->frame;

    switch (h->width) {
    case 1:
        for (uint32_t i = 0; i < n; i++, p += step)
            out[i] = (float)(*p - 128) / 128.0f;
        break;
    case 2:
        if (step == 2) /* one that the compiler makes a vector of */
            for (uint32_t i = 0; i < n; i++) {
                int16_t v;

                memcpy(&v, p + 2 * (size_t)i, 2);
                out[i] = (float)v * (1 / 32768.0f);
            }
        else
            for (uint32_t i = 0; i < n; i++, p += step)
                out[i] = (float)(int16_t)stk_le16(p) * (1 / 32768.0f);
        break;
    case 3:
        for (uint32_t i = 0; i < n; i++, p += step)
            out[i] = (float)((int32_t)((uint32_t)p[0] << 8 | (uint32_t)p[1] << 16 |
                                       (uint32_t)p[2] << 24) >>
                             8) *
                     0x1p-23f;
        break;
    default:
        for (uint32_t i = 0; i < n; i++, p += step)
            out[i] = (float)(int32_t)stk_le32(p) * 0x1p-31f;
    }
}

static void turn_float(const wav_head *h, const uint8_t *p, float *out, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++, p += h->frame) {
        if (h->width == 4) {
            memcpy(&out[i], p, 4);
        } else {
            double v;

            memcpy(&v, p, 8);
            out[i] = (float)v;
        }
    }
}

static void turn_law(const wav_ctx *c, const uint8_t *p, float *out, uint32_t n)
{
    const float *table = c->law[c->head.kind == MULAW];

    for (uint32_t i = 0; i < n; i++, p += c->head.frame)
        out[i] = table[*p];
}

/* n frames at p, which begin with sample `first`. */
static int give_frames(wav_ctx *c, const stk_media_job *job, uint64_t first, const uint8_t *p,
                       uint32_t n, stk_error *err)
{
    const wav_head *h = &c->head;
    float *channel[STK_SOUND_CHANNELS];

    for (uint32_t k = 0; k < h->channels; k++, p += h->width) {
        channel[k] = c->room + (size_t)k * STK_SOUND_BLOCK;
        if (h->kind == PCM)
            turn_pcm(h, p, channel[k], n);
        else if (h->kind == FLOAT)
            turn_float(h, p, channel[k], n);
        else
            turn_law(c, p, channel[k], n);
    }
    if (h->kind == FLOAT)
        return stk_sound_give_floats("WAV", job,
                                     &(stk_sound_block){ first, channel, n, h->channels }, err);
    return stk_sound_give(job, first, channel, n, h->channels, err);
}

/* ---- the decoder ---- */

static int wav_open(void **out, stk_error *err)
{
    wav_ctx *c = STK_NEW(wav_ctx);

    *out = c;
    if (!c)
        return stk_fail_nomem(err, sizeof *c);
    for (unsigned v = 0; v < 256; v++) {
        c->law[0][v] = alaw((uint8_t)v);
        c->law[1][v] = mulaw((uint8_t)v);
    }
    return 0;
}

static void wav_close(void *p)
{
    wav_ctx *c = p;

    if (c)
        stk_free(c->room);
    stk_free(c);
}

static int wav_header(void *p, stk_bytes in, const stk_media_points *points, stk_media_info *out,
                      stk_error *err)
{
    const stk_media_reader read = stk_media_here(&in);
    wav_ctx *c = p;
    int rc = read_head(&read, &c->head, err);

    (void)points;
    c->in = rc < 0 ? (stk_bytes){ 0 } : in;
    if (rc == 0)
        *out = stk_sound_info(c->head.rate, c->head.channels, c->head.units);
    return rc;
}

static int wav_measure(void *p, const stk_media_reader *read, stk_media_info *out, stk_error *err)
{
    wav_head h;

    (void)p;
    STK_TRY(read_head(read, &h, err));
    *out = stk_sound_info(h.rate, h.channels, h.units);
    return 0;
}

/* The head of a field of which a part was read. */
static int head_of_points(wav_head *h, stk_bytes points, stk_error *err)
{
    stk_sound_points s;

    STK_TRY(stk_sound_points_open(&s, points, err));
    if (s.setup.len != SETUP)
        return stk_fail(err, STK_ECORRUPT, "points of sound: damaged");
    *h = (wav_head){ .kind = s.setup.data[0],
                     .width = s.setup.data[1],
                     .rate = s.rate,
                     .channels = s.channels,
                     .frame = s.setup.data[1] * s.channels,
                     .data = s.begin,
                     .units = s.units };
    if (!((h->kind == PCM && h->width >= 1 && h->width <= 4) ||
          (h->kind == FLOAT && (h->width == 4 || h->width == 8)) ||
          ((h->kind == ALAW || h->kind == MULAW) && h->width == 1)) ||
        h->units > UINT64_MAX / h->frame || s.end - s.begin != h->units * h->frame)
        return stk_fail(err, STK_ECORRUPT, "points of sound: damaged");
    return 0;
}

static int make_room(wav_ctx *c, stk_error *err)
{
    if (c->room_channels >= c->head.channels)
        return 0;
    stk_free(c->room);
    c->room_channels = 0;
    c->room = stk_zalloc((size_t)c->head.channels * STK_SOUND_BLOCK, sizeof *c->room);
    if (!c->room)
        return stk_fail_nomem(err, (size_t)c->head.channels * STK_SOUND_BLOCK * sizeof *c->room);
    c->room_channels = c->head.channels;
    return 0;
}

static int wav_decode(void *p, const stk_media_job *job, stk_error *err)
{
    const stk_media_ask *ask = job->ask;
    const stk_media_part *part = job->part;
    wav_ctx *c = p;
    uint64_t skip;

    if (part->offset || !c->in.data || part->bytes.data != c->in.data)
        STK_TRY(head_of_points(&c->head, job->points->head, err));
    STK_TRY(stk_sound_check_ask(ask, c->head.units, err));
    STK_TRY(make_room(c, err));
    skip = c->head.data + ask->from * c->head.frame; /* in the field */
    if (job->n_parts != 1 || skip < part->offset || skip - part->offset > part->bytes.len ||
        (ask->to - ask->from) > (part->bytes.len - (skip - part->offset)) / c->head.frame)
        return stk_fail(err, STK_ESTALE, "WAV: what was read is not what its points describe");
    skip -= part->offset;
    for (uint64_t at = ask->from; at < ask->to;) {
        uint32_t n = ask->to - at < STK_SOUND_BLOCK ? (uint32_t)(ask->to - at) : STK_SOUND_BLOCK;

        STK_TRY(give_frames(c, job, at, part->bytes.data + skip, n, err));
        at += n;
        skip += (uint64_t)n * c->head.frame;
    }
    return 0;
}

/* ---- points ---- */

static int wav_ranges(const stk_media_points *p, const stk_media_ask *ask, uint64_t session_at,
                      stk_media_range out[STK_MEDIA_RANGES], uint32_t *n, stk_error *err)
{
    wav_head h = { 0 };

    (void)session_at;
    *n = 0;
    STK_TRY(head_of_points(&h, p->head, err));
    if (ask->from >= ask->to || ask->to > h.units)
        return 0;
    out[0] = (stk_media_range){ h.data + ask->from * h.frame, (ask->to - ask->from) * h.frame };
    *n = 1;
    return 0;
}

static int wav_points(void *p, const stk_media_reader *read, stk_scratch *scratch, stk_bytes *out,
                      stk_error *err)
{
    uint8_t setup[SETUP] = { 0 };
    const stk_sound_marks none = { 0 };
    wav_head h;

    (void)p;
    STK_TRY(read_head(read, &h, err));
    setup[0] = (uint8_t)h.kind;
    setup[1] = (uint8_t)h.width;
    return stk_sound_points_make(&(stk_sound_points){ .tag = 'W',
                                                      .rate = h.rate,
                                                      .channels = h.channels,
                                                      .units = h.units,
                                                      .begin = h.data,
                                                      .end = h.data + h.units * h.frame,
                                                      .setup = { setup, SETUP } },
                                 &none, scratch, out, err);
}

const stk_decoder stk_decoder_wav = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_decoder),
    .name = "wav",
    .help = "WAVE: PCM of 8 to 32 bits, floats, A-law, mu-law; RIFF, RF64, extensible",
    .probe = wav_probe,
    .open = wav_open,
    .header = wav_header,
    .decode = wav_decode,
    .close = wav_close,
    .tag = 'W',
    .know = stk_sound_know,
    .ranges = wav_ranges,
    .points = wav_points,
    .measure = wav_measure
};

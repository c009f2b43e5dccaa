/* SPDX-License-Identifier: Apache-2.0 */
/* mp3_frames.c - see mp3_frames.h.
 *
 * Frames follow each other; what is between them and is none (tags, garbage) is passed over up to
 * the next header of the same stream that another header, or the end, follows.  A field of which
 * most is garbage, a last frame that is cut off, and fewer frames than its header promises are
 * errors. */
#include "codec/mp3_frames.h"

#include <string.h>

#define DECODER_DELAY 529 /* of every decoder, which the encoder's delay comes on top of */
#define MOST_RUN_UP 256
#define FIRST_BYTES 8192u /* hold the first frame and the header of the next */
#define LEAST_FRAME 21u   /* bytes: no frame is smaller */

int stk_mp3_head_read(stk_mp3_head *h, const uint8_t *p, size_t len)
{
    static const uint16_t rates[2][3][16] = {
        { { 0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448 },
          { 0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384 },
          { 0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320 } },
        { { 0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256 },
          { 0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160 },
          { 0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160 } }
    };
    static const uint16_t samplings[3] = { 44100, 48000, 32000 };
    uint32_t version, layer, kbits, pad, side;

    if (len < 4 || p[0] != 0xFF || (p[1] & 0xE0) != 0xE0 || (p[1] >> 3 & 3) == 1 ||
        !(p[1] >> 1 & 3) || (p[2] >> 2 & 3) == 3 || (p[3] & 3) == 2)
        return 0;
    version = (p[1] >> 3 & 3) == 3 ? 1 : (p[1] >> 3 & 3) == 2 ? 2 : 3;
    layer = 4 - (p[1] >> 1 & 3u);
    kbits = rates[version > 1][layer - 1][p[2] >> 4];
    if (!kbits) /* free format, or forbidden */
        return 0;
    *h = (stk_mp3_head){ .version = version,
                         .layer = layer,
                         .rate = samplings[p[2] >> 2 & 3] >> (version - 1),
                         .channels = p[3] >> 6 == 3 ? 1 : 2 };
    pad = p[2] >> 1 & 1;
    h->samples = layer == 1 ? 384 : layer == 3 && version > 1 ? 576 : 1152;
    h->size = layer == 1 ? (12000 * kbits / h->rate + pad) * 4
                         : h->samples / 8 * 1000 * kbits / h->rate + pad;
    side = version == 1 ? (h->channels == 1 ? 17 : 32) : (h->channels == 1 ? 9 : 17);
    side += p[1] & 1 ? 4 : 6;
    h->main = h->size > side ? h->size - side : 0;
    return h->size > 4;
}

static int alike(const stk_mp3_head *a, const stk_mp3_head *b)
{
    return a->version == b->version && a->layer == b->layer && a->rate == b->rate;
}

/* A header at p that another one follows, or the end of the field. */
static int is_frame(stk_bytes in, uint64_t at, stk_mp3_head *h)
{
    stk_mp3_head next;
    uint64_t after;

    if (!stk_mp3_head_read(h, in.data + at, in.len - (size_t)at))
        return 0;
    after = at + h->size;
    if (after >= in.len)
        return after == in.len;
    return stk_mp3_head_read(&next, in.data + after, in.len - (size_t)after) && alike(h, &next);
}

#define TAG_HEAD 10u

/* Bytes of the ID3v2 tag at p; 0: there is none. */
static uint64_t tag_bytes(const uint8_t *p)
{
    if (memcmp(p, "ID3", 3) != 0)
        return 0;
    return TAG_HEAD +
           ((uint64_t)(p[6] & 127) << 21 | (uint64_t)(p[7] & 127) << 14 |
            (uint64_t)(p[8] & 127) << 7 | (p[9] & 127)) +
           (p[5] & 0x10 ? TAG_HEAD : 0); /* a footer */
}

/* Bytes of ID3v2 tags in front. */
static uint64_t tags(stk_bytes in)
{
    uint64_t at = 0, n = 1;

    while (n && at < in.len && in.len - at >= TAG_HEAD)
        at += n = tag_bytes(in.data + at);
    return at < in.len ? at : in.len;
}

int stk_mp3_probe(stk_bytes in)
{
    stk_mp3_head h, next;
    uint64_t at = tags(in);

    if (at) /* what follows may be anything, also garbage before its first frame */
        return 1;
    if (!stk_mp3_head_read(&h, in.data, in.len))
        return 0;
    return h.size + 4 > in.len
               ? h.layer == 3
               : stk_mp3_head_read(&next, in.data + h.size, in.len - h.size) && alike(&h, &next);
}

int stk_mp3_next(stk_mp3_walk *w, uint64_t *skipped, stk_error *err)
{
    uint64_t from = w->at;
    stk_mp3_head *h = &w->head;

    *skipped = 0;
    if (w->at >= w->in.len)
        return STK_END;
    if (!stk_mp3_head_read(h, w->in.data + w->at, w->in.len - (size_t)w->at) ||
        !alike(h, &w->like)) {
        for (w->at++; w->at < w->in.len; w->at++)
            if (w->in.data[w->at] == 0xFF && is_frame(w->in, w->at, h) && alike(h, &w->like))
                break;
        *skipped = w->at - from;
        if (w->at >= w->in.len)
            return STK_END;
    }
    if (h->channels != w->like.channels)
        return stk_fail(err, STK_ECORRUPT,
                        "MP3: from byte %" PRIu64 " on it has %u channels, before it had %u",
                        w->base + w->at, h->channels, w->like.channels);
    if (h->size > w->in.len - w->at)
        return stk_fail(err, STK_ECORRUPT,
                        "MP3 is truncated: its frame at byte %" PRIu64 " has %u bytes, of which "
                        "%" PRIu64 " are there",
                        w->base + w->at, h->size, w->in.len - w->at);
    return 0;
}

static uint32_t be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* The first frame may have no sound: what it says of the others.  1: it is such a one. */
static int read_info(stk_mp3_stream *s, const uint8_t *p)
{
    const stk_mp3_head *h = &s->first;
    uint32_t side = h->version == 1 ? (h->channels == 1 ? 17 : 32) : (h->channels == 1 ? 9 : 17);
    const uint8_t *at = p + 4 + side, *end = p + h->size;
    uint32_t flags;

    if (h->layer != 3)
        return 0;
    if (h->size >= 58 && !memcmp(p + 36, "VBRI", 4)) {
        s->said = be32(p + 36 + 14);
        s->said_bytes = be32(p + 36 + 10);
        return 1;
    }
    if (end - at < 8 || (memcmp(at, "Xing", 4) && memcmp(at, "Info", 4)))
        return 0;
    flags = be32(at + 4);
    at += 8;
    if (flags & 1 && end - at >= 4)
        s->said = be32(at);
    if ((flags & 3) == 3 && end - at >= 8)
        s->said_bytes = be32(at + 4);
    at += 4 * (flags & 1) + 2 * (flags & 2) + 25 * (flags & 4) + (flags >> 1 & 4);
    if (end - at < 24 || (memcmp(at, "LAME", 4) && memcmp(at, "Lav", 3)))
        return 1;
    s->delay = ((uint32_t)at[21] << 4 | at[22] >> 4) + DECODER_DELAY;
    s->pad = (uint32_t)(at[22] & 15) << 8 | at[23];
    s->pad = s->pad > DECODER_DELAY ? s->pad - DECODER_DELAY : 0;
    return 1;
}

#define TAIL 160u /* bytes that say which tags are at the end */

/* Tags at the end are no frames.  tail: the last bytes of `size`, at least TAIL or all. */
static uint64_t end_of(stk_bytes tail, uint64_t size_of_all)
{
    uint64_t end = size_of_all;
    size_t left = tail.len;

    if (left >= 128 && !memcmp(tail.data + left - 128, "TAG", 3)) {
        left -= 128;
        end -= 128;
    }
    if (left >= 32 && !memcmp(tail.data + left - 32, "APETAGEX", 8)) {
        const uint8_t *p = tail.data + left - 32;
        uint64_t size = p[12] | (uint64_t)p[13] << 8 | (uint64_t)p[14] << 16 |
                        (uint64_t)p[15] << 24;

        size += p[23] & 0x80 ? 32 : 0; /* a head too */
        end -= size <= end ? size : 0;
    }
    return end;
}

static int find_first(stk_mp3_stream *s, stk_bytes in, stk_error *err)
{
    uint64_t at = tags(in);

    for (; at < in.len; at++)
        if (in.data[at] == 0xFF && is_frame(in, at, &s->first))
            break;
    if (at >= in.len)
        return stk_fail(err, STK_ECORRUPT, "MP3: no frame in %zu bytes", in.len);
    s->begin = at;
    return 0;
}

int stk_mp3_scan(stk_mp3_stream *s, stk_bytes in,
                 void (*each)(void *cookie, uint64_t frame, uint64_t at), void *cookie,
                 stk_error *err)
{
    stk_mp3_walk w;
    uint64_t skipped, lost = 0;
    int rc;

    *s = (stk_mp3_stream){ .least_main = UINT32_MAX };
    in.len = (size_t)end_of(in, in.len);
    s->end = in.len;
    STK_TRY(find_first(s, in, err));
    if (read_info(s, in.data + s->begin))
        s->begin += s->first.size;
    w = (stk_mp3_walk){ .in = in, .at = s->begin, .like = s->first };
    while ((rc = stk_mp3_next(&w, &skipped, err)) == 0) {
        lost += skipped;
        if (each)
            each(cookie, s->frames, w.at);
        if (w.head.main < s->least_main)
            s->least_main = w.head.main;
        s->frames++;
        w.at += w.head.size;
    }
    if (rc < 0)
        return rc;
    if (lost > in.len / 2)
        return stk_fail(err, STK_ECORRUPT, "MP3: %" PRIu64 " of its %zu bytes are not frames", lost,
                        in.len);
    if (s->frames < s->said)
        return stk_fail(err, STK_ECORRUPT,
                        "MP3 is truncated: its header says %" PRIu64 " frames, it has %" PRIu64,
                        s->said, s->frames);
    return 0;
}

/* The first frame, right after the tags, and what it says. */
static int read_first(stk_mp3_stream *s, const stk_media_reader *read, stk_error *err)
{
    uint64_t at = 0, n = 1, most;
    stk_bytes in;
    int info;

    while (n && read->size - at >= TAG_HEAD) {
        STK_TRY(read->read(read->cookie, at, TAG_HEAD, &in, err));
        n = tag_bytes(in.data);
        if (n > read->size - at)
            return STK_END;
        at += n;
    }
    most = read->size - at < FIRST_BYTES ? read->size - at : FIRST_BYTES;
    if (!most)
        return STK_END;
    STK_TRY(read->read(read->cookie, at, (size_t)most, &in, err));
    if (!is_frame(in, 0, &s->first))
        return STK_END;
    info = read_info(s, in.data);
    s->begin = at + (info ? s->first.size : 0);
    return info && s->said && s->said_bytes ? 0 : STK_END;
}

int stk_mp3_by_head(stk_mp3_stream *s, const stk_media_reader *read, stk_error *err)
{
    uint64_t len = read->size < TAIL ? read->size : TAIL, sound;
    stk_bytes tail;
    int rc;

    *s = (stk_mp3_stream){ 0 };
    rc = read_first(s, read, err);
    if (rc)
        return rc;
    STK_TRY(read->read(read->cookie, read->size - len, (size_t)len, &tail, err));
    s->end = end_of(tail, read->size);
    if (s->end <= s->begin)
        return STK_END;
    sound = s->end - s->begin; /* the count may be with the first frame, or without */
    if ((s->said_bytes != sound && s->said_bytes != sound + s->first.size) ||
        s->said > sound / LEAST_FRAME)
        return STK_END;
    s->frames = s->said;
    return 0;
}

uint64_t stk_mp3_units(const stk_mp3_stream *s)
{
    uint64_t all = s->frames * s->first.samples, out = s->delay + s->pad;

    return all > out ? all - out : 0;
}

uint32_t stk_mp3_run_up(const stk_mp3_stream *s)
{
    uint32_t reach = s->first.version == 1 ? 511 : 255; /* bytes of earlier frames */
    uint32_t n = s->least_main ? reach / s->least_main + 1 : MOST_RUN_UP;

    return (n < MOST_RUN_UP ? n : MOST_RUN_UP) + 2;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* frame_format.c - see frame_format.h.  H.264: 7.3.2.1.1 and E.1.1; HEVC: 7.3.2.2 and E.2.1; VP9:
 * 6.2. */
#include "video/frame_format.h"

#include <string.h>

#include "video/nal_bits.h"

#define SETS 4096u /* bytes of a sequence parameter set that are looked at */

/* ---- what both have ---- */

/* The begin of the VUI, which both write alike. */
static void color_of(stk_bits *r, stk_frame_format *f)
{
    if (stk_bits_get(r, 1) && stk_bits_get(r, 8) == 255) /* aspect ratio */
        stk_bits_skip(r, 32);
    if (stk_bits_get(r, 1)) /* overscan */
        stk_bits_skip(r, 1);
    if (stk_bits_get(r, 1)) {
        stk_bits_skip(r, 3);
        f->full_range = stk_bits_get(r, 1);
        if (stk_bits_get(r, 1)) {
            stk_bits_skip(r, 16);
            f->matrix = stk_bits_get(r, 8);
        }
    }
    if (stk_bits_get(r, 1)) {
        uint32_t siting = stk_bits_ue(r);

        f->siting = siting <= 5 ? siting + 1 : 0;
        (void)stk_bits_ue(r);
    }
}

static int size_of(stk_frame_format *f, uint64_t w, uint64_t h, const uint32_t crop[4])
{
    uint64_t cx = (uint64_t)crop[0] + crop[1], cy = (uint64_t)crop[2] + crop[3];

    cx *= f->chroma == 1 || f->chroma == 2 ? 2 : 1;
    cy *= f->chroma == 1 ? 2 : 1;
    if (w > STK_VIDEO_SIDE || h > STK_VIDEO_SIDE || cx >= w || cy >= h)
        return -1;
    f->width = (uint32_t)(w - cx);
    f->height = (uint32_t)(h - cy);
    return 0;
}

/* ---- H.264 ---- */

static void h264_high(stk_bits *r, stk_frame_format *f)
{
    uint32_t depth;

    f->chroma = stk_bits_ue(r);
    if (f->chroma == 3)
        stk_bits_skip(r, 1);
    depth = stk_bits_ue(r);
    f->bits = depth <= 6 && stk_bits_ue(r) == depth ? 8 + depth : 0;
    stk_bits_skip(r, 1);
    if (stk_bits_get(r, 1))
        for (uint32_t i = 0; i < (f->chroma == 3 ? 12u : 8u); i++)
            if (stk_bits_get(r, 1))
                stk_bits_skip_list(r, i < 6 ? 16 : 64);
}

static void h264_order(stk_bits *r)
{
    uint32_t type = stk_bits_ue(r), n;

    if (type == 0) {
        (void)stk_bits_ue(r);
    } else if (type == 1) {
        stk_bits_skip(r, 1);
        (void)stk_bits_ue(r), (void)stk_bits_ue(r);
        n = stk_bits_ue(r);
        for (uint32_t i = 0; i < n && i < 255; i++)
            (void)stk_bits_ue(r);
    }
}

static int h264_set(stk_frame_format *f, stk_bits *r)
{
    static const uint8_t high[] = { 100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135 };
    uint32_t crop[4] = { 0 }, profile, frames;
    uint64_t w, h;

    stk_bits_skip(r, 8);
    profile = stk_bits_get(r, 8);
    stk_bits_skip(r, 16);
    (void)stk_bits_ue(r);
    if (memchr(high, (int)profile, sizeof high))
        h264_high(r, f);
    (void)stk_bits_ue(r);
    h264_order(r);
    (void)stk_bits_ue(r);
    stk_bits_skip(r, 1);
    w = ((uint64_t)stk_bits_ue(r) + 1) * 16;
    h = ((uint64_t)stk_bits_ue(r) + 1) * 16;
    frames = stk_bits_get(r, 1);
    if (!frames) {
        stk_bits_skip(r, 1);
        h *= 2;
    }
    f->fields = !frames;
    stk_bits_skip(r, 1);
    for (uint32_t i = 0, has = stk_bits_get(r, 1); has && i < 4; i++)
        crop[i] = stk_bits_ue(r);
    if (stk_bits_get(r, 1))
        color_of(r, f);
    return size_of(f, w, h, crop);
}

/* ---- HEVC ---- */

static void hevc_level(stk_bits *r, uint32_t layers)
{
    uint32_t has[8];

    stk_bits_skip(r, 96);
    for (uint32_t i = 0; i < layers; i++)
        has[i] = stk_bits_get(r, 2);
    if (layers)
        stk_bits_skip(r, 2 * (8 - layers));
    for (uint32_t i = 0; i < layers; i++)
        stk_bits_skip(r, (has[i] & 2 ? 88 : 0) + (has[i] & 1 ? 8 : 0));
}

static void hevc_lists(stk_bits *r)
{
    for (uint32_t size = 0; size < 4; size++)
        for (uint32_t k = 0; k < 6; k += size == 3 ? 3 : 1) {
            uint32_t n = size ? 64 : 16;

            if (!stk_bits_get(r, 1)) {
                (void)stk_bits_ue(r);
                continue;
            }
            for (uint32_t i = 0; i < n + (size > 1); i++)
                (void)stk_bits_ue(r);
        }
}

/* Set i of pictures that are referred to, of which `before` has the one before it; how many it has;
 * -1: too many. */
static int hevc_refs(stk_bits *r, uint32_t i, int before)
{
    int n = 0;

    if (i && stk_bits_get(r, 1)) {
        stk_bits_skip(r, 1);
        (void)stk_bits_ue(r);
        for (int j = 0; j <= before; j++)
            n += stk_bits_get(r, 1) || stk_bits_get(r, 1);
    } else {
        uint32_t a = stk_bits_ue(r), b = stk_bits_ue(r);

        if (a > 16 || b > 16)
            return -1;
        n = (int)(a + b);
        for (int j = 0; j < n; j++) {
            (void)stk_bits_ue(r);
            stk_bits_skip(r, 1);
        }
    }
    return n <= 32 ? n : -1;
}

static int hevc_all_refs(stk_bits *r, uint32_t poc)
{
    uint32_t sets = stk_bits_ue(r);
    int n = 0;

    if (sets > 64)
        return -1;
    for (uint32_t i = 0; i < sets && n >= 0; i++)
        n = hevc_refs(r, i, n);
    if (n < 0)
        return -1;
    if (stk_bits_get(r, 1)) {
        sets = stk_bits_ue(r);
        if (sets > 32)
            return -1;
        stk_bits_skip(r, sets * (poc + 1));
    }
    return 0;
}

/* Between the sizes of values and the VUI. */
static int hevc_tools(stk_bits *r, uint32_t layers)
{
    uint32_t poc = stk_bits_ue(r) + 4, all = stk_bits_get(r, 1);

    if (poc > 16)
        return -1;
    for (uint32_t i = all ? 0 : layers; i <= layers; i++)
        (void)stk_bits_ue(r), (void)stk_bits_ue(r), (void)stk_bits_ue(r);
    for (int i = 0; i < 6; i++)
        (void)stk_bits_ue(r);
    if (stk_bits_get(r, 1) && stk_bits_get(r, 1))
        hevc_lists(r);
    stk_bits_skip(r, 2);
    if (stk_bits_get(r, 1)) {
        stk_bits_skip(r, 8);
        (void)stk_bits_ue(r), (void)stk_bits_ue(r);
        stk_bits_skip(r, 1);
    }
    if (hevc_all_refs(r, poc) < 0)
        return -1;
    stk_bits_skip(r, 2);
    return 0;
}

static int hevc_set(stk_frame_format *f, stk_bits *r)
{
    uint32_t crop[4] = { 0 }, layers, depth;
    uint64_t w, h;

    stk_bits_skip(r, 20);
    layers = stk_bits_get(r, 3);
    stk_bits_skip(r, 1);
    if (layers > 6)
        return -1;
    hevc_level(r, layers);
    (void)stk_bits_ue(r);
    f->chroma = stk_bits_ue(r);
    if (f->chroma == 3)
        stk_bits_skip(r, 1);
    w = stk_bits_ue(r);
    h = stk_bits_ue(r);
    for (uint32_t i = 0, has = stk_bits_get(r, 1); has && i < 4; i++)
        crop[i] = stk_bits_ue(r);
    depth = stk_bits_ue(r);
    f->bits = depth <= 8 && stk_bits_ue(r) == depth ? 8 + depth : 0;
    if (hevc_tools(r, layers) < 0)
        return -1;
    if (stk_bits_get(r, 1))
        color_of(r, f);
    return size_of(f, w, h, crop);
}

/* ---- VP9 ---- */

static int vp9_key(stk_frame_format *f, stk_bits *r)
{
    static const uint8_t matrix[8] = { 2, 5, 1, 6, 7, 9, 2, 0 };
    uint32_t profile, space;

    if (stk_bits_get(r, 2) != 2)
        return -1;
    profile = stk_bits_get(r, 1);
    profile |= stk_bits_get(r, 1) << 1;
    if (profile == 3)
        stk_bits_skip(r, 1);
    if (stk_bits_get(r, 1) || stk_bits_get(r, 1)) /* a frame shown again; no keyframe */
        return -1;
    stk_bits_skip(r, 2);
    if (stk_bits_get(r, 24) != 0x498342)
        return -1;
    f->bits = profile < 2 ? 8 : stk_bits_get(r, 1) ? 12 : 10;
    space = stk_bits_get(r, 3);
    f->matrix = matrix[space];
    f->full_range = space == 7 ? 1 : stk_bits_get(r, 1);
    f->chroma = profile & 1 ? 3 : 1; /* or another that is not 4:2:0 */
    stk_bits_skip(r, profile & 1 ? (space == 7 ? 1 : 3) : 0);
    f->width = stk_bits_get(r, 16) + 1;
    f->height = stk_bits_get(r, 16) + 1;
    return f->width <= STK_VIDEO_SIDE && f->height <= STK_VIDEO_SIDE ? 0 : -1;
}

/* ---- setups ---- */

/* Units of a setup, each with its length: calls fn with each. */
typedef int (*unit_fn)(void *cookie, uint32_t type, stk_bytes nal);

static int units(stk_bytes *in, uint32_t n, uint32_t type, unit_fn fn, void *cookie)
{
    for (; n; n--) {
        size_t len;

        if (in->len < 2)
            return -1;
        len = (size_t)in->data[0] << 8 | in->data[1];
        if (len > in->len - 2)
            return -1;
        if (fn(cookie, type, (stk_bytes){ in->data + 2, len }) < 0)
            return -1;
        in->data += 2 + len;
        in->len -= 2 + len;
    }
    return 0;
}

static int avcc(stk_bytes in, unit_fn fn, void *cookie)
{
    uint32_t n;

    if (in.len < 7 || in.data[0] != 1)
        return -1;
    n = in.data[5] & 31;
    in = (stk_bytes){ in.data + 6, in.len - 6 };
    if (units(&in, n, 7, fn, cookie) < 0 || !in.len)
        return -1;
    n = in.data[0];
    in = (stk_bytes){ in.data + 1, in.len - 1 };
    return units(&in, n, 8, fn, cookie);
}

static int hvcc(stk_bytes in, unit_fn fn, void *cookie)
{
    uint32_t arrays;

    if (in.len < 23)
        return -1;
    arrays = in.data[22];
    in = (stk_bytes){ in.data + 23, in.len - 23 };
    for (; arrays; arrays--) {
        uint32_t type, n;

        if (in.len < 3)
            return -1;
        type = in.data[0] & 63;
        n = (uint32_t)in.data[1] << 8 | in.data[2];
        in = (stk_bytes){ in.data + 3, in.len - 3 };
        if (units(&in, n, type, fn, cookie) < 0)
            return -1;
    }
    return 0;
}

static int each_unit(stk_video_codec codec, stk_bytes setup, unit_fn fn, void *cookie)
{
    return codec == STK_VIDEO_H264 ? avcc(setup, fn, cookie) : hvcc(setup, fn, cookie);
}

typedef struct found {
    stk_frame_format *f;
    stk_video_codec codec;
    uint32_t sets;
    int rc;
} found;

static int look(void *cookie, uint32_t type, stk_bytes nal)
{
    uint8_t set[SETS];
    found *o = cookie;
    stk_bits r = { set, 0, 0 };

    if (type != (o->codec == STK_VIDEO_H264 ? 7u : 33u))
        return 0;
    r.len = stk_nal_plain(set, SETS, nal.data, nal.len) * 8;
    o->sets++;
    o->rc = o->codec == STK_VIDEO_H264 ? h264_set(o->f, &r) : hevc_set(o->f, &r);
    return o->rc < 0 || stk_bits_over(&r) ? -1 : 0;
}

int stk_frame_format_read(stk_frame_format *out, stk_video_codec codec, stk_bytes setup,
                          stk_bytes key, stk_error *err)
{
    found o = { .f = out, .codec = codec };
    stk_bits r = { key.data, (key.len < SETS ? key.len : SETS) * 8, 0 };
    int rc;

    *out = (stk_frame_format){ .bits = 8, .chroma = 1, .matrix = 2 };
    if (codec == STK_VIDEO_VP9)
        rc = vp9_key(out, &r) < 0 || stk_bits_over(&r);
    else if (codec == STK_VIDEO_H264 || codec == STK_VIDEO_HEVC)
        rc = each_unit(codec, setup, look, &o) < 0 || o.sets != 1;
    else
        return stk_fail(err, STK_ENOTSUP, "headers of %s are not read",
                        stk_video_codec_name(codec));
    return rc ? stk_fail(err, STK_ENOTSUP, "the setup of its %s has no single sequence header",
                         stk_video_codec_name(codec))
              : 0;
}

/* ---- packets ---- */

/* Bytes before each unit of a packet, which say its length; 0: the setup does not tell. */
static uint32_t length_bytes(stk_video_codec codec, stk_bytes setup)
{
    size_t at = codec == STK_VIDEO_H264 ? 4 : 21;

    return setup.len > at ? (setup.data[at] & 3u) + 1 : 0;
}

/* The next unit of a packet, from its front.  1; 0: there is none; -1: it does not fit. */
static int take_unit(stk_bytes *in, uint32_t wide, stk_bytes *unit)
{
    size_t len = 0;

    if (!in->len)
        return 0;
    if (!wide || in->len <= wide)
        return -1;
    for (uint32_t i = 0; i < wide; i++)
        len = len << 8 | in->data[i];
    if (!len || len > in->len - wide)
        return -1;
    *unit = (stk_bytes){ in->data + wide, len };
    *in = (stk_bytes){ in->data + wide + len, in->len - wide - len };
    return 1;
}

/* Frames of a packet of VP9, by the index at its end; how many; 0: they do not fit. */
static uint32_t vp9_split(stk_bytes in, stk_bytes frame[8])
{
    uint32_t mark = in.len ? in.data[in.len - 1] : 0, n = 1, wide = (mark >> 3 & 3) + 1;
    size_t index = 0, from = 0;

    if (mark >> 5 == 6) {
        index = 2 + (size_t)wide * ((mark & 7) + 1);
        n = (mark & 7) + 1;
        if (index > in.len || in.data[in.len - index] != mark)
            index = 0, n = 1;
    }
    for (uint32_t i = 0; i < n; i++) {
        size_t len = index ? 0 : in.len;

        for (uint32_t k = 0; index && k < wide; k++)
            len |= (size_t)in.data[in.len - index + 1 + i * wide + k] << (8 * k);
        if (!len || len > in.len - index - from)
            return 0;
        frame[i] = (stk_bytes){ in.data + from, len };
        from += len;
    }
    return n;
}

typedef enum vp9_kind { VP9_AGAIN, VP9_KEY, VP9_INTRA, VP9_INTER } vp9_kind;

/* AGAIN: one that was decoded before is shown; INTRA: it begins anew, with colors of its own. */
static vp9_kind vp9_kind_of(stk_bytes frame, int *shown)
{
    stk_bits r = { frame.data, frame.len * 8, 2 };
    uint32_t profile = stk_bits_get(&r, 1), key;

    profile |= stk_bits_get(&r, 1) << 1;
    stk_bits_skip(&r, profile == 3);
    *shown = 1;
    if (stk_bits_get(&r, 1))
        return VP9_AGAIN;
    key = !stk_bits_get(&r, 1);
    *shown = (int)stk_bits_get(&r, 1);
    stk_bits_skip(&r, 1);
    return key ? VP9_KEY : !*shown && stk_bits_get(&r, 1) ? VP9_INTRA : VP9_INTER;
}

static int vp9_holds(const stk_frame_format *f, stk_bytes packet)
{
    stk_bytes frame[8];
    uint32_t n = vp9_split(packet, frame);
    stk_frame_format own;
    int shown;

    for (uint32_t i = 0; i < n; i++) {
        vp9_kind kind = vp9_kind_of(frame[i], &shown);

        if (kind == VP9_INTRA)
            return 0;
        if (kind == VP9_KEY &&
            (stk_frame_format_read(&own, STK_VIDEO_VP9, (stk_bytes){ 0 }, frame[i], NULL) < 0 ||
             memcmp(&own, f, sizeof own) != 0))
            return 0;
    }
    return n > 0;
}

int stk_frame_format_holds(const stk_frame_format *f, stk_video_codec codec, stk_bytes setup,
                           stk_bytes packet)
{
    uint32_t wide = length_bytes(codec, setup);
    stk_bytes unit;
    int rc;

    if (codec == STK_VIDEO_VP9)
        return vp9_holds(f, packet);
    while ((rc = take_unit(&packet, wide, &unit)) > 0) {
        uint32_t type = codec == STK_VIDEO_H264 ? unit.data[0] & 31u : unit.data[0] >> 1 & 63u;
        stk_frame_format own = { .bits = 8, .chroma = 1, .matrix = 2 };
        found o = { .f = &own, .codec = codec };

        if (look(&o, type, unit) < 0 || (o.sets && memcmp(&own, f, sizeof own) != 0))
            return 0;
    }
    return rc == 0;
}

/* ---- byte streams ---- */

size_t stk_stream_room(stk_bytes in)
{
    return in.len * 3 + 4; /* at worst, units of one byte after lengths of one byte */
}

typedef struct writer {
    uint8_t *to;
    size_t n;
} writer;

static int put(void *cookie, uint32_t type, stk_bytes nal)
{
    static const uint8_t start[] = { 0, 0, 0, 1 };
    writer *w = cookie;

    (void)type;
    memcpy(w->to + w->n, start, sizeof start);
    memcpy(w->to + w->n + sizeof start, nal.data, nal.len);
    w->n += sizeof start + nal.len;
    return 0;
}

size_t stk_stream_setup(stk_video_codec codec, stk_bytes setup, uint8_t *to)
{
    writer w = { to, 0 };

    if (codec == STK_VIDEO_VP9)
        return 0;
    return each_unit(codec, setup, put, &w) < 0 ? SIZE_MAX : w.n;
}

size_t stk_stream_packet(stk_video_codec codec, stk_bytes setup, stk_bytes in, uint8_t *to)
{
    uint32_t wide = length_bytes(codec, setup);
    writer w = { to, 0 };
    stk_bytes unit;
    int rc;

    if (codec == STK_VIDEO_VP9) {
        memcpy(to, in.data, in.len);
        return in.len;
    }
    while ((rc = take_unit(&in, wide, &unit)) > 0)
        put(&w, 0, unit);
    return rc < 0 ? SIZE_MAX : w.n;
}

/* ---- the picture of a packet ---- */

/* The first unit of a slice, without its start code; it ends before the next start code. */
static size_t slice_of(stk_video_codec codec, stk_bytes in, size_t *at)
{
    static const uint8_t start[] = { 0, 0, 0, 1 };

    for (size_t i = 0; i + 5 < in.len;) {
        const uint8_t *next = memmem(in.data + i + 4, in.len - i - 4, start, sizeof start);
        size_t end = next ? (size_t)(next - in.data) : in.len;
        uint32_t type = codec == STK_VIDEO_H264 ? in.data[i + 4] & 31 : in.data[i + 4] >> 1 & 63;

        if (codec == STK_VIDEO_H264 ? type == 1 || type == 5 : type < 32) {
            *at = i + 4;
            return end - *at;
        }
        i = end;
    }
    return 0;
}

/* The last frame of a packet that is shown. */
static size_t vp9_frame(stk_bytes in, size_t *at)
{
    stk_bytes frame[8];
    uint32_t n = vp9_split(in, frame);
    size_t got = 0;
    int shown;

    for (uint32_t i = 0; i < n; i++) {
        if (vp9_kind_of(frame[i], &shown) == VP9_AGAIN || (shown && got))
            return 0;
        if (shown) {
            *at = (size_t)(frame[i].data - in.data);
            got = frame[i].len;
        }
    }
    return got;
}

size_t stk_stream_picture(stk_video_codec codec, stk_bytes packet, size_t *at)
{
    return codec == STK_VIDEO_VP9 ? vp9_frame(packet, at) : slice_of(codec, packet, at);
}

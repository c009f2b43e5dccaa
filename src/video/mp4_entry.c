/* SPDX-License-Identifier: Apache-2.0 */
/* mp4_entry.c - the sample entry of an MP4 track: which codec, how large, its setup, its colors. */
#include <string.h>

#include "video/mp4.h"

static const struct {
    uint32_t type, setup;
    stk_video_codec codec;
} entries[] = {
    { STK_BOX('a', 'v', 'c', '1'), STK_BOX('a', 'v', 'c', 'C'), STK_VIDEO_H264 },
    { STK_BOX('a', 'v', 'c', '3'), STK_BOX('a', 'v', 'c', 'C'), STK_VIDEO_H264 },
    { STK_BOX('h', 'v', 'c', '1'), STK_BOX('h', 'v', 'c', 'C'), STK_VIDEO_HEVC },
    { STK_BOX('h', 'e', 'v', '1'), STK_BOX('h', 'v', 'c', 'C'), STK_VIDEO_HEVC },
    { STK_BOX('a', 'v', '0', '1'), STK_BOX('a', 'v', '1', 'C'), STK_VIDEO_AV1 },
    { STK_BOX('v', 'p', '0', '8'), STK_BOX('v', 'p', 'c', 'C'), STK_VIDEO_VP8 },
    { STK_BOX('v', 'p', '0', '9'), STK_BOX('v', 'p', 'c', 'C'), STK_VIDEO_VP9 },
    { STK_BOX('m', 'p', '4', 'v'), STK_BOX('e', 's', 'd', 's'), STK_VIDEO_MPEG4 },
    { STK_BOX('j', 'p', 'e', 'g'), 0, STK_VIDEO_MJPEG },
    { STK_BOX('m', 'j', 'p', 'g'), 0, STK_VIDEO_MJPEG },
};
#define ENTRIES (sizeof entries / sizeof *entries)

static void name_of(uint32_t type, char out[5])
{
    for (int i = 0; i < 4; i++) {
        uint8_t c = (uint8_t)(type >> (24 - 8 * i));

        out[i] = c > 32 && c < 127 ? (char)c : '?';
    }
    out[4] = 0;
}

/* 7 bits a byte, at most four. */
uint32_t stk_mp4_descriptor(stk_mp4_in *in, uint8_t *tag)
{
    uint32_t len = 0;

    *tag = (uint8_t)stk_mp4_be(in, 1);
    for (int i = 0; i < 4; i++) {
        uint32_t b = (uint32_t)stk_mp4_be(in, 1);

        len = len << 7 | (b & 127);
        if (!(b & 128))
            break;
    }
    return len;
}

/* ES_Descriptor > DecoderConfigDescriptor > DecoderSpecificInfo. */
static int take_esds(stk_video_track *t, stk_mp4_in in, stk_error *err)
{
    uint8_t tag, flags, type = 0;
    uint32_t len;

    stk_mp4_version(&in, NULL);
    stk_mp4_descriptor(&in, &tag);
    if (tag == 3) {
        stk_mp4_be(&in, 2);
        flags = (uint8_t)stk_mp4_be(&in, 1);
        stk_mp4_skip(&in, (flags & 128 ? 2 : 0) + (flags & 32 ? 2 : 0));
        if (flags & 64)
            stk_mp4_skip(&in, stk_mp4_be(&in, 1));
        stk_mp4_descriptor(&in, &tag);
    }
    if (tag != 4 || in.bad)
        return stk_fail(err, STK_ECORRUPT, "track %u: a damaged esds box at byte %" PRIu64,
                        t->number, in.at);
    type = (uint8_t)stk_mp4_be(&in, 1);
    stk_mp4_skip(&in, 12);
    t->codec = type == 0x20 ? STK_VIDEO_MPEG4 : type == 0x6c ? STK_VIDEO_MJPEG : STK_VIDEO_OTHER;
    if (t->codec == STK_VIDEO_OTHER)
        return stk_fail(err, STK_ENOTSUP,
                        "track %u: mp4v of object type 0x%02x: MPEG-4 (0x20) and MJPEG (0x6c) are "
                        "decoded",
                        t->number, type);
    len = stk_mp4_descriptor(&in, &tag);
    if (tag != 5 || in.bad)
        return 0; /* it has none */
    if (len > (size_t)(in.end - in.p))
        return stk_fail(err, STK_ECORRUPT, "track %u: a damaged esds box at byte %" PRIu64,
                        t->number, in.at);
    return stk_video_track_setup(t, (stk_bytes){ in.p, len }, err);
}

static void take_colors(stk_video_track *t, stk_mp4_in in)
{
    uint32_t kind = (uint32_t)stk_mp4_be(&in, 4);

    if (kind != STK_BOX('n', 'c', 'l', 'x') && kind != STK_BOX('n', 'c', 'l', 'c'))
        return;
    stk_mp4_be(&in, 4);
    t->matrix = (uint8_t)stk_mp4_be(&in, 2);
    t->full_range = kind == STK_BOX('n', 'c', 'l', 'x') && stk_mp4_be(&in, 1) & 128;
    if (in.bad)
        t->matrix = 2, t->full_range = 0;
}

static int take_boxes(stk_video_track *t, stk_mp4_in in, uint32_t setup, stk_error *err)
{
    stk_mp4_box b;

    while (stk_mp4_next(&in, &b)) {
        if (b.type == STK_BOX('c', 'o', 'l', 'r'))
            take_colors(t, b.in);
        if (b.type != setup)
            continue;
        if (setup == STK_BOX('e', 's', 'd', 's'))
            STK_TRY(take_esds(t, b.in, err));
        else if (setup != STK_BOX('v', 'p', 'c', 'C')) /* VP8 and VP9 need none */
            STK_TRY(
                stk_video_track_setup(t, (stk_bytes){ b.in.p, (size_t)(b.in.end - b.in.p) }, err));
    }
    return 0;
}

int stk_mp4_entry(stk_video_track *t, stk_mp4_in in, stk_error *err)
{
    stk_mp4_box b;

    stk_mp4_version(&in, NULL);
    stk_mp4_be(&in, 4);
    if (!stk_mp4_next(&in, &b) || b.in.end - b.in.p < 78)
        return stk_fail(err, STK_ECORRUPT, "track %u: a damaged stsd box at byte %" PRIu64,
                        t->number, in.at);
    name_of(b.type, t->fourcc);
    stk_mp4_skip(&b.in, 24);
    t->width = (uint32_t)stk_mp4_be(&b.in, 2);
    t->height = (uint32_t)stk_mp4_be(&b.in, 2);
    stk_mp4_skip(&b.in, 50);
    for (size_t i = 0; i < ENTRIES; i++)
        if (entries[i].type == b.type) {
            t->codec = entries[i].codec;
            return take_boxes(t, b.in, entries[i].setup, err);
        }
    if (b.type == STK_BOX('e', 'n', 'c', 'v'))
        return stk_fail(err, STK_ENOTSUP, "track %u: the video is encrypted", t->number);
    return stk_fail(err, STK_ENOTSUP,
                    "track %u: the video's codec is `%s`; H.264, HEVC, AV1, VP8, VP9, MPEG-4 and "
                    "MJPEG are decoded: re-encode it with the ffmpeg program",
                    t->number, t->fourcc);
}

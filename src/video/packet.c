/* SPDX-License-Identifier: Apache-2.0 */
/* packet.c - packets of frames to which nothing refers, and packets at which decoding can begin, by
 * what the stream itself says.
 *
 * H.264: nal_ref_idc is 0 in all slices.  HEVC: sub-layer non-reference pictures, of the highest
 * sub-layer: pictures of higher ones may refer to them.  MPEG-4: B-VOPs.  VP9 has none: the next
 * frame may use the motion vectors and the probabilities of the one before it, also where that is
 * in no reference slot.  Of AV1 and VP8 none are looked for.  The container's own flags are not
 * believed: a table that lies would change pixels. */
#include <string.h>

#include "video/vdec.h"

typedef int (*nal_fn)(const uint8_t *nal, size_t len, uint32_t layers); /* -1: no slice */

static int h264_is_spare(const uint8_t *nal, size_t len, uint32_t layers)
{
    uint32_t type = nal[0] & 31;

    (void)len, (void)layers;
    return type < 1 || type > 5 ? -1 : !(nal[0] & 0x60);
}

static int hevc_is_spare(const uint8_t *nal, size_t len, uint32_t layers)
{
    uint32_t type = nal[0] >> 1 & 63, layer;

    if (type > 31)
        return -1;
    if (len < 2)
        return 0;
    layer = nal[1] & 7; /* nuh_temporal_id_plus1 */
    return type < 16 && !(type & 1) && layers && layer >= layers;
}

/* Takes a NAL unit, which is stored after its length, from the front of *in.  0: it is damaged. */
static int take_nal(stk_bytes *in, uint32_t wide, stk_bytes *nal)
{
    size_t len = 0;

    for (uint32_t i = 0; i < wide; i++)
        len = len << 8 | in->data[i];
    in->data += wide;
    in->len -= wide;
    if (!len || len > in->len)
        return 0;
    *nal = (stk_bytes){ in->data, len };
    in->data += len;
    in->len -= len;
    return 1;
}

static int all_are(stk_bytes in, uint32_t wide, uint32_t layers, nal_fn fn)
{
    stk_bytes nal;
    int some = 0;

    while (in.len > wide) {
        int spare = take_nal(&in, wide, &nal) ? fn(nal.data, nal.len, layers) : 0;

        if (!spare)
            return 0;
        some |= spare > 0;
    }
    return some && !in.len;
}

/* ---- where decoding can begin ---- */

/* Exp-Golomb numbers of a slice's header, from bit *at on. */
static uint32_t golomb(const uint8_t *p, size_t len, size_t *at)
{
    uint32_t zeros = 0, v = 0;

    while (*at < len * 8 && zeros < 24 && !(p[*at / 8] >> (7 - *at % 8) & 1))
        zeros++, ++*at;
    ++*at;
    for (uint32_t i = 0; i < zeros && *at < len * 8; i++, ++*at)
        v = v << 1 | (p[*at / 8] >> (7 - *at % 8) & 1);
    return ((uint32_t)1 << zeros) - 1 + v;
}

/* A recovery point after which pictures are exact at once: recovery_frame_cnt is 0, one bit. */
static int has_recovery(const uint8_t *p, size_t len)
{
    size_t at = 1;

    while (at + 2 < len) {
        uint32_t type = 0, size = 0;

        for (; at < len && p[at] == 255; at++)
            type += 255;
        type += at < len ? p[at++] : 0;
        for (; at < len && p[at] == 255; at++)
            size += 255;
        size += at < len ? p[at++] : 0;
        if (type == 6)
            return at < len && size && p[at] >> 7;
        at += size;
    }
    return 0;
}

static int h264_is_start(stk_bytes in, uint32_t wide)
{
    int recovery = 0, slices = 0;
    stk_bytes nal;

    while (in.len > wide) {
        size_t at = 8;
        uint32_t type;

        if (!take_nal(&in, wide, &nal))
            return 0;
        type = nal.data[0] & 31;
        if (type == 5)
            return 1;
        if (type == 6)
            recovery |= has_recovery(nal.data, nal.len);
        if (type >= 1 && type <= 4) {
            golomb(nal.data, nal.len, &at);
            type = golomb(nal.data, nal.len, &at) % 5;
            if (type != 2 && type != 4)
                return 0; /* not I, nor SI */
            slices++;
        }
    }
    return recovery && slices ? STK_START_OPEN : 0;
}

static int hevc_irap(const uint8_t *nal, size_t len, uint32_t layers)
{
    uint32_t type = nal[0] >> 1 & 63;

    (void)len, (void)layers;
    return type > 31 ? -1 : type >= 16 && type <= 21;
}

/* A temporal unit with a sequence header. */
static int av1_is_start(stk_bytes in)
{
    size_t at = 0;

    while (at < in.len) {
        uint32_t type = in.data[at] >> 3 & 15, has_size = in.data[at] & 2;
        uint64_t size = 0;

        if (type == 1)
            return 1;
        at += in.data[at] & 4 ? 2 : 1;
        if (!has_size)
            return 0;
        for (uint32_t i = 0; i < 8 && at < in.len; i++) {
            uint8_t b = in.data[at++];

            size |= (uint64_t)(b & 127) << (7 * i);
            if (!(b & 128))
                break;
        }
        if (size > in.len - (at < in.len ? at : in.len))
            return 0;
        at += (size_t)size;
    }
    return 0;
}

static int vop_type(stk_bytes in)
{
    static const uint8_t start[] = { 0, 0, 1, 0xb6 };
    const uint8_t *vop = memmem(in.data, in.len, start, sizeof start);

    return vop && in.len - (size_t)(vop - in.data) > 4 ? vop[4] >> 6 : -1;
}

/* frame_marker, profile, and of a shown frame: frame_type 0. */
static int vp9_is_start(stk_bytes in)
{
    uint32_t b = in.len ? in.data[0] : 0, reserved = (b >> 4 & 3) == 3;

    return b >> 6 == 2 && !(b >> (3 - reserved) & 1) && !(b >> (2 - reserved) & 1);
}

int stk_packet_is_start(stk_video_codec codec, stk_bytes setup, stk_bytes packet)
{
    switch (codec) {
    case STK_VIDEO_H264:
        return setup.len <= 6 || setup.data[0] != 1
                   ? 1
                   : h264_is_start(packet, (setup.data[4] & 3u) + 1);
    case STK_VIDEO_HEVC:
        return setup.len <= 22 || all_are(packet, (setup.data[21] & 3u) + 1, 0, hevc_irap);
    case STK_VIDEO_AV1: return av1_is_start(packet);
    case STK_VIDEO_VP9: return vp9_is_start(packet);
    case STK_VIDEO_VP8: return packet.len && !(packet.data[0] & 1);
    case STK_VIDEO_MPEG4: return vop_type(packet) == 0;
    default: return 1;
    }
}

/* ---- where nothing refers to it ---- */

/* One VOP, and it is a B-VOP. */
static int mpeg4_is_spare(stk_bytes in)
{
    static const uint8_t start[] = { 0, 0, 1, 0xb6 };
    const uint8_t *vop = memmem(in.data, in.len, start, sizeof start);
    size_t left;

    if (!vop)
        return 0;
    left = in.len - (size_t)(vop - in.data);
    return left > 4 && vop[4] >> 6 == 2 && !memmem(vop + 4, left - 4, start, sizeof start);
}

int stk_packet_is_spare(stk_video_codec codec, stk_bytes setup, stk_bytes packet)
{
    if (codec == STK_VIDEO_H264 && setup.len > 6 && setup.data[0] == 1)
        return all_are(packet, (setup.data[4] & 3u) + 1, 0, h264_is_spare);
    if (codec == STK_VIDEO_HEVC && setup.len > 22)
        return all_are(packet, (setup.data[21] & 3u) + 1, setup.data[21] >> 3 & 7u, hevc_is_spare);
    return codec == STK_VIDEO_MPEG4 && mpeg4_is_spare(packet);
}

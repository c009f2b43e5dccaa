/* SPDX-License-Identifier: Apache-2.0 */
/* frame_format.h - reads from a stream's headers what its frames are like, without a decoder; and
 * turns packets into a byte stream (Annex B of H.264 and HEVC).
 *
 * Code for the GPU's decoder calls it, because that decoder is chosen before the first packet is
 * sent, and does not say how U and V are sited.  Fields mean the same as in libavcodec's frames, so
 * that colors are the same. */
#ifndef STOKER_VIDEO_FRAME_FORMAT_H
#define STOKER_VIDEO_FRAME_FORMAT_H

#include "video/video_points.h"

typedef struct stk_frame_format {
    uint32_t width, height;              /* pixels that are shown */
    uint32_t bits;                       /* bits of a value */
    uint32_t chroma;                     /* 0: gray, 1: 4:2:0, 2: 4:2:2, 3: 4:4:4 */
    uint32_t matrix, full_range, siting; /* as in stk_planes */
    uint32_t fields;                     /* 1: some frames may be two fields */
} stk_frame_format;

/* Sets *out: for H.264 and HEVC from the codec's setup, for VP9 from the packet of a keyframe.
 * STK_ENOTSUP: it is not said there, or it is another codec. */
int stk_frame_format_read(stk_frame_format *out, stk_video_codec codec, stk_bytes setup,
                          stk_bytes key, stk_error *err);
/* 1: headers inside a packet, if it has some, say of frames what `f` says, as it was read.  0: they
 * say something else, or only a decoder can tell. */
int stk_frame_format_holds(const stk_frame_format *f, stk_video_codec codec, stk_bytes setup,
                           stk_bytes packet);
/* Takes matrix and range from the container if the stream does not say them. */
static inline void stk_video_color(const stk_video_head *h, uint32_t *matrix, uint32_t *full_range)
{
    if (*matrix == 2)
        *matrix = h->matrix;
    *full_range |= h->full_range && h->matrix != 2;
}

/* Write the setup, or a packet, as a byte stream; a VP9 packet stays as it is.  `to` has room for
 * stk_stream_room() bytes.  Return the bytes written; SIZE_MAX: lengths of units are wrong. */
size_t stk_stream_room(stk_bytes in);
size_t stk_stream_setup(stk_video_codec codec, stk_bytes setup, uint8_t *to);
size_t stk_stream_packet(stk_video_codec codec, stk_bytes setup, stk_bytes packet, uint8_t *to);
/* Finds the picture in a packet of a byte stream: the first slice; for VP9 the frame that is shown.
 * Sets *at and returns its length.  0: it has none, or one that was decoded before. */
size_t stk_stream_picture(stk_video_codec codec, stk_bytes packet, size_t *at);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* frame_format.h - what a stream's own headers say of its frames, without a decoder; and its
 * packets as a byte stream (Annex B of H.264 and HEVC).
 *
 * For decoders that are chosen before the first packet is sent, and that do not say where U and V
 * are: the GPU's.  Fields mean what libavcodec's frames would say, so that colors are the same. */
#ifndef STOKER_VIDEO_FRAME_FORMAT_H
#define STOKER_VIDEO_FRAME_FORMAT_H

#include "video/video_points.h"

typedef struct stk_frame_format {
    uint32_t width, height;              /* that are shown */
    uint32_t bits;                       /* of a value */
    uint32_t chroma;                     /* 0: gray, 1: 4:2:0, 2: 4:2:2, 3: 4:4:4 */
    uint32_t matrix, full_range, siting; /* as in stk_planes */
    uint32_t fields;                     /* 1: some frames may be two fields */
} stk_frame_format;

/* Of H.264 and HEVC by the codec's setup, of VP9 by the packet of a keyframe.  STK_ENOTSUP: it is
 * not said there, or the codec is another. */
int stk_frame_format_read(stk_frame_format *out, stk_video_codec codec, stk_bytes setup,
                          stk_bytes key, stk_error *err);
/* 1: headers inside a packet, if it has some, say of frames what `f` says, as it was read.  0: they
 * say something else, or only a decoder can tell. */
int stk_frame_format_holds(const stk_frame_format *f, stk_video_codec codec, stk_bytes setup,
                           stk_bytes packet);
/* Matrix and range that the container says where the stream does not. */
static inline void stk_video_color(const stk_video_head *h, uint32_t *matrix, uint32_t *full_range)
{
    if (*matrix == 2)
        *matrix = h->matrix;
    *full_range |= h->full_range && h->matrix != 2;
}

/* The setup, or a packet, as a byte stream; of VP9 the packet as it is.  `to` has room for
 * stk_stream_room() bytes.  How many were written; SIZE_MAX: its units don't fit. */
size_t stk_stream_room(stk_bytes in);
size_t stk_stream_setup(stk_video_codec codec, stk_bytes setup, uint8_t *to);
size_t stk_stream_packet(stk_video_codec codec, stk_bytes setup, stk_bytes packet, uint8_t *to);
/* Where in a packet of a byte stream its picture is: the first slice, of VP9 the frame that is
 * shown.  0: it has none, or one that was decoded before. */
size_t stk_stream_picture(stk_video_codec codec, stk_bytes packet, size_t *at);

#endif

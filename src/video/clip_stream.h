/* SPDX-License-Identifier: Apache-2.0 */
/* clip_stream.h - the packets of a clip as a byte stream with its parameter sets in front: what the
 * GPU's decoder is given.  Rows of videos cut it in a worker. */
#ifndef STOKER_VIDEO_CLIP_STREAM_H
#define STOKER_VIDEO_CLIP_STREAM_H

#include "video/clip.h"
#include "video/frame_format.h"

typedef struct stk_cut_packet {
    size_t at; /* in the stream's bytes */
    uint32_t len;
    uint32_t want; /* as in stk_clip_packet */
    uint32_t begins;
    /* the bytes by which a decoder's picture of it is known: its first slice, of VP9 the frame
     * that is shown */
    size_t mark;
    uint32_t mark_len;
} stk_cut_packet;

typedef struct stk_clip_stream { /* in scratch memory */
    stk_frame_format format;
    uint8_t *data;
    size_t len;
    stk_cut_packet *packet;
    int64_t *time_us; /* of each wanted frame */
    uint32_t n;
} stk_clip_stream;

/* job->ask's frames, of the parts that were read.  STK_ENOTSUP: that needs a decoder which goes on
 * where something is missing: frames that lead a keyframe of H.264, starts that are none. */
int stk_clip_stream_cut(stk_clip_stream *out, const stk_video_head *h, const stk_media_job *job,
                        stk_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* clip_stream.h - makes the byte stream of a clip that the GPU's decoder gets: its packets, with
 * the parameter sets in front.  Rows call it in a worker (row/row_gpu_video.c). */
#ifndef STOKER_VIDEO_CLIP_STREAM_H
#define STOKER_VIDEO_CLIP_STREAM_H

#include "video/clip.h"
#include "video/frame_format.h"

typedef struct stk_cut_packet {
    size_t at; /* offset in the stream */
    uint32_t len;
    uint32_t want; /* as in stk_clip_packet; so is `begins` */
    uint32_t begins;
    /* the bytes by which a decoder's picture is matched to the packet: its first slice; for VP9 the
     * frame that is shown */
    size_t mark;
    uint32_t mark_len;
} stk_cut_packet;

typedef struct stk_clip_stream { /* in scratch memory */
    stk_frame_format format;
    uint8_t *data;
    size_t len;
    stk_cut_packet *packet;
    int64_t *time_us; /* by wanted frame: when it is shown */
    uint32_t n;
} stk_clip_stream;

/* Makes the stream for the frames of job->ask, from the parts that were read.  STK_ENOTSUP:
 * decoding would have to go on without missing frames, such as before an open keyframe of H.264. */
int stk_clip_stream_cut(stk_clip_stream *out, const stk_video_head *h, const stk_media_job *job,
                        stk_error *err);

#endif

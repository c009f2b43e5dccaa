/* SPDX-License-Identifier: Apache-2.0 */
/* nvdec.h - NVIDIA's video decoder: sessions that decode runs of packets to GPU memory.
 * gpu_clips.c uses it.
 *
 * libnvcuvid is opened at run time, and only nvdec.c knows it.  A session decodes one clip after
 * the other.  Every clip begins at a keyframe, and all its packets are decoded before it ends, so
 * clips don't affect each other.  A frame is identified by its packet.  If the decoder reports,
 * conceals or leaves out damage, that is an error: the caller then has the CPU decode the clip,
 * which says what is wrong. */
#ifndef STOKER_NVDEC_H
#define STOKER_NVDEC_H

#include "gpu/load.h"
#include "video/frame_format.h"

#define STK_NVDEC_FRAMES 16u /* most frames that are mapped at once */

typedef struct stk_nvdec stk_nvdec; /* Thread: any. */

/* STK_ENOTSUP: this build, the driver or the machine has none; the message says what is missing. */
int stk_nvdec_open(stk_nvdec **out, const stk_cuda *cuda, int gpu, stk_error *err);
void stk_nvdec_close(stk_nvdec **n);

/* How many decoding engines of the GPU take such frames; 0: none.  The driver is asked once for
 * each format. */
uint32_t stk_nvdec_engines(stk_nvdec *n, stk_video_codec codec, const stk_frame_format *f);
/* About how many bytes of GPU memory a session of this format takes. */
uint64_t stk_nvdec_bytes(const stk_frame_format *f);

typedef struct stk_nvdec_packet {
    const uint8_t *data; /* byte stream; the first packet begins with the parameter sets */
    uint32_t len;
    uint32_t want;       /* number of its frame for frames(); UINT32_MAX: it is only decoded */
    uint32_t begins;     /* 1: a keyframe that needs no packet before it */
    const uint8_t *mark; /* bytes of the packet by which the decoder's picture is matched to it */
    uint32_t mark_len;
} stk_nvdec_packet;

typedef struct stk_nvdec_frame {  /* a frame in GPU memory: NV12, or P016 for more than 8 bits */
    const uint8_t *luma, *chroma; /* planes, at pixel (0, 0) */
    uint32_t stride;              /* bytes from line to line */
    uint32_t want;                /* stk_nvdec_packet.want */
} stk_nvdec_frame;

typedef struct stk_nvdec_clip {
    const stk_nvdec_packet *packet;
    uint32_t n, n_want; /* packets; how many of them are wanted */
    void *stream;       /* CUDA stream on which frames() uses the frames */
    /* Called with 1 to STK_NVDEC_FRAMES frames.  They are valid until it returns, and no queued
     * work may use them after that. */
    int (*frames)(void *cookie, const stk_nvdec_frame *f, uint32_t n, stk_error *err);
    void *cookie;
} stk_nvdec_clip;

typedef struct stk_nvdec_session stk_nvdec_session; /* Thread: one. */

/* Call on a thread of the library: it sets the thread's current GPU and leaves it set. */
int stk_nvdec_session_open(stk_nvdec_session **out, stk_nvdec *n, stk_video_codec codec,
                           const stk_frame_format *f, stk_error *err);
void stk_nvdec_session_close(stk_nvdec_session **s);
/* Whether a session that was opened for frames `made` can decode frames `f`.  2: as it is; 1: after
 * it was reconfigured, which run() does; 0: no. */
int stk_nvdec_fits(stk_video_codec made_codec, const stk_frame_format *made, stk_video_codec codec,
                   const stk_frame_format *f);
/* Decodes a clip: passes every wanted frame to clip->frames once, in any order.  STK_ECORRUPT: the
 * clip is damaged, but the session can be used again.  After other errors close the session. */
int stk_nvdec_run(stk_nvdec_session *s, const stk_frame_format *f, const stk_nvdec_clip *clip,
                  stk_error *err);

#endif

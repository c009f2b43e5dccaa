/* SPDX-License-Identifier: Apache-2.0 */
/* nvdec.h - NVIDIA's video decoders: the library, and sessions that decode runs of packets to
 * surfaces of the GPU's memory.
 *
 * libnvcuvid is opened at run time, and only nvdec.c knows it.  A session decodes one clip at a
 * time and is used again for the next one: every clip begins at a keyframe and ends with all that
 * was sent decoded, so that nothing of one is in the other.  A frame is known by its packet.
 * Whatever the decoder calls damaged, conceals or leaves out is an error: the caller has the CPU
 * decode the clip, which says what is wrong with it. */
#ifndef STOKER_NVDEC_H
#define STOKER_NVDEC_H

#include "gpu/load.h"
#include "video/frame_format.h"

#define STK_NVDEC_FRAMES 16u /* that are mapped at once */

typedef struct stk_nvdec stk_nvdec; /* Thread: any. */

/* STK_ENOTSUP: this build, the driver or the machine has none; the message says what is missing. */
int stk_nvdec_open(stk_nvdec **out, const stk_cuda *cuda, int gpu, stk_error *err);
void stk_nvdec_close(stk_nvdec **n);

/* Engines that decode such frames; 0: none does.  Asked of the driver once for each format. */
uint32_t stk_nvdec_engines(stk_nvdec *n, stk_video_codec codec, const stk_frame_format *f);
/* The GPU's memory that a session of this format takes, about. */
uint64_t stk_nvdec_bytes(const stk_frame_format *f);

typedef struct stk_nvdec_packet {
    const uint8_t *data; /* as a byte stream; a first packet with its parameter sets */
    uint32_t len;
    uint32_t want;       /* a number that its frame is known by; UINT32_MAX: it is only decoded */
    uint32_t begins;     /* 1: a keyframe that follows nothing */
    const uint8_t *mark; /* bytes of it by which its picture is known */
    uint32_t mark_len;
} stk_nvdec_packet;

typedef struct stk_nvdec_frame {  /* in the GPU's memory: NV12, or P016 where values are wider */
    const uint8_t *luma, *chroma; /* of pixel (0, 0) */
    uint32_t stride;
    uint32_t want;
} stk_nvdec_frame;

typedef struct stk_nvdec_clip {
    const stk_nvdec_packet *packet;
    uint32_t n, n_want; /* packets; those of them that are wanted */
    void *stream;       /* on which frames are used */
    /* n <= STK_NVDEC_FRAMES frames; when it returns nothing uses them any more. */
    int (*frames)(void *cookie, const stk_nvdec_frame *f, uint32_t n, stk_error *err);
    void *cookie;
} stk_nvdec_clip;

typedef struct stk_nvdec_session stk_nvdec_session; /* Thread: one. */

/* The calling thread is ours: its current GPU is set and stays. */
int stk_nvdec_session_open(stk_nvdec_session **out, stk_nvdec *n, stk_video_codec codec,
                           const stk_frame_format *f, stk_error *err);
void stk_nvdec_session_close(stk_nvdec_session **s);
/* A session that was opened for frames `made`: 2: of such frames; 1: it can be made to fit; 0:
 * another has to be opened. */
int stk_nvdec_fits(stk_video_codec made_codec, const stk_frame_format *made, stk_video_codec codec,
                   const stk_frame_format *f);
/* All wanted frames go to clip->frames, in any order, each once.  STK_ECORRUPT: the clip is
 * damaged, and the session takes the next one.  After another error it is to be closed. */
int stk_nvdec_run(stk_nvdec_session *s, const stk_frame_format *f, const stk_nvdec_clip *clip,
                  stk_error *err);

#endif

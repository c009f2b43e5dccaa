/* SPDX-License-Identifier: Apache-2.0 */
/* vdec.h - decodes packets of video to planes: one table of functions per library.  video.c and
 * sessions call it.
 *
 * A packet has a number, and the frame that it gives has the same number, whatever the order in
 * which frames come.  One thread per stream.  Thread: worker. */
#ifndef STOKER_VIDEO_VDEC_H
#define STOKER_VIDEO_VDEC_H

#include <config.h>

#include "base/clock.h"
#include "video/track.h"

typedef struct stk_vdec_setup {
    stk_video_codec codec;
    uint32_t width, height; /* larger frames are refused */
    stk_bytes setup;
} stk_vdec_setup;

typedef struct stk_vdec_packet {
    stk_bytes bytes;
    uint32_t number;
    /* 1: frames that it refers to may be missing.  It is decoded as far as possible, so that later
     * frames find it where they expect it. */
    int loose;
} stk_vdec_packet;

typedef struct stk_vdec_ops {
    const char *name;
    /* Opens the library, once per worker.  STK_ENOTSUP: it is not installed; the message names its
     * package.  NULL: it is part of this library. */
    int (*load)(void **lib, stk_error *err);
    void (*unload)(void *lib);
    int (*open)(void **out, void *lib, const stk_vdec_setup *s, stk_error *err);
    void (*close)(void *d);
    /* Sends a packet; the caller then takes all frames.  No data: there are no more packets. */
    int (*send)(void *d, const stk_vdec_packet *p, stk_error *err);
    /* Sets *out to a frame, valid until the next call; no data: it is damaged.  STK_END: there is
     * no frame for now. */
    int (*receive)(void *d, uint32_t *number, stk_planes *out, stk_error *err);
    void (*flush)(void *d); /* call before a keyframe that needs no packet before it */
} stk_vdec_ops;

/* The CPU time of this thread at which a clip is given up: after the given seconds, or, if that is
 * 0, after 30 and one for each packet.  It is checked between calls of the library, so a call that
 * never returns is not ended. */
static inline uint64_t stk_vdec_until(double seconds, uint64_t packets)
{
    return stk_thread_ns() +
           (uint64_t)((seconds > 0 ? seconds : 30 + (double)packets) * 1000000000.0);
}

extern const stk_vdec_ops stk_vdec_libav; /* libav.c */
extern const stk_vdec_ops stk_vdec_dav1d; /* dav1d.c */
extern const stk_vdec_ops stk_vdec_mjpeg; /* mjpeg.c */

/* packet.c: 1: no frame refers to the frame of this packet, so it need not be decoded if it is not
 * wanted.  0: some may. */
int stk_packet_is_spare(stk_video_codec codec, stk_bytes setup, stk_bytes packet);
/* 1: decoding can begin here, and every frame that is shown after this one is exact.  0: it can't:
 * the container calls it a keyframe, but the stream does not.  STK_START_OPEN: as 1, but frames
 * after it may drop references that were made before it (H.264). */
#define STK_START_OPEN 2
int stk_packet_is_start(stk_video_codec codec, stk_bytes setup, stk_bytes packet);

#endif

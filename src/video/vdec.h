/* SPDX-License-Identifier: Apache-2.0 */
/* vdec.h - packets to planes: one table of functions per library.
 *
 * A packet has a number, and the frame that comes of it has the same: that is how frames are known,
 * whatever the order in which they come.  One thread per stream.  Thread: worker. */
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
    /* 1: what it refers to, or drops, may be missing.  It is decoded as well as that goes, so that
     * the frames after it find it where they count it. */
    int loose;
} stk_vdec_packet;

typedef struct stk_vdec_ops {
    const char *name;
    /* The library, once per worker.  STK_ENOTSUP: it is not there; the message names its package.
     * NULL: it is always there. */
    int (*load)(void **lib, stk_error *err);
    void (*unload)(void *lib);
    int (*open)(void **out, void *lib, const stk_vdec_setup *s, stk_error *err);
    void (*close)(void *d);
    /* Frames are taken after each packet.  No data: no more packets come, give what is left. */
    int (*send)(void *d, const stk_vdec_packet *p, stk_error *err);
    /* 0: a frame, valid until the next call; without data: it is damaged.  STK_END: none for
     * now. */
    int (*receive)(void *d, uint32_t *number, stk_planes *out, stk_error *err);
    void (*flush)(void *d); /* the next packet is a keyframe that follows nothing */
} stk_vdec_ops;

/* A clip may use so much CPU time: the given seconds, or if that is 0, 30 and one for each packet.
 * It is looked at between calls of the library: one that never returns is not ended. */
static inline uint64_t stk_vdec_until(double seconds, uint64_t packets)
{
    return stk_thread_ns() +
           (uint64_t)((seconds > 0 ? seconds : 30 + (double)packets) * 1000000000.0);
}

extern const stk_vdec_ops stk_vdec_libav; /* libav.c */
extern const stk_vdec_ops stk_vdec_dav1d; /* dav1d.c */
extern const stk_vdec_ops stk_vdec_mjpeg; /* mjpeg.c */

/* packet.c: 1: nothing refers to the frame of this packet, so that it need not be decoded where it
 * is not wanted.  0: something may. */
int stk_packet_is_spare(stk_video_codec codec, stk_bytes setup, stk_bytes packet);
/* 1: decoding can begin here, and every frame that is shown after this one is exact.  0: the
 * container calls it a keyframe, and the stream does not.  STK_START_OPEN: as 1, but frames after
 * it may drop references that were made before it (H.264). */
#define STK_START_OPEN 2
int stk_packet_is_start(stk_video_codec codec, stk_bytes setup, stk_bytes packet);

#endif

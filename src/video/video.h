/* SPDX-License-Identifier: Apache-2.0 */
/* video.h - what a row of frames asks of a decoder of videos, beside the seam of decoders. */
#ifndef STOKER_VIDEO_H
#define STOKER_VIDEO_H

#include "video/video_points.h"

/* 1: a decoder of videos, whose points are those of video_points.h. */
int stk_video_is(const stk_decoder *d);
/* The points that header() made of the bytes that it was given; they stay until its next call. */
stk_media_points stk_video_made(void *ctx);
/* The next field is another one, whose points are known: header() is not called for it. */
void stk_video_forget(void *ctx);
/* How many seconds of CPU time clips may take from now on; 0: by their packets. */
void stk_video_limit(void *ctx, double seconds);

#endif

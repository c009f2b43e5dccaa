/* SPDX-License-Identifier: Apache-2.0 */
/* video.h - functions of the decoder of videos beyond those of stk_decoder.  Rows of videos and
 * indexing call them. */
#ifndef STOKER_VIDEO_H
#define STOKER_VIDEO_H

#include "video/video_points.h"

/* 1: this is the decoder of videos, whose points are those of video_points.h. */
int stk_video_is(const stk_decoder *d);
/* The points that header() made of the bytes that it was given; valid until its next call. */
stk_media_points stk_video_made(void *ctx);
/* Call before another field whose points are known, so that header() is not called for it. */
void stk_video_forget(void *ctx);
/* Sets the most seconds of CPU time for a clip; 0: by its packets. */
void stk_video_limit(void *ctx, double seconds);

#endif

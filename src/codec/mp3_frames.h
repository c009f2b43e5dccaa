/* SPDX-License-Identifier: Apache-2.0 */
/* mp3_frames.h - the frames of an MPEG audio stream: where they are, and what its first one says of
 * the encoder's delay.  Needs no library. */
#ifndef STOKER_CODEC_MP3_FRAMES_H
#define STOKER_CODEC_MP3_FRAMES_H

#include <stoker/plugin.h>

#include "base/err.h"

typedef struct stk_mp3_head { /* of a frame */
    uint32_t version;         /* 1, 2, or 3: 2.5 */
    uint32_t layer, rate, channels;
    uint32_t samples, size; /* size: bytes, header included */
    uint32_t main;          /* bytes of it that carry sound */
} stk_mp3_head;

typedef struct stk_mp3_stream {
    stk_mp3_head first;
    uint64_t begin, end; /* bytes that hold frames */
    uint64_t delay, pad; /* samples at its start and end that were not in the recording */
    uint64_t said;       /* frames that its header promises; 0: nothing is said */
    uint64_t said_bytes; /* ... and bytes */
    uint64_t frames;     /* that there are */
    uint32_t least_main; /* of all of them */
} stk_mp3_stream;

typedef struct stk_mp3_walk {
    stk_bytes in;
    uint64_t base; /* of in.data in the field */
    uint64_t at;   /* byte of `in` */
    stk_mp3_head like, head;
} stk_mp3_walk;

/* 1: a frame's header. */
int stk_mp3_head_read(stk_mp3_head *h, const uint8_t *p, size_t len);
/* 1: such a stream begins here, or after an ID3 tag. */
int stk_mp3_probe(stk_bytes in);
/* The next frame: w->at is where it begins, w->head what it says; *skipped: bytes before it that
 * are none.  The caller adds w->head.size to w->at.  STK_END: there is none. */
int stk_mp3_next(stk_mp3_walk *w, uint64_t *skipped, stk_error *err);
/* All of a field: counts its frames, and tells each to `each` (NULL: none). */
int stk_mp3_scan(stk_mp3_stream *s, stk_bytes in,
                 void (*each)(void *cookie, uint64_t frame, uint64_t at), void *cookie,
                 stk_error *err);
/* The same by the first frame, where its count of bytes says that the field is as it was written:
 * then its count of frames is what a scan finds, or the field is damaged.  STK_END: it does not. */
int stk_mp3_by_head(stk_mp3_stream *s, const stk_media_reader *read, stk_error *err);
/* Samples of the recording. */
uint64_t stk_mp3_units(const stk_mp3_stream *s);
/* Frames before a wanted one that are decoded first, so that it comes out as in the whole. */
uint32_t stk_mp3_run_up(const stk_mp3_stream *s);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* mp3_frames.h - finds the frames of an MPEG audio stream, and reads what the first one says about
 * the encoder's delay.  The MP3 decoder calls it.  Needs no library. */
#ifndef STOKER_CODEC_MP3_FRAMES_H
#define STOKER_CODEC_MP3_FRAMES_H

#include <stoker/plugin.h>

#include "base/err.h"

typedef struct stk_mp3_head { /* the header of a frame */
    uint32_t version;         /* MPEG 1, 2, or 2.5, which is 3 here */
    uint32_t layer, rate, channels;
    uint32_t samples, size; /* size: bytes of the frame, header included */
    uint32_t main;          /* bytes of the frame that carry sound */
} stk_mp3_head;

typedef struct stk_mp3_stream {
    stk_mp3_head first;
    uint64_t begin, end; /* bytes that hold frames */
    uint64_t delay, pad; /* samples at its start and end that were not in the recording */
    uint64_t said;       /* number of frames by its header; 0: it does not say */
    uint64_t said_bytes; /* number of bytes by its header; 0: it does not say */
    uint64_t frames;     /* frames that were found */
    uint32_t least_main; /* smallest `main` of all frames */
} stk_mp3_stream;

typedef struct stk_mp3_walk {
    stk_bytes in;
    uint64_t base; /* offset of `in` in the field */
    uint64_t at;   /* offset in `in` at which the next frame is looked for */
    stk_mp3_head like, head;
} stk_mp3_walk;

/* 1: the bytes are a frame's header. */
int stk_mp3_head_read(stk_mp3_head *h, const uint8_t *p, size_t len);
/* 1: such a stream begins here, or after an ID3 tag. */
int stk_mp3_probe(stk_bytes in);
/* Finds the next frame: sets w->at to its offset, w->head, and *skipped to the bytes before it that
 * are no frame.  The caller adds w->head.size to w->at.  STK_END: there is none. */
int stk_mp3_next(stk_mp3_walk *w, uint64_t *skipped, stk_error *err);
/* Walks through a field: fills in *s, and calls each() for every frame (NULL: it does not). */
int stk_mp3_scan(stk_mp3_stream *s, stk_bytes in,
                 void (*each)(void *cookie, uint64_t frame, uint64_t at), void *cookie,
                 stk_error *err);
/* The same by the first frame alone.  It works if that frame says how many bytes and frames there
 * are, and the field has as many bytes.  STK_END: it does not. */
int stk_mp3_by_head(stk_mp3_stream *s, const stk_media_reader *read, stk_error *err);
/* Samples of the recording. */
uint64_t stk_mp3_units(const stk_mp3_stream *s);
/* How many frames before a wanted one must be decoded, too, so that its samples are the same as
 * when all frames are decoded. */
uint32_t stk_mp3_run_up(const stk_mp3_stream *s);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* sessions.h - decoders that stay where a window of a video ended, so that the window after it goes
 * on there and a frame is decoded once.
 *
 * A session is a decoder, the number of the packet that it takes next, and the frames that later
 * windows share with the last one.  The pool belongs to a loader whose order goes forward in each
 * video.  A worker takes the session that fits, and puts it back; no other has it meanwhile.  Where
 * none fits, a session begins at a keyframe, as every clip does.  Whatever is not plain (damage, a
 * keyframe that is none, no memory) ends the session, and the clip is decoded by itself: sessions
 * change how much is decoded, never what comes out.
 *
 * Frames are known by the numbers of their packets, as in video.c.  Thread: any. */
#ifndef STOKER_VIDEO_SESSIONS_H
#define STOKER_VIDEO_SESSIONS_H

#include "base/account.h"
#include "video/clip.h"

typedef struct stk_sessions stk_sessions;

typedef struct stk_session_job { /* one window */
    uint64_t key;                /* what the file is: stk_points_key() */
    const stk_media_points *points;
    const stk_media_ask *ask;
    double most;                   /* seconds of CPU time that it may take; 0: by its packets */
    uint32_t frames, stride, step; /* of all windows; they begin every `step` frames */
    const stk_media_part *part;    /* bytes that are here already */
    uint32_t n_parts;
    /* Reads more of the field; NULL: there is no more. */
    int (*read)(void *cookie, uint64_t at, size_t len, uint8_t *dst, stk_error *err);
    void *cookie;
    const stk_media_sink *sink;
    stk_scratch *scratch;
} stk_session_job;

typedef struct stk_sessions_stats {
    uint64_t windows, continued; /* all; those that went on where another one ended */
    uint64_t packets, frames;    /* packets that were decoded; frames that were given */
    uint32_t n;                  /* sessions that are open */
} stk_sessions_stats;

/* At most `most` sessions, and `limit` bytes of `whole` in all. */
int stk_sessions_open(stk_sessions **out, stk_account *whole, uint64_t limit, uint32_t most,
                      stk_error *err);
void stk_sessions_close(stk_sessions **p); /* NULL is fine; no session is taken */
/* Closes those that are not taken.  1: there were some. */
int stk_sessions_trim(stk_sessions *p);
void stk_sessions_count(stk_sessions *p, stk_sessions_stats *out);

/* The frames of a window, to job->sink.  STK_END: it has to be decoded by itself; some frames may
 * have been given.  Other errors are the sink's, or of memory. */
int stk_sessions_decode(stk_sessions *p, const stk_session_job *job, stk_error *err);

#endif

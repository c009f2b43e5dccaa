/* SPDX-License-Identifier: Apache-2.0 */
/* sessions.h - a pool of decoders that stay where a window of a video ended, so that the next
 * window continues there and every frame is decoded once.  Rows of videos call it
 * (row/row_video.c), in loaders whose order goes forward in each video.
 *
 * A session is a decoder, the number of the packet that comes next, and the frames that later
 * windows share with the last one.  A worker takes the session that fits, and puts it back; no
 * other worker uses it meanwhile.  If none fits, a session begins at a keyframe, as every clip
 * does.  Anything unusual (damage, a false keyframe, no memory) ends the session, and the clip is
 * decoded by itself.  Sessions change how much is decoded, never the result.
 *
 * Frames are identified by the numbers of their packets, as in video.c.  Thread: any. */
#ifndef STOKER_VIDEO_SESSIONS_H
#define STOKER_VIDEO_SESSIONS_H

#include "base/account.h"
#include "video/clip.h"

typedef struct stk_sessions stk_sessions;

typedef struct stk_session_job { /* one window */
    uint64_t key;                /* identity of the file: stk_points_key() */
    const stk_media_points *points;
    const stk_media_ask *ask;
    double most;                   /* most seconds of CPU time for it; 0: by its packets */
    uint32_t frames, stride, step; /* the same for all windows, which begin every `step` frames */
    const stk_media_part *part;    /* bytes that were read already */
    uint32_t n_parts;
    /* Reads more of the field; NULL: there is no more. */
    int (*read)(void *cookie, uint64_t at, size_t len, uint8_t *dst, stk_error *err);
    void *cookie;
    const stk_media_sink *sink;
    stk_scratch *scratch;
} stk_session_job;

typedef struct stk_sessions_stats {
    uint64_t windows, continued; /* all windows; those that continued another one */
    uint64_t packets, frames;    /* packets that were decoded; frames that were given */
    uint32_t n;                  /* open sessions */
} stk_sessions_stats;

/* A pool of at most `most` sessions, which take at most `limit` bytes of the account `whole`. */
int stk_sessions_open(stk_sessions **out, stk_account *whole, uint64_t limit, uint32_t most,
                      stk_error *err);
void stk_sessions_close(stk_sessions **p); /* NULL is fine; no session may be taken */
/* Closes sessions that are not taken.  1: there were some. */
int stk_sessions_trim(stk_sessions *p);
void stk_sessions_count(stk_sessions *p, stk_sessions_stats *out);

/* Decodes a window and gives its frames to job->sink.  STK_END: it has to be decoded by itself;
 * some frames may have been given already.  Other errors are those of the sink, or STK_ENOMEM. */
int stk_sessions_decode(stk_sessions *p, const stk_session_job *job, stk_error *err);

#endif

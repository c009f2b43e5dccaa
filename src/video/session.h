/* SPDX-License-Identifier: Apache-2.0 */
/* session.h - the state of one session of sessions.h.  Shared by the pool (sessions.c) and by the
 * code that decodes a window (session_run.c). */
#ifndef STOKER_VIDEO_SESSION_H
#define STOKER_VIDEO_SESSION_H

#include "video/sessions.h"
#include "video/vdec.h"

#define STK_SESSION_PENDING 64u
#define STK_SESSION_READ 65536u
#define STK_NO_PACKET UINT32_MAX

typedef struct stk_pending { /* a packet that was sent, whose frame has not come */
    uint32_t decode, show;
    int64_t time;
    uint8_t leading; /* true if shown before the keyframe at which the session began */
    uint8_t loose;   /* true if errors are concealed: they show when its frame comes */
} stk_pending;

typedef struct stk_shared_frame { /* a decoded frame that later windows need, too */
    uint32_t decode, show;
    int64_t time;
    stk_planes planes; /* in `data` */
    uint8_t *data;
    size_t size;
} stk_shared_frame;

typedef struct stk_session { /* Thread: one, the one that took it. */
    struct stk_session *next_idle;
    uint64_t key, used; /* used: number of its last put(), to find the oldest */
    uint64_t charged;   /* bytes taken from `account` */
    stk_account *account;
    const stk_vdec_ops *ops;
    void *stream;
    stk_video_codec codec; /* codec, size and setup that `stream` was opened with */
    uint32_t width, height;
    uint8_t *setup;
    size_t setup_len;
    uint32_t begun; /* decode number of the keyframe at which it began */
    uint32_t next;  /* decode number of the packet that comes next; STK_NO_PACKET: it must begin */
    int64_t key_time; /* when the keyframe at which it began is shown */
    int open;         /* true if that keyframe is an open one of H.264 */
    uint64_t after;   /* first frame of the window that comes after the last one */
    stk_pending pending[STK_SESSION_PENDING];
    uint32_t n_pending;
    stk_shared_frame *shared;
    uint32_t n_shared, cap_shared;
    uint8_t *buffer; /* bytes of the field that were read */
    uint64_t buffer_at;
    size_t buffer_len;
} stk_session;

/* session_run.c: one window. */
typedef struct stk_session_run {
    stk_session *s;
    const stk_session_job *job;
    const stk_video_head *h;
    const stk_clip_want *want; /* by decode number */
    uint32_t n;
    uint8_t *given; /* by index in ask->frame: 1 if the frame was given to the sink */
    uint32_t left;  /* frames that were not given yet */
    uint64_t packets;
    uint64_t until; /* CPU time of this thread at which the window is given up */
    unsigned mark;  /* position in the scratch memory before the current unit */
    stk_video_unit unit;
    int has_unit;
} stk_session_run;

/* 2: the window continues where the session is.  1: it is the window after the session's last, but
 * the session has to begin again.  0: it is of another file, or of another place in it. */
int stk_session_fits(const stk_session *s, const stk_session_job *job, const stk_clip_want *want,
                     uint32_t n);
int stk_session_decode(stk_session_run *r, stk_error *err);
void stk_session_forget(stk_session *s, uint64_t before); /* shared frames shown before this */
const stk_shared_frame *stk_session_shared(const stk_session *s, uint32_t decode);

#endif

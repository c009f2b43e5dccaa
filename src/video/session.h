/* SPDX-License-Identifier: Apache-2.0 */
/* session.h - one session of sessions.h, as its pool and its decoding see it. */
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
    uint8_t leading; /* shown before the keyframe at which the session began */
    uint8_t loose;   /* its errors are covered up: they are seen when its frame comes */
} stk_pending;

typedef struct stk_shared_frame { /* a frame that later windows have too */
    uint32_t decode, show;
    int64_t time;
    stk_planes planes; /* in `data` */
    uint8_t *data;
    size_t size;
} stk_shared_frame;

typedef struct stk_session { /* Thread: of who has taken it. */
    struct stk_session *next_idle;
    uint64_t key, used; /* used: counts up with each put */
    uint64_t charged;
    stk_account *account;
    const stk_vdec_ops *ops;
    void *stream;
    stk_video_codec codec; /* the stream's setup: ... */
    uint32_t width, height;
    uint8_t *setup;
    size_t setup_len;
    uint32_t begun;   /* decode number of the keyframe at which it began */
    uint32_t next;    /* ... of the packet that it takes next; STK_NO_PACKET: it has to begin */
    int64_t key_time; /* when that keyframe is shown */
    int open;         /* ... which is an open one of H.264 */
    uint64_t after;   /* first frame of the window that follows the last one */
    stk_pending pending[STK_SESSION_PENDING];
    uint32_t n_pending;
    stk_shared_frame *shared;
    uint32_t n_shared, cap_shared;
    uint8_t *buffer; /* of bytes that were read */
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
    uint8_t *given; /* by place in ask->frame */
    uint32_t left;
    uint64_t packets;
    uint64_t until; /* CPU time of this thread at which it is given up */
    unsigned mark;  /* of scratch, after which is the unit in view */
    stk_video_unit unit;
    int has_unit;
} stk_session_run;

/* 2: the window goes on where the session is.  1: it begins again, and is the one that follows the
 * session's last.  0: it is another file's, or that of another place in it. */
int stk_session_fits(const stk_session *s, const stk_session_job *job, const stk_clip_want *want,
                     uint32_t n);
int stk_session_decode(stk_session_run *r, stk_error *err);
void stk_session_forget(stk_session *s, uint64_t before); /* shared frames shown before this */
const stk_shared_frame *stk_session_shared(const stk_session *s, uint32_t decode);

#endif

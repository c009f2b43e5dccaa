/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_clips.h - clips of videos that the GPU decodes: a queue, and threads that have NVDEC decode
 * each clip and the kernels finish its frames.
 *
 * A worker cuts a clip's packets and leaves them here; the row's records say that the GPU has made
 * it, and the batch waits for its clips before it is sent.  What was made is then copied into the
 * batch's output.  A clip that could not be made is a row that the CPU makes again.
 *
 * Sessions are one table: a thread takes one that fits the clip, else opens one, and puts it
 * back.  They are opened one after the other, when there are clips for them.
 *
 * Frames of which the GPU could not make several clips in a row are left to the workers from then
 * on: a clip that comes back is made again where the consumer waits for it. */
#ifndef STOKER_GPU_CLIPS_H
#define STOKER_GPU_CLIPS_H

#include <stoker/transform.h>

#include "base/account.h"
#include "base/log.h"
#include "base/ticket.h"
#include "batch/stack.h"
#include "gpu/clip_cache.h"
#include "gpu/gpu_pool.h"
#include "gpu/nvdec.h"
#include "gpu/pic.h"

typedef struct stk_gpu_clips stk_gpu_clips; /* Thread: any. */

typedef enum stk_gpu_clip_state {
    STK_CLIP_OPEN,
    STK_CLIP_QUEUED,
    STK_CLIP_RUNS,
    STK_CLIP_DONE
} stk_gpu_clip_state;

typedef struct stk_gpu_clip { /* what the worker says of a clip; all pointers into `memory` */
    stk_video_codec codec;
    stk_frame_format format;
    stk_pic_yuv colors;
    const stk_spec *spec; /* the output's; lives as long as the batch */
    stk_nvdec_packet *packet;
    uint32_t n_packets, n_want;
    const uint8_t **record; /* of each picture of the row */
    uint32_t *want;         /* ... and the frame it shows */
    uint32_t n_pictures;
    size_t picture_bytes; /* that one takes in the output */
    stk_cached_clip keep; /* its frames may stay on the GPU */
    stk_clip_place place; /* ... where they are, or will be; nowhere: they are not cached */
    int cached;           /* 1: they are there */
    uint8_t *memory;
    size_t room;
    /* what becomes of it */
    stk_buffer *made;         /* the pictures, side by side, when it is done */
    int rc;                   /* ... or what went wrong */
    stk_gpu_clip_state state; /* lock */
    stk_gpu_clips *owner;
    stk_batch *batch;             /* lock */
    struct stk_gpu_clip *next;    /* lock: in the queue, or among those that are free */
    struct stk_gpu_clip *sibling; /* lock: of the same batch */
    stk_picture *picture;         /* of a launch */
    stk_pic_yuv *yuv;
} stk_gpu_clip;

typedef struct stk_gpu_clips_options {
    const stk_cuda *cuda;
    int gpu;
    stk_gpu_pool *pool;
    const stk_log *log;
    uint64_t limit;           /* bytes of the GPU that sessions, and work on frames, may take */
    uint32_t blocks;          /* of threads at once; 0: no limit */
    stk_account *host;        /* of clips that wait, an eighth of it; NULL: no limit */
    _Atomic uint64_t *rooms;  /* bytes of the GPU in work on frames are added here */
    stk_picture_cache *arena; /* for frames that are cached; NULL: none are */
    /* A batch that was held has all its clips.  On a thread of ours. */
    void (*ready)(void *cookie, stk_batch *b, stk_ticket *ticket);
    void *cookie;
} stk_gpu_clips_options;

int stk_gpu_clips_open(stk_gpu_clips **out, const stk_gpu_clips_options *o, stk_error *err);
/* No batch has clips any more. */
void stk_gpu_clips_close(stk_gpu_clips **c);

/* 1: the engines decode such frames, and did so far. */
int stk_gpu_clips_takes(stk_gpu_clips *c, stk_video_codec codec, const stk_frame_format *f);
/* 1: its frames are on the GPU: no engine is needed, nor the packets. */
int stk_gpu_clips_cached(stk_gpu_clips *c, const stk_cached_clip *keep);
/* 1: they have enough to do for now. */
int stk_gpu_clips_busy(stk_gpu_clips *c);
/* 1: no session is open, and no trial is on its way. */
int stk_gpu_clips_cold(stk_gpu_clips *c);

typedef struct stk_gpu_clips_figures {
    uint64_t sessions, sessions_peak; /* bytes of the GPU */
    uint64_t queue_ns;                /* in which some clip waited for an engine */
    uint64_t hits, misses;            /* clips whose frames were cached, or might be */
} stk_gpu_clips_figures;
void stk_gpu_clips_count(stk_gpu_clips *c, stk_gpu_clips_figures *out);

/* An empty clip with `room` bytes of memory; NULL: there are none. */
stk_gpu_clip *stk_gpu_clip_new(stk_gpu_clips *c, size_t room);
/* It is filled: it is made for that batch.  NULL: a trial, of which nothing is used. */
int stk_gpu_clip_submit(stk_gpu_clip *clip, stk_batch *b, stk_error *err);
/* 1: clips of the batch are not done; ready() follows.  0: all are. */
int stk_gpu_clips_hold(stk_gpu_clips *c, stk_batch *b, stk_ticket *ticket);
/* The batch needs its clips no longer. */
void stk_gpu_clips_drop(stk_batch *b);

#endif

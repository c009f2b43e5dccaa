/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_clips.h - decodes clips of videos on a GPU: a queue of clips, and threads that run NVDEC for
 * each clip and then the kernels that finish its frames.  device.c owns it; rows (row_gpu_video.c)
 * submit clips.
 *
 * A worker finds the packets of a clip and submits them.  The row's records say that the GPU makes
 * it, and the batch waits for its clips before it is sent.  The finished pictures are then copied
 * into the batch's output.  If a clip fails, the CPU makes its row again.
 *
 * All threads share a table of NVDEC sessions.  A thread takes a session that fits the clip, or
 * opens one, and puts it back.  Sessions are opened one after the other, when there are clips for
 * them.
 *
 * After several failures in a row, workers decode all clips of that kind (clip_kinds.h): a clip
 * that fails here is made again while the consumer waits for it. */
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

typedef struct stk_gpu_clip { /* one clip; its arrays are in `memory` */
    /* filled in by the worker */
    stk_video_codec codec;
    stk_frame_format format;
    stk_pic_yuv colors;
    const stk_spec *spec; /* the output's; lives as long as the batch */
    stk_nvdec_packet *packet;
    uint32_t n_packets, n_want; /* packets; frames that are wanted */
    const uint8_t **record;     /* by picture of the row: its record */
    uint32_t *want;             /* by picture: the frame that it shows */
    uint32_t n_pictures;
    size_t picture_bytes; /* bytes of a picture in the output */
    stk_cached_clip keep; /* identifies its frames in the cache on the GPU */
    /* set by submit() and the threads */
    stk_clip_place place; /* where its frames are cached, or will be; nowhere: they are not */
    int cached;           /* 1: its frames are in the cache already */
    uint8_t *memory;
    size_t room;              /* bytes of `memory` */
    stk_buffer *made;         /* the finished pictures, one after the other; NULL: it failed */
    int rc;                   /* error of a clip that failed */
    stk_gpu_clip_state state; /* lock */
    stk_gpu_clips *owner;
    stk_batch *batch;             /* lock: NULL: a trial */
    struct stk_gpu_clip *next;    /* lock: next in the queue, or in the list of free clips */
    struct stk_gpu_clip *sibling; /* lock: next clip of the same batch */
    stk_picture *picture;         /* arguments of a launch of kernels; so is `yuv` */
    stk_pic_yuv *yuv;
} stk_gpu_clip;

typedef struct stk_gpu_clips_options {
    const stk_cuda *cuda;
    int gpu;
    stk_gpu_pool *pool;
    const stk_log *log;
    uint64_t limit;           /* most bytes of GPU memory for sessions and work on frames */
    uint32_t blocks;          /* most blocks of threads at once; 0: no limit */
    stk_account *host;        /* clips that wait take at most an eighth of it; NULL: no limit */
    _Atomic uint64_t *rooms;  /* bytes of GPU memory for work on frames are added here */
    stk_picture_cache *arena; /* memory for cached frames; NULL: none are cached */
    /* Called on one of these threads when all clips of a batch that hold() was called for are
     * done. */
    void (*ready)(void *cookie, stk_batch *b, stk_ticket *ticket);
    void *cookie;
} stk_gpu_clips_options;

int stk_gpu_clips_open(stk_gpu_clips **out, const stk_gpu_clips_options *o, stk_error *err);
/* Call when no batch has clips any more. */
void stk_gpu_clips_close(stk_gpu_clips **c);

/* 1: NVDEC decodes such frames, there is memory for a session, and they are not given up. */
int stk_gpu_clips_takes(stk_gpu_clips *c, stk_video_codec codec, const stk_frame_format *f);
/* 1: the clip's frames are cached on the GPU, so neither NVDEC nor the packets are needed. */
int stk_gpu_clips_cached(stk_gpu_clips *c, const stk_cached_clip *keep);
/* 1: no session is open, or more clips wait than there are sessions: a worker may decode. */
int stk_gpu_clips_busy(stk_gpu_clips *c);
/* 1: no session is open and none is being tried, so a trial should be submitted. */
int stk_gpu_clips_cold(stk_gpu_clips *c);

typedef struct stk_gpu_clips_figures {
    uint64_t sessions, sessions_peak; /* bytes of GPU memory in sessions: now, and at most */
    uint64_t queue_ns;                /* time in which some clip waited for a session */
    uint64_t hits, misses;            /* clips that may be cached: found, and not found */
} stk_gpu_clips_figures;
void stk_gpu_clips_count(stk_gpu_clips *c, stk_gpu_clips_figures *out);

/* An empty clip with `room` bytes of memory; NULL: there is no memory. */
stk_gpu_clip *stk_gpu_clip_new(stk_gpu_clips *c, size_t room);
/* Queues a clip that is filled in, for that batch; takes the clip, on failure too.  b NULL: a
 * trial, which only opens the first session. */
int stk_gpu_clip_submit(stk_gpu_clip *clip, stk_batch *b, stk_error *err);
/* 1: some clips of the batch are not done, and ready() is called later.  0: all are done. */
int stk_gpu_clips_hold(stk_gpu_clips *c, stk_batch *b, stk_ticket *ticket);
/* Releases the clips of a batch. */
void stk_gpu_clips_drop(stk_batch *b);

#endif

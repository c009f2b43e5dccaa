/* SPDX-License-Identifier: Apache-2.0 */
/* row_clip.h - a row of frames while it is made: what row_video.c finds out of a clip before it is
 * decoded, for itself and for row_gpu_video.c, which leaves the rest to a GPU. */
#ifndef STOKER_ROW_CLIP_H
#define STOKER_ROW_CLIP_H

#include "row/row_points.h"
#include "video/clip_codec.h"
#include "video/video.h"

typedef struct stk_row_clip {
    stk_row *x;
    const stk_clip_how *how;
    const stk_decoder *decoder;
    void *ctx;
    stk_media_points points;
    stk_row_points more; /* of them, where they are read in pieces */
    stk_video_head h;
    stk_image_info filed, upright;
    unsigned turn;
    uint64_t *frame;  /* of the clip, in its order */
    uint64_t *wanted; /* the same, ascending, each once */
    uint32_t n_wanted;
    const stk_spec *spec; /* what each picture becomes */
    stk_draws *d;         /* of each view */
    stk_rect need;
    uint8_t *dst;
    size_t step, bytes; /* from picture to picture there; of a picture */
    uint8_t *one;       /* a frame whose channels are put apart; or NULL */
    uint64_t ticks;
    struct stk_row_frames *frames; /* numbered pictures; NULL: a video */
    int untimed;                   /* ... of which no rate is known */
    int later;                     /* its packets are read now; job.n_parts 0: they were not */
    stk_media_part part[STK_MEDIA_RANGES]; /* what was read */
    stk_media_ask ask;
    stk_media_job job; /* all but the sink */
} stk_row_clip;

typedef int (*stk_row_clip_fn)(void *clip, uint32_t i, int64_t time_us, const stk_planes *p,
                               stk_error *err);

void stk_row_clip_know(stk_row *x); /* a know() */
/* All of it that is known before frames are decoded. */
int stk_row_clip_open(stk_row_clip *c, stk_row *x, stk_error *err);
/* Frames go to c->dst, as c->spec says. */
int stk_row_clip_make(stk_row_clip *c, stk_error *err);
/* A wanted frame's number and time, into the batch. */
void stk_row_clip_note(const stk_row_clip *c, uint32_t wanted, int64_t time_us);
/* One of them. */
int stk_row_clip_frame(void *c, uint32_t i, int64_t time_us, const stk_planes *p, stk_error *err);
/* ... or as planes to frame(), whose cookie is c; what it takes is not the decoder's time. */
int stk_row_clip_decode(stk_row_clip *c, stk_row_clip_fn frame, stk_error *err);

/* Parts of that, for row_frames.c.  What a clip is before anything is known of it; ... */
void stk_row_clip_begin(stk_row_clip *c, stk_row *x);
/* which frames it has, by c->points; what is seen of each, by the size that c->h says. */
int stk_row_clip_pick(stk_row_clip *c, stk_scratch *scratch, stk_error *err);
int stk_row_clip_look(stk_row_clip *c, stk_error *err);
/* When they are shown, for the sound that has the clip's span. */
int stk_row_clip_note_span(const stk_row_clip *c, stk_error *err);
/* 1: parts of the field may be read; the clip's time is known before its row is made. */
int stk_row_clip_in_parts(const stk_row *x);
int stk_row_clip_knows_time(stk_row *x);

/* row_frames.c: 1: the field is one of numbered pictures, which together are the clip; the same
 * steps for them. */
int stk_row_frames_are(const stk_row *x);
void stk_row_frames_know(stk_row *x);
int stk_row_frames_open(stk_row_clip *c, stk_error *err);
int stk_row_frames_decode(stk_row_clip *c, stk_row_clip_fn frame, stk_error *err);

/* row_gpu.c: what is made for records of x->output's row.  Room for `size` bytes of them; what is
 * noted of picture `view` of the row, whose samples output `lead` decodes if they are shared; and
 * the ops as a program: STK_ENOTSUP where device code has not all of them. */
struct stk_pic_program;
void *stk_row_gpu_place(stk_row *x, size_t size);
void stk_row_gpu_record(const stk_row *x, uint32_t view, uint32_t lead, const void *record);
/* The GPU makes the row's pictures, of which records say nothing. */
void stk_row_gpu_note_clip(const stk_row *x, struct stk_gpu_clip *clip);
int stk_row_gpu_program(const stk_row *x, const stk_draws *d, struct stk_pic_program *out,
                        stk_error *err);

#endif

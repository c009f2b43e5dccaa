/* SPDX-License-Identifier: Apache-2.0 */
/* row_clip.h - a row of video frames while it is made: which frames are shown, what is seen of
 * each, and where their bytes are.  row_video.c and row_frames.c fill it in; row_gpu_video.c reads
 * it to leave decoding to a GPU.  It lives on a worker's stack during one make(). */
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
    stk_row_points more; /* of points that are read in pieces: the piece that was read last */
    stk_video_head h;
    stk_image_info filed, upright; /* size of a frame as it is stored, and after its turn */
    unsigned turn;                 /* EXIF orientation of the frames */
    uint64_t *frame;               /* frame numbers of the clip, in its order */
    uint64_t *wanted;              /* the same numbers, ascending, each once */
    uint32_t n_wanted;
    const stk_spec *spec; /* type, layout and color of a picture of the row */
    stk_draws *d;         /* per view: what was drawn */
    stk_rect need;        /* part of a frame that the views see */
    uint8_t *dst;         /* where the row goes */
    size_t step, bytes;   /* bytes from one picture of the row to the next; bytes of a picture */
    /* memory for one picture, before its channels go to separate planes of the row; NULL: pictures
     * go straight into the row */
    uint8_t *one;
    uint64_t ticks;                /* time that frames took after they were decoded */
    struct stk_row_frames *frames; /* the clip is numbered pictures; NULL: a video */
    int untimed;                   /* true if numbered pictures have no rate, so frames no times */
    int later; /* true if packets are read in make(); job.n_parts 0: they are not read yet */
    stk_media_part part[STK_MEDIA_RANGES]; /* bytes of the field that were read */
    stk_media_ask ask;
    stk_media_job job; /* the decoder's job; its sink is set when it runs */
} stk_row_clip;

/* Receives wanted frame i, as planes. */
typedef int (*stk_row_clip_fn)(void *clip, uint32_t i, int64_t time_us, const stk_planes *p,
                               stk_error *err);

void stk_row_clip_know(stk_row *x); /* a know() */
/* Fills in all that is known of the clip before frames are decoded. */
int stk_row_clip_open(stk_row_clip *c, stk_row *x, stk_error *err);
/* Decodes the frames and stores them at c->dst, as c->spec says. */
int stk_row_clip_make(stk_row_clip *c, stk_error *err);
/* Stores the number and time of a wanted frame in the batch. */
void stk_row_clip_note(const stk_row_clip *c, uint32_t wanted, int64_t time_us);
/* The stk_row_clip_fn of make(): stores one frame. */
int stk_row_clip_frame(void *c, uint32_t i, int64_t time_us, const stk_planes *p, stk_error *err);
/* Decodes the frames and calls frame() with c for each.  Time that frame() adds to c->ticks is not
 * counted as decoding. */
int stk_row_clip_decode(stk_row_clip *c, stk_row_clip_fn frame, stk_error *err);

/* Steps of know() and open(), which row_frames.c calls, too.  begin() sets up a clip of which
 * nothing is known.  pick() draws its frames; c->points is set.  look() draws what is seen of each
 * frame; the size in c->h is set. */
void stk_row_clip_begin(stk_row_clip *c, stk_row *x);
int stk_row_clip_pick(stk_row_clip *c, stk_scratch *scratch, stk_error *err);
int stk_row_clip_look(stk_row_clip *c, stk_error *err);
/* Stores when the clip's frames are shown, for sound that has its span. */
int stk_row_clip_note_span(const stk_row_clip *c, stk_error *err);
/* 1: parts of the field may be read. */
int stk_row_clip_in_parts(const stk_row *x);
/* 1: the clip's time is known before its row is made. */
int stk_row_clip_knows_time(stk_row *x);

/* row_frames.c: 1: the field is one of numbered pictures, which together are the clip.  The other
 * functions are the steps know(), open() and decode() for such a clip. */
int stk_row_frames_are(const stk_row *x);
void stk_row_frames_know(stk_row *x);
int stk_row_frames_open(stk_row_clip *c, stk_error *err);
int stk_row_frames_decode(stk_row_clip *c, stk_row_clip_fn frame, stk_error *err);

/* row_gpu.c: room for `size` bytes of records in x->output's row; NULL: no memory. */
struct stk_pic_program;
void *stk_row_gpu_place(stk_row *x, size_t size);
/* Notes what the record of picture `view` of the row adds to a launch.  lead: the output that
 * decodes its samples, if they are shared. */
void stk_row_gpu_record(const stk_row *x, uint32_t view, uint32_t lead, const void *record);
/* Notes that the GPU makes the row's pictures from a clip. */
void stk_row_gpu_note_clip(const stk_row *x, struct stk_gpu_clip *clip);
/* Writes what was drawn as a program.  STK_ENOTSUP: device code lacks one of the ops, or an area
 * has more than max_pixels. */
int stk_row_gpu_program(const stk_row *x, const stk_draws *d, struct stk_pic_program *out,
                        stk_error *err);

#endif

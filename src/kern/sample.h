/* SPDX-License-Identifier: Apache-2.0 */
/* sample.h - the one sampling pass: makes one row of a batch from a view of decoded pixels.  Rows,
 * tiles and transforms call it.
 *
 * As Pillow's crop().resize() with the view's filter: first across, rounded to u8, then down,
 * rounded to u8, then color, type and layout.  Within 2 of 255 of Pillow's result: its weights have
 * 22 bits, ours 14 and more.  Pillow 13 goes down first where the height shrinks much more than the
 * width, which differs by a few more where bicubic overshoots.  With STK_FILTER_PILLOW or
 * STK_FILTER_TORCH the result is that of Pillow 13, or of torch's resize of bytes, bit for bit. */
#ifndef STOKER_SAMPLE_H
#define STOKER_SAMPLE_H

#include "kern/kern.h"
#include "kern/pixels.h"
#include "kern/taps_core.h"

typedef struct stk_sample_job {
    const stk_view *view;
    const stk_pixels *pixels; /* covers what stk_sample_need() said */
    stk_dtype dtype;          /* u8, f16, bf16, f32 */
    stk_layout layout;        /* CHW: planes; HWC and CHANNELS_LAST: interleaved, the same memory */
    float mul[3], add[3];     /* u8 with mul 1 and add 0 are plain copies */
    void *dst;                /* 3 * vis_h * vis_w elements */
    int own;        /* the pixels may be changed; stk_segments_run() then works on them in place */
    uint32_t *tile; /* not NULL: RGBX goes here, and type, color, layout and dst are not read */
} stk_sample_job;

/* Both axes of a view. */
void stk_sample_axes(const stk_view *v, stk_axis *x, stk_axis *y);

/* Is a view to be resized down before across? */
int stk_sample_down_first(const stk_view *view);

/* The source pixels that the view touches; an empty rectangle when it sees none. */
void stk_sample_need(const stk_view *view, stk_rect *need);

/* Returns 0 or STK_ENOMEM (scratch).  Pixels that are made row by row (stk_pixel_rows) are for
 * views without a border. */
int stk_sample_run(const stk_kern *kern, const stk_sample_job *job, stk_scratch *scratch,
                   stk_error *err);

/* The same of pixels that come in bands, from the top: what a decoder hands over
 * (stk_decode_request).  job->pixels is not read; all memory is taken here, of `scratch`.  Not of a
 * view with a border, whose rows are not seen in order. */
typedef struct stk_resampler stk_resampler; /* Thread: one. */
int stk_sample_open(stk_resampler **out, const stk_kern *kern, const stk_sample_job *job,
                    stk_scratch *scratch, stk_error *err);
/* Makes what rows it can; a band that begins at the top begins again. */
void stk_sample_band(stk_resampler *s, const stk_pixels *band);

#endif

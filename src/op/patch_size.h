/* SPDX-License-Identifier: Apache-2.0 */
/* patch_size.h - the size that a picture gets so that it is cut into patches: the formulas of timm,
 * SigLIP2, Qwen and Kimi, each as its authors compute it, in doubles, and the numbers of their
 * models by name.
 *
 * Planning asks for sizes of all pictures without decoding them: nothing here looks at pixels. */
#ifndef STOKER_PATCH_SIZE_H
#define STOKER_PATCH_SIZE_H

#include "base/rng.h"
#include "op/spec.h"

typedef enum stk_patch_rule {
    STK_PATCH_COUNT = 1, /* as large as max_patches allow (timm, SigLIP2) */
    STK_PATCH_PIXELS,    /* within min_pixels and max_pixels (Qwen's smart_resize) */
    STK_PATCH_PAD        /* made smaller only, then padded (Kimi's navit_resize) */
} stk_patch_rule;

typedef struct stk_patch_sizing {
    stk_patch_rule rule;
    uint32_t patch, merge;           /* sides are multiples of patch * merge */
    uint64_t max_patches;            /* COUNT, PAD */
    uint64_t min_pixels, max_pixels; /* PIXELS */
    uint32_t max_side;               /* PAD: patches of a side */
    double max_ratio;                /* COUNT: a picture gets at most so much larger; 0: any */
} stk_patch_sizing;

typedef struct stk_patch_size {
    uint32_t w, h;               /* resized to this ... */
    uint32_t canvas_w, canvas_h; /* ... and padded on the right and at the bottom to this */
} stk_patch_size;

/* NULL, or a static reason why a picture of w x h pixels has no size by this rule. */
const char *stk_patch_size_of(const stk_patch_sizing *s, uint32_t w, uint32_t h,
                              stk_patch_size *out);

/* The most patches that a picture may get. */
uint64_t stk_patch_most(const stk_patch_sizing *s);

/* What is left of a picture of size[0] x size[1] pixels that has more than `most` blocks of `unit`
 * pixels a side: whole rows of blocks from the top, or the left part of the first row.  A picture
 * that is not whole blocks stays as it is. */
void stk_patch_cut(uint32_t unit, uint32_t most, uint32_t size[2]);

typedef struct stk_patch_model { /* what a model wants, by name */
    const char *name;
    stk_patch_sizing sizing;
    stk_filter_kind filter;
    uint8_t exact; /* STK_FILTER_PILLOW or STK_FILTER_TORCH: whose pixels its own code has */
    /* of patches(): */
    int blocks; /* in blocks of merge x merge */
    int first;  /* channels first */
    uint32_t frames;
} stk_patch_model;

/* By name; NULL: none.  The list for errors: STK_PATCH_MODELS. */
const stk_patch_model *stk_patch_model_named(const char *name);
#define STK_PATCH_MODELS "naflex, siglip2, qwen2_vl, qwen3_vl or kimi"

/* Arguments patch (or the name of a model), merge, max_patches ... of an op.  *model: NULL, or the
 * one that was named. */
int stk_patch_sizing_plan(const stk_args *args, const char *op, stk_patch_sizing *out,
                          const stk_patch_model **model, stk_error *err);
/* Arguments `interpolation` and `exact`: what is given, else the model's, else bicubic and not
 * exact. */
int stk_patch_filter(const stk_args *args, const char *op, const stk_patch_model *model,
                     uint8_t *filter, stk_error *err);
/* Argument `exact` alone, of a filter that is there. */
int stk_patch_exact(const stk_args *args, const char *op, const stk_patch_model *model,
                    uint8_t *filter, stk_error *err);
#define STK_PATCH_EXACT                                                                            \
    STK_ARG_EXACT("the pixels are those of pillow or torchvision, to the bit; the model's")
/* Argument `patch`: a number, or the name of a model. */
int stk_patch_arg(const stk_args *args, const char *op, uint32_t *patch,
                  const stk_patch_model **model, stk_error *err);

/* The state of an op: with the numbers of the address in place of its own, if it is one that
 * sizes patches and the address has some.  It is then in `room`. */
#define STK_PATCH_STATE 32
const void *stk_patch_limited(const stk_op *op, const void *state, const stk_address *at,
                              uint64_t room[STK_PATCH_STATE]);

/* kohya's buckets. */
#define STK_MAX_BUCKETS 512u
typedef struct stk_bucket_sizes {
    uint32_t n;
    uint32_t w[STK_MAX_BUCKETS], h[STK_MAX_BUCKETS];
} stk_bucket_sizes;
/* Of `area` pixels about, sides from `least` to `most`, multiples of `step`. */
void stk_bucket_sizes_make(stk_bucket_sizes *b, uint64_t area, uint32_t step, uint32_t least,
                           uint32_t most);
/* kohya's no_upscale: a picture of at most `area` pixels stays as it is, a larger one gets about
 * that area; either is then cut to whole steps. */
typedef struct stk_bucket_size {
    uint64_t w, h;         /* resized to this ... */
    uint64_t cut_w, cut_h; /* ... and cut to this; 0: it is smaller than a step */
} stk_bucket_size;
void stk_bucket_no_upscale(uint64_t area, uint32_t step, uint32_t w, uint32_t h,
                           stk_bucket_size *out);
/* The bucket of a picture, and the size that covers it. */
uint32_t stk_bucket_of(const stk_bucket_sizes *b, uint32_t w, uint32_t h, uint64_t *res_w,
                       uint64_t *res_h);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* patch_size.h - computes the size to which a picture is resized before it is cut into patches, by
 * the formulas of timm, SigLIP2, Qwen and Kimi, each as its authors compute it, in doubles.  It
 * also has the numbers of their models by name, and kohya's buckets.
 *
 * Ops call it for one picture, and planning for all pictures without decoding them: nothing here
 * looks at pixels. */
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
    uint32_t max_side;               /* PAD: most patches on a side */
    double max_ratio;                /* COUNT: largest factor by which a picture grows; 0: any */
} stk_patch_sizing;

typedef struct stk_patch_size {
    uint32_t w, h;               /* resized to this ... */
    uint32_t canvas_w, canvas_h; /* ... and padded on the right and at the bottom to this */
} stk_patch_size;

/* Sets *out for a picture of w x h pixels.  Returns NULL, or static text that says why the rule
 * gives no size. */
const char *stk_patch_size_of(const stk_patch_sizing *s, uint32_t w, uint32_t h,
                              stk_patch_size *out);

/* The most patches that a picture may get. */
uint64_t stk_patch_most(const stk_patch_sizing *s);

/* Cuts size[0] x size[1] pixels down to at most `most` blocks of unit x unit pixels.  What stays is
 * whole rows of blocks from the top, or the left part of the first row.  A picture that is not a
 * whole number of blocks stays as it is. */
void stk_patch_cut(uint32_t unit, uint32_t most, uint32_t size[2]);

typedef struct stk_patch_model { /* the arguments that a model's name stands for */
    const char *name;
    stk_patch_sizing sizing;
    stk_filter_kind filter;
    /* STK_FILTER_PILLOW or STK_FILTER_TORCH: the library whose pixels the model's own code has */
    uint8_t exact;
    /* arguments of patches() */
    int blocks;      /* patches are ordered by blocks of merge x merge */
    int first;       /* channels come first */
    uint32_t frames; /* 2: a picture is two equal frames; 1: it is one */
} stk_patch_model;

/* The model of this name; NULL: there is none.  STK_PATCH_MODELS lists the names, for errors. */
const stk_patch_model *stk_patch_model_named(const char *name);
#define STK_PATCH_MODELS "naflex, siglip2, qwen2_vl, qwen3_vl or kimi"

/* Reads the arguments patch (or the name of a model), merge, max_patches ... of an op.  Sets *model
 * to the model that was named, or NULL. */
int stk_patch_sizing_plan(const stk_args *args, const char *op, stk_patch_sizing *out,
                          const stk_patch_model **model, stk_error *err);
/* Reads the arguments `interpolation` and `exact`; what is not given is taken from the model, else
 * bicubic and not exact. */
int stk_patch_filter(const stk_args *args, const char *op, const stk_patch_model *model,
                     uint8_t *filter, stk_error *err);
/* Reads the argument `exact` alone and adds it to *filter. */
int stk_patch_exact(const stk_args *args, const char *op, const stk_patch_model *model,
                    uint8_t *filter, stk_error *err);
#define STK_PATCH_EXACT                                                                            \
    STK_ARG_EXACT("the pixels are those of pillow or torchvision, to the bit; the model's")
/* Reads the argument `patch`: a number, or the name of a model. */
int stk_patch_arg(const stk_args *args, const char *op, uint32_t *patch,
                  const stk_patch_model **model, stk_error *err);

/* The state of an op to draw with.  If the op sizes patches and the address has numbers for that
 * (stk_patch_limit of a batch), they replace the op's own in a copy of the state in `room`. */
#define STK_PATCH_STATE 32
const void *stk_patch_limited(const stk_op *op, const void *state, const stk_address *at,
                              uint64_t room[STK_PATCH_STATE]);

/* ---- kohya's buckets: a list of sizes of about the same area ---- */

#define STK_MAX_BUCKETS 512u
typedef struct stk_bucket_sizes {
    uint32_t n;
    uint32_t w[STK_MAX_BUCKETS], h[STK_MAX_BUCKETS];
} stk_bucket_sizes;
/* Lists sizes of about `area` pixels, with sides from `least` to `most`, in multiples of `step`. */
void stk_bucket_sizes_make(stk_bucket_sizes *b, uint64_t area, uint32_t step, uint32_t least,
                           uint32_t most);
typedef struct stk_bucket_size {
    uint64_t w, h;         /* the picture is resized to this */
    uint64_t cut_w, cut_h; /* then it is cut to this; 0: it is smaller than a step */
} stk_bucket_size;

/* kohya's no_upscale: a picture of at most `area` pixels keeps its size, a larger one gets about
 * that area.  Both are then cut to multiples of `step`. */
void stk_bucket_no_upscale(uint64_t area, uint32_t step, uint32_t w, uint32_t h,
                           stk_bucket_size *out);
/* Returns the number of a picture's bucket.  Sets *res_w x *res_h to the size that covers it. */
uint32_t stk_bucket_of(const stk_bucket_sizes *b, uint32_t w, uint32_t h, uint64_t *res_w,
                       uint64_t *res_h);

#endif

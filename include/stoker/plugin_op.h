/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_op.h - the table of an op: what a step of a chain does to a picture or to numbers.  Part
 * of plugin.h.
 *
 * UNSTABLE, as plugin.h is. */
#ifndef STOKER_PLUGIN_H
#include <stoker/plugin.h> /* which includes this where its own types are known */
#elif !defined(STOKER_PLUGIN_OP_H)
#define STOKER_PLUGIN_OP_H

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stk_rng { /* Philox4x32-10; its address is (seed, position, epoch, output, step) */
    uint32_t key[2], ctr[4], out[4];
    uint32_t used;  /* of `out` */
    uint32_t block; /* the next one, of four numbers */
    uint32_t base, narrow, output, view;
    uint64_t path;
} stk_rng;
STK_API uint32_t stk_rng_u32(stk_rng *rng);               /* the next 32 bits */
STK_API double stk_rng_unit(stk_rng *rng);                /* [0, 1), 32 bits */
STK_API uint32_t stk_rng_below(stk_rng *rng, uint32_t n); /* [0, n), n >= 1 */
/* From here on 2^34 numbers that can be computed one block at a time, each alone: for noise, one
 * block per pixel.  The next number is the first of block rng->block. */
STK_API void stk_rng_widen(stk_rng *rng);

/* How a resize weighs pixels.  Added to it: SHARP: the filter is not stretched when the picture
 * shrinks (antialias=false).  PILLOW, TORCH: the pixels are, to the bit, those of Pillow 13, or of
 * torch's antialiased resize of bytes. */
typedef enum stk_filter_kind {
    STK_BILINEAR,
    STK_NEAREST,
    STK_BICUBIC,
    STK_LANCZOS
} stk_filter_kind;
#define STK_FILTER_SHARP 8u
#define STK_FILTER_PILLOW 16u
#define STK_FILTER_TORCH 32u
#define STK_FILTER_KIND 7u /* the bits of a stk_filter_kind */
/* What is outside the picture: one color, its edge, or its mirror image without or with the
 * edge. */
typedef enum stk_border {
    STK_BORDER_FILL,
    STK_BORDER_EDGE,
    STK_BORDER_REFLECT,
    STK_BORDER_SYMMETRIC
} stk_border;

/* Geometry of one sample, axis-aligned: the picture is cut to `clip` (filter taps stop there),
 * that is resized to res_w x res_h, of which the window `vis` is output (outside the resized
 * picture it is as `border` and `fill` say), then mirrored. */
typedef struct stk_view {
    uint32_t src_w, src_h;
    stk_rect clip;
    uint32_t res_w, res_h;
    int32_t vis_x, vis_y;
    uint32_t vis_w, vis_h; /* the canvas that the next op sees */
    uint8_t flip_x, flip_y;
    uint8_t resized;
    uint8_t filter;  /* stk_filter_kind, perhaps with a STK_FILTER_* */
    uint8_t border;  /* stk_border; not FILL: the view is not resized */
    uint8_t fill[3]; /* R, G, B */
    uint8_t split;   /* refused only because it needs a view of its own, over what this one gives */
    const char *refused; /* a static reason why this sample can't be drawn */
} stk_view;
/* The whole picture as it is. */
STK_API void stk_view_init(stk_view *v, uint32_t width, uint32_t height);
/* Cut the canvas to a window; what is outside the picture is black. */
STK_API void stk_view_crop(stk_view *v, int32_t x, int32_t y, uint32_t w, uint32_t h);
/* Resize the canvas. */
STK_API void stk_view_resize(stk_view *v, uint32_t w, uint32_t h);
STK_API void stk_view_mirror(stk_view *v); /* left to right */
STK_API void stk_view_upend(stk_view *v);  /* top to bottom */
typedef struct stk_padding {
    uint32_t left, top, right, bottom;
    stk_border border;
    uint8_t fill[3];
} stk_padding;
STK_API void stk_view_pad(stk_view *v, const stk_padding *p); /* widen the canvas */

/* What an op drew for one picture: plain data that the CPU and a GPU read alike.  `code` says what
 * is done (STK_ACT_OWN: the op's tile()), `n` how many numbers of `v` it has. */
typedef struct stk_action {
    /* step: number of the op among all of its chain, nested ones too */
    uint16_t step, code, n, zero;
    union {
        float f[12];
        uint32_t u[12];
    } v;
} stk_action;

#define STK_ACT_OWN 0
#define STK_OP_ACTS 16 /* actions that one act() may write */

typedef struct stk_tile { /* a picture between the passes: R, G, B, X of 8 bits; X has no meaning */
    uint32_t *data;       /* width * height pixels without gaps; R is the lowest byte */
    uint32_t width, height;
} stk_tile;

enum {                     /* what an op does: stk_op.can.  OWN: only the library's own. */
       STK_OP_VIEW = 1,    /* draw() changes the geometry of a picture */
       STK_OP_WARP = 2,    /* act(): pixels move, other than in a view */
       STK_OP_POINT = 4,   /* act(): a pixel becomes another, by itself */
       STK_OP_NEAR = 8,    /* act(): ... and by its neighbours */
       STK_OP_STATS = 16,  /* act(): ... and by figures of the whole picture */
       STK_OP_ROW = 32,    /* act(): may stand after normalize, and works on the finished row */
       STK_OP_CHOOSE = 64, /* OWN: choose() says which of its chains run */
       STK_OP_GPU = 128,   /* OWN: there is device code with the CPU's bits */
       STK_OP_LIKE = 1024, /* OWN: takes its geometry from another output */
       /* OWN: draw_boxes() in place of draw(); its first argument names their output */
       STK_OP_BOXES = 4096,
       STK_OP_VIEWS = 512,    /* OWN: from here on a picture is drawn once for each view */
       STK_OP_PACKS = 256,    /* OWN: puts several samples into a row */
       STK_OP_CALL = 2048,    /* OWN: a function of the program's: stk_caller */
       STK_OP_PART = 8192,    /* OWN: a part of a recording, drawn before it is read */
       STK_OP_COUNTS = 16384, /* OWN: follows how many patches another output has */
       STK_OP_SIZES = 32768,  /* VIEW: the size that comes out is random, however rarely */
       STK_OP_ACT = STK_OP_WARP | STK_OP_POINT | STK_OP_NEAR | STK_OP_STATS | STK_OP_ROW,
};

typedef struct stk_box_list { /* boxes on the canvas that an op sees */
    uint32_t n;
    double (*at)[4]; /* left, top, right, bottom */
    uint8_t *keep;   /* 0: it was dropped, or is now */
} stk_box_list;

typedef struct stk_value_row { /* numbers of one sample, between the steps of a chain */
    stk_dtype dtype;
    uint32_t ndim;
    int64_t shape[STK_MAX_DIMS];
    void *data;
    double rate; /* of sound: samples per second; 0: it is none */
} stk_value_row;

typedef struct stk_op {
    uint32_t abi, size;
    const char *name, *help;
    const stk_arg *args;
    size_t state_size;
    int (*plan)(void *state, const stk_args *args, stk_spec *spec, stk_error *err);
    void (*draw)(const void *state, stk_rng *rng, stk_view *view); /* NULL: the plan says it all */
    uint32_t version; /* raised when the same arguments give other results than before */
    uint32_t can;
    /* Any flag of STK_OP_ACT: what is done to this picture, drawn when `canvas` is what the op sees
     * (vis_w x vis_h).  How many actions were written, at most STK_OP_ACTS; 0: nothing is done. */
    uint32_t (*act)(const void *state, stk_rng *rng, const stk_view *canvas, stk_action *out);
    /* STK_ACT_OWN: do it, in place.  On the CPU; cannot fail. */
    void (*tile)(const void *state, const stk_action *a, stk_tile *t);
    /* CHOOSE: numbers of the chains that run, in order, at most `children`.  How many. */
    uint32_t (*choose)(const void *state, stk_rng *rng, uint32_t children, uint8_t *run);
    void (*fini)(void *state); /* let go of what plan() took, also when plan() failed; or NULL */
    /* Numbers -> other numbers: *row is replaced, its memory is the scratch's; what is random in it
     * is drawn from `rng`.  NULL: it has nothing to do there. */
    int (*value)(const void *state, stk_value_row *row, stk_rng *rng, stk_scratch *scratch,
                 stk_error *err);
    /* Not NULL: every state begins with this pointer when plan() sees it, so that one set of
     * functions serves several tables. */
    const void *cookie;
    /* BOXES */
    void (*draw_boxes)(const void *state, stk_rng *rng, stk_view *view, stk_box_list *boxes);
} stk_op;

#ifdef __cplusplus
}
#endif
#endif

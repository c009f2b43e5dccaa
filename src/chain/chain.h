/* SPDX-License-Identifier: Apache-2.0 */
/* chain.h - a chain (the text `from(jpg) | image | ...` of one output) compiled to what a worker
 * does for one row of it.
 *
 * The loader plans each chain once (stk_chain_plan).  From then on it is read-only, and all workers
 * use it.  The stk_chain_draw functions are the only place where a row's random numbers are
 * drawn. */
#ifndef STOKER_CHAIN_H
#define STOKER_CHAIN_H

#include "base/rng.h"
#include "op/tokens.h"
#include "codec/stored.h"
#include "data/data.h"
#include "op/call.h"
#include "op/like.h"

#define STK_MAX_STEPS 33 /* 32 calls of the text, and one that is added (`image` before an op) */
#define STK_MAX_FROM 16
#define STK_MAX_UNPACKERS 16 /* further codecs of a registry that unpack are found by name only */

#define STK_MAX_ALL_STEPS 256 /* steps of one chain, with those inside choose() and its kind */
#define STK_MAX_GROUPS 32     /* chains inside one step */

typedef struct stk_step {   /* one call of a chain */
    const stk_codec *codec; /* either this or `op` is set */
    const stk_op *op;
    uint8_t number; /* place among its neighbours; part of the address of its random numbers */
    uint8_t opens;  /* pixels were changed before this view op: it begins a pass of its own */
    uint8_t early;  /* picks a part of a recording, so it draws before the field is read */
    uint16_t id;    /* index in stk_chain.all; stk_action.step names it */
    uint16_t n_groups;
    struct stk_steps *group; /* of an op with STK_OP_CHOOSE: the chains it chooses from */
    void *state;             /* what plan() settled; its type is the codec's or op's */
} stk_step;

typedef struct stk_steps {
    uint32_t n;
    stk_step *step;
} stk_steps;

typedef struct stk_unpacker { /* a codec that unpacks fields by their suffix (x.gz for x) */
    const stk_codec *codec;
    size_t len; /* length of its suffix */
} stk_unpacker;

typedef struct stk_chain_field { /* which field of a sample a chain reads */
    /* The first of these names that a sample has is read.  Names for decimals are tried last. */
    char *name[2 * STK_MAX_FROM];
    uint32_t n_names;
    int given;         /* the chain has from(); otherwise the output's name is the field's */
    stk_args *columns; /* arguments of columns(); name[0] is then the name of the joined field */
    stk_unpacker unpacker[STK_MAX_UNPACKERS]; /* from(x) looks for x with each of their suffixes */
    uint32_t n_unpackers;
    char *fallback;        /* text used for samples without the field; NULL: such samples are bad */
    void *fallback_row;    /* the fallback as it would be stored; NULL: there is no fallback */
    stk_stored *stored;    /* state of the first step for a field with a type; NULL: it is bytes */
    const char *open_root; /* folder of open(), "" for the manifest's; NULL: there is no open() */
} stk_chain_field;

typedef struct stk_chain_like { /* what ties a chain to another output */
    const stk_like *how;        /* arguments of like(); NULL: the chain has none */
    uint32_t at;                /* index of the step like() */
    int after_call;             /* a function of the program is called before like() */
    int followed; /* like() of another output names this one, or one that follows it */
    int keeps;    /* follows boxes: an entry stays in the row if its box stays */
    const struct stk_chain *leader; /* the chain of pictures or boxes that like() names */
    uint32_t leader_output;         /* index of its output */
    /* part(of=...): the chain of clips whose span its sound has; NULL: none */
    const struct stk_chain *clip;
    uint32_t clip_output; /* index of its output */
    int heard;            /* a chain of clips: true if some sound has its span */
} stk_chain_like;

typedef struct stk_chain_boxes { /* boxes that iou_crop looks at */
    const char *name;            /* output that holds them; NULL: the chain looks at none */
    uint32_t output;             /* index of that output */
} stk_chain_boxes;

typedef struct stk_chain_many { /* several pictures per sample: row_pictures.c */
    const stk_step *pictures;   /* pictures(): its state is a stk_pictures_state; NULL: none */
    const stk_step *tokens;     /* image_tokens(): its state is a stk_image_tokens; NULL: none */
    int takes_lists;            /* while planning: a list of bytes may feed the chain */
} stk_chain_many;

typedef struct stk_chain_calls { /* functions of the program inside a chain: row_call.c */
    uint32_t n;
    stk_kind first; /* what the first function is given: a picture, bytes or numbers */
} stk_chain_calls;

typedef struct stk_chain_sizes { /* what is known of how large pictures come out */
    int drawn;                   /* sizes are random: an op draws them, or runs at random */
    uint32_t depth;              /* while planning: how many ops are open that contain others */
    /* most patches of a picture, if the last op that changes its size cuts it into patches; 0: no
     * limit */
    uint64_t most_patches;
} stk_chain_sizes;

typedef struct stk_chain_prints { /* fingerprints of fields, steps, arguments and versions */
    uint64_t all;
    uint64_t inexact; /* `all` as older versions made it with exact=false; old states have it */
    uint64_t raw;     /* without the steps that truncate or pack a row of numbers */
    int ignored;      /* exact=false is written; it is accepted and has no effect */
} stk_chain_prints;

typedef struct stk_chain {
    const stk_registry *registry;
    stk_chain_field field;
    uint32_t n_steps;
    stk_step step[STK_MAX_STEPS];
    const stk_step *all[STK_MAX_ALL_STEPS]; /* by stk_step.id, with the steps inside others */
    uint32_t n_all;
    int tiled;             /* some op changes pixels between decoding and the row: segment.c */
    int row_acts;          /* some op changes pixels of the finished row, after normalize */
    uint32_t views_at;     /* index of views(), for a chain that has it */
    int part;              /* only checked, see stk_chain_head.part */
    int touched;           /* while planning: pixels were changed, so a view op begins a new pass */
    const stk_step *parse; /* codec that ends the chain in a value; NULL: it makes a picture */
    const stk_step *sound; /* `parse`, if it decodes a recording: row_sound.c; else NULL */
    const stk_step *clip;  /* reads frames of a video (its state is a stk_clip_how), or NULL */
    const stk_tokens *tokens; /* the rows are windows of a stream of tokens; NULL: they are not */
    const stk_tokens *pack;   /* several samples make one row; NULL: one sample per row */
    stk_spec raw;             /* with pack: one sample before it is packed */
    stk_spec parsed;          /* what `parse` makes, before further steps change its numbers ... */
    uint32_t n_turns;         /* ... and how many such steps there are */
    stk_spec spec;            /* what the chain makes: type, shape, layout */
    size_t row_bytes;         /* bytes of a row; 0: rows differ in length */
    int extracts;             /* some step turns bytes into other bytes */
    int counted;              /* rows differ in length, and batches may be made by length */
    int timed;                /* lengths are seconds of sound: values are not counted */
    stk_chain_calls calls;
    stk_chain_like like;
    stk_chain_boxes boxes;
    stk_chain_many many;
    stk_chain_sizes sizes;
    stk_chain_prints fingerprint;
} stk_chain;

/* The longest row, in seconds, that a chain with sound makes of a recording of `seconds`.  sample:
 * its number, for parts that fields of the sample give; UINT64_MAX: such parts are not counted. */
double stk_chain_seconds(const stk_chain *c, double seconds, uint64_t sample);

#define STK_MAX_PASSES 4   /* views of one picture; actions on pixels come between them */
#define STK_MAX_ACTIONS 96 /* changes of pixels of one picture */

typedef struct stk_boxes { /* boxes that ops of a picture's chain look at (stk_chain.boxes) */
    stk_box_list list;     /* the boxes as an op sees them */
    double (*filed)[4];    /* the boxes before any op, upright: left, top, right, bottom */
} stk_boxes;

typedef struct stk_draws {        /* what was drawn for one picture; on the worker's stack */
    uint32_t n_passes, n_actions; /* a pass: a view of what the passes before it made */
    /* view k is followed by actions from[k] .. from[k + 1] - 1 */
    uint32_t from[STK_MAX_PASSES + 1];
    stk_view view[STK_MAX_PASSES]; /* each sees what the one before and its actions made */
    stk_action action[STK_MAX_ACTIONS];
    /* set by the caller if the chain looks at boxes, else not read.  list.keep is drawn */
    stk_boxes *boxes;
} stk_draws;

/* The last view, which says how large the picture comes out.  Its `refused` says why a picture
 * can't be drawn. */
static inline stk_view *stk_draws_last(stk_draws *d)
{
    return &d->view[d->n_passes - 1];
}

/* Draws every op of the chain for a picture of that size (width, height), and sets *out to what is
 * seen of the picture and what is done to it.  Random numbers are those at (at->seed, position,
 * epoch, output, view); at->path is not read.  Rows, transforms and previews draw by this call.
 * watch->drawn() is called after each op; watch or watch->drawn NULL: it is not. */
void stk_chain_draw(const stk_chain *c, const stk_address *at, const uint32_t size[2],
                    stk_draws *out, const stk_draw_observer *watch);
/* The same from step number `first` of c->step on, for a picture that a function of the program
 * returned.  Both end before the next step that is such a function. */
void stk_chain_draw_from(const stk_chain *c, uint32_t first, const stk_address *at,
                         const uint32_t size[2], stk_draws *out, const stk_draw_observer *watch);

/* The same for the whole chain, for outputs that follow this one.  It assumes that functions of the
 * program return pictures of the size that they are given. */
void stk_chain_draw_through(const stk_chain *c, const stk_address *at, const uint32_t size[2],
                            stk_draws *out);

/* Draws only the steps that decide how large the picture comes out; only the last view of *out
 * counts. */
void stk_chain_draw_size(const stk_chain *c, const stk_address *at, const uint32_t size[2],
                         stk_draws *out);

typedef struct stk_chain_head { /* what a chain begins with */
    stk_registry *registry;     /* NULL: the process's */
    /* Sets *out to the type of the field that the chain reads; out->name NULL: no data set has the
     * field.  NULL function: all fields are bytes. */
    int (*type)(void *cookie, const stk_chain *c, stk_field_type *out, stk_error *err);
    void *cookie;
    const struct stk_chain *leader; /* planned chain of the output that like() names; or NULL */
    uint32_t leader_output;         /* index of that output */
    int part; /* true if the chain is only checked: steps may follow, other outputs are unknown */
} stk_chain_head;

/* Compiles `text` for the output `name`.  The field that it reads is bytes or has a type
 * (head->type). */
int stk_chain_plan_field(stk_chain *c, const stk_chain_head *head, const char *name,
                         const char *text, stk_error *err);
/* The same for a field that is bytes, with the steps of a registry (NULL: the process's).  The
 * registry is read-only from now on and must live as long as the chain. */
int stk_chain_plan(stk_chain *c, stk_registry *r, const char *name, const char *text,
                   stk_error *err);
/* The same for rows of arrays, which have types and shapes (row/plan_array.h). */
int stk_chain_plan_rows(stk_chain *c, stk_registry *r, const char *name, const char *text,
                        stk_error *err);
void stk_chain_fini(stk_chain *c);

/* For error messages: the step that does what other libraries call `name`.  NULL: the registry
 * (NULL: the process's) has none. */
const char *stk_chain_other_name(const stk_registry *r, const char *name);
/* The text for batch_ops= where `name` is an op on whole batches; else NULL. */
const char *stk_chain_batch_name(const char *name);

typedef struct stk_binding { /* which field a chain reads, for samples of one schema */
    uint16_t field;          /* number of the field; UINT16_MAX: they have none for it */
    const stk_codec *unpack; /* decompresses the field first (x.gz for x); NULL: not compressed */
    const void *state;       /* state of `unpack`; NULL: it has none */
} stk_binding;

/* For a chain with `pictures` or `video`: 1 if the field is a numbered picture (0.jpg, 1.jpg, ...)
 * that it reads; sets *number. */
int stk_chain_numbered(const stk_chain *c, const char *name, size_t len, uint64_t *number);

/* The bit of the kind of picture that a field's name says: jpg or jpeg, png, webp.  0: it says
 * none. */
uint32_t stk_picture_word(const char *name);

/* Finds the field that a chain reads, for every schema of a data set.  *out: an array by schema
 * that the caller frees.  from(x) takes the field x, else x.gz, else x.zst.  STK_END: no sample has
 * the field, and the chain's default is used. */
int stk_chain_bind(const stk_chain *c, const char *output, const stk_dataset *ds, stk_binding **out,
                   stk_error *err);

#define STK_BOUND_NAMES (2 * STK_MAX_FROM + 8)
/* The names of its fields there: those of from(), and what was bound in their place, as `sound` of
 * a folder is for from(flac).  How many. */
uint32_t stk_chain_names(const stk_chain *c, const stk_binding *b, const stk_dataset *ds,
                         const char *out[STK_BOUND_NAMES]);

#endif

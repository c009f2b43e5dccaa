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

#define STK_MAX_STEPS 33 /* the calls of an expression, and one that no one writes */
#define STK_MAX_FROM 16
#define STK_MAX_UNPACKERS 16 /* the first of a registry; others are used by name only */

#define STK_MAX_ALL_STEPS 256 /* with those that are in others */
#define STK_MAX_GROUPS 32     /* chains of one step */

typedef struct stk_step {
    const stk_codec *codec; /* one of the two */
    const stk_op *op;
    uint8_t number; /* place in the chain, or among all that its step has: addresses its numbers */
    uint8_t opens;  /* a view: begins a pass of its own, as pixels were changed before it */
    uint8_t early;  /* a part of a recording, which is drawn before it is read */
    uint16_t id;    /* of stk_action.step */
    uint16_t n_groups;
    struct stk_steps *group; /* CHOOSE: its chains */
    void *state;
} stk_step;

typedef struct stk_steps {
    uint32_t n;
    stk_step *step;
} stk_steps;

typedef struct stk_unpacker {
    const stk_codec *codec;
    size_t len; /* of its suffix */
} stk_unpacker;

typedef struct stk_chain {
    const stk_registry *registry;
    stk_unpacker unpacker[STK_MAX_UNPACKERS]; /* of the registry: what from(x) looks for beside x */
    uint32_t n_unpackers;
    char *from[2 * STK_MAX_FROM]; /* the first of these that a sample has; of decimals, texts too */
    uint32_t n_from;
    int from_given;    /* in the chain; else it is the output's name */
    stk_args *columns; /* columns(): its names; from[0] is then what they are called together */
    char *fallback;    /* stands in where a sample has none of them; NULL: it is bad then */
    uint32_t n_steps;
    stk_step step[STK_MAX_STEPS];
    const stk_step *all[STK_MAX_ALL_STEPS]; /* by id */
    uint32_t n_all;
    int tiled;             /* pixels are changed between decoding and the row: segment.c */
    uint32_t n_calls;      /* functions of the program's: row_call.c */
    uint32_t views_at;     /* the step that makes views, of a chain that has them */
    stk_kind called;       /* ... the first of them has a picture, bytes or numbers */
    int part;              /* stk_chain_head.part */
    int row_acts;          /* ... or in the row, after normalize */
    int touched;           /* while it is planned: a view that comes now begins a pass of its own */
    const stk_step *parse; /* ends in a value */
    const stk_step *sound; /* ... which is a recording: row_sound.c; NULL: it is none */
    const stk_step *clip;  /* frames of a video: its state is a stk_clip_how; NULL: none */
    stk_stored *stored;    /* the field has a type: the first step's; NULL: bytes, or an array */
    void *fallback_row;    /* ... and the default as it would be stored; NULL: none */
    const stk_tokens *tokens; /* windows of a stream; NULL: none */
    const stk_tokens *pack;   /* rows of several samples; NULL: of one */
    stk_spec raw;             /* pack: what a sample is before it */
    stk_spec parsed;          /* what `parse` makes, where steps turn it into other numbers ... */
    uint32_t n_turns;         /* ... so many of them; 0: none does */
    const char *open_root;    /* `open`: where its files are, "": beside the manifest; NULL: none */
    stk_spec spec;
    size_t row_bytes;     /* 0: ragged */
    int extracts;         /* some step makes other bytes of its bytes */
    int counted;          /* its rows differ in length, and batches may be made by that */
    uint64_t print;       /* of fields, steps, their arguments and versions */
    uint64_t old_print;   /* what it was while pictures could be inexact, for one that was */
    int inexact;          /* exact=false is written, which means nothing any more */
    const stk_like *like; /* like(): what it says; NULL: none */
    uint32_t like_at;     /* ... which step it is */
    int called_first;     /* ... after a function */
    int followed;         /* like() of another output names it, or what follows it */
    const struct stk_chain *leader; /* ... and the picture, or boxes, that it names */
    uint32_t leader_output;
    const char *boxes; /* iou_crop: the output of boxes that it looks at; NULL: none */
    uint32_t boxes_output;
    int keeps;          /* it follows boxes: an entry stays where its box stays */
    uint64_t raw_print; /* the same without what truncates or packs a row of numbers */
} stk_chain;

#define STK_MAX_PASSES 4   /* geometry, pixels, geometry again, ... */
#define STK_MAX_ACTIONS 96 /* of one picture */

typedef struct stk_boxes { /* of a picture whose chain looks at them (stk_chain.boxes) */
    stk_box_list list;     /* as an op sees them */
    double (*filed)[4];    /* upright, before any op: left, top, right, bottom */
} stk_boxes;

typedef struct stk_draws {        /* of one picture; on the worker's stack */
    uint32_t n_passes, n_actions; /* a pass: a view of what the passes before it made */
    /* view k is followed by actions from[k] .. from[k + 1] - 1 */
    uint32_t from[STK_MAX_PASSES + 1];
    stk_view view[STK_MAX_PASSES]; /* each sees what the one before and its actions made */
    stk_action action[STK_MAX_ACTIONS];
    /* given, of a chain that looks at them; else it is not read.  list.keep: drawn */
    stk_boxes *boxes;
} stk_draws;

/* The canvas that comes out; its `refused` says why a picture can't be drawn. */
static inline stk_view *stk_draws_last(stk_draws *d)
{
    return &d->view[d->n_passes - 1];
}

/* What is seen of a picture of that size (width, height) and what is done to it: every op of the
 * chain draws, with numbers at (at->seed, position, epoch, output, view); at->path is not read.
 * Rows, transforms and previews draw by this call.  `watch` (NULL or its drawn() NULL: none) sees
 * the view after each op. */
void stk_chain_draw(const stk_chain *c, const stk_address *at, const uint32_t size[2],
                    stk_draws *out, const stk_draw_observer *watch);
/* The same from step number `first` of c->step on, for a picture that a function gave.  Both end
 * before the next step that is a function. */
void stk_chain_draw_from(const stk_chain *c, uint32_t first, const stk_address *at,
                         const uint32_t size[2], stk_draws *out, const stk_draw_observer *watch);

/* The whole chain, for those who follow it: a function gives a picture of the size that it was
 * given. */
void stk_chain_draw_through(const stk_chain *c, const stk_address *at, const uint32_t size[2],
                            stk_draws *out);

typedef struct stk_chain_head { /* what a chain begins with */
    stk_registry *registry;     /* NULL: the process's */
    /* The type of the field that c->from names, name NULL: no data set has one; NULL: all are
     * bytes. */
    int (*type)(void *cookie, const stk_chain *c, stk_field_type *out, stk_error *err);
    void *cookie;
    const struct stk_chain *leader; /* the output that its like() names, planned; or NULL */
    uint32_t leader_output;
    int part; /* it is only checked: steps may follow, and other outputs are not known */
} stk_chain_head;

/* Compile `text` for the output `name`: of a field of samples, which is bytes or has a type. */
int stk_chain_plan_field(stk_chain *c, const stk_chain_head *head, const char *name,
                         const char *text, stk_error *err);
/* Compile `text` for the output `name`, with what the registry has (NULL: the process's).  The
 * registry is read-only from now on and must stay as long as the chain. */
int stk_chain_plan(stk_chain *c, stk_registry *r, const char *name, const char *text,
                   stk_error *err);
/* The same for rows of arrays: types and shapes are theirs (row/plan_array.h). */
int stk_chain_plan_rows(stk_chain *c, stk_registry *r, const char *name, const char *text,
                        stk_error *err);
void stk_chain_fini(stk_chain *c);

/* The step that other libraries call `name`, if the registry (NULL: the process's) has it; else
 * NULL. */
const char *stk_chain_other_name(const stk_registry *r, const char *name);
/* The text for batch_ops= where `name` is an op on whole batches; else NULL. */
const char *stk_chain_batch_name(const char *name);

typedef struct stk_binding { /* what feeds a chain, for samples of one schema */
    uint16_t field;          /* UINT16_MAX: none does */
    const stk_codec *unpack; /* from(x) found x.gz: it is decompressed first; NULL: it is not */
    const void *state;       /* of `unpack`; NULL: it has none */
} stk_binding;

/* A bit for each kind of picture that a field may be called by: jpg or jpeg, png, webp.  0: it is
 * another word. */
uint32_t stk_picture_word(const char *name);

/* Which field of a sample feeds a chain, for one data set, by schema.  STK_END: none does anywhere,
 * but the chain has a default.  from(x) takes the field x, else x.gz, else x.zst. */
int stk_chain_bind(const stk_chain *c, const char *output, const stk_dataset *ds, stk_binding **out,
                   stk_error *err);

#endif

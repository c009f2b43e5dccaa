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
    int heard;            /* of a chain of clips: some sound has its span */
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
    int drawn;                   /* it is random: some op says so, or runs at random */
    uint32_t depth;              /* while planning: in how many ops that run others */
    /* where the last op that changes it cuts for patches: the most that it gives; 0: no limit */
    uint64_t most_patches;
} stk_chain_sizes;

typedef struct stk_chain_prints { /* fingerprints of fields, steps, arguments and versions */
    uint64_t all;
    uint64_t inexact; /* what `all` was while exact=false meant something: old states hold it */
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
 * its number, where fields say what part of it is taken; or UINT64_MAX: parts by fields are not
 * counted. */
double stk_chain_seconds(const stk_chain *c, double seconds, uint64_t sample);

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

/* Only the steps that decide how large the picture comes out: the last view of *out. */
void stk_chain_draw_size(const stk_chain *c, const stk_address *at, const uint32_t size[2],
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

/* Of a chain of `pictures` or `video`: 1 where the field is one of them, 0.jpg, 1.jpg, ..., and its
 * number. */
int stk_chain_numbered(const stk_chain *c, const char *name, size_t len, uint64_t *number);

/* A bit for each kind of picture that a field may be called by: jpg or jpeg, png, webp.  0: it is
 * another word. */
uint32_t stk_picture_word(const char *name);

/* Which field of a sample feeds a chain, for one data set, by schema.  STK_END: none does anywhere,
 * but the chain has a default.  from(x) takes the field x, else x.gz, else x.zst. */
int stk_chain_bind(const stk_chain *c, const char *output, const stk_dataset *ds, stk_binding **out,
                   stk_error *err);

#define STK_BOUND_NAMES (2 * STK_MAX_FROM + 8)
/* The names of its fields there: those of from(), and what was bound in their place, as `sound` of
 * a folder is for from(flac).  How many. */
uint32_t stk_chain_names(const stk_chain *c, const stk_binding *b, const stk_dataset *ds,
                         const char *out[STK_BOUND_NAMES]);

#endif

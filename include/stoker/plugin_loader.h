/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_loader.h - tables that are given in a loader's options: order, memory, watch, batch stage.
 * They are not found by name.  UNSTABLE, as plugin.h, which includes this file. */
#ifndef STOKER_PLUGIN_LOADER_H
#define STOKER_PLUGIN_LOADER_H

#include <stoker/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stk_where {
    uint32_t dataset;
    uint64_t sample;
} stk_where;

typedef struct stk_share { /* of one rank in one step */
    uint64_t start, count; /* positions of the global batch: start .. start + count - 1 */
    uint64_t item;         /* the rank's rows are items item, item + stride, ... of it as dealt */
    uint32_t stride;       /* 1, unless ranks of one node divide its items among them */
    uint32_t rows;
    int filler;     /* the rank was left with nothing: one row, position `item`, not valid */
    uint64_t epoch; /* in which the global batch is */
} stk_share;

typedef struct stk_order {
    uint32_t abi, size;
    const char *name, *help;
    void *state;
    uint64_t (*len)(const void *state);
    /* What stands at n positions of an epoch.  Pure. */
    void (*at)(const void *state, uint64_t epoch, const uint64_t *position, uint32_t n,
               stk_where *out);
    /* In which order the positions of a global batch are dealt: those of rows row .. row + n - 1 of
     * a share, so of items share->item + row * share->stride, ...  NULL: as they follow each other.
     * Pure. */
    void (*deal)(const void *state, const stk_share *share, uint32_t row, uint32_t n,
                 uint64_t *position);
    /* The position of a sample in an epoch; UINT64_MAX: none.  NULL: it is searched for. */
    uint64_t (*find)(const void *state, uint64_t epoch, const stk_where *where);
    void (*close)(void *state); /* NULL: the state is the caller's */
    /* How many of the n positions from this one on have samples of one data set that follow each
     * other; at least 1.  NULL: not known.  Pure. */
    uint32_t (*run)(const void *state, uint64_t epoch, uint64_t position, uint32_t n);
} stk_order;

typedef struct stk_memory { /* copied; must work after the loader is closed */
    uint32_t abi, size;
    const char *name, *help;
    void *cookie;
    void *(*alloc)(void *cookie, size_t size); /* 64-byte aligned */
    void (*free)(void *cookie, void *p, size_t size);
    /* Memory that a GPU still reads when its last holder lets go; NULL: none does. */
    void *(*leave)(void *cookie, void *old); /* answers a mark; old: the last one, or NULL */
    int (*ready)(void *cookie, void *mark, int wait); /* 1: that is over */
    void (*forget)(void *cookie, void *mark);         /* frees it */
    void (*close)(void *cookie);                      /* the last buffer is gone; may be NULL */
} stk_memory;

/* What an op did to one picture: the view after it.  Step 0 is the first of the chain; a chain's
 * first picture comes with op NULL: as it was read. */
typedef struct stk_drawn {
    uint64_t epoch, position;
    uint32_t output, step;
    const char *op;
    const stk_view *view; /* borrowed for the call */
} stk_drawn;

typedef struct stk_draw_observer { /* copied */
    uint32_t abi, size;
    const char *name, *help;
    void *cookie;
    void (*drawn)(void *cookie,
                  const stk_drawn *d); /* by the worker that makes the row: be quick */
} stk_draw_observer;

typedef struct stk_call_at { /* for what a function is called; borrowed for the call */
    const char *function;    /* as the chain names it */
    uint32_t number;         /* what find() answered */
    const char *output;
    stk_kind kind;    /* what it is given: IMAGE: u8 of height, width, channels; VALUE: numbers; */
    stk_out_kind out; /* BYTES: which: bytes, text or JSON */
    stk_kind gives;   /* what it is to give: the same, or VALUE */
    stk_dtype dtype;  /* ... and the type of its numbers */
    uint64_t seed, epoch, position; /* address what it draws */
    uint64_t sample;                /* counted through all data sets */
    uint32_t view;                  /* of views: addresses its draws too; 0: the first, or all */
} stk_call_at;

/* Functions of the program's, for the step `call` of chains.  Copied.  Thread: any; call() by
 * several workers at once, which may wait in it. */
typedef struct stk_caller {
    uint32_t abi, size;
    const char *name, *help;
    void *cookie;
    /* The number of a function, when the loader is opened; or a negative STK_E*. */
    int (*find)(void *cookie, const char *function, uint32_t which, uint32_t *number,
                stk_error *err);
    /* *row is replaced; its memory is the scratch's, or stays until the row is made.  Bytes, text
     * and JSON are u8 of one dimension.  STK_ECORRUPT: on_error="skip" may go on with another
     * sample. */
    int (*call)(void *cookie, const stk_call_at *at, stk_value_row *row, stk_scratch *scratch,
                stk_error *err);
} stk_caller;

typedef struct stk_ticket stk_ticket; /* a stage's promise to finish */
/* Say that a stage that answered STK_PENDING is through.  Any thread, exactly once. */
STK_API void stk_ticket_done(stk_ticket *t, int rc, const stk_error *err);

typedef struct stk_stage {
    uint32_t abi, size;
    const char *name, *help;
    void *state;
    /* May write into the batch's tensors.  0, STK_PENDING (then stk_ticket_done()) or a negative
     * STK_E*. */
    int (*run)(void *state, stk_batch *batch, stk_ticket *ticket, stk_error *err);
} stk_stage;

#ifdef __cplusplus
}
#endif
#endif

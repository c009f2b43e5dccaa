/* SPDX-License-Identifier: Apache-2.0 */
/* stack.h - a batch while it is filled: rows are written straight to their place.  Used by rows
 * (row/), batch ops and the GPU stage.
 *
 * A dense output is one buffer; row r is at r * row_bytes.  A ragged output is one buffer too: rows
 * are cut from its front as they come.  A row that does not fit gets a buffer of its own, and the
 * next batch's buffer is larger. */
#ifndef STOKER_STACK_H
#define STOKER_STACK_H

#include "batch/pool.h"
#include "data/data.h"
#include "kern/blend.h"
#include "order/bins.h"

/* Smaller outputs are in heap memory of the batch, so that holding labels holds no pool memory. */
#define STK_SMALL_OUTPUT (64 * 1024)

typedef struct stk_out_gather { /* rows that a GPU gathers from arrays (cuda/gpu_gather.h) */
    uint64_t count;             /* elements of a row; 0: the output is not gathered */
    uint32_t in, made, sign;    /* as in stk_gpu_gather */
} stk_out_gather;

typedef struct stk_out_plan {
    char *name;
    stk_spec spec;
    size_t row_bytes; /* 0: ragged */
    int pad;          /* ragged: rows are padded to one tensor (pad_rows.c) */
    double pad_value;
    int one_size;         /* with `pad`: pictures of a batch have one size (bucket) */
    int joined;           /* with `pad`: rows are joined along the first dimension instead */
    uint32_t multiple;    /* the padded size is a multiple of this; 0, 1: that of the largest row */
    uint32_t clip_frames; /* frames of a row that is a clip; 0: rows are not clips */
    /* rows are parts of the rows of output shared - 1; 0: in memory of their own */
    uint32_t shared;
    size_t skip;       /* with `shared`: offset of the part in such a row */
    int gpu_made;      /* rows here are records, from which a GPU makes the real rows */
    size_t gpu_bytes;  /* bytes of a row on the GPU; 0: they vary */
    size_t note_bytes; /* bytes of notes that are stored beside each record */
    /* number + 1 under which the GPU caches its pictures (gpu/picture_cache.h); 0: it caches
     * none */
    uint32_t keep;
    stk_out_gather gather; /* rows of arrays: the GPU gathers them if the batch says so */
} stk_out_plan;

typedef struct stk_out_sizes { /* sizes that are learned while batches are made */
    _Atomic size_t high;       /* ragged: bytes of the largest batch so far */
    _Atomic size_t pad_high;   /* padded: bytes of the largest tensor */
} stk_out_sizes;

typedef struct stk_batch_plan { /* what batches need after their loader is gone.  Thread: any. */
    _Atomic uint32_t refs;
    uint32_t n_out, batch;
    stk_out_plan *out;
    stk_out_sizes *sizes; /* by output */
    uint32_t n_data;
    stk_dataset **data;
    uint64_t *start; /* n_data + 1 global ids */
    stk_pool *pool;
    _Atomic uint64_t serial;
    int pinned; /* the pool's memory is page-locked, and small outputs use it, too */
    /* most bytes planned for a ragged output; rows beyond get buffers of their own */
    size_t ragged_cap;
} stk_batch_plan;

int stk_batch_plan_open(stk_batch_plan **out, uint32_t n_out, stk_dataset *const *data,
                        uint32_t n_data, stk_error *err);
void stk_batch_plan_unref(stk_batch_plan **c);

/* index in stk_row_out.shape of the rows and columns of patches */
#define STK_GRID_AT (STK_MAX_DIMS - 3)
typedef struct stk_row_out { /* one row of a ragged output */
    stk_buffer *own;         /* NULL: in the output's buffer */
    uint8_t *data;
    size_t len;
    stk_dtype dtype; /* 0: the type of the output */
    uint32_t ndim;
    int64_t shape[STK_MAX_DIMS - 1];
    size_t gpu_at; /* offset of the row in `gpu_memory` */
} stk_row_out;

typedef struct stk_picture_grids { /* the pictures of rows that have several each */
    uint32_t n;
    uint32_t *first;  /* rows + 1: the first picture of each */
    uint32_t at[][2]; /* patches down and across */
} stk_picture_grids;

typedef struct stk_batch_out {
    stk_buffer *buffer;  /* NULL: ragged, and no size is known yet */
    _Atomic size_t used; /* ragged */
    stk_row_out *row;    /* ragged */
    stk_buffer *dense;   /* padded: the tensor; NULL: no size is known yet */
    int counted;         /* `dense` is not from the pool and counts in the account */
    /* true if the rows are in `dense` and nowhere else, or a GPU makes the tensor; the next fields
     * describe it */
    int padded;
    int joined;       /* rows are joined along their first dimension, row_bytes in all */
    size_t row_bytes; /* bytes of a padded row */
    stk_dtype dtype;
    uint32_t ndim; /* dimensions of a row */
    int64_t shape[STK_MAX_DIMS - 1];
    uint8_t value[8];            /* element that fills what is left of a row */
    stk_buffer *gpu_memory;      /* the output on a GPU; NULL: it is on the host only */
    uint8_t *note;               /* note_bytes per row; NULL: none */
    stk_frame_at *frames;        /* clip_frames per row; NULL: rows are not clips */
    stk_picture_grids *pictures; /* NULL: a row is one picture, or none */
} stk_batch_out;

/* What a batch op drew, when its rows are on the GPU and it is carried out there. */
typedef struct stk_deferred_mix {
    struct stk_deferred_mix *next;
    uint32_t n_parts;
    uint32_t output[2];
    stk_blend part[2]; /* for these outputs; data, row and rows are set where it is carried out */
    uint32_t rows;     /* 0: it changes nothing */
    stk_blend_row row[];
} stk_deferred_mix;

struct stk_batch {
    stk_batch_plan *common;
    _Atomic uint32_t refs; /* held by the loader and by stk_loader_peek() */
    uint64_t serial;       /* unique among batches of its loader; from 1 */
    uint64_t epoch, step;
    uint64_t start; /* position of the first sample of the global batch */
    uint32_t rows;
    stk_patch_limit limit; /* of its pictures: set by a schedule of lengths */
    uint64_t *ids;
    uint8_t *valid;
    stk_batch_out *out;
    /* rows of gathered outputs are uint64_t here: their places in arrays on the GPU */
    int gathered;
    uint32_t gpu; /* number + 1 of the GPU that has the outputs with `gpu_memory`; 0: none */
    stk_deferred_mix *mixes; /* in the order they are carried out; NULL: none */
    uint8_t *bad;            /* by row: 1 if the GPU could not make a picture; NULL: all are good */
    struct stk_gpu_clip *clips;       /* clips that a GPU decodes (gpu/gpu_clips.h); NULL: none */
    void (*drop_clips)(stk_batch *b); /* releases the clips */
    /* owned by gpu_clips.c: the ticket of a batch that waits for its clips; NULL: it does not */
    struct stk_ticket *clips_ticket;
};

/* A batch with room for `rows` rows.  STK_ELIMIT: memory_limit is reached for now. */
int stk_batch_open(stk_batch **out, stk_batch_plan *c, uint32_t rows, stk_error *err);

/* The batch is complete: the sizes of its ragged outputs are used to plan the next ones.  Thread:
 * any. */
void stk_batch_settle(stk_batch *b);
/* 1: the size of every ragged output is known */
int stk_batch_plan_settled(const stk_batch_plan *c);

/* Address of dense row `row` of an output. */
static inline void *stk_batch_place(stk_batch *b, uint32_t output, uint32_t row)
{
    const stk_out_plan *p = &b->common->out[output];

    return (uint8_t *)b->out[output].buffer->data + (size_t)row * p->row_bytes + p->skip;
}

/* Bytes of a row on the GPU that makes it. */
static inline size_t stk_row_out_bytes(const stk_batch *b, uint32_t output, uint32_t row)
{
    const stk_out_plan *p = &b->common->out[output];
    const stk_row_out *r = &b->out[output].row[row];
    size_t n = stk_dtype_size(p->spec.dtype);

    for (uint32_t i = 0; !p->gpu_bytes && i < r->ndim; i++)
        n *= (size_t)r->shape[i];
    return p->gpu_bytes ? p->gpu_bytes : n;
}

/* A worker's piece of a ragged output, so that not every small row changes one shared counter. */
typedef struct stk_row_arena {
    uint64_t serial; /* serial of the batch it was cut from */
    uint32_t output;
    size_t left;
    uint8_t *at;
} stk_row_arena;

/* Room for a ragged row of `len` bytes.  NULL: errno is EDQUOT for memory_limit, ENOMEM if the
 * system has no memory.  Thread: any, one per row. */
void *stk_batch_reserve(stk_batch *b, uint32_t output, uint32_t row, size_t len,
                        stk_row_arena *cut);
void stk_batch_unreserve(stk_batch *b, uint32_t output,
                         uint32_t row); /* call before a row is filled again */

/* With pictures(), a row ends in the grids of its pictures: they begin stk_grids_at(bytes of the
 * row) bytes after its start, and shape[STK_GRID_AT] says how many there are. */
static inline size_t stk_grids_at(size_t len)
{
    return (len + 3) & ~(size_t)3;
}
/* Rows for a GPU have, after the grids, a stk_pic_share for each picture (gpu/pic.h). */
static inline size_t stk_shares_at(size_t len, uint32_t pictures)
{
    return (stk_grids_at(len) + pictures * 2 * sizeof(uint32_t) + 63) & ~(size_t)63;
}
/* Moves the grids of all rows to o->pictures.  Call when all rows are made, before they are
 * padded. */
int stk_batch_take_grids(stk_batch *b, uint32_t output, stk_error *err);
/* The same after row `row` was made once more. */
int stk_batch_regrid(stk_batch *b, uint32_t output, uint32_t row, stk_error *err);

/* 1: rows of the output become one tensor.  A batch of one row is that row, unless it must grow. */
static inline int stk_out_pads(const stk_out_plan *p, uint32_t batch)
{
    return p->pad && (batch > 1 || p->multiple > 1 || p->joined);
}

/* Bytes of the tensor in o->dense. */
static inline size_t stk_padded_bytes(const stk_batch *b, const stk_batch_out *o)
{
    return o->joined ? o->row_bytes : o->row_bytes * b->rows;
}

/* pad_rows.c: makes the tensor of a padded output.  Call when every row is made. */
int stk_batch_pad(stk_batch *b, uint32_t output, stk_error *err);
/* The same if a GPU makes the rows: only sets the tensor's shape, and where each row goes
 * (gpu_at). */
int stk_batch_pad_there(stk_batch *b, uint32_t output, stk_error *err);
/* Call when row `row` was made once more after the tensor: its size may have changed. */
int stk_batch_pad_again(stk_batch *b, uint32_t output, uint32_t row, stk_error *err);
void stk_batch_undense(stk_batch *b, stk_batch_out *o); /* releases o->dense */
/* The value as an element of `dtype`.  STK_EINVAL: it does not fit. */
int stk_pad_value(double v, stk_dtype dtype, uint8_t out[8], stk_error *err);

#endif

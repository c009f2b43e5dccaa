/* SPDX-License-Identifier: Apache-2.0 */
/* stack.h - a batch while it is filled: rows are written straight into their place.
 *
 * A dense output is one buffer; row r is at r * row_bytes.  A ragged output is one buffer
 * whose rows are cut off the front as they come; a row that no longer fits gets a buffer of its
 * own, and the next batch's buffer is made larger. */
#ifndef STOKER_STACK_H
#define STOKER_STACK_H

#include "batch/pool.h"
#include "data/data.h"
#include "kern/blend.h"

#define STK_SMALL_OUTPUT                                                                           \
    (64 * 1024) /* below it a batch has its own heap memory: holding labels pins nothing */

typedef struct stk_out_gather { /* rows that a GPU gathers out of arrays (cuda/gpu_gather.h) */
    uint64_t count;             /* elements of a row; 0: it gathers none */
    uint32_t in, made, sign;
} stk_out_gather;

typedef struct stk_out_plan {
    char *name;
    stk_spec spec;
    size_t row_bytes; /* 0: ragged */
    int pad;          /* ragged: its rows are made one tensor (pad_rows.c) ... */
    double pad_value;
    int joined; /* with `pad`: they follow each other in it, along the first dimension */
    uint32_t multiple; /* ... as large as a multiple of this; 0, 1: as the largest row */
    uint32_t shared;   /* rows are in those of output shared - 1; 0: in memory of their own */
    size_t skip;       /* with `shared`: bytes from the beginning of such a row */
    int gpu_made;      /* a GPU makes its rows from records here ... */
    size_t gpu_bytes;  /* ... of so many bytes there; 0: they differ in size */
    size_t note_bytes; /* ... and who writes a record notes so many beside it */
    uint32_t
        /* ... and it keeps them, under this number - 1 (gpu/picture_cache.h); 0: it does not */
        keep;
    stk_out_gather gather; /* rows of arrays: the GPU makes them where a batch says so */
} stk_out_plan;

typedef struct stk_out_sizes { /* learned while batches are made */
    _Atomic size_t high;       /* ragged: bytes of the largest batch so far */
    _Atomic size_t pad_high;   /* padded: of the largest tensor */
} stk_out_sizes;

typedef struct stk_batch_plan { /* what batches need after their loader is gone.  Thread: any. */
    _Atomic uint32_t refs;
    uint32_t n_out, batch;
    stk_out_plan *out;
    stk_out_sizes *sizes; /* of each output */
    uint32_t n_data;
    stk_dataset **data;
    uint64_t *start; /* n_data + 1 global ids */
    stk_pool *pool;
    _Atomic uint64_t serial;
    int pinned;        /* the pool's memory is page-locked: small outputs come from it too */
    size_t ragged_cap; /* most that a ragged output plans for; rows past it stand alone */
} stk_batch_plan;

int stk_batch_plan_open(stk_batch_plan **out, uint32_t n_out, stk_dataset *const *data,
                        uint32_t n_data, stk_error *err);
void stk_batch_plan_unref(stk_batch_plan **c);

#define STK_GRID_AT (STK_MAX_DIMS - 3) /* in stk_row_out.shape: rows and columns of patches */
typedef struct stk_row_out { /* one row of a ragged output */
    stk_buffer *own;         /* NULL: in the output's buffer */
    uint8_t *data;
    size_t len;
    stk_dtype dtype; /* 0: the output's */
    uint32_t ndim;
    int64_t shape[STK_MAX_DIMS - 1];
    size_t gpu_at; /* of the row in `gpu_memory` */
} stk_row_out;

typedef struct stk_batch_out {
    stk_buffer *buffer;  /* NULL: ragged and nothing known yet */
    _Atomic size_t used; /* ragged */
    stk_row_out *row;    /* ragged */
    stk_buffer *dense;   /* padded: what the rows become; NULL: nothing known yet */
    int counted;         /* dense is no pool's and was taken from the account */
    int padded;          /* the rows are in dense now, and nowhere else */
    int joined;          /* ... one after another, of row_bytes together */
    size_t row_bytes;    /* padded */
    stk_dtype dtype;     /* padded */
    uint32_t ndim;       /* padded: of a row */
    int64_t shape[STK_MAX_DIMS - 1];
    stk_buffer *gpu_memory; /* what a GPU has of it; NULL: it is here only */
    uint8_t *note;          /* note_bytes a row; NULL: none */
} stk_batch_out;

/* An op on the whole batch that is done where its rows are, on a GPU: what it drew. */
typedef struct stk_deferred_mix {
    struct stk_deferred_mix *next;
    uint32_t n_parts;
    uint32_t output[2];
    stk_blend part[2]; /* of these outputs; data, row and rows are filled in where it is done */
    uint32_t rows;     /* 0: it draws nothing */
    stk_blend_row row[];
} stk_deferred_mix;

struct stk_batch {
    stk_batch_plan *common;
    _Atomic uint32_t refs; /* the loader's, and those of stk_loader_peek() */
    uint64_t serial;       /* no other batch of its loader has it; from 1 */
    uint64_t epoch, step;
    uint64_t start; /* position of the global batch's first sample */
    uint32_t rows;
    uint64_t *ids;
    uint8_t *valid;
    stk_batch_out *out;
    int gathered; /* rows of outputs that are gathered are uint64_t, where they are there */
    uint32_t gpu; /* outputs with `gpu_memory` are there: number + 1; 0: nowhere */
    stk_deferred_mix *mixes; /* in order; NULL: none */
    uint8_t *bad; /* one a row: 1 where the GPU could not make a picture; NULL: all are good */
};

/* A batch with room for `rows`; STK_ELIMIT: memory_limit is reached (for now). */
int stk_batch_open(stk_batch **out, stk_batch_plan *c, uint32_t rows, stk_error *err);

/* A batch is whole: what its ragged outputs took is planned for the next ones.  Thread: any. */
void stk_batch_settle(stk_batch *b);
int stk_batch_plan_settled(const stk_batch_plan *c); /* every ragged output has been seen once */

/* Where dense row r of an output goes. */
static inline void *stk_batch_place(stk_batch *b, uint32_t output, uint32_t row)
{
    const stk_out_plan *p = &b->common->out[output];

    return (uint8_t *)b->out[output].buffer->data + (size_t)row * p->row_bytes + p->skip;
}

/* What a row takes on the GPU that makes it. */
static inline size_t stk_row_out_bytes(const stk_batch *b, uint32_t output, uint32_t row)
{
    const stk_out_plan *p = &b->common->out[output];
    const stk_row_out *r = &b->out[output].row[row];
    size_t n = stk_dtype_size(p->spec.dtype);

    for (uint32_t i = 0; !p->gpu_bytes && i < r->ndim; i++)
        n *= (size_t)r->shape[i];
    return p->gpu_bytes ? p->gpu_bytes : n;
}

/* A worker's piece of a ragged output, so that small rows don't all count on one cache line. */
typedef struct stk_row_arena {
    uint64_t serial; /* of the batch it was cut from */
    uint32_t output;
    size_t left;
    uint8_t *at;
} stk_row_arena;

/* Room for a ragged row of `len` bytes; NULL: errno is EDQUOT for memory_limit, ENOMEM where the
 * system has none.  Thread: any, one a row. */
void *stk_batch_reserve(stk_batch *b, uint32_t output, uint32_t row, size_t len,
                        stk_row_arena *cut);
void stk_batch_unreserve(stk_batch *b, uint32_t output,
                         uint32_t row); /* before a row is filled again */

/* 1: rows of the output become one tensor; a batch of one is its row, unless that must grow. */
static inline int stk_out_pads(const stk_out_plan *p, uint32_t batch)
{
    return p->pad && (batch > 1 || p->multiple > 1 || p->joined);
}

/* Bytes of o->dense that are the tensor. */
static inline size_t stk_padded_bytes(const stk_batch *b, const stk_batch_out *o)
{
    return o->joined ? o->row_bytes : o->row_bytes * b->rows;
}

/* pad_rows.c: every row is there: make a tensor of an output that is to be padded. */
int stk_batch_pad(stk_batch *b, uint32_t output, stk_error *err);
void stk_batch_undense(stk_batch *b, stk_batch_out *o); /* let go of o->dense */
/* The value as an element of `dtype`; STK_EINVAL: it is none. */
int stk_pad_value(double v, stk_dtype dtype, uint8_t out[8], stk_error *err);

#endif

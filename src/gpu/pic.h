/* SPDX-License-Identifier: Apache-2.0 */
/* pic.h - the host's side of pictures on the GPU: a record from a picture and a view, and the plan
 * of a launch from a batch of records.
 *
 * Only that part of the file is copied that the view sees: from the seek point at or before its
 * first column to the end of the chunk in which its last column is, row by row of MCUs. */
#ifndef STOKER_PIC_H
#define STOKER_PIC_H

#include "base/mem.h"
#include "codec/jpeg_base.h"
#include "cuda/slab.h"
#include "kern/kern.h"

typedef struct stk_pic_range { /* bytes of the scan */
    uint32_t at, len;
} stk_pic_range;

/* A picture about to be written. */
typedef struct stk_pic_gather {
    stk_pic rec;
    const stk_jpeg_head *head;
    const uint8_t *scan; /* its byte number scan_at */
    uint64_t scan_at;
    stk_pic_range *range; /* in scratch memory */
    stk_pic_unit *unit;   /* likewise */
    uint32_t n_ranges;
    int all; /* the whole scan goes over, or is there: units count from its begin */
    uint8_t quant[3], dc[3], ac[3]; /* the file's numbers of the record's tables */
} stk_pic_gather;

typedef struct stk_pic_ask { /* what is wanted of a JPEG */
    const stk_view *view;
    /* what any record sees that shares its samples; NULL: only the view does */
    const stk_rect *wide;
    /* the whole scan goes over, so that it can be kept there: job->seek fits and is given */
    int all;
    /* the scan is kept there, at this place of the arena; head and seek are all that is known of
     * it: job->in is none.  0: it is not */
    uint64_t gpu_cached;
} stk_pic_ask;

/* What of a JPEG must go over: g->rec.size bytes.  job->seek: STK_PIC_SEEK, else STK_PIC_WHOLE.
 * One block of scratch, which must live until stk_pic_jpeg_write().
 * 0; STK_ENOTSUP: the host must decode it; STK_ESTALE: the seek points do not fit, or, with `all`,
 * the file ends before its scan; STK_ENOMEM. */
int stk_pic_jpeg_ask(stk_pic_gather *g, const stk_jpeg_job *job, const stk_pic_ask *ask,
                     stk_scratch *scratch, stk_error *err);

static inline int stk_pic_jpeg_size(stk_pic_gather *g, const stk_jpeg_job *job,
                                    const stk_view *view, stk_scratch *scratch, stk_error *err)
{
    return stk_pic_jpeg_ask(g, job, &(stk_pic_ask){ .view = view }, scratch, err);
}

/* A record of geometry alone: STK_PIC_SHARED, of a picture that `lead` decodes.  `lead` sees
 * something.  0, or STK_ENOTSUP. */
int stk_pic_shared_size(stk_pic_gather *g, const stk_pic *lead, const stk_view *view,
                        stk_error *err);

/* The record; `to` has g->rec.size bytes and is aligned to STK_PIC_ALIGN. */
void stk_pic_jpeg_write(void *to, const stk_pic_gather *g);

/* A record of pixels: STK_PIC_U8 (w * h of three bytes) or STK_PIC_READY (the output's row, `len`
 * bytes).  Its size; write: its head, and where the pixels go. */
size_t stk_pic_plain_size(size_t len);
void *stk_pic_plain_write(void *to, stk_pic_kind kind, uint32_t w, uint32_t h, size_t len);

/* STK_PIC_ON_GPU: a record of a picture that is on the GPU.  takes(): 0, or STK_ENOTSUP where a
 * view is beyond what device code does. */
size_t stk_pic_on_gpu_size(void);
int stk_pic_on_gpu_takes(const stk_view *view, uint32_t width, uint32_t height, stk_error *err);
/* The record's head, and the record. */
void stk_pic_on_gpu_head(stk_pic *r, const stk_view *view, uint32_t width, uint32_t height);
void stk_pic_on_gpu_write(void *to, const stk_view *view, uint32_t width, uint32_t height);

/* ---- a launch ---- */

static inline uint32_t stk_pic_dtype_of(stk_dtype t)
{
    return t == STK_F16    ? STK_PIC_AS_F16
           : t == STK_BF16 ? STK_PIC_AS_BF16
           : t == STK_F32  ? STK_PIC_AS_F32
                           : STK_PIC_AS_U8;
}

/* What one record adds to a launch.  Its writer asks, while the record is available. */
typedef struct stk_pic_share {
    uint64_t planes, rows, taps, units, tile; /* bytes of scratch */
    uint64_t sorts[STK_PIC_SORTS];            /* bit k: step k of its program is of this sort */
    uint32_t kind, n_units, n_steps;
    uint32_t work[5];    /* blocks of threads: sync, decode, across, down, a step of its tile */
    uint32_t duration;   /* of its units, 0..15: longer ones start first */
    uint32_t scan;       /* bytes of a scan that came whole, and may be kept; 0: not so */
    uint32_t gpu_cached; /* 1: its scan is there already */
    uint32_t size;       /* of the record */
    uint32_t lead;       /* SHARED: the output whose first record of the row decodes, + 1 */
} stk_pic_share;

stk_pic_share stk_pic_share_of(const stk_pic *rec);

static inline uint64_t stk_pic_share_scratch(const stk_pic_share *s)
{
    return s->planes + s->rows + s->taps + s->units + s->tile;
}

typedef struct stk_pic_item {
    stk_pic_share share;
    uint64_t at;        /* of the record in the slab */
    uint8_t *out;       /* the GPU's: where the picture goes ... */
    uint64_t out_bytes; /* ... and what it takes there */
    uint32_t row;       /* of its batch */
    uint32_t batch;     /* of those that are sent together */
    uint32_t source;    /* ON_GPU: which of the launch's */
    uint64_t keep;      /* where its data is to be kept in the arena; 0: it is not */
    /* SHARED: whose samples it reads; in a plan before, or before it in this one */
    const struct stk_pic_item *lead;
    /* what stk_pic_plan() says: where in scratch its samples are */
    uint64_t planes, planes_end;
    uint32_t step; /* ... while it plans: the next one that needs a launch */
} stk_pic_item;

/* Lists for the device, in memory of the caller's: jobs first, then work. */
typedef struct stk_pic_lists {
    void *memory; /* 16-byte aligned; what counts of it goes to the device as it is */
    size_t room;
    uint64_t scratch_room, scratch_from; /* bytes; those before `from` are another launch's */
    /* what stk_pic_plan() says */
    size_t bytes;     /* of memory that are used */
    uint64_t scratch; /* up to here */
    uint32_t n_jobs, n_sync, n_decode, n_across, n_down, n_tile, n_rounds;
    uint32_t round_n[STK_PIC_MAX_ROUNDS]; /* as stk_pic_launch has them */
    uint8_t round_sort[STK_PIC_MAX_ROUNDS];
    size_t job_at, sync_at, decode_at, across_at, down_at, tile_at; /* bytes from memory on */
} stk_pic_lists;

/* Bytes that lists of these records take. */
size_t stk_pic_lists_bytes(const stk_pic_item *item, uint32_t n);

/* Plan a launch over as many of the items, from the first on, as memory and scratch hold.  How
 * many; 0: not even one.  What wrote a record may be wrong about it: that shows as its status. */
uint32_t stk_pic_plan(stk_pic_lists *p, stk_pic_item *item, uint32_t n);

/* The pointers of a launch whose lists are at `lists` on the device. */
void stk_pic_launch_lists(stk_pic_launch *l, const stk_pic_lists *p, const void *lists);

#endif

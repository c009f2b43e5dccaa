/* SPDX-License-Identifier: Apache-2.0 */
/* pic.h - the host's side of pictures that a GPU makes: writes a record for a picture and a view,
 * and plans a launch for a batch of records.  Rows write records (row/row_gpu.c), pictures.c
 * launches.
 *
 * Only the part of the file that the view sees is copied: for each row of MCUs (JPEG's units of
 * blocks), from the seek point before its first column to the end of the chunk with its last
 * column. */
#ifndef STOKER_PIC_H
#define STOKER_PIC_H

#include "base/mem.h"
#include "codec/jpeg_base.h"
#include "cuda/slab.h"
#include "kern/kern.h"
#include "kern/yuv.h"

typedef struct stk_pic_range { /* a range of bytes of the scan */
    uint32_t at, len;
} stk_pic_range;

/* A picture whose record is to be written. */
typedef struct stk_pic_gather {
    stk_pic rec;
    const stk_jpeg_head *head;
    const uint8_t *scan; /* points to byte number scan_at of the scan */
    uint64_t scan_at;
    stk_pic_range *range; /* both in scratch memory */
    stk_pic_unit *unit;   /* likewise */
    uint32_t n_ranges;
    int all; /* the whole scan is sent, or is on the GPU, and offsets count from its beginning */
    uint8_t quant[3], dc[3], ac[3]; /* the numbers that the record's tables have in the file */
} stk_pic_gather;

typedef struct stk_pic_ask { /* what to make of a JPEG */
    const stk_view *view;
    /* union of what the records that share its samples see; NULL: only the view */
    const stk_rect *wide;
    /* send the whole scan, so that it can be cached; job->seek is given and fits */
    int all;
    /* the scan is in the cache, at this offset of the arena; then only head and seek are known, and
     * job->in is empty.  0: it is not */
    uint64_t gpu_cached;
} stk_pic_ask;

/* Finds out what of a JPEG must be sent: g->rec.size bytes.  With job->seek: STK_PIC_SEEK,
 * otherwise STK_PIC_WHOLE.  Takes one block of scratch, which must be valid until
 * stk_pic_gather_write().  0; STK_ENOTSUP: the host must decode it; STK_ESTALE: the seek points do
 * not fit or, with `all`, the file ends before its scan; STK_ENOMEM. */
int stk_pic_jpeg_ask(stk_pic_gather *g, const stk_jpeg_job *job, const stk_pic_ask *ask,
                     stk_scratch *scratch, stk_error *err);

static inline int stk_pic_jpeg_size(stk_pic_gather *g, const stk_jpeg_job *job,
                                    const stk_view *view, stk_scratch *scratch, stk_error *err)
{
    return stk_pic_jpeg_ask(g, job, &(stk_pic_ask){ .view = view }, scratch, err);
}

/* A record with geometry only (STK_PIC_SHARED), for a picture that `lead` decodes; `lead` sees some
 * of it.  0, or STK_ENOTSUP. */
int stk_pic_shared_size(stk_pic_gather *g, const stk_pic *lead, const stk_view *view,
                        stk_error *err);

/* Writes the record; `to` has g->rec.size bytes and is aligned to STK_PIC_ALIGN. */
void stk_pic_gather_write(void *to, const stk_pic_gather *g);

/* A record with pixels: STK_PIC_U8 (w * h of three bytes) or STK_PIC_READY (the output's row, `len`
 * bytes).  The first function returns its size; the second writes its head and returns where the
 * pixels go. */
size_t stk_pic_plain_size(size_t len);
void *stk_pic_plain_write(void *to, stk_pic_kind kind, uint32_t w, uint32_t h, size_t len);

/* STK_PIC_ON_GPU: a record for a picture that is on the GPU.  takes(): 0, or STK_ENOTSUP if device
 * code can't make such a view. */
size_t stk_pic_on_gpu_size(void);
int stk_pic_on_gpu_takes(const stk_view *view, uint32_t width, uint32_t height, stk_error *err);
/* The record's head, and the record. */
void stk_pic_on_gpu_head(stk_pic *r, const stk_view *view, uint32_t width, uint32_t height);
void stk_pic_on_gpu_write(void *to, const stk_view *view, uint32_t width, uint32_t height);

/* ---- frames of videos ---- */

/* A frame about to be written: what of its planes the view sees. */
typedef struct stk_pic_framed {
    stk_pic rec;
    stk_pic_yuv yuv;
    const stk_planes *planes;
} stk_pic_framed;

/* Sets *g for a frame.  p must live until the record is written.  STK_ENOTSUP: the host must finish
 * the frame. */
int stk_pic_frame_ask(stk_pic_framed *g, const stk_planes *p, const stk_view *view, stk_error *err);
void stk_pic_frame_write(void *to, const stk_pic_framed *g);
/* The head of a record for a frame whose planes are on the GPU already; and its colors. */
int stk_pic_frame_head(stk_pic *r, const stk_view *view, uint32_t width, uint32_t height,
                       stk_error *err);
void stk_pic_yuv_colors(stk_pic_yuv *f, const stk_yuv *c, uint32_t siting);
/* Writes a record STK_PIC_MADE, of stk_pic_on_gpu_size() bytes: the picture is made already. */
void stk_pic_made_write(void *to);

/* ---- a launch ---- */

static inline uint32_t stk_pic_dtype_of(stk_dtype t)
{
    return t == STK_F16    ? STK_PIC_AS_F16
           : t == STK_BF16 ? STK_PIC_AS_BF16
           : t == STK_F32  ? STK_PIC_AS_F32
                           : STK_PIC_AS_U8;
}

/* What one record adds to a launch.  Computed by the writer of the record. */
typedef struct stk_pic_share {
    uint64_t planes, rows, taps, units, tile; /* bytes of scratch memory */
    uint64_t sorts[STK_PIC_SORTS];            /* bit k: step k of its program has this sort */
    uint32_t kind, n_units, n_steps;
    uint32_t work[5];    /* blocks of threads: sync, decode, across, down, a step of its tile */
    uint32_t duration;   /* length of its units, 0..15: longer ones start first */
    uint32_t scan;       /* bytes of a scan that was sent whole and may be cached; 0: it was not */
    uint32_t gpu_cached; /* 1: its scan is in the GPU's cache */
    uint32_t size;       /* size of the record */
    uint32_t lead; /* SHARED: number + 1 of the output whose first record of the row decodes it */
    struct stk_gpu_clip *clip; /* MADE: the clip on the GPU, for a row's first record */
} stk_pic_share;

stk_pic_share stk_pic_share_of(const stk_pic *rec);

static inline uint64_t stk_pic_share_scratch(const stk_pic_share *s)
{
    return s->planes + s->rows + s->taps + s->units + s->tile;
}

typedef struct stk_pic_item {
    stk_pic_share share;
    uint64_t at;        /* offset of the record in the slab */
    uint8_t *out;       /* where the picture goes, in GPU memory */
    uint64_t out_bytes; /* bytes that its own pixels take there */
    stk_pic_lay lay;
    uint32_t row;    /* row of its batch */
    uint32_t batch;  /* which of the batches that are sent together */
    uint32_t source; /* ON_GPU: which picture of the launch */
    uint64_t keep;   /* offset in the arena where its data is cached; 0: it is not */
    /* SHARED: the item whose samples it reads, earlier in this plan or in a plan before */
    const struct stk_pic_item *lead;
    /* set by stk_pic_plan(): offset of its samples in scratch memory */
    uint64_t planes, planes_end;
    uint32_t step; /* used by stk_pic_plan(): its next step that needs a launch */
} stk_pic_item;

/* Lists for the GPU, in memory of the caller: first jobs, then work. */
typedef struct stk_pic_lists {
    void *memory; /* 16-byte aligned; the first `bytes` are copied to the GPU */
    size_t room;
    /* bytes of scratch; those before scratch_from belong to another launch */
    uint64_t scratch_room, scratch_from;
    /* set by stk_pic_plan() */
    size_t bytes;     /* bytes of `memory` that are used */
    uint64_t scratch; /* end of the scratch memory that is used */
    uint32_t n_jobs, n_sync, n_decode, n_across, n_down, n_tile, n_rounds;
    uint32_t round_n[STK_PIC_MAX_ROUNDS]; /* as in stk_pic_launch */
    uint8_t round_sort[STK_PIC_MAX_ROUNDS];
    size_t job_at, sync_at, decode_at, across_at, down_at, tile_at; /* offsets in `memory` */
} stk_pic_lists;

/* Bytes that the lists of these records take. */
size_t stk_pic_lists_bytes(const stk_pic_item *item, uint32_t n);

/* Plans a launch for as many items, from the first on, as memory and scratch hold, and returns how
 * many; 0: not even one.  If a record is wrong, its status shows it after the launch. */
uint32_t stk_pic_plan(stk_pic_lists *p, stk_pic_item *item, uint32_t n);

/* Sets the pointers of a launch whose lists are at `lists` on the GPU. */
void stk_pic_launch_lists(stk_pic_launch *l, const stk_pic_lists *p, const void *lists);

#endif

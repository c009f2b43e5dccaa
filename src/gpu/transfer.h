/* SPDX-License-Identifier: Apache-2.0 */
/* transfer.h - one transfer to a GPU: a few batches that are copied and decoded together.  Private
 * to device.c and pictures.c. */
#ifndef STOKER_TRANSFER_H
#define STOKER_TRANSFER_H

#include "base/lock.h"
#include "gpu/device.h"
#include "gpu/pic.h"
#include "fetch/request.h"

#define STK_MAX_WAITING 256 /* a ring has no more slots */

typedef struct stk_room { /* memory that only grows */
    void *data;
    size_t size;
} stk_room;

typedef struct stk_pictures { /* the pictures of one output, in all batches of a transfer */
    stk_room host, gpu;       /* arguments and results of the kernels, on the host and on the GPU */
    uint32_t lead;  /* output that decodes pictures shared with this one; itself if none */
    uint8_t *lists; /* lists of work: in `host`, and in `gpu` at lists_at */
    size_t lists_at, lists_room, lists_used;
    size_t slab_at[STK_PIC_BATCHES]; /* where each batch begins in the slab */
    size_t slab_bytes;               /* bytes of its records in the slab */
    uint32_t n;                      /* pictures in all batches; 0: the output has none */
    stk_pic_item *item;              /* by picture, in `host` */
    uint32_t *first; /* by row of all batches, and one more: its first picture; likewise */
    /* by batch: its frames before their channels go to separate planes; NULL: they are in place */
    stk_buffer *apart[STK_PIC_BATCHES];
    int claimed; /* places in the cache that were reserved for some of them (picture_cache.h) */
    uint32_t *status; /* by picture, in `host`: copied back when the kernels have finished */
} stk_pictures;

/* For rows of shape (channel, time, height, width): number of the plane of channel c, picture i. */
static inline size_t stk_apart_at(const stk_spec *spec, uint32_t i, uint32_t c)
{
    uint32_t frames = stk_spec_lead(spec, STK_LEAD_FRAMES);

    return ((size_t)(i / frames) * 3 + c) * frames + i % frames;
}

typedef struct stk_queued_batch {
    stk_batch *batch;
    stk_ticket *ticket;
} stk_queued_batch;

typedef struct stk_gpu_transfer {
    stk_device *device;
    void *stream;
    int busy;                    /* device->lock */
    void *begin, *copied, *made; /* events for timing */
    int timed;                   /* true if these were recorded */
    stk_room slab, scratch;      /* on the GPU */
    stk_room places;             /* on the GPU: where rows of arrays are, for all its batches */
    size_t places_used;
    stk_room mixes;         /* on the GPU: arguments for mixing rows, for all its batches */
    int mixing;             /* true while rows are mixed, after everything was copied */
    stk_pictures *pictures; /* by output */
    stk_queued_batch on[STK_PIC_BATCHES]; /* its batches */
    uint32_t n;
    int rc;                        /* CUDA's error, once it has finished */
    struct stk_gpu_transfer *next; /* device->lock: in the list of finished transfers */
} stk_gpu_transfer;

struct stk_device {
    const stk_cuda *cuda;
    int gpu;
    stk_gpu_info info;
    stk_gpu_pool *pool;
    stk_picture_cache *keep;        /* cache of pictures; NULL: none */
    stk_gpu_clips *clips;           /* NULL: workers decode all videos */
    _Atomic uint64_t clip_count[2]; /* by workers; by the GPU */
    stk_array_cache *arrays;        /* cache of arrays; NULL: none */
    uint32_t blocks;                /* most blocks of threads at once; 0: no limit */
    stk_mutex lock;
    pthread_cond_t wake; /* signalled when a transfer has finished, or on shut */
    stk_queued_batch waiting[STK_MAX_WAITING]; /* lock: from `first` to before `end` */
    uint32_t first, end;                       /* lock; taken modulo STK_MAX_WAITING */
    stk_gpu_transfer *done, **done_tail;       /* lock */
    int shut;                                  /* lock: true when nothing more is sent */
    stk_gpu_transfer transfer[STK_MAX_TRANSFERS];
    stk_gpu_transfer redo; /* the consumer's transfer, for rows that are repaired */
    uint32_t n_transfers, n_out;
    uint32_t group; /* most batches of a transfer */
    uint64_t limit;
    _Atomic uint64_t rooms;   /* bytes of GPU memory in all rooms */
    stk_device_stats figures; /* lock */
};

/* Grows to at least `size` bytes; the content is lost.  No work on the transfer's stream may use
 * it. */
int stk_staging_grow(stk_device *d, stk_room *r, size_t size, stk_error *err);
int stk_gpu_scratch_grow(stk_device *d, stk_room *r, size_t size, stk_error *err);

/* device.c: sends a batch that waits for nothing any more. */
void stk_device_queue(stk_device *d, stk_batch *b, stk_ticket *ticket);
int stk_device_fail(const stk_device *d, int rc, const char *what, stk_error *err);

/* pictures.c: sends the slabs of all outputs that are pictures, for all batches of the transfer,
 * and queues their kernels on its stream. */
int stk_pictures_send(stk_gpu_transfer *f, stk_error *err);
/* The kernels have finished: marks rows that could not be made.  0 or STK_ENOMEM. */
int stk_pictures_done(stk_gpu_transfer *f, uint32_t output);
/* The transfer failed: what was to be cached is not. */
void stk_pictures_lost(stk_gpu_transfer *f, uint32_t output);

#endif

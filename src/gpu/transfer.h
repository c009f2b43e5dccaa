/* SPDX-License-Identifier: Apache-2.0 */
/* transfer.h - one batch on its way to a GPU; private to device.c and pictures.c. */
#ifndef STOKER_TRANSFER_H
#define STOKER_TRANSFER_H

#include "base/lock.h"
#include "gpu/device.h"
#include "gpu/pic.h"
#include "fetch/request.h"

#define STK_MAX_WAITING 256 /* no ring has more slots */

typedef struct stk_room { /* memory that only grows */
    void *data;
    size_t size;
} stk_room;

typedef struct stk_pictures { /* one output's pictures */
    stk_room host, gpu;       /* what the kernels are told and say: on the host and on the GPU */
    uint32_t lead;            /* the output whose records decode some of its pictures, or itself */
    uint8_t *lists;           /* in `host`, and in `gpu` from lists_at on */
    size_t lists_at, lists_room, lists_used;
    size_t slab_at[STK_PIC_BATCHES]; /* where each batch begins in the slab */
    size_t slab_bytes;               /* that its records take there */
    uint32_t n;                      /* of all batches; 0: the output has none */
    stk_pic_item *item;              /* of each, in `host` */
    int claimed;                     /* places for some of them (picture_cache.h) */
    uint32_t *status; /* of each, in `host`: comes back when the kernels are through */
} stk_pictures;

typedef struct stk_queued_batch {
    stk_batch *batch;
    stk_ticket *ticket;
} stk_queued_batch;

typedef struct stk_gpu_transfer {
    stk_device *device;
    void *stream;
    int busy;                    /* device->lock */
    void *begin, *copied, *made; /* events that are timed */
    int timed;                   /* they were recorded */
    stk_room slab, scratch;      /* the GPU's */
    stk_room places;             /* the GPU's: where rows of arrays are, of all its batches */
    size_t places_used;
    stk_room mixes;         /* the GPU's: what rows that are mixed get, of all its batches */
    int mixing;             /* all is there, and rows are mixed with each other */
    stk_pictures *pictures; /* of each output */
    stk_queued_batch on[STK_PIC_BATCHES]; /* batches */
    uint32_t n;
    int rc;                    /* CUDA's error, when it is through */
    struct stk_gpu_transfer *next; /* device->lock: in the list of finished transfers */
} stk_gpu_transfer;

struct stk_device {
    const stk_cuda *cuda;
    int gpu;
    stk_gpu_info info;
    stk_gpu_pool *pool;
    stk_picture_cache *keep; /* pictures that stay there; NULL: none do */
    stk_array_cache *arrays; /* arrays that do */
    uint32_t blocks;         /* of threads at once; 0: no bound */
    stk_mutex lock;
    pthread_cond_t wake;                       /* a transfer is finished, or shut */
    stk_queued_batch waiting[STK_MAX_WAITING]; /* lock: from `first` to before `end` */
    uint32_t first, end;                       /* lock; taken modulo STK_MAX_WAITING */
    stk_gpu_transfer *done, **done_tail;       /* lock */
    int shut;                                  /* lock: nothing more is sent */
    stk_gpu_transfer transfer[STK_MAX_TRANSFERS];
    stk_gpu_transfer redo; /* the consumer's, for single rows */
    uint32_t n_transfers, n_out;
    uint32_t group; /* batches of a transfer, at most */
    uint64_t limit;
    _Atomic uint64_t rooms;   /* bytes there of all rooms */
    stk_device_stats figures; /* lock */
};

/* At least `size` bytes; what was there is lost.  Nothing on the transfer's stream uses it. */
int stk_staging_grow(stk_device *d, stk_room *r, size_t size, stk_error *err);
int stk_gpu_scratch_grow(stk_device *d, stk_room *r, size_t size, stk_error *err);

int stk_device_fail(const stk_device *d, int rc, const char *what, stk_error *err);

/* pictures.c: slabs of all batches of a transfer, of all outputs that are pictures, and their
 * kernels, on the transfer's stream. */
int stk_pictures_send(stk_gpu_transfer *f, stk_error *err);
/* The kernels are through: mark rows that could not be made.  0 or STK_ENOMEM. */
int stk_pictures_done(stk_gpu_transfer *f, uint32_t output);
/* They never will be: what was to be cached was not. */
void stk_pictures_lost(stk_gpu_transfer *f, uint32_t output);

#endif

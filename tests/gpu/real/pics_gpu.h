/* SPDX-License-Identifier: Apache-2.0 */
/* pics_gpu.h - what the parts of pics_gpu share: pictures in memory, batches of views, the
 * device. */
#ifndef STOKER_PICS_GPU_H
#define STOKER_PICS_GPU_H

#include <stdio.h>
#include <stdlib.h>

#include <cuda_runtime_api.h>

#include "base/rng.h"
#include "cuda/pic_run.h"
#include "gpu/pic.h"
#include "kern/sample.h"

typedef struct photo { /* a JPEG with its seek points */
    stk_bytes in;
    stk_jpeg_head head;
    stk_jpeg_seek seek;
} photo;

typedef struct album {
    photo *photo;
    uint32_t n;
    stk_jpeg *j;
    stk_scratch scratch;
    stk_rng rng;
    stk_error err;
} album;

typedef struct set { /* a batch on both sides */
    uint32_t n, w, h, type;
    int whole; /* without seek points */
    stk_view *view;
    uint32_t *of; /* which photo */
    stk_pic_item *item;
    uint8_t *slab, *lists, *out; /* pinned */
    uint32_t *status;            /* pinned */
    size_t slab_len, slab_room, lists_room;
    stk_pic_lists plan;
    stk_pic_launch l;
    cudaStream_t stream;
    uint8_t *d_slab, *d_lists;
} set;

typedef struct kind_of {
    stk_dtype dtype;
    stk_pic_dtype as;
    stk_layout layout;
    const char *name;
} kind_of;
extern const kind_of kinds_of[8];

#define CUDA(call)                                                                                 \
    do {                                                                                           \
        cudaError_t cuda_rc = (cudaError_t)(call);                                                 \
        if (cuda_rc != cudaSuccess) {                                                              \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(cuda_rc));       \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

double now(void);

/* n views of w x h; type: of kinds_of; crops: only random_resized_crop and mirrors, as training has
 * them. */
void set_open(set *s, uint32_t n, uint32_t w, uint32_t h, uint32_t type);
void set_fill(set *s, album *a, int crops);
void set_plan(set *s);
void set_copy(set *s);
void set_launch(set *s);
void set_fetch(set *s);
void set_close(set *s);

/* The programs. */
int check_all(album *a, uint32_t views);
int hostile_all(album *a, uint32_t batches);
int bench_all(album *a, uint32_t batch);

#endif

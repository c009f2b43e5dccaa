/* SPDX-License-Identifier: Apache-2.0 */
/* coded.h - pictures that a GPU decodes: what of a file goes over, and how its record is written.
 * row_gpu.c takes the first coding that a picture's file is of; a coding is one entry of the table
 * and one file (coded_jpeg.c). */
#ifndef STOKER_GPU_CODED_H
#define STOKER_GPU_CODED_H

#include "codec/jpeg_base.h"
#include "gpu/pic.h"

typedef struct stk_gpu_coding stk_gpu_coding;

typedef struct stk_gpu_file { /* a picture's file, or the part of it that was read */
    const stk_gpu_coding *coding;
    struct {
        stk_jpeg_job job;
        stk_jpeg_head head; /* of a file that is known by its points alone */
        stk_jpeg_seek seek;
    } jpeg;
} stk_gpu_file;

struct stk_gpu_coding {
    const char *name;
    /* What of it holds `need`; errors: the host decodes it. */
    int (*peek)(const stk_picture_source *from, const stk_rect *need, stk_gpu_file *out);
    /* By its points alone: the GPU has all else. */
    int (*recall)(stk_bytes points, stk_gpu_file *out, stk_image_info *size, stk_error *err);
    int (*has_points)(const stk_gpu_file *f);
    /* Points that do not fit are forgotten.  0: without them this part says nothing. */
    int (*drop_points)(stk_gpu_file *f);
    /* Bytes of it that a GPU caches, so that its points are enough later.  0: they never are. */
    uint64_t (*cached_bytes)(const stk_gpu_file *f);
    int (*points_fit)(const stk_gpu_file *f); /* checked against all that was read */
    /* What of it must be sent, as stk_pic_jpeg_ask(); stk_pic_gather_write() writes it. */
    int (*ask)(stk_pic_gather *g, const stk_gpu_file *f, const stk_pic_ask *ask,
               stk_scratch *scratch, stk_error *err);
};

extern const stk_gpu_coding stk_gpu_jpeg; /* coded_jpeg.c */

/* peek() and recall() of the first coding that it is of; sets out->coding. */
int stk_gpu_file_peek(const stk_picture_source *from, const stk_rect *need, stk_gpu_file *out);
int stk_gpu_file_recall(stk_bytes points, stk_gpu_file *out, stk_image_info *size, stk_error *err);

#endif

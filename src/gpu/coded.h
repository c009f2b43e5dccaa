/* SPDX-License-Identifier: Apache-2.0 */
/* coded.h - the picture formats that a GPU decodes: which bytes of a file are sent, and how the
 * picture's record is written.  row_gpu.c uses the first coding that accepts a file.  A coding is
 * one entry of the table in coded.c and one file (coded_jpeg.c). */
#ifndef STOKER_GPU_CODED_H
#define STOKER_GPU_CODED_H

#include "codec/jpeg_base.h"
#include "gpu/pic.h"

typedef struct stk_gpu_coding stk_gpu_coding;

typedef struct stk_gpu_file { /* a picture's file, or the part of it that was read */
    const stk_gpu_coding *coding;
    struct {
        stk_jpeg_job job;
        stk_jpeg_head head; /* used by recall(), when only the points are known */
        stk_jpeg_seek seek;
    } jpeg;
} stk_gpu_file;

struct stk_gpu_coding {
    const char *name;
    /* Sets *out for a file, or a part of one, that holds the rectangle `need`.  STK_ENOTSUP: it is
     * of another coding.  After any error the host decodes it. */
    int (*peek)(const stk_picture_source *from, const stk_rect *need, stk_gpu_file *out);
    /* The same from its points alone, when the GPU has cached the rest. */
    int (*recall)(stk_bytes points, stk_gpu_file *out, stk_image_info *size, stk_error *err);
    int (*has_points)(const stk_gpu_file *f); /* 1: its points are used */
    /* Stops using points that do not fit.  0: the part that was read is useless without them. */
    int (*drop_points)(stk_gpu_file *f);
    /* Bytes that a GPU has to cache so that recall() is enough later.  0: the file can't be
     * cached. */
    uint64_t (*cached_bytes)(const stk_gpu_file *f);
    /* 1: all bytes that were read agree with the points */
    int (*points_fit)(const stk_gpu_file *f);
    /* Finds out what must be sent, as stk_pic_jpeg_ask() does; stk_pic_gather_write() writes it. */
    int (*ask)(stk_pic_gather *g, const stk_gpu_file *f, const stk_pic_ask *ask,
               stk_scratch *scratch, stk_error *err);
};

extern const stk_gpu_coding stk_gpu_jpeg; /* coded_jpeg.c */

/* peek() and recall() of the first coding that accepts the file; they set out->coding. */
int stk_gpu_file_peek(const stk_picture_source *from, const stk_rect *need, stk_gpu_file *out);
int stk_gpu_file_recall(stk_bytes points, stk_gpu_file *out, stk_image_info *size, stk_error *err);

#endif

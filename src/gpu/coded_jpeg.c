/* SPDX-License-Identifier: Apache-2.0 */
/* coded_jpeg.c - JPEGs: a scan, or the runs of it that a view needs. */
#include "gpu/coded.h"

static int peek(const stk_picture_source *from, const stk_rect *need, stk_gpu_file *out)
{
    return stk_jpeg_peek(from, need, &out->jpeg.job);
}

static int recall(stk_bytes points, stk_gpu_file *out, stk_image_info *size, stk_error *err)
{
    STK_TRY(stk_jpeg_seek_open(&out->jpeg.seek, &out->jpeg.head, points, err));
    out->jpeg.job = (stk_jpeg_job){ .head = &out->jpeg.head, .seek = &out->jpeg.seek };
    *size = (stk_image_info){ out->jpeg.head.width, out->jpeg.head.height };
    return 0;
}

static int has_points(const stk_gpu_file *f)
{
    return f->jpeg.job.seek != NULL;
}

static int drop_points(stk_gpu_file *f)
{
    if (f->jpeg.job.at) /* of a part, the host reads the whole */
        return 0;
    f->jpeg.job.seek = NULL;
    return 1;
}

/* The whole scan, with two bytes that end it. */
static uint64_t cached_bytes(const stk_gpu_file *f)
{
    const stk_jpeg_job *job = &f->jpeg.job;

    return job->seek && !job->at ? (uint64_t)job->seek->scan_len + 2 : 0;
}

static int points_fit(const stk_gpu_file *f)
{
    const stk_jpeg_job *job = &f->jpeg.job;

    return stk_jpeg_seek_check(job->seek, job->head, job->in, NULL) == 0;
}

static int ask_jpeg(stk_pic_gather *g, const stk_gpu_file *f, const stk_pic_ask *ask,
                    stk_scratch *scratch, stk_error *err)
{
    return stk_pic_jpeg_ask(g, &f->jpeg.job, ask, scratch, err);
}

const stk_gpu_coding stk_gpu_jpeg = { .name = "jpeg",
                                      .peek = peek,
                                      .recall = recall,
                                      .has_points = has_points,
                                      .drop_points = drop_points,
                                      .cached_bytes = cached_bytes,
                                      .points_fit = points_fit,
                                      .ask = ask_jpeg };

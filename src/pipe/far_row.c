/* SPDX-License-Identifier: Apache-2.0 */
/* far_row.c - one picture on its way to a GPU: its record, in its row of the batch's slab. */
#include "device/pic.h"
#include "pipe/engine.h"

/* What it takes to make the picture: while the record is at hand, not when all of them are sent. */
static void note(stk_batch *b, uint32_t output, uint32_t row, const void *record)
{
    stk_pic_share *s = (stk_pic_share *)(void *)b->out[output].note;

    s[row] = stk_pic_share_of(record);
}

int stk_row_record(stk_worker *w, stk_batch *b, uint32_t output, uint32_t row, const stk_left *l)
{
    stk_pic_gather g;
    stk_jpeg_job job;
    void *to;
    int rc;

    if (stk_jpeg_peek(l->ctx, l->need, &job) < 0)
        return 0;
    job.color = l->ycc ? STK_JPEG_YCC : STK_JPEG_RGB;
    rc = stk_pic_jpeg_size(&g, &job, l->view, &w->scratch, NULL);
    if (rc == STK_ESTALE) { /* as the host would */
        job.seek = NULL;
        rc = stk_pic_jpeg_size(&g, &job, l->view, &w->scratch, NULL);
        stk_count(&w->count.lane[STK_LANE_MISFIT], rc == 0);
    }
    to = rc == 0 ? stk_batch_reserve(b, output, row, g.rec.size, NULL) : NULL;
    if (!to)
        return 0;
    stk_pic_jpeg_write(to, &g);
    note(b, output, row, to);
    stk_count(&w->count.lane[STK_LANE_SEEK], job.seek != NULL);
    return 1;
}

/* Color and type behind sampling cost a GPU nothing and save half of the way or more; what was
 * sampled as Y, Cb, Cr has more than 8 bits, and stays as it is. */
int stk_row_plain(stk_worker *w, stk_batch *b, uint32_t output, uint32_t row, stk_sample_job *job,
                  stk_error *err)
{
    const stk_view *v = job->view;
    size_t pixels = (size_t)v->vis_w * v->vis_h * 3, len = pixels * stk_dtype_size(job->dtype);
    stk_pic_kind kind = STK_PIC_READY;
    void *to;

    if (job->dtype != STK_U8 && job->pixels->space == STK_RGBX && !w->alone) {
        kind = STK_PIC_U8;
        len = pixels;
        job->dtype = STK_U8;
        job->layout = STK_HWC;
        for (int c = 0; c < 3; c++) {
            job->mul[c] = 1;
            job->add[c] = 0;
        }
    }
    to = stk_batch_reserve(b, output, row, stk_pic_plain_size(len), NULL);
    if (!to)
        return stk_fail(err, STK_ENOMEM, "memory_limit leaves no room for its output");
    job->dst = stk_pic_plain_write(to, kind, v->vis_w, v->vis_h, len);
    note(b, output, row, to);
    return 0;
}

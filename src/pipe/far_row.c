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

static stk_kept whose(const stk_engine *e, const stk_where *where, uint32_t output)
{
    return (stk_kept){ e->schedule->start[where->dataset] + where->sample,
                       e->plan->outputs.common->out[output].keep - 1 };
}

void stk_row_find_kept(const stk_worker *w, stk_request *r, const uint16_t *fields)
{
    const stk_engine *e = w->engine;
    const stk_keep *k = e->plan->gpu.device && !r->from_files ? stk_device_kept(e->plan->gpu.device) : NULL;
    stk_bytes near[STK_MAX_OUTPUTS];
    int small = k &&
                stk_small_find(e->plan->cache.fields, whose(e, &r->where, 0).sample, near, e->plan->chains.n_out);

    for (uint32_t i = 0; i < e->plan->chains.n_out; i++) {
        r->want[i].kept = k && e->plan->outputs.common->out[i].keep && fields[i] != UINT16_MAX
                              ? stk_keep_find(k, whose(e, &r->where, i))
                              : 0;
        r->want[i].at_hand = small ? near[i] : (stk_bytes){ 0 };
    }
}

/* 1: the picture of an output goes over to be kept, or is there. */
static int stays(const stk_batch *b, uint32_t output, uint32_t row)
{
    const stk_pic_share *s = (const stk_pic_share *)(const void *)b->out[output].note;

    return s[row].scan || s[row].kept;
}

void stk_row_keep_small(const stk_worker *w, const stk_request *r, const stk_batch *b, uint32_t row)
{
    const stk_engine *e = w->engine;
    stk_bytes near[STK_MAX_OUTPUTS] = { 0 };
    uint32_t n = 0;

    if (w->alone)
        return;
    for (uint32_t i = 0; i < r->n; i++) {
        const stk_wanted *want = &r->want[i];

        if (e->plan->outputs.common->out[i].keep && !stays(b, i, row))
            return; /* its file is read anyway */
        if (e->plan->outputs.common->out[i].keep || want->number == UINT16_MAX)
            continue;
        if (want->at_hand.data || e->plan->chains.open_root[i])
            return;
        near[i] = want->bytes;
        n++;
    }
    if (n)
        stk_small_put(e->plan->cache.fields, whose(e, &r->where, 0).sample, near, r->n);
}

int stk_row_was_kept(const stk_request *r)
{
    for (uint32_t i = 0; i < r->n && !r->from_files; i++)
        if (r->want[i].kept)
            return 1;
    return 0;
}

int stk_row_kept(stk_worker *w, stk_batch *b, uint32_t output, uint32_t row,
                 const stk_kept_picture *p)
{
    stk_jpeg_job job = { .head = p->head,
                         .seek = p->seek,
                         .color = p->ycc ? STK_JPEG_YCC : STK_JPEG_RGB };
    stk_pic_gather g;
    void *to;

    STK_TRY(stk_pic_jpeg_size_kept(&g, &job, p->at, p->view, &w->scratch, NULL));
    to = stk_batch_reserve(b, output, row, g.rec.size, NULL);
    if (!to)
        return STK_ENOMEM;
    stk_pic_jpeg_write(to, &g);
    note(b, output, row, to);
    stk_count(&w->count.lane[STK_LANE_SEEK], 1);
    return 0;
}

/* Is the picture to go over whole, to be kept there?  Later all that is known of it is in its seek
 * points, so they must be of this very file. */
static int to_keep(const stk_worker *w, uint32_t output, const stk_left *l, const stk_jpeg_job *job)
{
    const stk_engine *e = w->engine;

    return e->plan->outputs.common->out[output].keep && job->seek && l->need->w &&
           stk_keep_wants(stk_device_kept(e->plan->gpu.device), whose(e, &l->where, output),
                          (uint64_t)job->seek->scan_len + 2) &&
           stk_jpeg_seek_check(job->seek, job->head, job->in, NULL) == 0;
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
    rc = to_keep(w, output, l, &job) ? stk_pic_jpeg_size_all(&g, &job, l->view, &w->scratch, NULL)
                                     : STK_ESTALE;
    if (rc == STK_ESTALE)
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

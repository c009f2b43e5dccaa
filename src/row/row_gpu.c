/* SPDX-License-Identifier: Apache-2.0 */
/* row_gpu.c - a picture on its way to a GPU: its record, in its row of the batch's slab; and what
 * the GPU has already. */
#include "gpu/pic_program.h"
#include "row/row.h"

static uint32_t views_of(const stk_row *x)
{
    uint32_t n = stk_row_chain(x)->spec.views;

    return n ? n : 1;
}

/* What it takes to make the picture, or a view of it: while the record is written, not when all of them
 * are sent. */
static void note(const stk_row *x, uint32_t view, const void *record)
{
    stk_pic_share *s = (stk_pic_share *)(void *)x->batch->out[x->output].note;

    s[(size_t)x->row * views_of(x) + view] = stk_pic_share_of(record);
}

static stk_cache_key whose(const stk_row *x, const stk_where *where, uint32_t output)
{
    return (stk_cache_key){ stk_schedule_id(x->schedule, where),
                       x->plan->outputs.common->out[output].keep - 1 };
}

/* Room for a record; one may be here whose sample went bad later on. */
static void *record_place(stk_row *x, size_t size)
{
    stk_row_fresh(x);
    return stk_batch_reserve(x->batch, x->output, x->row, size, NULL);
}

/* ---- what the GPU keeps ---- */

void stk_row_gpu_find(stk_row *x)
{
    const stk_plan *p = x->plan;
    const stk_picture_cache *k = stk_device_kept(p->gpu.device);
    stk_request *r = x->req;
    stk_bytes *near = r->scratch;
    int small = stk_field_cache_find(p->cache.fields, stk_schedule_id(x->schedule, &r->where), near,
                               p->chains.n_out);

    for (uint32_t i = 0; i < p->chains.n_out; i++) {
        r->want[i].kept = p->cache.keep[i] && r->want[i].number != UINT16_MAX
                              ? stk_picture_cache_find(k, whose(x, &r->where, i))
                              : 0;
        r->want[i].cached_bytes = small ? near[i] : (stk_bytes){ 0 };
    }
}

void stk_row_gpu_forget(stk_row *x)
{
    for (uint32_t i = 0; i < x->plan->chains.n_out; i++) {
        x->req->want[i].kept = 0;
        x->req->want[i].cached_bytes = (stk_bytes){ 0 };
    }
}

/* 1: the picture of an output goes over to be kept, or is there. */
static int stays(const stk_batch *b, uint32_t output, uint32_t row)
{
    const stk_pic_share *s = (const stk_pic_share *)(const void *)b->out[output].note;

    return s[row].scan || s[row].kept;
}

/* Of a sample whose pictures are kept, its small fields are too, here. */
static void keep_small(const stk_row *x)
{
    const stk_plan *p = x->plan;
    const stk_request *r = x->req;
    stk_bytes *near = r->scratch;
    uint32_t n = 0;

    for (uint32_t i = 0; i < r->n; i++) {
        const stk_wanted *want = &r->want[i];

        near[i] = (stk_bytes){ 0 };
        if (p->cache.keep[i] && !stays(x->batch, i, x->row))
            return; /* its file is read anyway */
        if (p->cache.keep[i] || want->number == UINT16_MAX)
            continue;
        if (want->cached_bytes.data || p->chains.open_root[i])
            return;
        near[i] = want->bytes;
        n++;
    }
    if (n)
        stk_field_cache_put(p->cache.fields, stk_schedule_id(x->schedule, &x->where), near, r->n);
}

void stk_row_gpu_note(stk_row *x)
{
    stk_row_note_sample(x);
    keep_small(x);
}

/* Is the picture to go over whole, to be kept there?  Later all that is known of it is in its seek
 * points, so they must be of this very file. */
static int to_keep(const stk_row *x, const stk_decode_request *ask, const stk_jpeg_job *job)
{
    return x->plan->outputs.common->out[x->output].keep && job->seek && ask->need.w &&
           stk_picture_cache_wants(stk_device_kept(x->plan->gpu.device),
                                   whose(x, &x->where, x->output),
                                   (uint64_t)job->seek->scan_len + 2) &&
           stk_jpeg_seek_check(job->seek, job->head, job->in, NULL) == 0;
}

/* A view on its way: what of the file it needs, and what is done to it. */
typedef struct one_view {
    stk_pic_gather g;
    stk_pic_program program;
} one_view;

/* The records of all views, side by side. */
static int write_records(stk_row *x, one_view *v, uint32_t n)
{
    size_t size = 0;
    uint8_t *to;

    for (uint32_t i = 0; i < n; i++) {
        stk_pic_program_add(&v[i].program, &v[i].g.rec);
        size += v[i].g.rec.size;
    }
    to = record_place(x, size);
    for (uint32_t i = 0; to && i < n; i++) {
        stk_pic_jpeg_write(to, &v[i].g);
        stk_pic_program_write(&v[i].program, to);
        note(x, i, to);
        to += v[i].g.rec.size;
    }
    return to ? 0 : STK_ENOMEM;
}

/* What of the file a view needs.  job->seek is NULL where its points do not fit. */
static int gather_view(const stk_row *x, const stk_draws *d, const stk_decode_request *ask,
                       stk_jpeg_job *job, one_view *v)
{
    stk_scratch *scratch = &x->m->scratch;
    int rc;

    if (stk_pic_program_make(&v->program, d, NULL) < 0)
        return STK_ENOTSUP;
    rc = to_keep(x, ask, job) ? stk_pic_jpeg_size_all(&v->g, job, d->view, scratch, NULL)
                              : STK_ESTALE;
    if (rc == STK_ESTALE)
        rc = stk_pic_jpeg_size(&v->g, job, d->view, scratch, NULL);
    if (rc != STK_ESTALE)
        return rc;
    job->seek = NULL; /* as the host would */
    rc = stk_pic_jpeg_size(&v->g, job, d->view, scratch, NULL);
    stk_count(&x->m->count.lane[STK_LANE_MISFIT], rc == 0);
    return rc;
}

/* 1: its record is written; 0: the CPU must decode it (odd, or there is no room). */
static int leave(stk_row *x, void *jpeg, const stk_draws *d, const stk_decode_request *ask)
{
    uint32_t n = views_of(x);
    one_view *v = stk_scratch_get(&x->m->scratch, n * sizeof *v);
    int rc = v ? 0 : STK_ENOMEM, seek = 0;

    for (uint32_t i = 0; i < n && rc == 0; i++) {
        stk_jpeg_job job;

        rc = stk_jpeg_peek(jpeg, &ask->need, &job);
        if (rc == 0)
            rc = gather_view(x, &d[i], ask, &job, &v[i]);
        seek = rc == 0 && job.seek != NULL;
    }
    if (rc < 0 || write_records(x, v, n) < 0)
        return 0;
    stk_count(&x->m->count.lane[STK_LANE_SEEK], (uint64_t)seek);
    return 1;
}

/* ---- pixels that are made here ---- */

/* Room in a record for what the job makes. */
static int record(stk_row *x, stk_sample_job *job, stk_pic_kind kind, stk_error *err)
{
    const stk_view *v = job->view;
    size_t len = (size_t)v->vis_w * v->vis_h * 3 * stk_dtype_size(job->dtype);
    size_t size = stk_pic_plain_size(len);
    uint8_t *to = x->view ? stk_row_out_of(x)->data : record_place(x, size * views_of(x));

    if (!to)
        return stk_fail(err, STK_ENOMEM, "memory_limit leaves no room for its output");
    to += size * x->view;
    job->dst = stk_pic_plain_write(to, kind, v->vis_w, v->vis_h, len);
    note(x, x->view, to);
    return 0;
}

/* As it must be there. */
static int place_ready(stk_row *x, stk_sample_job *job, stk_error *err)
{
    return record(x, job, STK_PIC_READY, err);
}

/* Color and type after sampling cost a GPU nothing and save half of the way or more, where nothing is
 * done to the row after them. */
static int place_pixels(stk_row *x, stk_sample_job *job, stk_error *err)
{
    if (job->dtype == STK_U8 || stk_row_chain(x)->row_acts)
        return place_ready(x, job, err);
    job->dtype = STK_U8;
    job->layout = STK_HWC;
    for (int c = 0; c < 3; c++) {
        job->mul[c] = 1;
        job->add[c] = 0;
    }
    return record(x, job, STK_PIC_U8, err);
}

/* ---- the kinds ---- */

/* The GPU has its scan; all else is in the seek points.  What fails here is done from the file. */
static int make_kept(stk_row *x, stk_error *err)
{
    const stk_wanted *want = &x->req->want[x->output];
    stk_jpeg_job job = { 0 };
    stk_image_info size;
    one_view v;
    stk_jpeg_head head;
    stk_jpeg_seek seek;
    stk_draws d;
    stk_decode_request ask;

    stk_scratch_reset(&x->m->scratch);
    STK_TRY(stk_jpeg_seek_open(&seek, &head, want->hint, err));
    size = (stk_image_info){ head.width, head.height };
    STK_TRY(stk_picture_check(x, &size, err));
    x->req->want[x->output].width = size.width; /* for those who follow it */
    x->req->want[x->output].height = size.height;
    x->req->want[x->output].turn = 1;
    STK_TRY(stk_picture_look(x, &size, &d, &ask, err));
    STK_TRY(stk_pic_program_make(&v.program, &d, err));
    job = (stk_jpeg_job){ .head = &head, .seek = &seek };
    STK_TRY(stk_pic_jpeg_size_kept(&v.g, &job, want->kept, d.view, &x->m->scratch, NULL));
    STK_TRY(write_records(x, &v, 1));
    stk_count(&x->m->count.lane[STK_LANE_SEEK], 1);
    stk_stage_time_row(x->m, STK_STAGE_DECODE);
    return 0;
}

static int make_gpu(stk_row *x, stk_error *err)
{
    static const stk_picture_way way = { leave, place_pixels, stk_picture_sample, .each = 1 };

    return stk_picture_make(x, &way, err);
}

static int make_cached(stk_row *x, stk_error *err)
{
    return x->req->want[x->output].kept ? make_kept(x, err) : make_gpu(x, err);
}

static int make_pixels(stk_row *x, stk_error *err)
{
    static const stk_picture_way way = { NULL, place_pixels, stk_picture_sample, .each = 1 };

    return stk_picture_make(x, &way, err);
}

static int make_repair(stk_row *x, stk_error *err)
{
    static const stk_picture_way way = { NULL, place_ready, stk_picture_sample, .each = 1 };

    return stk_picture_make(x, &way, err);
}

/* Functions of the program's come between. */
static int make_call(stk_row *x, stk_error *err)
{
    static const stk_picture_way way = { NULL, place_pixels, stk_tile_sample, stk_call_pictures };

    return stk_picture_make(x, &way, err);
}

const stk_row_ops stk_row_gpu_call = {
    .name = "picture_gpu_call", .prepare = stk_picture_prepare, .make = make_call
};
const stk_row_ops stk_row_gpu = {
    .name = "picture_gpu", .prepare = stk_picture_prepare, .make = make_gpu
};
const stk_row_ops stk_row_gpu_cached = {
    .name = "picture_gpu_cached", .prepare = stk_picture_prepare, .make = make_cached
};
const stk_row_ops stk_row_gpu_pixels = {
    .name = "picture_gpu_pixels", .prepare = stk_picture_prepare, .make = make_pixels
};
const stk_row_ops stk_row_gpu_repair = {
    .name = "picture_gpu_repair", .prepare = stk_picture_prepare, .make = make_repair
};

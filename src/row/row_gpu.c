/* SPDX-License-Identifier: Apache-2.0 */
/* row_gpu.c - a picture on its way to a GPU: its record, in its row of the batch's slab; and what
 * the GPU has already. */
#include <assert.h>

#include "gpu/coded.h"
#include "gpu/pic_program.h"
#include "row/row_clip.h"

/* What was noted of a row's first record. */
static stk_pic_share *notes(const stk_batch *b, uint32_t output, uint32_t row)
{
    return (stk_pic_share *)(void *)(b->out[output].note + row * b->common->out[output].note_bytes);
}

/* What it takes to make the picture, or a view of it: while the record is written, not when all of
 * them are sent.  lead: the output that decodes it. */
void stk_row_gpu_record(const stk_row *x, uint32_t view, uint32_t lead, const void *record)
{
    stk_pic_share *s, share = stk_pic_share_of(record);

    if (stk_row_chain(x)->many.pictures) {
        stk_gpu_pictures_note((stk_row *)(uintptr_t)x, &share);
        return;
    }
    s = notes(x->batch, x->output, x->row) + view;
    *s = share;
    if (s->kind != STK_PIC_SHARED)
        return;
    s->lead = lead + 1;
    s->gpu_cached = notes(x->batch, lead, x->row)->gpu_cached;
}

void stk_row_gpu_note_clip(const stk_row *x, struct stk_gpu_clip *clip)
{
    notes(x->batch, x->output, x->row)->clip = clip;
}

static stk_cache_key whose(const stk_row *x, const stk_where *where, uint32_t output)
{
    return (stk_cache_key){ stk_schedule_id(x->schedule, where),
                            x->plan->outputs.common->out[output].keep - 1 };
}

/* Room for a record; one may be here whose sample went bad later on. */
void *stk_row_gpu_place(stk_row *x, size_t size)
{
    if (stk_row_chain(x)->many.pictures)
        return stk_gpu_pictures_place(x, size);
    stk_row_fresh(x);
    return stk_batch_reserve(x->batch, x->output, x->row, size, NULL);
}

/* The shape of what the GPU makes, where rows differ in size; of several pictures it is known. */
static int note_shape(const stk_row *x, const stk_view *last, stk_error *err)
{
    if (stk_row_chain(x)->many.pictures)
        return stk_gpu_pictures_check(x, last, err);
    return stk_row_chain(x)->row_bytes ? 0 : stk_picture_note_shape(x, last, err);
}

/* ---- what the GPU keeps ---- */

void stk_row_gpu_find(stk_row *x)
{
    const stk_plan *p = x->plan;
    const stk_picture_cache *k = stk_device_picture_cache(p->gpu.device);
    stk_request *r = x->req;
    stk_bytes *near = r->scratch;
    int small = stk_field_cache_find(p->cache.fields, stk_schedule_id(x->schedule, &r->where), near,
                                     p->chains.n_out);

    for (uint32_t i = 0; i < p->chains.n_out; i++) {
        r->want[i].gpu_cached = p->cache.keep[i] && r->want[i].number != UINT16_MAX
                                    ? stk_picture_cache_find(k, whose(x, &r->where, i))
                                    : 0;
        r->want[i].cached_bytes = small ? near[i] : (stk_bytes){ 0 };
    }
}

void stk_row_gpu_forget(stk_row *x)
{
    for (uint32_t i = 0; i < x->plan->chains.n_out; i++) {
        x->req->want[i].gpu_cached = 0;
        x->req->want[i].cached_bytes = (stk_bytes){ 0 };
    }
}

/* 1: the picture of an output goes over to be kept, or is there; or that is so of the one it
 * shares. */
static int stays(const stk_batch *b, uint32_t output, uint32_t row)
{
    const stk_pic_share *s = notes(b, output, row);

    return s->gpu_cached || (s->lead ? notes(b, s->lead - 1, row) : s)->scan;
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
        if (want->cached_bytes.data || p->chains.open_root[i] || p->chains.chain[i].clip)
            return; /* that of a clip too: its packets are read, kept or not */
        near[i] = want->bytes;
        n++;
    }
    if (n)
        stk_field_cache_put(p->cache.fields, stk_schedule_id(x->schedule, &x->where), near, r->n);
}

void stk_row_gpu_note(stk_row *x)
{
    assert(x->req && x->plan->cache.fields && x->plan->cache.keep); /* with cache="device" only */
    stk_row_note_sample(x);
    keep_small(x);
}

/* Is the picture to go over whole, to be kept there?  Later all that is known of it is in its seek
 * points, so they must be of this very file. */
static int to_keep(const stk_row *x, const stk_decode_request *ask, const stk_gpu_file *f)
{
    uint64_t bytes = x->plan->outputs.common->out[x->output].keep && ask->need.w
                         ? f->coding->cached_bytes(f)
                         : 0;

    return bytes &&
           stk_picture_cache_wants(stk_device_picture_cache(x->plan->gpu.device),
                                   whose(x, &x->where, x->output), bytes) &&
           f->coding->points_fit(f);
}

/* A view on its way: what of the file it needs, and what is done to it. */
typedef struct one_view {
    stk_pic_gather g;
    stk_pic_program program;
} one_view;

/* The records of all views, side by side. */
static int write_records(stk_row *x, const stk_draws *d, one_view *v, uint32_t lead)
{
    uint32_t n = stk_row_views(x);
    size_t size = 0;
    uint8_t *to;

    STK_TRY(note_shape(x, &d->view[d->n_passes - 1], NULL));
    for (uint32_t i = 0; i < n; i++) {
        stk_pic_program_add(&v[i].program, &v[i].g.rec);
        size += v[i].g.rec.size;
    }
    to = stk_row_gpu_place(x, size);
    for (uint32_t i = 0; to && i < n; i++) {
        stk_pic_gather_write(to, &v[i].g);
        stk_pic_program_write(&v[i].program, to);
        stk_row_gpu_record(x, i, lead, to);
        to += v[i].g.rec.size;
    }
    return to ? 0 : STK_ENOMEM;
}

/* What was drawn as a program.  A tile over max_pixels is the CPU's to refuse. */
int stk_row_gpu_program(const stk_row *x, const stk_draws *d, stk_pic_program *out, stk_error *err)
{
    uint64_t most = x->plan->policy.max_pixels;

    for (uint32_t i = 0; i < d->n_passes && (d->n_passes > 1 || d->n_actions); i++)
        if ((uint64_t)d->view[i].vis_w * d->view[i].vis_h > most)
            return stk_fail(err, STK_ENOTSUP, "more pixels than max_pixels");
    return stk_pic_program_make(out, d, err);
}

/* What of the file the first view needs, and all that share its picture: ask->need.  Points that do
 * not fit are dropped. */
static int gather_first(const stk_row *x, const stk_draws *d, const stk_decode_request *ask,
                        stk_gpu_file *f, one_view *v)
{
    stk_pic_ask what = { .view = d->view, .wide = &ask->need, .all = to_keep(x, ask, f) };
    stk_scratch *scratch = &x->m->scratch;
    int rc;

    if (stk_row_gpu_program(x, d, &v->program, NULL) < 0)
        return STK_ENOTSUP;
    rc = f->coding->ask(&v->g, f, &what, scratch, NULL);
    if (rc == STK_ESTALE && what.all) {
        what.all = 0;
        rc = f->coding->ask(&v->g, f, &what, scratch, NULL);
    }
    if (rc == STK_ESTALE && f->coding->drop_points(f)) { /* as the host would */
        rc = f->coding->ask(&v->g, f, &what, scratch, NULL);
        stk_count(&x->m->count.lane[STK_LANE_MISFIT], rc == 0);
    }
    if (rc == 0 && !v->g.rec.need[2] && ask->need.w)
        return STK_ENOTSUP; /* it sees nothing, and would decode nothing for the others */
    return rc;
}

/* A view of what `lead` decodes. */
static int gather_shared(const stk_row *x, const stk_draws *d, const stk_pic *lead, one_view *v)
{
    STK_TRY(stk_row_gpu_program(x, d, &v->program, NULL));
    return stk_pic_shared_size(&v->g, lead, d->view, NULL);
}

/* Others may read the picture after it. */
static int is_first(const stk_row *x)
{
    return x->plan->rows.share && x->plan->rows.share[x->output] == x->output;
}

/* For the outputs that share its picture. */
static void remember(stk_row *x, const stk_pic *record)
{
    if (is_first(x))
        x->m->shared = (stk_shared_picture){
            .ready = 1, .first = x->output, .left = 1, .record = *record
        };
}

/* 1: its record is written; 0: the CPU must decode it (odd, or there is no room). */
static int leave(stk_row *x, const stk_picture_source *from, const stk_draws *d,
                 const stk_decode_request *ask)
{
    uint32_t n = stk_row_views(x);
    one_view *v = stk_scratch_get(&x->m->scratch, n * sizeof *v);
    stk_gpu_file f;
    int rc = v ? stk_gpu_file_peek(from, &ask->need, &f) : STK_ENOMEM;

    if (rc == 0)
        rc = gather_first(x, &d[0], ask, &f, &v[0]);
    for (uint32_t i = 1; i < n && rc == 0; i++)
        rc = gather_shared(x, &d[i], &v[0].g.rec, &v[i]);
    if (rc < 0 || write_records(x, d, v, x->output) < 0)
        return 0;
    remember(x, &v[0].g.rec);
    stk_count(&x->m->count.lane[STK_LANE_SEEK], f.coding->has_points(&f));
    return 1;
}

/* A goal's join(). */
static int join(stk_row *x, const stk_draws *d)
{
    const stk_shared_picture *s = &x->m->shared;
    uint32_t n = stk_row_views(x);
    one_view *v = stk_scratch_get(&x->m->scratch, n * sizeof *v);
    int rc = v ? 0 : STK_ENOMEM;

    for (uint32_t i = 0; i < n && rc == 0; i++)
        rc = gather_shared(x, &d[i], &s->record, &v[i]);
    return rc == 0 && write_records(x, d, v, s->first) == 0;
}

/* ---- pixels that are made here ---- */

/* Room in a record for what the job makes. */
static int record(stk_row *x, stk_sample_job *job, stk_pic_kind kind, stk_error *err)
{
    const stk_patch_spec *patch = &stk_row_chain(x)->spec.picture.patch;
    const stk_view *v = job->view;
    size_t len = (size_t)v->vis_w * v->vis_h * 3 * stk_dtype_size(job->dtype);
    size_t size;
    uint8_t *to;

    if (kind == STK_PIC_READY && patch->side)
        len *= patch->frames;
    size = stk_pic_plain_size(len);
    to = x->view ? stk_row_out_of(x)->data : stk_row_gpu_place(x, size * stk_row_views(x));
    if (!to)
        return stk_fail(err, STK_ENOMEM, "memory_limit leaves no room for its output");
    STK_TRY(note_shape(x, v, err));
    to += size * x->view;
    job->dst = stk_pic_plain_write(to, kind, v->vis_w, v->vis_h, len);
    stk_row_gpu_record(x, x->view, 0, to);
    return 0;
}

/* As it must be there. */
static int place_ready(stk_row *x, stk_sample_job *job, stk_error *err)
{
    return record(x, job, STK_PIC_READY, err);
}

/* Pixels that are changed in the row are sent as they must be. */
static int is_ready(const stk_row *x, const stk_sample_job *job)
{
    const stk_chain *c = stk_row_chain(x);

    return c->row_acts || (job->dtype == STK_U8 && !c->spec.picture.patch.side);
}

/* Color and type after sampling cost a GPU nothing and save half of the way or more, where nothing
 * is done to the row after them; so do patches. */
static int place_pixels(stk_row *x, stk_sample_job *job, stk_error *err)
{
    if (is_ready(x, job))
        return place_ready(x, job, err);
    job->dtype = STK_U8;
    job->layout = STK_HWC;
    for (int c = 0; c < 3; c++) {
        job->mul[c] = 1;
        job->add[c] = 0;
    }
    return record(x, job, STK_PIC_U8, err);
}

/* ---- pixels that are made here, and changed there ---- */

/* The first view here, as a record whose program has the rest. */
static int sample_first(stk_row *x, const stk_draws *d, const stk_pic_program *program,
                        const stk_sample_job *job, stk_error *err)
{
    const stk_view *v = &d->view[0];
    stk_sample_job first = {
        .view = v, .pixels = job->pixels, .dtype = STK_U8, .layout = STK_HWC, .mul = { 1, 1, 1 }
    };
    size_t len = (size_t)v->vis_w * v->vis_h * 3;
    stk_pic head = { .size = (uint32_t)stk_pic_plain_size(len) };
    stk_pic *to;

    stk_pic_program_add(program, &head);
    to = stk_row_gpu_place(x, head.size);
    if (!to)
        return stk_fail(err, STK_ENOMEM, "memory_limit leaves no room for its output");
    STK_TRY(note_shape(x, &d->view[d->n_passes - 1], err));
    first.dst = stk_pic_plain_write(to, STK_PIC_U8, v->vis_w, v->vis_h, len);
    stk_pic_program_add(program, to);
    stk_pic_program_write(program, to);
    STK_TRY(stk_sample_run(x->plan->rows.kern, &first, &x->m->scratch, err));
    stk_row_gpu_record(x, 0, 0, to);
    return 0;
}

/* Views of a picture have records of one size, so their ops are done here.  The program of a view
 * that is made down first would make half of it again. */
static int changed_there(const stk_row *x, const stk_draws *d, stk_pic_program *program)
{
    const stk_chain *c = stk_row_chain(x);

    return (d->n_passes > 1 || d->n_actions) && !c->spec.n_leads && stk_pic_program_can(c) &&
           !stk_sample_down_first(&d->view[0]) && stk_row_gpu_program(x, d, program, NULL) == 0;
}

/* A goal's sample(), which places its record itself. */
static int sample_there(stk_row *x, stk_draws *d, const stk_sample_job *job, stk_error *err)
{
    int cut = is_ready(x, job) && stk_row_chain(x)->spec.picture.patch.side;
    stk_sample_job here = *job;
    stk_pic_program program;

    if (changed_there(x, d, &program))
        return sample_first(x, d, &program, job, err);
    STK_TRY(place_pixels(x, &here, err));
    return cut ? stk_patches_sample(x, stk_picture_sample, d, &here, err)
               : stk_picture_sample(x, d, &here, err);
}

/* What functions give is cut here. */
static int place_color(stk_row *x, stk_sample_job *job, stk_error *err)
{
    return stk_row_chain(x)->spec.picture.patch.side ? place_ready(x, job, err)
                                                     : place_pixels(x, job, err);
}

static int place_later(stk_row *x, stk_sample_job *job, stk_error *err)
{
    (void)x, (void)job, (void)err;
    return 0;
}

/* ---- the kinds ---- */

int stk_gpu_pad(const stk_plan *p, stk_batch *b, uint32_t output, const uint32_t *used,
                stk_error *err)
{
    const stk_batch_plan *c = p->outputs.common;

    (void)used;
    return stk_out_pads(&c->out[output], c->batch) && !b->out[output].padded
               ? stk_batch_pad_there(b, output, err)
               : 0;
}

/* Records of a picture whose scan the GPU has: of its first view, and of others that share what
 * that decodes. */
static int write_cached(stk_row *x, const stk_draws *d, const stk_decode_request *ask,
                        const stk_gpu_file *f, stk_error *err)
{
    stk_pic_ask what = { .view = d->view,
                         .wide = &ask->need,
                         .gpu_cached = x->req->want[x->output].gpu_cached };
    uint32_t n = stk_row_views(x);
    one_view *v = stk_scratch_get(&x->m->scratch, n * sizeof *v);

    if (!v)
        return stk_fail_nomem(err, n * sizeof *v);
    STK_TRY(stk_row_gpu_program(x, d, &v->program, err));
    STK_TRY(f->coding->ask(&v->g, f, &what, &x->m->scratch, NULL));
    if (!v->g.rec.need[2] && ask->need.w)
        return stk_fail(err, STK_ENOTSUP, "it sees nothing of a picture that others see");
    for (uint32_t i = 1; i < n; i++)
        STK_TRY(gather_shared(x, &d[i], &v->g.rec, &v[i]));
    STK_TRY(write_records(x, d, v, x->output));
    remember(x, &v->g.rec);
    return 0;
}

/* The GPU has its scan; all else is in the seek points.  What fails here is done from the file. */
static int make_from_cache(stk_row *x, stk_error *err)
{
    stk_wanted *want = &x->req->want[x->output];
    stk_image_info size;
    stk_decode_request ask;
    stk_gpu_file f;
    stk_draws *d;

    x->m->shared.ready = 0;
    stk_scratch_reset(&x->m->scratch);
    STK_TRY(stk_gpu_file_recall(want->hint, &f, &size, err));
    STK_TRY(stk_picture_check(x, &size, err));
    want->width = size.width; /* for those who follow it */
    want->height = size.height;
    want->turn = 1;
    STK_TRY(stk_picture_look_views(x, &size, &d, &ask, err));
    if (is_first(x))
        stk_picture_look_ahead(x, &size, &ask.need);
    STK_TRY(write_cached(x, d, &ask, &f, err));
    stk_count(&x->m->count.lane[STK_LANE_SEEK], 1);
    stk_stage_time_row(x->m, STK_STAGE_DECODE);
    return 0;
}

static int make_cached(stk_row *x, stk_error *err)
{
    int gpu_cached = x->req->want[x->output].gpu_cached != 0;

    return gpu_cached && !(stk_row_ops_of(x)->shared && stk_picture_is_there(x))
               ? make_from_cache(x, err)
               : stk_picture_make(x, err);
}

const stk_row_work stk_work_cached = { .name = "cached", .make = make_cached };

const stk_row_goal stk_goal_gpu = { .name = "gpu",
                                    .place = place_later,
                                    .each = 1,
                                    .sample = sample_there,
                                    .leave = leave,
                                    .join = join,
                                    .finish = stk_gpu_pad };
const stk_row_goal stk_goal_gpu_ops = { .name = "gpu_ops",
                                        .place = place_later,
                                        .each = 1,
                                        .sample = sample_there,
                                        .finish = stk_gpu_pad };
const stk_row_goal stk_goal_gpu_ready = { .name = "gpu_ready", .place = place_ready, .each = 1 };
const stk_row_goal stk_goal_gpu_color = { .name = "gpu_color",
                                          .place = place_color,
                                          .finish = stk_gpu_pad };
const stk_row_goal stk_goal_gpu_pictures = { .name = "gpu_pictures",
                                             .place = place_later,
                                             .each = 1,
                                             .sample = sample_there,
                                             .leave = leave,
                                             .several = stk_gpu_pictures_make,
                                             .finish = stk_gpu_pictures_finish };
const stk_row_goal stk_goal_gpu_pictures_ops = { .name = "gpu_pictures_ops",
                                                 .place = place_later,
                                                 .each = 1,
                                                 .sample = sample_there,
                                                 .several = stk_gpu_pictures_make,
                                                 .finish = stk_gpu_pictures_finish };

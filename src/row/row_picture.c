/* SPDX-License-Identifier: Apache-2.0 */
/* row_picture.c - a picture: its header, what the ops draw, the pixels that are seen, and the one
 * sampling pass straight into the row. */
#include <string.h>

#include "base/rng.h"
#include "codec/exif.h"
#include "kern/turn.h"
#include "row/row.h"

typedef struct picture {
    const stk_decoder *decoder;
    void *ctx;
    stk_image_info info; /* as filed */
    unsigned turn;       /* to make it upright: EXIF's 1..8 */
} picture;

/* The decoder that knows these bytes, with this worker's context. */
static int find_decoder(stk_maker *m, stk_bytes in, const stk_decoder **out, void **ctx,
                        stk_error *err)
{
    int rc = stk_decoders_find(&m->decoders, in, out, ctx, err);

    if (rc != STK_END)
        return rc;
    if (in.len == 0)
        return stk_fail(err, STK_ECORRUPT, "the picture is empty");
    return stk_fail(
        err, STK_ECORRUPT,
        "these %zu bytes are not a picture that this build decodes (first bytes %02x %02x)", in.len,
        in.data[0], in.len > 1 ? in.data[1] : 0);
}

int stk_picture_check(const stk_row *x, const stk_image_info *info, stk_error *err)
{
    uint64_t most = x->plan->policy.max_pixels;

    if (!info->width || !info->height)
        return stk_fail(err, STK_ECORRUPT, "the picture is %ux%u", info->width, info->height);
    if ((uint64_t)info->width * info->height > most)
        return stk_fail(err, STK_ELIMIT,
                        "the picture is %ux%u, over the limit of %" PRIu64
                        " pixels: raise max_pixels if "
                        "that is meant",
                        info->width, info->height, most);
    return 0;
}

/* A row that is made again was reported the first time. */
static int draw(const stk_row *x, const stk_image_info *info, uint32_t view, stk_draws *d,
                stk_error *err)
{
    const stk_address at = { .seed = x->plan->policy.seed,
                             .position = x->position,
                             .epoch = (uint32_t)x->batch->epoch,
                             .output = x->output,
                             .view = view };
    const uint32_t size[2] = { info->width, info->height };

    stk_chain_draw(stk_row_chain(x), &at, size, d, x->again ? NULL : &x->plan->policy.watch);
    if (stk_draws_last(d)->refused)
        return stk_fail(err, STK_ECORRUPT, "%s", stk_draws_last(d)->refused);
    return 0;
}

/* The pixels of `need`, which is a rectangle of the picture as the ops see it. */
static int decode_need(const picture *p, const stk_decode_request *ask, stk_scratch *scratch,
                       stk_pixels *out, stk_error *err)
{
    const stk_rect *need = &ask->need;
    stk_decode_request filed = { stk_turn_rect(p->turn, p->info, need) };

    if (!need->w || !need->h)
        return 0;
    if (p->turn != 1 && !stk_scratch_expect(scratch, (size_t)need->w * need->h * 8))
        return stk_fail(err, STK_ENOMEM, "no memory to turn a picture of %ux%u", need->w, need->h);
    STK_TRY(p->decoder->decode(p->ctx, &filed, scratch, out, err));
    return p->turn == 1 ? 0 : stk_turn_pixels(p->turn, p->info, need, scratch, out, err);
}

/* `in` is the field as it is stored, or what was made of it: then nothing is known of it. */
static int as_stored(const stk_row *x, stk_bytes in)
{
    const stk_wanted *want = &x->req->want[x->output];

    return in.data == want->bytes.data && in.len == want->bytes.len;
}

static stk_bytes hint_for(const stk_row *x, stk_bytes in)
{
    return as_stored(x, in) ? x->req->want[x->output].hint : (stk_bytes){ 0 };
}

static int can_learn(const stk_row *x, stk_bytes in, const picture *p, const stk_pixels *pixels)
{
    return x->req->want[x->output].learn && p->decoder->learn && pixels->lane == STK_LANE_PLAIN &&
           pixels->data && as_stored(x, in);
}

int stk_picture_look(const stk_row *x, const stk_image_info *info, stk_draws *d,
                     stk_decode_request *ask, stk_error *err)
{
    STK_TRY(draw(x, info, 0, d, err));
    stk_sample_need(d->view, &ask->need);
    return 0;
}

int stk_picture_sample(stk_row *x, stk_draws *d, const stk_sample_job *job, stk_error *err)
{
    if (d->n_views > 1)
        return stk_tile_sample(x, d, job, err);
    return stk_sample_run(x->plan->rows.kern, job, &x->m->scratch, err);
}

static int sample(stk_row *x, const stk_picture_way *way, stk_draws *d, const stk_pixels *pixels,
                  stk_error *err)
{
    const stk_spec *spec = &stk_row_chain(x)->spec;
    stk_sample_job job = { .view = stk_draws_last(d),
                           .pixels = pixels,
                           .dtype = spec->dtype,
                           .layout = spec->layout };

    memcpy(job.mul, spec->mul, sizeof job.mul);
    memcpy(job.add, spec->add, sizeof job.add);
    STK_TRY(way->place(x, &job, err));
    return way->sample(x, d, &job, err);
}

/* ---- views ---- */

static void widen(stk_rect *all, const stk_rect *r)
{
    uint32_t x1 = all->x + all->w, y1 = all->y + all->h;

    if (!r->w || !r->h)
        return;
    if (!all->w) {
        *all = *r;
        return;
    }
    x1 = x1 > r->x + r->w ? x1 : r->x + r->w;
    y1 = y1 > r->y + r->h ? y1 : r->y + r->h;
    all->x = all->x < r->x ? all->x : r->x;
    all->y = all->y < r->y ? all->y : r->y;
    all->w = x1 - all->x;
    all->h = y1 - all->y;
}

/* All views of a picture, from one decode of what any of them sees. */
static int look_all(const stk_row *x, const stk_image_info *info, stk_draws *d,
                    stk_decode_request *ask, stk_error *err)
{
    ask->need = (stk_rect){ 0 };
    for (uint32_t i = 0; i < stk_row_chain(x)->spec.views; i++) {
        stk_rect need;

        STK_TRY(draw(x, info, i, &d[i], err));
        stk_sample_need(d[i].view, &need);
        widen(&ask->need, &need);
    }
    return 0;
}

static int sample_all(stk_row *x, const stk_picture_way *way, stk_draws *d,
                      const stk_pixels *pixels, stk_error *err)
{
    const stk_chain *c = stk_row_chain(x);
    stk_sample_job job = { .pixels = pixels, .dtype = c->spec.dtype, .layout = c->spec.layout };
    unsigned mark = stk_scratch_mark(&x->m->scratch);

    memcpy(job.mul, c->spec.mul, sizeof job.mul);
    memcpy(job.add, c->spec.add, sizeof job.add);
    STK_TRY(way->place(x, &job, err));
    for (uint32_t i = 0; i < c->spec.views; i++) {
        job.view = stk_draws_last(&d[i]);
        stk_scratch_rewind(&x->m->scratch, mark);
        STK_TRY(way->sample(x, &d[i], &job, err));
        job.dst = (uint8_t *)job.dst + c->row_bytes / c->spec.views;
    }
    return 0;
}

static int make_views(stk_row *x, const stk_picture_way *way, const picture *p,
                      const stk_image_info *upright, stk_pixels *pixels, stk_error *err)
{
    size_t size = stk_row_chain(x)->spec.views * sizeof(stk_draws);
    stk_draws *d = stk_scratch_get(&x->m->scratch, size);
    stk_decode_request ask;
    int rc;

    if (!d)
        return stk_fail_nomem(err, size);
    STK_TRY(look_all(x, upright, d, &ask, err));
    rc = decode_need(p, &ask, &x->m->scratch, pixels, err);
    stk_stage_time_row(x->m, STK_STAGE_DECODE);
    stk_does_next(x->m, STK_STAGE_SAMPLE);
    stk_count(&x->m->count.lane[pixels->lane], 1);
    return rc == 0 ? sample_all(x, way, d, pixels, err) : rc;
}

/* ---- one ---- */

/* 1: the GPU decodes it; seek points are found where the CPU does. */
static int leave(stk_row *x, const stk_picture_way *way, const picture *p, const stk_view *view,
                 const stk_decode_request *ask)
{
    return way->leave && p->turn == 1 && p->decoder->can & STK_DECODER_GPU &&
           !x->req->want[x->output].learn && way->leave(x, p->ctx, view, ask);
}

int stk_picture_make(stk_row *x, const stk_picture_way *way, stk_error *err)
{
    stk_maker *m = x->m;
    picture p = { .turn = 1 };
    stk_image_info upright;
    stk_pixels pixels = { 0 };
    stk_draws d;
    stk_bytes in;
    stk_decode_request ask;
    int rc;

    stk_scratch_reset(&m->scratch);
    stk_does_next(m, STK_STAGE_DECODE);
    STK_TRY(stk_row_input(x, &in, err));
    STK_TRY(find_decoder(m, in, &p.decoder, &p.ctx, err));
    STK_TRY(p.decoder->header(p.ctx, in, hint_for(x, in), &p.info, err));
    STK_TRY(stk_picture_check(x, &p.info, err));
    if (stk_row_chain(x)->spec.exif)
        p.turn = stk_exif_turn(in);
    upright = stk_turn_size(p.turn, p.info);
    if (stk_row_chain(x)->spec.views) {
        rc = make_views(x, way, &p, &upright, &pixels, err);
        stk_stage_time_row(m, STK_STAGE_SAMPLE);
        if (rc == 0 && can_learn(x, in, &p, &pixels))
            stk_learn_from(x, p.decoder, p.ctx);
        return rc;
    }
    STK_TRY(stk_picture_look(x, &upright, &d, &ask, err));
    if (d.n_views == 1 && leave(x, way, &p, d.view, &ask)) {
        stk_stage_time_row(m, STK_STAGE_DECODE);
        return 0;
    }
    rc = decode_need(&p, &ask, &m->scratch, &pixels, err);
    stk_stage_time_row(m, STK_STAGE_DECODE);
    stk_does_next(m, STK_STAGE_SAMPLE);
    stk_count(&m->count.lane[pixels.lane], 1);
    if (rc == 0)
        rc = sample(x, way, &d, &pixels, err);
    stk_stage_time_row(m, STK_STAGE_SAMPLE);
    if (rc == 0 && can_learn(x, in, &p, &pixels))
        stk_learn_from(x, p.decoder, p.ctx);
    return rc;
}

/* What is kept beside the index, or was found, of the field. */
void stk_picture_prepare(stk_row *x)
{
    stk_request *r = x->req;
    stk_wanted *want = &r->want[x->output];
    stk_seek_field at = { r->entry.shard, r->entry.row, want->number };

    want->hint = (stk_bytes){ 0 };
    want->learn = 0;
    if ((!(r->data->can & STK_DATA_HINTS) && !x->plan->rows.learn) || x->plan->chains.open_root[x->output] ||
        want->number == UINT16_MAX)
        return;
    if (r->data->can & STK_DATA_HINTS)
        want->hint = r->data->ops->hint(r->data, &at, &r->hint_room[x->output]);
    stk_learn_look(x->plan, r, x->output);
}

/* ---- into the batch ---- */

/* Room off a ragged output for a picture of the size that is seen. */
static int ragged_place(stk_row *x, stk_sample_job *job, stk_error *err)
{
    const stk_view *v = job->view;
    size_t len = (size_t)v->vis_w * v->vis_h * 3 * stk_dtype_size(job->dtype);
    int hwc = job->layout == STK_HWC;
    stk_row_out *out = stk_row_out_of(x);

    if ((uint64_t)v->vis_w * v->vis_h > x->plan->policy.max_pixels)
        return stk_fail(err, STK_ELIMIT, "its output would be %ux%u, over the limit of max_pixels",
                        v->vis_w, v->vis_h);
    stk_row_fresh(x);
    out->ndim = 3;
    out->shape[0] = hwc ? v->vis_h : 3;
    out->shape[1] = hwc ? v->vis_w : v->vis_h;
    out->shape[2] = hwc ? 3 : v->vis_w;
    job->dst = stk_row_reserve(x, len, NULL);
    return job->dst ? 0 : stk_row_no_room(x, len, err);
}

int stk_picture_place(stk_row *x, stk_sample_job *job, stk_error *err)
{
    if (!stk_row_chain(x)->row_bytes)
        return ragged_place(x, job, err);
    job->dst = stk_batch_place(x->batch, x->output, x->row);
    return 0;
}

static int make(stk_row *x, stk_error *err)
{
    static const stk_picture_way here = { NULL, stk_picture_place, stk_picture_sample };

    return stk_picture_make(x, &here, err);
}

const stk_row_ops stk_row_picture = {
    .name = "picture", .prepare = stk_picture_prepare, .make = make, .finish = stk_value_pad
};

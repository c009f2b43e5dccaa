/* SPDX-License-Identifier: Apache-2.0 */
/* row_picture.c - a picture: its header, what the ops draw, the pixels that are seen, and the one
 * sampling pass straight into the row. */
#include <string.h>

#include "base/rng.h"
#include "codec/exif.h"
#include "kern/convert.h"
#include "kern/row_act.h"
#include "kern/tile.h"
#include "kern/turn.h"
#include "row/row.h"
#include "row/tiles.h"

typedef struct picture {
    stk_picture_source from;
    stk_media_part all;     /* from.part, where all bytes were read */
    stk_image_info info;    /* as filed */
    unsigned turn;          /* to make it upright: EXIF's 1..8 */
    stk_decode_request ask; /* where it is sampled once */
    stk_image_info upright; /* as it is seen */
} picture;

/* The decoder that knows these bytes, with this worker's context. */
int stk_picture_decoder(stk_maker *m, stk_bytes in, const stk_decoder **out, void **ctx,
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

/* What is outside a follower's picture: its own fill, which is 0 where like() does not say it; or
 * its leader's, which means the same in a picture of the same mode. */
static void follow_fill(const stk_chain *c, uint8_t fill[3])
{
    if (c->like.how->fill_given || c->spec.picture.mode != c->like.leader->spec.picture.mode)
        memcpy(fill, c->like.how->fill, 3);
}

static void follow_warp(const stk_chain *c, const stk_action *drawn, stk_action *out)
{
    uint32_t was = drawn->v.u[9];
    uint8_t fill[3] = { (uint8_t)was, (uint8_t)(was >> 8), (uint8_t)(was >> 16) };

    follow_fill(c, fill);
    *out = *drawn;
    out->v.u[9] = fill[0] | (uint32_t)fill[1] << 8 | (uint32_t)fill[2] << 16;
    if (c->like.how->filter_given &&
        (c->like.how->filter == STK_NEAREST || drawn->code == STK_ACT_WARP ||
         (c->like.how->filter & ~STK_FILTER_SHARP) != STK_BICUBIC))
        out->v.u[8] = c->like.how->filter == STK_NEAREST ? STK_NEAREST : STK_BILINEAR;
    else if (c->like.how->filter_given)
        out->v.u[8] = STK_BICUBIC;
}

/* What a follower sees of its leader's draws: views and warps, sampled as its leader's are where
 * like() does not say otherwise. */
static void follow(const stk_chain *c, stk_draws *d)
{
    const stk_like *l = c->like.how;
    uint32_t n = 0;

    for (uint32_t k = 0, i = 0; k < d->n_passes; k++) {
        uint32_t end = k + 1 < d->n_passes ? d->from[k + 1] : d->n_actions;

        if (l->filter_given)
            d->view[k].filter = l->filter;
        if (!d->view[k].border)
            follow_fill(c, d->view[k].fill);
        d->from[k] = n;
        for (; i < end; i++) {
            if (!stk_act_moves(d->action[i].code))
                continue;
            follow_warp(c, &d->action[i], &d->action[n++]);
        }
    }
    d->n_actions = n;
}

int stk_picture_follow(const stk_row *x, const stk_image_info *info, uint32_t view, stk_draws *d,
                       stk_error *err)
{
    const stk_chain *c = stk_row_chain(x), *drawn = c->like.leader ? c->like.leader : c;
    const stk_draw_observer *watch = stk_picture_observer(x);
    uint32_t output = c->like.leader ? c->like.leader_output : x->output;
    const stk_address at = { .seed = x->plan->policy.seed,
                             .position = x->position,
                             .epoch = (uint32_t)x->batch->epoch,
                             .output = output,
                             .view = view,
                             .max_patches = x->batch->limit.patches,
                             .patch = x->batch->limit.side,
                             .keep = stk_patches_keep(x, output),
                             .unit = x->schedule->truncated.unit };
    const uint32_t size[2] = { info->width, info->height };

    d->boxes = NULL;
    if (drawn->boxes.name)
        STK_TRY(stk_boxes_read(x, drawn->boxes.output, &d->boxes, err));
    if (c->like.leader)
        stk_chain_draw_through(drawn, &at, size, d);
    else
        stk_chain_draw(drawn, &at, size, d, watch);
    if (stk_draws_last(d)->refused)
        return stk_fail(err, STK_ECORRUPT, "%s (it is %ux%u there)", stk_draws_last(d)->refused,
                        stk_draws_last(d)->vis_w, stk_draws_last(d)->vis_h);
    if (c->like.leader)
        follow(c, d);
    return 0;
}

int stk_picture_draw(const stk_row *x, const stk_image_info *info, uint32_t view, stk_draws *d,
                     stk_error *err)
{
    const stk_chain *c = stk_row_chain(x);
    const stk_address at = { .position = x->position, .output = x->output };

    if (!c->like.after_call)
        return stk_picture_follow(x, info, view, d, err);
    d->boxes = NULL;
    /* all of it, for the function */
    stk_chain_draw(c, &at, (uint32_t[2]){ info->width, info->height }, d, NULL);
    return 0;
}

/* The pixels of `need`, which is a rectangle of the picture as the ops see it. */
static int decode_need(const picture *p, const stk_decode_request *ask, stk_scratch *scratch,
                       stk_pixels *out, stk_error *err)
{
    const stk_rect *need = &ask->need;
    stk_decode_request filed = *ask;

    if (!need->w || !need->h)
        return 0;
    filed.need = stk_turn_rect(p->turn, p->info, need);
    if (p->turn != 1 && !stk_scratch_expect(scratch, (size_t)need->w * need->h * 8))
        return stk_fail(err, STK_ENOMEM, "no memory to turn a picture of %ux%u", need->w, need->h);
    STK_TRY(stk_picture_pixels(&p->from, &filed, scratch, out, err));
    if (ask->deep && !out->deep)
        return stk_fail(err, STK_ECORRUPT,
                        "image(mode=gray16): a %s has 8 bits: write image(mode=gray), or store PNG "
                        "of 16 bits",
                        p->from.decoder->name);
    return p->turn == 1 ? 0 : stk_turn_pixels(p->turn, p->info, need, scratch, out, err);
}

/* `in` is the field as it is stored, or what was made of it: then nothing is known of it. */
static int as_stored(const stk_row *x, stk_bytes in)
{
    const stk_wanted *want = &x->req->want[x->output];

    return in.data == want->bytes.data && in.len == want->bytes.len;
}

/* Points that another decoder made are of what the field was before. */
static stk_bytes hint_for(const stk_row *x, const stk_decoder *decoder, stk_bytes in)
{
    stk_bytes hint = x->req->want[x->output].hint;

    return as_stored(x, in) && stk_points_are_of(decoder, hint) ? hint : (stk_bytes){ 0 };
}

static int can_learn(const stk_row *x, stk_bytes in, const picture *p, const stk_pixels *pixels)
{
    return x->req->want[x->output].learn && p->from.decoder->points &&
           pixels->lane == STK_LANE_PLAIN && pixels->area.w && as_stored(x, in);
}

static stk_decode_request ask_of(const stk_row *x)
{
    const stk_spec *spec = &stk_row_chain(x)->spec;

    return (stk_decode_request){ .index = spec->picture.mode == STK_MODE_INDEX,
                                 .deep = spec->picture.mode == STK_MODE_GRAY16,
                                 .high_byte = spec->picture.high_byte };
}

int stk_picture_look(const stk_row *x, const stk_image_info *info, stk_draws *d,
                     stk_decode_request *ask, stk_error *err)
{
    STK_TRY(stk_picture_draw(x, info, x->picture, d, err));
    *ask = ask_of(x);
    stk_sample_need(d->view, &ask->need);
    return 0;
}

int stk_picture_sample(stk_row *x, stk_draws *d, const stk_sample_job *job, stk_error *err)
{
    if (d->n_passes > 1 || d->n_actions)
        return stk_tile_sample(x, d, job, err);
    return stk_sample_run(x->plan->rows.kern, job, &x->m->scratch, err);
}

/* ---- one channel ---- */

/* Pillow's "L", in R, G and B alike. */
static void make_gray(const stk_pixels *px)
{
    for (uint32_t y = 0; px->data && y < px->area.h; y++) {
        uint8_t *p = px->data + y * px->stride;

        for (uint32_t i = 0; i < px->area.w; i++, p += 4)
            p[0] = p[1] = p[2] = (uint8_t)((p[0] * 19595u + p[1] * 38470u + p[2] * 7471u +
                                            0x8000u) >>
                                           16);
    }
}

/* The first byte of n pixels of three, as the row has it. */
static int put_one(const stk_spec *spec, const uint8_t *rgb, size_t n, stk_scratch *scratch,
                   void *dst, stk_error *err)
{
    stk_cpu level = stk_cpu_level();
    int plain = spec->picture.mul[0] == 1 && spec->picture.add[0] == 0;
    uint8_t *one = stk_scratch_get(scratch, n * (plain ? 1 : sizeof(float)));
    stk_convert_fn convert = stk_convert_find(level, plain ? STK_U8 : STK_F32, spec->dtype);

    if (!one)
        return stk_fail_nomem(err, n);
    for (size_t i = 0; i < n; i++) {
        if (plain)
            one[i] = rgb[3 * i];
        else
            ((float *)(void *)one)[i] = (float)rgb[3 * i] * spec->picture.mul[0] +
                                        spec->picture.add[0];
    }
    if (convert)
        return convert(dst, one, n) ? stk_fail(err, STK_ECORRUPT, "a value that does not fit") : 0;
    memcpy(dst, one, n * stk_dtype_size(spec->dtype));
    return 0;
}

/* Actions in the row are done in the row, which has its units: not in the bytes that it is made
 * of. */
static int sample_one(stk_row *x, stk_sample_fn sample, const stk_spec *spec, stk_draws *d,
                      const stk_sample_job *job, stk_error *err)
{
    size_t n = (size_t)job->view->vis_w * job->view->vis_h;
    uint32_t all = d->n_actions;
    stk_sample_job rgb = *job;
    int rc;

    rgb.dst = stk_scratch_get(&x->m->scratch, 3 * n);
    if (!rgb.dst)
        return stk_fail_nomem(err, 3 * n);
    rgb.dtype = STK_U8;
    rgb.layout = STK_HWC;
    for (int c = 0; c < 3; c++)
        rgb.mul[c] = 1, rgb.add[c] = 0;
    d->n_actions = stk_draws_in_row(d);
    rc = sample(x, d, &rgb, err);
    if (rc == 0)
        rc = put_one(spec, rgb.dst, n, &x->m->scratch, job->dst, err);
    for (uint32_t i = d->n_actions; rc == 0 && i < all; i++)
        stk_row_act(&d->action[i], job, 1);
    d->n_actions = all;
    return rc;
}

int stk_patches_sample(stk_row *x, stk_sample_fn sample, stk_draws *d, const stk_sample_job *job,
                       stk_error *err)
{
    stk_sample_job whole;

    STK_TRY(stk_patches_begin(x, stk_draws_in_row(d) < d->n_actions, job, &whole, err));
    STK_TRY(sample(x, d, &whole, err));
    stk_patches_cut(x, job, &whole);
    return 0;
}

/* How pixels come into the row. */
static stk_sample_fn sampler_of(const stk_row_ops *o)
{
    return o->goal->sample ? o->goal->sample : o->work->sample;
}

static int sample_as(stk_row *x, stk_draws *d, const stk_sample_job *job, stk_error *err)
{
    const stk_spec *spec = &stk_row_chain(x)->spec;
    stk_sample_fn sample = sampler_of(stk_row_ops_of(x));

    if (spec->picture.mode == STK_MODE_GRAY16)
        return stk_deep_row(x, d, job->pixels, spec, job->dst, err);
    if (spec->picture.patch.side && !stk_row_ops_of(x)->goal->sample)
        return stk_patches_sample(x, sample, d, job, err);
    return spec->picture.mode ? sample_one(x, sample, spec, d, job, err) : sample(x, d, job, err);
}

static void color_of(stk_sample_job *job, const stk_spec *spec)
{
    job->dtype = spec->dtype;
    job->layout = spec->picture.layout;
    memcpy(job->mul, spec->picture.mul, sizeof job->mul);
    memcpy(job->add, spec->picture.add, sizeof job->add);
}

int stk_picture_array(stk_row *x, stk_draws *d, const stk_pixels *pixels, const stk_spec *spec,
                      void *dst, stk_error *err)
{
    stk_sample_job job = { .pixels = pixels, .view = stk_draws_last(d), .dst = dst };

    if (spec->picture.mode == STK_MODE_GRAY16)
        return stk_deep_row(x, d, pixels, spec, dst, err);
    color_of(&job, spec);
    return spec->picture.mode ? sample_one(x, stk_tile_sample, spec, d, &job, err)
                              : stk_tile_sample(x, d, &job, err);
}

static int sample(stk_row *x, stk_draws *d, stk_pixels *pixels, stk_error *err)
{
    const stk_row_ops *o = stk_row_ops_of(x);
    stk_sample_job job = { .pixels = pixels };
    int rc = o->work->between ? o->work->between(x, d, pixels, err) : 0;

    if (rc)
        return rc < 0 ? rc : 0;
    job.view = stk_draws_last(d);
    color_of(&job, &stk_row_chain(x)->spec);
    STK_TRY(o->goal->place(x, &job, err));
    return sample_as(x, d, &job, err);
}

static int decode_as(const stk_row *x, const picture *p, const stk_decode_request *ask,
                     stk_pixels *pixels, stk_error *err)
{
    STK_TRY(decode_need(p, ask, &x->m->scratch, pixels, err));
    if (stk_row_chain(x)->spec.picture.mode == STK_MODE_GRAY)
        make_gray(pixels);
    return 0;
}

/* How it was decoded.  A stale part is not: the whole is read, and counted then. */
static void count_lane(const stk_row *x, const stk_pixels *pixels, int rc)
{
    if (rc != STK_ESTALE || !x->req->ranged[x->output].n)
        stk_count(&x->m->count.lane[pixels->lane], 1);
}

/* ---- views ---- */

/* All views of a picture, from one decode of what any of them sees. */
static int look_all(const stk_row *x, const stk_image_info *info, stk_draws *d, stk_rect *need,
                    stk_error *err)
{
    for (uint32_t i = 0; i < stk_row_views(x); i++) {
        stk_rect one;

        STK_TRY(stk_picture_draw(x, info, i, &d[i], err));
        stk_sample_need(d[i].view, &one);
        stk_rect_widen(need, &one);
    }
    return 0;
}

/* What the other outputs see of a picture that they share.  They draw again, and report, when it is
 * their turn; so does an error. */
void stk_picture_look_ahead(stk_row *x, const stk_image_info *info, stk_rect *need)
{
    uint32_t first = x->output;
    int again = x->again;
    stk_draws d;

    x->again = 1;
    for (x->output = first + 1; x->output < x->table->n_out; x->output++)
        for (uint32_t i = 0; x->plan->rows.share[x->output] == first && i < stk_row_views(x); i++) {
            stk_rect one;

            if (stk_picture_draw(x, info, i, &d, NULL) < 0)
                break;
            stk_sample_need(d.view, &one);
            stk_rect_widen(need, &one);
        }
    x->output = first;
    x->again = again;
}

/* View x->view of an output that has several; the job goes on from the view before it. */
static int sample_view(stk_row *x, stk_draws *d, stk_sample_job *job, stk_error *err)
{
    const stk_row_goal *to = stk_row_ops_of(x)->goal;
    const stk_chain *c = stk_row_chain(x);

    job->view = stk_draws_last(d);
    if (x->view && !to->each) {
        job->dst = (uint8_t *)job->dst + c->row_bytes / stk_row_views(x);
    } else {
        color_of(job, &c->spec);
        STK_TRY(to->place(x, job, err));
    }
    return sample_as(x, d, job, err);
}

static int sample_all(stk_row *x, stk_draws *d, const stk_pixels *pixels, stk_error *err)
{
    const stk_row_work *by = stk_row_ops_of(x)->work;
    unsigned mark = stk_scratch_mark(&x->m->scratch);
    stk_pixels px;
    stk_sample_job job = { .pixels = &px };
    int rc = 0;

    for (x->view = 0; x->view < stk_row_views(x) && rc >= 0; x->view++) {
        stk_scratch_rewind(&x->m->scratch, mark);
        px = *pixels;
        rc = by->between ? by->between(x, &d[x->view], &px, err) : 0;
        if (rc == 0)
            rc = sample_view(x, &d[x->view], &job, err);
    }
    x->view = 0;
    return rc < 0 ? rc : 0;
}

static int room_for_draws(const stk_row *x, stk_draws **out, stk_error *err)
{
    size_t size = stk_row_views(x) * sizeof **out;

    *out = stk_scratch_get(&x->m->scratch, size);
    return *out ? 0 : stk_fail_nomem(err, size);
}

int stk_picture_look_views(const stk_row *x, const stk_image_info *info, stk_draws **d,
                           stk_decode_request *ask, stk_error *err)
{
    *ask = ask_of(x);
    STK_TRY(room_for_draws(x, d, err));
    return look_all(x, info, *d, &ask->need, err);
}

/* 1: the GPU decodes it; seek points are found where the CPU does. */
static int leave(stk_row *x, const picture *p, const stk_draws *d, const stk_decode_request *ask)
{
    const stk_row_goal *to = stk_row_ops_of(x)->goal;

    return to->leave && p->turn == 1 && p->from.decoder->can & STK_DECODER_GPU &&
           !x->req->want[x->output].learn && to->leave(x, &p->from, d, ask);
}

/* The views of one output; first: others read the picture after it. */
static int make_views(stk_row *x, const picture *p, stk_pixels *pixels, int first, stk_error *err)
{
    stk_decode_request ask;
    stk_maker *m = x->m;
    stk_draws *d;
    int rc;

    STK_TRY(stk_picture_look_views(x, &p->upright, &d, &ask, err));
    if (first)
        stk_picture_look_ahead(x, &p->upright, &ask.need);
    if (leave(x, p, d, &ask)) {
        stk_stage_time_row(m, STK_STAGE_DECODE);
        return 0;
    }
    rc = decode_as(x, p, &ask, pixels, err);
    stk_stage_time_row(m, STK_STAGE_DECODE);
    stk_does_next(m, STK_STAGE_RESAMPLE);
    count_lane(x, pixels, rc);
    if (rc == 0 && stk_row_ops_of(x)->work->between)
        rc = stk_call_before_views(x, d, pixels, err);
    if (rc == 0 && first)
        m->shared = (stk_shared_picture){
            .ready = 1, .first = x->output, .pixels = *pixels, .mark = stk_scratch_mark(&m->scratch)
        };
    return rc == 0 ? sample_all(x, d, pixels, err) : rc;
}

/* ---- one ---- */

/* The upright size, kept for those who follow; a follower has its leader's, and its turn. */
int stk_picture_note_size(const stk_row *x, const stk_image_info *info, unsigned *turn,
                          stk_image_info *upright, stk_error *err)
{
    const stk_chain *c = stk_row_chain(x);
    stk_wanted *want = &x->req->want[x->output];
    const stk_wanted *lead = c->like.leader ? &x->req->want[c->like.leader_output] : want;

    if (c->like.leader)
        *turn = lead->turn;
    *upright = stk_turn_size(*turn, *info);
    if (c->like.leader && (upright->width != lead->width || upright->height != lead->height))
        return stk_fail(
            err, STK_ECORRUPT,
            "output %s is like(%s), but is %ux%u where that is %ux%u: store both at one "
            "size",
            x->plan->chains.out[x->output].name, x->plan->chains.out[c->like.leader_output].name,
            upright->width, upright->height, lead->width, lead->height);
    want->width = upright->width;
    want->height = upright->height;
    want->turn = *turn;
    return 0;
}

/* All its bytes are there: its header is read. */
static int open_whole(stk_row *x, stk_bytes *in, picture *p, stk_error *err)
{
    stk_picture_source *from = &p->from;
    stk_media_info info;

    STK_TRY(stk_row_input(x, in, err));
    STK_TRY(stk_picture_decoder(x->m, *in, &from->decoder, &from->ctx, err));
    p->all = (stk_media_part){ 0, *in };
    from->points = hint_for(x, from->decoder, *in);
    from->part = &p->all;
    from->n_parts = 1;
    STK_TRY(stk_picture_header(from, *in, &info, err));
    p->info = (stk_image_info){ info.width, info.height };
    if (stk_row_chain(x)->spec.picture.exif)
        p->turn = stk_exif_turn(*in);
    return 0;
}

/* Parts of it were read: its points say what it is. */
static int open_parts(stk_row *x, stk_bytes *in, picture *p, stk_error *err)
{
    const stk_ranged *g = &x->req->ranged[x->output];
    stk_picture_source *from = &p->from;
    stk_media_info info;

    *in = (stk_bytes){ 0 };
    from->points = x->req->want[x->output].hint;
    from->part = g->part;
    from->n_parts = g->n;
    STK_TRY(stk_decoders_of_points(&x->m->decoders, from->points, &from->decoder, &from->ctx, err));
    STK_TRY(from->decoder->know(&(stk_media_points){ .head = from->points }, 0, &info, err));
    p->info = (stk_image_info){ info.width, info.height };
    if (stk_row_chain(x)->spec.picture.exif)
        p->turn = info.turn;
    return 0;
}

/* Its size is known. */
static int open_picture(stk_row *x, stk_bytes *in, picture *p, stk_image_info *upright,
                        stk_error *err)
{
    stk_scratch_reset(&x->m->scratch);
    stk_does_next(x->m, STK_STAGE_DECODE);
    STK_TRY(x->req->ranged[x->output].n ? open_parts(x, in, p, err) : open_whole(x, in, p, err));
    STK_TRY(stk_picture_check(x, &p->info, err));
    return stk_picture_note_size(x, &p->info, &p->turn, upright, err);
}

static int make_all_views(stk_row *x, int first, stk_error *err)
{
    picture p = { .turn = 1 };
    stk_pixels pixels = { 0 };
    stk_bytes in;
    int rc;

    STK_TRY(open_picture(x, &in, &p, &p.upright, err));
    rc = make_views(x, &p, &pixels, first, err);
    stk_stage_time_row(x->m, STK_STAGE_RESAMPLE);
    if (rc == 0 && can_learn(x, in, &p, &pixels))
        stk_learn_from(x, p.from.decoder, p.from.ctx);
    return rc;
}

/* ---- decoded and sampled in bands ---- */

#define LARGE (1u << 16) /* pixels, from which on the second cache does not hold them for long */

typedef struct bands {
    stk_resampler *sampler;
    uint64_t ticks; /* that sampling took */
} bands;

static void take_band(void *cookie, const stk_pixels *band)
{
    bands *b = cookie;
    uint64_t from = stk_ticks();

    stk_sample_band(b->sampler, band);
    b->ticks += stk_ticks() - from;
}

/* A large picture that is sampled once, as it is: its pixels need never be in memory all at
 * once. */
static int in_bands(const stk_row *x, const picture *p, const stk_draws *d)
{
    const stk_row_ops *o = stk_row_ops_of(x);

    return (uint64_t)p->ask.need.w * p->ask.need.h >= LARGE && !o->work->between &&
           sampler_of(o) == stk_picture_sample && !stk_row_chain(x)->spec.picture.mode &&
           p->turn == 1 && d->n_passes == 1 && !d->n_actions && !d->view->border;
}

static int make_in_bands(stk_row *x, picture *p, const stk_draws *d, stk_pixels *pixels,
                         stk_error *err)
{
    stk_maker *m = x->m;
    stk_sample_job job = { .view = d->view }, whole;
    int cut = stk_row_chain(x)->spec.picture.patch.side != 0;
    bands b = { 0 };
    int rc;

    color_of(&job, &stk_row_chain(x)->spec);
    STK_TRY(stk_row_ops_of(x)->goal->place(x, &job, err));
    if (cut)
        STK_TRY(stk_patches_begin(x, 0, &job, &whole, err));
    STK_TRY(stk_sample_open(&b.sampler, x->plan->rows.kern, cut ? &whole : &job, &m->scratch, err));
    p->ask.band = take_band;
    p->ask.cookie = &b;
    rc = decode_need(p, &p->ask, &m->scratch, pixels, err);
    if (rc == 0 && pixels->data) /* all at once */
        take_band(&b, pixels);
    if (rc == 0 && cut)
        stk_patches_cut(x, &job, &whole);
    stk_stage_time_row_less(m, STK_STAGE_DECODE, b.ticks);
    stk_does_next(m, STK_STAGE_RESAMPLE);
    count_lane(x, pixels, rc);
    stk_stage_time_row(m, STK_STAGE_RESAMPLE);
    return rc;
}

static int make_at_once(stk_row *x, const picture *p, stk_draws *d, stk_pixels *pixels,
                        stk_error *err)
{
    stk_maker *m = x->m;
    int rc = decode_as(x, p, &p->ask, pixels, err);

    stk_stage_time_row(m, STK_STAGE_DECODE);
    stk_does_next(m, STK_STAGE_RESAMPLE);
    count_lane(x, pixels, rc);
    if (rc == 0)
        rc = sample(x, d, pixels, err);
    stk_stage_time_row(m, STK_STAGE_RESAMPLE);
    return rc;
}

static int make_own(stk_row *x, stk_error *err)
{
    picture p = { .turn = 1 };
    stk_image_info upright;
    stk_pixels pixels = { 0 };
    stk_draws d;
    stk_bytes in;
    int rc;

    if (stk_spec_lead(&stk_row_chain(x)->spec, STK_LEAD_VIEWS))
        return make_all_views(x, 0, err);
    STK_TRY(open_picture(x, &in, &p, &upright, err));
    STK_TRY(stk_picture_look(x, &upright, &d, &p.ask, err));
    if (leave(x, &p, &d, &p.ask)) {
        stk_stage_time_row(x->m, STK_STAGE_DECODE);
        return 0;
    }
    if (in_bands(x, &p, &d))
        rc = make_in_bands(x, &p, &d, &pixels, err);
    else
        rc = make_at_once(x, &p, &d, &pixels, err);
    if (rc == 0 && can_learn(x, in, &p, &pixels))
        stk_learn_from(x, p.from.decoder, p.from.ctx);
    return rc;
}

int stk_picture_size(stk_row *x, uint32_t size[2], stk_error *err)
{
    picture p = { .turn = 1 };
    stk_image_info upright;
    stk_draws d;
    stk_bytes in;
    int again = x->again, rc;

    STK_TRY(open_picture(x, &in, &p, &upright, err));
    x->again = 1; /* it is drawn once more when it is made, and reported then */
    rc = stk_picture_draw(x, &upright, x->picture, &d, err);
    x->again = again;
    if (rc == 0) {
        size[0] = stk_draws_last(&d)->vis_w;
        size[1] = stk_draws_last(&d)->vis_h;
    }
    return rc;
}

/* ---- into the batch ---- */

int stk_picture_note_shape(const stk_row *x, const stk_view *v, stk_error *err)
{
    const stk_picture_spec *p = &stk_row_chain(x)->spec.picture;
    uint32_t channels = p->mode ? 1 : 3;
    /* of an index only the first two */
    int hwc = p->layout == STK_HWC || p->mode == STK_MODE_INDEX;
    stk_row_out *out = stk_row_out_of(x);

    if ((uint64_t)v->vis_w * v->vis_h > x->plan->policy.max_pixels)
        return stk_fail(err, STK_ELIMIT, "its output would be %ux%u, over the limit of max_pixels",
                        v->vis_w, v->vis_h);
    if (p->patch.side)
        return stk_patches_shape(x, v, err);
    out->ndim = p->mode == STK_MODE_INDEX ? 2 : 3;
    out->shape[0] = hwc ? v->vis_h : channels;
    out->shape[1] = hwc ? v->vis_w : v->vis_h;
    out->shape[2] = hwc ? channels : v->vis_w;
    return 0;
}

/* Room off a ragged output for a picture of the size that is seen. */
static int ragged_place(stk_row *x, stk_sample_job *job, stk_error *err)
{
    const stk_view *v = job->view;
    uint32_t channels = stk_row_chain(x)->spec.picture.mode ? 1 : 3;
    size_t len = (size_t)v->vis_w * v->vis_h * channels * stk_dtype_size(job->dtype);

    if (stk_row_chain(x)->spec.picture.patch.side)
        len *= stk_row_chain(x)->spec.picture.patch.frames;
    stk_row_fresh(x);
    STK_TRY(stk_picture_note_shape(x, v, err));
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

/* ---- several outputs of one picture ---- */

/* The first output of them decoded this sample's picture, and nothing was made between. */
int stk_picture_is_there(const stk_row *x)
{
    const stk_shared_picture *s = &x->m->shared;
    const stk_wanted *mine = &x->req->want[x->output];
    uint32_t first = x->plan->rows.share[x->output];

    return first != x->output && s->ready && s->first == first && !x->again &&
           mine->number == x->req->want[first].number && mine->unpack == x->req->want[first].unpack;
}

static int make_from_shared(stk_row *x, stk_error *err)
{
    const stk_row_goal *to = stk_row_ops_of(x)->goal;
    const stk_shared_picture *s = &x->m->shared;
    const stk_wanted *first = &x->req->want[s->first];
    stk_wanted *want = &x->req->want[x->output];
    stk_image_info upright = { .width = first->width, .height = first->height };
    stk_rect unused = { 0 };
    stk_draws *d;
    int rc;

    want->width = first->width;
    want->height = first->height;
    want->turn = first->turn;
    if (s->left)
        stk_scratch_reset(&x->m->scratch);
    else
        stk_scratch_rewind(&x->m->scratch, s->mark);
    stk_does_next(x->m, STK_STAGE_RESAMPLE);
    STK_TRY(room_for_draws(x, &d, err));
    STK_TRY(look_all(x, &upright, d, &unused, err));
    if (s->left)
        rc = to->join && to->join(x, d) ? 0 : make_all_views(x, 0, err);
    else
        rc = sample_all(x, d, &s->pixels, err);
    stk_stage_time_row(x->m, STK_STAGE_RESAMPLE);
    return rc;
}

static int make_shared(stk_row *x, stk_error *err)
{
    if (stk_picture_is_there(x))
        return make_from_shared(x, err);
    x->m->shared.ready = 0;
    return make_all_views(x, x->plan->rows.share[x->output] == x->output, err);
}

int stk_picture_make(stk_row *x, stk_error *err)
{
    return stk_row_ops_of(x)->shared ? make_shared(x, err) : make_own(x, err);
}

const stk_row_work stk_work_picture = { .name = "picture",
                                        .make = stk_picture_make,
                                        .sample = stk_picture_sample };

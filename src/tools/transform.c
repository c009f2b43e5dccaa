/* SPDX-License-Identifier: Apache-2.0 */
/* transform.c - a chain without its codec: pixels in memory -> view -> the one sampling pass.
 *
 * Nothing is kept between runs but the plan and some scratch memory, so one transform serves any
 * number of threads; for a GPU there is a stk_views, made when one is first used.  Of a picture
 * only what its view touches is gathered (into RGBX, which the pass reads), whatever its strides.
 * Pictures go to threads in runs of several, each with scratch of its own (fresh memory would cost
 * more than most ops); small jobs stay in the caller's thread, where starting others would cost
 * more than they bring. */
#include "tools/transform_model.h"

#include <stdio.h>
#include <string.h>

#include "base/expr.h"
#include "base/jobs.h"
#include "base/opts.h"
#include "base/registry.h"
#include "base/rng.h"
#include "codec/codec.h"
#include "codec/sound_points.h"
#include "gpu/pic.h"
#include "kern/sample.h"
#include "row/tiles.h"

#define MAX_PIXELS UINT64_C(178956970) /* of a picture, as the loader's default */
#define ALONE UINT64_C(200000)         /* so few source pixels are done without threads */
#define MAX_THERE (1u << 20)           /* pictures of one call on a GPU */

#define IDLE_BYTES ((size_t)16 << 20) /* of scratch memory that waits for the next call, at most */

/* ---- plan ---- */

/* Does the chain begin with an op?  Then it gets the `image` that it follows in a loader. */
static int is_bare(const stk_transform *t, const char *text, int *out, stk_error *err)
{
    stk_expr *e = NULL;

    STK_TRY(stk_expr_parse(&e, text, err));
    *out = strcmp(e->call[0].name, "from") &&
           !stk_registry_find(t->registry, STK_PLUGIN_CODEC, e->call[0].name);
    stk_expr_close(&e);
    return 0;
}

static int check_pictures(const stk_chain *c, stk_error *err)
{
    for (uint32_t i = 0; i < c->n_steps; i++)
        if (c->step[i].codec && !(c->step[i].codec->can & STK_CODEC_PICTURES))
            return stk_fail(err, STK_EINVAL, "a transform takes decoded pictures: leave `%s` away",
                            c->step[i].codec->name);
    if (c->spec.picture.several)
        return stk_fail(err, STK_EINVAL, "a transform takes one picture: leave `pictures` away");
    if (c->spec.picture.mode)
        return stk_fail(err, STK_ENOTSUP,
                        "a transform gives RGB: image(mode=...) works in a loader; grayscale(p=1) "
                        "gives three equal "
                        "channels");
    if (c->boxes.name)
        return stk_fail(err, STK_EINVAL,
                        "iou_crop works in a loader, beside the output of boxes that it names");
    if (c->spec.kind != STK_KIND_IMAGE)
        return stk_fail(err, STK_EINVAL,
                        "a transform works on pictures or sound: the chain makes neither");
    return 0;
}

static int check_chain(const stk_chain *c, uint32_t rate, stk_error *err)
{
    if (c->calls.n)
        return stk_fail(
            err, STK_ENOTSUP,
            "a transform has no functions: leave call() away, and call yours on what it "
            "gives");
    if (c->sound)
        return stk_transform_check_sound(c, err);
    if (rate)
        return stk_fail(err, STK_EINVAL, "a rate is of sound, and the chain is of pictures");
    return check_pictures(c, err);
}

/* Of sound, ops alone follow `sound` at the rate that was given. */
static int plan_text(stk_transform *t, const char *text, uint32_t rate, stk_error *err)
{
    char head[40] = "";
    size_t len = strlen(text) + sizeof head;
    int bare = 0, rc;
    char *full;

    if (rate > STK_SOUND_RATE)
        return stk_fail(err, STK_EINVAL, "a rate of %u samples per second is not in 1..%d", rate,
                        STK_SOUND_RATE);
    STK_TRY(is_bare(t, text, &bare, err));
    if (bare && rate)
        snprintf(head, sizeof head, "sound(rate=%u) | ", rate);
    else if (bare)
        snprintf(head, sizeof head, "image | ");
    full = stk_alloc(len);
    if (!full)
        return stk_fail_nomem(err, len);
    snprintf(full, len, "%s%s", head, text);
    rc = stk_chain_plan(&t->chain, t->registry, rate ? "sound" : "image", full, err);
    stk_free(full);
    return rc < 0 ? rc : check_chain(&t->chain, rate, err);
}

int stk_transform_open(stk_transform **out, const char *chain, const stk_transform_options *opt,
                       stk_error *err)
{
    stk_transform_options o;
    stk_transform *t;
    int rc;

    *out = NULL;
    stk_options_take(&o, sizeof o, opt);
    if (o.output > UINT8_MAX)
        return stk_fail(err, STK_EINVAL, "output %u is not in 0..255", o.output);
    t = STK_NEW(stk_transform);
    if (!t)
        return stk_fail_nomem(err, sizeof *t);
    t->idle = STK_NEW(stk_transform_idle);
    if (!t->idle) {
        stk_free(t);
        return stk_fail_nomem(err, sizeof *t->idle);
    }
    stk_mutex_init(&t->idle->lock);
    stk_mutex_init(&t->lock);
    t->kern = stk_kern_table(stk_cpu_level());
    t->seed = o.seed;
    t->workers = o.num_workers ? o.num_workers : stk_cpu_share();
    t->output = (uint8_t)o.output;
    t->registry = stk_registry_ref(o.registry);
    rc = plan_text(t, chain, o.rate, err);
    if (rc < 0)
        stk_transform_close(&t);
    *out = t;
    return rc;
}

static void room_fini(const stk_transform *t, stk_transform_room *room)
{
    if (room->sound)
        t->chain.sound->codec->close(room->sound);
    stk_scratch_fini(&room->scratch);
    *room = (stk_transform_room){ 0 };
}

void stk_transform_close(stk_transform **t)
{
    if (!*t)
        return;
    for (uint32_t i = 0; i < STK_TRANSFORM_GPUS; i++)
        stk_views_close(&(*t)->views[i]);
    for (uint32_t i = 0; i < (*t)->idle->n; i++)
        room_fini(*t, &(*t)->idle->room[i]);
    stk_mutex_destroy(&(*t)->idle->lock);
    stk_free((*t)->idle);
    stk_mutex_destroy(&(*t)->lock);
    stk_chain_fini(&(*t)->chain);
    stk_registry_close(&(*t)->registry);
    stk_free(*t);
    *t = NULL;
}

void stk_transform_describe(const stk_transform *t, stk_transform_info *out)
{
    static const char *const layouts[] = {
        [STK_CHW] = "chw", [STK_HWC] = "hwc", [STK_CHANNELS_LAST] = "channels_last"
    };
    const stk_spec *s = &t->chain.spec;
    int sound = t->chain.sound != NULL;
    int fixed = !sound && s->picture.width && s->picture.height;

    stk_transform_info info = { .size = out->size,
                                .dtype = s->dtype,
                                .width = fixed ? s->picture.width : 0,
                                .height = fixed ? s->picture.height : 0,
                                .layout = sound ? "" : layouts[s->picture.layout],
                                .views = stk_spec_lead(s, STK_LEAD_VIEWS),
                                .sound = (uint32_t)sound };

    if (sound && s->out == STK_OUT_DENSE && t->chain.row_bytes) {
        info.ndim = s->ndim;
        memcpy(info.shape, s->shape, sizeof info.shape);
    }
    memcpy(out, &info, out->size < sizeof info ? out->size : sizeof info);
}

/* ---- one picture ---- */

static int draw(const stk_transform *t, uint32_t epoch, const stk_picture *p, stk_draws *d,
                stk_error *err)
{
    const stk_address at = { .seed = t->seed,
                             .position = p->position,
                             .epoch = epoch,
                             .output = t->output,
                             .view = p->view };
    const uint32_t views = stk_spec_draws(&t->chain.spec);
    const uint32_t size[2] = { p->width, p->height };
    const stk_view *view;

    if ((p->channels != 1 && p->channels != 3) || !p->width || !p->height)
        return stk_fail(err, STK_EINVAL, "it is %ux%u with %u channels: 1 or 3, of some pixels",
                        p->width, p->height, p->channels);
    if ((uint64_t)p->width * p->height > MAX_PIXELS)
        return stk_fail(err, STK_ELIMIT, "it is %ux%u, over %" PRIu64 " pixels", p->width,
                        p->height, MAX_PIXELS);
    if (p->view >= views)
        return stk_fail(err, STK_EINVAL, "it has no view %u: the chain makes %u, counted from 0",
                        p->view, views);
    stk_chain_draw(&t->chain, &at, size, d, NULL);
    if (stk_draws_last(d)->refused)
        return stk_fail(err, STK_EINVAL, "%s", stk_draws_last(d)->refused);
    for (uint32_t i = 0; i < d->n_passes; i++) {
        view = &d->view[i];
        if ((uint64_t)view->vis_w * view->vis_h > MAX_PIXELS)
            return stk_fail(err, STK_ELIMIT, "it would come out %ux%u, over %" PRIu64 " pixels",
                            view->vis_w, view->vis_h, MAX_PIXELS);
    }
    return 0;
}

static int check_room(const stk_transform *t, const stk_picture *p, const stk_view *view,
                      stk_error *err)
{
    uint64_t elem = stk_dtype_size(t->chain.spec.dtype);
    uint64_t size = (uint64_t)view->vis_w * view->vis_h * 3 * elem;

    if (size > p->out_size)
        return stk_fail(err, STK_EINVAL, "it takes %" PRIu64 " bytes and was given %" PRIu64, size,
                        p->out_size);
    return 0;
}

/* A row of pixels to RGBX. */
static void gather_row(const stk_kern *k, uint8_t *dst, const uint8_t *src, const int64_t step[2],
                       uint32_t n)
{
    if (step[0] == 3 && step[1] == 1)
        k->load_packed(dst, src, n);
    else if (step[0] == 1)
        k->load_planar(dst, src, step[1], n);
    else
        for (uint32_t i = 0; i < n; i++, src += step[0])
            k->load_planar(dst + 4 * (size_t)i, src, step[1], 1);
}

static int gather(const stk_transform *t, const stk_picture *p, const stk_rect *need,
                  stk_scratch *scratch, stk_pixels *out, stk_error *err)
{
    const int64_t step[2] = { p->step_x, p->channels == 1 ? 0 : p->step_c };
    size_t stride = (size_t)need->w * 4, size = stride * need->h;

    *out = (stk_pixels){ .stride = stride, .area = *need };
    if (!size)
        return 0;
    out->data = stk_scratch_get(scratch, size);
    if (!out->data)
        return stk_fail_nomem(err, size);
    for (uint32_t y = 0; y < need->h; y++) {
        const uint8_t *src = (const uint8_t *)p->data + (int64_t)(need->y + y) * p->step_y +
                             (int64_t)need->x * p->step_x;

        gather_row(t->kern, out->data + y * stride, src, step, need->w);
    }
    return 0;
}

static int make(const stk_transform *t, uint32_t epoch, const stk_picture *p, stk_scratch *scratch,
                stk_error *err)
{
    const stk_spec *spec = &t->chain.spec;
    stk_pixels pixels;
    stk_draws d;
    stk_rect need;
    stk_sample_job job = { .pixels = &pixels,
                           .dtype = spec->dtype,
                           .layout = spec->picture.layout,
                           .dst = p->out,
                           .own = 1 };

    STK_TRY(draw(t, epoch, p, &d, err));
    job.view = stk_draws_last(&d);
    STK_TRY(check_room(t, p, job.view, err));
    stk_sample_need(d.view, &need);
    stk_scratch_reset(scratch);
    STK_TRY(gather(t, p, &need, scratch, &pixels, err));
    memcpy(job.mul, spec->picture.mul, sizeof job.mul);
    memcpy(job.add, spec->picture.add, sizeof job.add);
    return t->chain.tiled || d.n_passes > 1
               ? stk_segments_run(&t->chain, t->kern, &d, &job, scratch, err)
               : stk_sample_run(t->kern, &job, scratch, err);
}

/* ---- all of them ---- */

static int at_picture(uint64_t i, int rc, stk_error *err)
{
    char said[sizeof err->message];

    if (rc < 0 && err) {
        memcpy(said, err->message, sizeof said);
        snprintf(err->message, sizeof err->message, "picture %" PRIu64 ": %.200s", i, said);
    }
    return rc;
}

static int takes_pictures(const stk_transform *t, stk_error *err)
{
    if (!t->chain.sound)
        return 0;
    return stk_fail(err, STK_EINVAL, "this transform takes sound: stk_transform_run_sound()");
}

int stk_transform_sizes(const stk_transform *t, uint32_t epoch, stk_picture *pictures, uint64_t n,
                        stk_error *err)
{
    stk_draws d;

    STK_TRY(takes_pictures(t, err));
    for (uint64_t i = 0; i < n; i++) {
        STK_TRY(at_picture(i, draw(t, epoch, &pictures[i], &d, err), err));
        pictures[i].out_width = stk_draws_last(&d)->vis_w;
        pictures[i].out_height = stk_draws_last(&d)->vis_h;
    }
    return 0;
}

typedef struct run {
    const stk_transform *t;
    const stk_picture *pictures;
    uint64_t n, share; /* pictures a job */
    uint32_t epoch;
} run;

void stk_transform_room_take(const stk_transform *t, stk_transform_room *out)
{
    stk_transform_idle *k = t->idle;

    stk_mutex_lock(&k->lock);
    *out = k->n ? k->room[--k->n] : (stk_transform_room){ 0 };
    stk_mutex_unlock(&k->lock);
}

void stk_transform_room_give(const stk_transform *t, stk_transform_room *room)
{
    stk_transform_idle *k = t->idle;

    if (room->scratch.total > IDLE_BYTES)
        stk_scratch_fini(&room->scratch);
    stk_mutex_lock(&k->lock);
    if (k->n < STK_TRANSFORM_IDLE) {
        k->room[k->n++] = *room;
        *room = (stk_transform_room){ 0 };
    }
    stk_mutex_unlock(&k->lock);
    room_fini(t, room);
}

static int run_share(void *cookie, uint64_t job, stk_error *err)
{
    const run *r = cookie;
    uint64_t end = (job + 1) * r->share < r->n ? (job + 1) * r->share : r->n;
    stk_transform_room room;
    int rc = 0;

    stk_transform_room_take(r->t, &room);
    for (uint64_t i = job * r->share; rc == 0 && i < end; i++)
        rc = at_picture(i, make(r->t, r->epoch, &r->pictures[i], &room.scratch, err), err);
    stk_transform_room_give(r->t, &room);
    return rc;
}

int stk_transform_run(const stk_transform *t, uint32_t epoch, const stk_picture *pictures,
                      uint64_t n, stk_error *err)
{
    run r = { .t = t, .pictures = pictures, .n = n, .epoch = epoch };
    uint32_t workers = t->workers;
    uint64_t pixels = 0;

    STK_TRY(takes_pictures(t, err));
    for (uint64_t i = 0; i < n && pixels < ALONE; i++)
        pixels += (uint64_t)pictures[i].width * pictures[i].height;
    if (pixels < ALONE)
        workers = 1;
    r.share = n / (workers * STK_TRANSFORM_SHARES) + 1;
    return stk_jobs_run(workers, (n + r.share - 1) / r.share, run_share, &r, err);
}

/* ---- on a GPU ---- */

static int views_of(stk_transform *t, uint32_t gpu, stk_views **out, stk_error *err)
{
    const stk_views_options o = { .gpu = gpu };
    int rc = 0;

    if (gpu >= STK_TRANSFORM_GPUS)
        return stk_fail(err, STK_EINVAL, "GPU %u: they are counted from 0 to %d", gpu,
                        STK_TRANSFORM_GPUS - 1);
    stk_mutex_lock(&t->lock);
    if (!t->views[gpu])
        rc = stk_views_open(&t->views[gpu], &o, err);
    *out = t->views[gpu];
    stk_mutex_unlock(&t->lock);
    return rc;
}

/* The ops whose pixels device code can change. */
static int check_ops(const stk_chain *c, stk_error *err)
{
    for (uint32_t i = 0; i < c->n_all; i++)
        if (c->all[i]->op->can & STK_OP_ACT && !(c->all[i]->op->can & STK_OP_GPU))
            return stk_fail(
                err, STK_ENOTSUP,
                "`%s` runs on the CPU only: give the transform pictures there, and move "
                "what it makes",
                c->all[i]->op->name);
    return 0;
}

typedef struct there {
    const stk_transform *t;
    const stk_picture *pictures;
    uint32_t epoch;
} there;

static int draw_picture(const there *w, const stk_picture *p, stk_draws *d, stk_error *err)
{
    STK_TRY(draw(w->t, w->epoch, p, d, err));
    STK_TRY(check_room(w->t, p, stk_draws_last(d), err));
    if ((uintptr_t)p->out % stk_dtype_size(w->t->chain.spec.dtype))
        return stk_fail(err, STK_EINVAL, "its output is not aligned to its elements");
    return stk_pic_on_gpu_takes(d->view, p->width, p->height, err);
}

static int draw_there(void *cookie, uint32_t i, stk_draws *d, stk_error *err)
{
    const there *w = cookie;

    return at_picture(i, draw_picture(w, &w->pictures[i], d, err), err);
}

int stk_transform_run_gpu(stk_transform *t, uint32_t epoch, const stk_picture *pictures, uint64_t n,
                          const stk_transform_place *where, stk_error *err)
{
    there what = { t, pictures, epoch };
    stk_views_job job = { .picture = pictures,
                          .draw = draw_there,
                          .cookie = &what,
                          .n = (uint32_t)n,
                          .spec = &t->chain.spec };
    stk_transform_place place;
    stk_views *views = NULL;

    stk_options_take(&place, sizeof place, where);
    STK_TRY(takes_pictures(t, err));
    if (n > MAX_THERE)
        return stk_fail(err, STK_ELIMIT, "%" PRIu64 " pictures at once, and a GPU takes %u", n,
                        MAX_THERE);
    STK_TRY(check_ops(&t->chain, err));
    STK_TRY(views_of(t, place.gpu, &views, err));
    job.stream = place.stream;
    return n ? stk_views_run(views, &job, err) : 0;
}

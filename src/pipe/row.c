/* SPDX-License-Identifier: Apache-2.0 */
/* row.c - one row: every output's bytes through its chain, straight into the batch. */
#include <string.h>

#include "base/registry.h"
#include "codec/codec.h"
#include "codec/exif.h"
#include "kern/turn.h"
#include "pipe/engine.h"

typedef struct row {
    stk_worker *w;
    const stk_request *r;
    stk_batch *b;
    uint32_t row, output;
    const stk_chain *chain;
} row;

typedef struct picture {
    const stk_decoder *decoder;
    void *ctx;
    stk_image_info info; /* as filed */
    unsigned turn;       /* to make it upright: EXIF's 1..8 */
} picture;

/* Rows that come as they are claimed share a piece of their batch; those that come late belong to
 * another batch each time, and a piece each would soon fill all of them. */
static stk_cut *cut_of(const row *x)
{
    return x->r->late ? NULL : &x->w->cut;
}

/* The decoder that knows these bytes, with this worker's context. */
static int find_decoder(stk_worker *w, stk_bytes in, const stk_decoder **out, void **ctx,
                        stk_error *err)
{
    const stk_decoder *d;

    for (size_t i = 0; i < STK_MAX_DECODERS && (d = stk_registry_get(STK_PLUGIN_DECODER, i)); i++) {
        if (!d->probe(in))
            continue;
        if (!w->decoder[i])
            STK_TRY(d->open(&w->decoder[i], err));
        *out = d;
        *ctx = w->decoder[i];
        return 0;
    }
    if (in.len == 0)
        return stk_fail(err, STK_ECORRUPT, "the picture is empty");
    return stk_fail(
        err, STK_ECORRUPT,
        "these %zu bytes are no picture that this build decodes (first bytes %02x %02x)", in.len,
        in.data[0], in.len > 1 ? in.data[1] : 0);
}

static int check_size(const stk_engine *e, const stk_image_info *info, stk_error *err)
{
    if (!info->width || !info->height)
        return stk_fail(err, STK_ECORRUPT, "the picture is %ux%u", info->width, info->height);
    if ((uint64_t)info->width * info->height > e->plan->policy.max_pixels)
        return stk_fail(err, STK_ELIMIT,
                        "the picture is %ux%u, over the limit of %" PRIu64
                        " pixels: raise max_pixels if "
                        "that is meant",
                        info->width, info->height, e->plan->policy.max_pixels);
    return 0;
}

static void tell(const row *x, uint32_t step, const char *op, const stk_view *view)
{
    const stk_watch *watch = &x->w->engine->plan->policy.watch;
    stk_drawn d = { x->b->epoch, x->r->position, x->output, step, op, view };

    if (watch->drawn)
        watch->drawn(watch->cookie, &d);
}

/* Every op of the chain turns the view; random numbers are addressed by (position, epoch,
 * output, op). */
static int draw(const row *x, const stk_image_info *info, stk_view *view, stk_error *err)
{
    stk_rng rng;

    stk_view_init(view, info->width, info->height);
    tell(x, 0, NULL, view);
    for (uint32_t i = 0; i < x->chain->n_steps; i++) {
        const stk_step *s = &x->chain->step[i];

        if (!s->op || !s->op->draw)
            continue;
        stk_rng_init(&rng, x->w->engine->plan->policy.seed, x->r->position, (uint32_t)x->b->epoch,
                     (uint8_t)x->output, s->number);
        s->op->draw(s->state, &rng, view);
        tell(x, s->number, s->op->name, view);
    }
    if (view->refused)
        return stk_fail(err, STK_ECORRUPT, "%s", view->refused);
    return 0;
}

/* Where the finished picture goes: its dense place, or room cut off a ragged output. */
static int image_place(const row *x, const stk_view *v, void **dst, stk_error *err)
{
    const stk_spec *spec = &x->chain->spec;
    int hwc = spec->layout == STK_HWC;
    stk_row_out *out;

    if (x->chain->row_bytes) {
        *dst = stk_batch_place(x->b, x->output, x->row);
        return 0;
    }
    if ((uint64_t)v->vis_w * v->vis_h > x->w->engine->plan->policy.max_pixels)
        return stk_fail(err, STK_ELIMIT, "its output would be %ux%u, over the limit of max_pixels",
                        v->vis_w, v->vis_h);
    out = &x->b->out[x->output].row[x->row];
    out->ndim = 3;
    out->shape[0] = hwc ? v->vis_h : 3;
    out->shape[1] = hwc ? v->vis_w : v->vis_h;
    out->shape[2] = hwc ? 3 : v->vis_w;
    *dst = stk_batch_reserve(x->b, x->output, x->row,
                             (size_t)v->vis_w * v->vis_h * 3 * stk_dtype_size(spec->dtype), NULL);
    return *dst ? 0 : stk_fail(err, STK_ENOMEM, "memory_limit leaves no room for its output");
}

/* The pixels of `need`, which is a rectangle of the picture as the ops see it. */
static int decode_need(const picture *p, const stk_ask *ask, stk_scratch *scratch, stk_pixels *out,
                       stk_error *err)
{
    const stk_rect *need = &ask->need;
    stk_ask filed = { stk_turn_rect(p->turn, p->info, need), ask->ycc };

    if (!need->w || !need->h)
        return 0;
    STK_TRY(p->decoder->decode(p->ctx, &filed, scratch, out, err));
    return p->turn == 1 ? 0 : stk_turn_pixels(p->turn, p->info, need, scratch, out, err);
}

/* `in` is the field as it lies, or what was unpacked from it: then nothing is known of it. */
static int as_it_lies(const row *x, stk_bytes in)
{
    const stk_wanted *want = &x->r->want[x->output];

    return in.data == want->bytes.data && in.len == want->bytes.len;
}

static stk_bytes hint_for(const row *x, stk_bytes in)
{
    return as_it_lies(x, in) ? x->r->want[x->output].hint : (stk_bytes){ 0 };
}

static int can_learn(const row *x, stk_bytes in, const picture *p, const stk_pixels *pixels)
{
    return x->r->want[x->output].learn && p->decoder->learn && pixels->lane == STK_LANE_PLAIN &&
           pixels->data && as_it_lies(x, in);
}

/* Color behind sampling saves work only where several pixels make one; where about one does, it
 * would only show that colors out of range are clamped behind it.  Black outside is RGB's. */
static int color_can_wait(const stk_view *v)
{
    return (uint64_t)v->clip.w * v->clip.h >= 2 * (uint64_t)v->res_w * v->res_h &&
           stk_sample_inside(v);
}

/* The sampling pass into its place; a record for the GPU takes it as it must be there, or as plain
 * u8 where color and type can follow there. */
static int sample(const row *x, const stk_view *view, const stk_pixels *pixels, stk_error *err)
{
    const stk_spec *spec = &x->chain->spec;
    stk_sample_job job = {
        .view = view, .pixels = pixels, .dtype = spec->dtype, .layout = spec->layout
    };

    memcpy(job.mul, spec->mul, sizeof job.mul);
    memcpy(job.add, spec->add, sizeof job.add);
    if (x->b->common->out[x->output].far_bytes)
        STK_TRY(stk_row_plain(x->w, x->b, x->output, x->row, &job, err));
    else
        STK_TRY(image_place(x, view, &job.dst, err));
    return stk_sample_run(x->w->engine->plan->rows.kern, &job, &x->w->scratch, err);
}

/* 1: the GPU decodes it from the record that was written; 0: the CPU must. */
static int leave_to_gpu(const row *x, const picture *p, const stk_view *view, const stk_ask *ask)
{
    if (!x->b->common->out[x->output].far_bytes || !x->w->engine->plan->gpu.decode || x->w->alone ||
        p->turn != 1 || p->decoder != &stk_decoder_jpeg || x->r->want[x->output].learn)
        return 0; /* seek points are found where the CPU decodes */
    return stk_row_record(x->w, x->b, x->output, x->row,
                          &(stk_left){ p->ctx, view, &ask->need, ask->ycc, x->r->where });
}

/* What is seen of a picture of that size, and how it is asked for. */
static int look(const row *x, const stk_image_info *info, stk_view *view, stk_ask *ask,
                stk_error *err)
{
    STK_TRY(draw(x, info, view, err));
    stk_sample_need(view, &ask->need);
    ask->ycc = !x->chain->spec.exact && color_can_wait(view);
    return 0;
}

/* The GPU has its scan; all else is in the seek points.  What fails here is done from the file. */
__attribute__((noinline)) static int make_kept(const row *x, stk_error *err)
{
    const stk_wanted *want = &x->r->want[x->output];
    stk_kept_picture p = { .at = want->kept };
    stk_jpeg_head head;
    stk_jpeg_seek seek;
    stk_view view;
    stk_ask ask;
    int rc;

    STK_TRY(stk_jpeg_seek_open(&seek, &head, want->hint, err));
    STK_TRY(check_size(x->w->engine, &(stk_image_info){ head.width, head.height }, err));
    STK_TRY(look(x, &(stk_image_info){ head.width, head.height }, &view, &ask, err));
    p.head = &head;
    p.seek = &seek;
    p.view = &view;
    p.ycc = ask.ycc;
    rc = stk_row_kept(x->w, x->b, x->output, x->row, &p);
    stk_lap(x->w, STK_STAGE_DECODE);
    return rc;
}

/* Apart, so that cheap rows do not set up what only pictures need. */
__attribute__((noinline)) static int make_image(const row *x, stk_bytes in, stk_error *err)
{
    const stk_spec *spec = &x->chain->spec;
    stk_worker *w = x->w;
    picture p = { .turn = 1 };
    stk_image_info upright;
    stk_pixels pixels = { 0 };
    stk_view view;
    stk_ask ask;
    int rc;

    STK_TRY(find_decoder(w, in, &p.decoder, &p.ctx, err));
    STK_TRY(p.decoder->header(p.ctx, in, hint_for(x, in), &p.info, err));
    STK_TRY(check_size(w->engine, &p.info, err));
    if (spec->exif)
        p.turn = stk_exif_turn(in);
    upright = stk_turn_size(p.turn, p.info);
    STK_TRY(look(x, &upright, &view, &ask, err));
    if (leave_to_gpu(x, &p, &view, &ask)) {
        stk_lap(w, STK_STAGE_DECODE);
        return 0;
    }
    rc = decode_need(&p, &ask, &w->scratch, &pixels, err);
    stk_lap(w, STK_STAGE_DECODE);
    stk_count(&w->count.lane[pixels.lane], 1);
    if (rc == 0)
        rc = sample(x, &view, &pixels, err);
    stk_lap(w, STK_STAGE_SAMPLE);
    if (rc == 0 && can_learn(x, in, &p, &pixels))
        stk_learn_from(w, x->r, x->output, p.decoder, p.ctx);
    return rc;
}

static int takes_bytes(const stk_chain *c)
{
    return c->spec.kind == STK_KIND_BYTES && c->spec.out == STK_OUT_BYTES && c->n_steps == 1;
}

/* A field that is handed out as it is, and has a read to itself, is read straight into the row. */
void stk_row_aim(stk_worker *w, stk_request *r, stk_batch *b, uint32_t row_number)
{
    for (uint32_t i = 0; i < r->n; i++) {
        stk_io *io = takes_bytes(&w->engine->plan->chains.chain[i]) ? stk_request_own_io(r, i) : NULL;
        void *dst;

        if (!io || !io->len)
            continue;
        stk_batch_unreserve(b, i, row_number);
        dst = stk_batch_reserve(b, i, row_number, io->len, &w->cut);
        if (!dst)
            continue; /* make_bytes() says that there is no room */
        io->dst = dst;
        r->aimed |= 1u << i;
    }
}

/* ---- lengths ---- */

/* A row is as long as was said of its sample, or shorter. */
static int check_length(const row *x, int64_t len, stk_error *err)
{
    const stk_engine *e = x->w->engine;
    uint32_t said;

    if (!e->schedule->lengths || !x->chain->counted)
        return 0;
    said = e->schedule->lengths[e->schedule->start[x->r->where.dataset] + x->r->where.sample];
    if (len <= (int64_t)said || len <= 1)
        return 0;
    return stk_fail(err, STK_ECORRUPT,
                    "output %s: its row has %" PRId64 " values, and lengths say %u: give the "
                    "lengths that the data has, or leave them to be measured",
                    e->plan->outputs.common->out[x->output].name, len, said);
}

/* Written down in place of a row. */
static int note_length(const row *x, int64_t len)
{
    const stk_engine *e = x->w->engine;
    uint32_t *at = &e->plan->rows.measured[e->schedule->start[x->r->where.dataset] + x->r->where.sample];
    uint32_t n = len < (int64_t)UINT32_MAX ? (uint32_t)len : UINT32_MAX;
    stk_row_out *out = &x->b->out[x->output].row[x->row];

    if (!x->r->attempt && n > *at)
        *at = n;
    out->ndim = 1;
    out->shape[0] = 0;
    out->len = 0;
    return 0;
}

/* The room that was aimed at, unless a codec made more of the bytes; or new room. */
static void *bytes_place(const row *x, size_t len)
{
    stk_row_out *out = &x->b->out[x->output].row[x->row];

    if (x->r->aimed >> x->output & 1 && len <= out->len) {
        out->len = len;
        return out->data;
    }
    stk_batch_unreserve(x->b, x->output, x->row);
    return stk_batch_reserve(x->b, x->output, x->row, len, cut_of(x));
}

static int make_bytes(const row *x, stk_bytes in, stk_error *err)
{
    stk_row_out *out = &x->b->out[x->output].row[x->row];
    void *dst;

    if (x->w->engine->plan->rows.measured)
        return note_length(x, (int64_t)in.len);
    STK_TRY(check_length(x, (int64_t)in.len, err));
    dst = bytes_place(x, in.len);
    if (!dst)
        return stk_fail(err, STK_ENOMEM, "memory_limit leaves no room for its %zu bytes", in.len);
    if (in.len && in.data != dst) /* an empty field may have no address */
        memmove(dst, in.data, in.len);
    out->ndim = 1;
    out->shape[0] = (int64_t)in.len;
    return 0;
}

/* What a row says of itself: its shape, and the bytes it has. */
static int row_shape(const row *x, stk_bytes in, stk_spec *spec, size_t *size, stk_error *err)
{
    const stk_step *s = x->chain->parse;
    size_t bytes;

    *spec = x->chain->pack ? x->chain->raw : x->chain->spec;
    STK_TRY(s->codec->shape(s->state, in, spec, err));
    bytes = stk_dtype_size(spec->dtype);
    if (!bytes || spec->ndim >= STK_MAX_DIMS)
        return stk_fail(err, STK_ENOTSUP, "a row of %u dimensions and type %s: at most %d, typed",
                        spec->ndim, stk_dtype_name(spec->dtype), STK_MAX_DIMS - 1);
    for (uint32_t i = 0; i < spec->ndim; i++)
        if (spec->shape[i] < 0 || __builtin_mul_overflow(bytes, (uint64_t)spec->shape[i], &bytes))
            return stk_fail(err, STK_ECORRUPT, "a row of more bytes than there is memory");
    *size = bytes;
    return 0;
}

/* Room for a row of that shape. */
static int value_place(const row *x, const stk_spec *spec, size_t bytes, void **dst, stk_error *err)
{
    stk_row_out *out = &x->b->out[x->output].row[x->row];

    out->dtype = spec->dtype;
    out->ndim = spec->ndim;
    memcpy(out->shape, spec->shape, sizeof out->shape);
    *dst = stk_batch_reserve(x->b, x->output, x->row, bytes, cut_of(x));
    return *dst ? 0
                : stk_fail(err, STK_ENOMEM, "memory_limit leaves no room for its %zu bytes", bytes);
}

/* A row that truncate() makes shorter is made whole beside its place: codecs know nothing of it. */
static int make_cut(const row *x, stk_bytes in, stk_spec *spec, size_t bytes, stk_error *err)
{
    const stk_step *s = x->chain->parse;
    size_t each = bytes / (size_t)spec->shape[0], kept = each * (size_t)spec->most;
    uint8_t *whole = stk_scratch_get(&x->w->scratch, bytes);
    void *dst;

    if (!whole)
        return stk_fail_nomem(err, bytes);
    STK_TRY(s->codec->parse(s->state, in, whole, err));
    spec->shape[0] = spec->most;
    STK_TRY(value_place(x, spec, kept, &dst, err));
    memcpy(dst, spec->keep_last ? whole + (bytes - kept) : whole, kept);
    return 0;
}

static int make_value(const row *x, stk_bytes in, stk_error *err)
{
    const stk_step *s = x->chain->parse;
    size_t bytes = 0;
    stk_spec spec;
    void *dst = NULL;

    if (x->chain->pack) {
        stk_piece_of of = { x->r->ticket, x->output, in };

        STK_TRY(row_shape(x, in, &spec, &bytes, err));
        return stk_packed_make(x->w, &of, &spec, bytes, err);
    }
    if (x->chain->row_bytes) {
        dst = stk_batch_place(x->b, x->output, x->row);
        return s->codec->parse(s->state, in, dst, err);
    }
    STK_TRY(row_shape(x, in, &spec, &bytes, err));
    if (x->w->engine->plan->rows.measured)
        return note_length(x, spec.ndim ? spec.shape[0] : 1);
    if (spec.ndim)
        STK_TRY(check_length(x, spec.most && spec.shape[0] > spec.most ? spec.most : spec.shape[0],
                             err));
    if (spec.most && spec.ndim && spec.shape[0] > spec.most)
        return make_cut(x, in, &spec, bytes, err);
    STK_TRY(value_place(x, &spec, bytes, &dst, err));
    return s->codec->parse(s->state, in, dst, err);
}

static int make_output(const row *x, stk_error *err)
{
    const stk_chain *c = x->chain;
    const stk_wanted *want = &x->r->want[x->output];
    stk_bytes in = want->bytes;

    if (want->kept)
        return make_kept(x, err);
    if (want->unpack)
        STK_TRY(want->unpack->narrow(NULL, in, &x->w->scratch, &in, err));
    for (uint32_t i = 0; i < c->n_steps; i++)
        if (c->step[i].codec && c->step[i].codec->narrow)
            STK_TRY(c->step[i].codec->narrow(c->step[i].state, in, &x->w->scratch, &in, err));
    if (c->spec.kind == STK_KIND_IMAGE)
        return make_image(x, in, err);
    if (c->parse)
        return make_value(x, in, err);
    return make_bytes(x, in, err);
}

int stk_row_make(stk_worker *w, stk_request *r, stk_batch *b, uint32_t row_number, stk_error *err)
{
    row x = { .w = w, .r = r, .b = b, .row = row_number };

    for (x.output = 0; x.output < b->common->n_out; x.output++) {
        int rc;

        x.chain = &w->engine->plan->chains.chain[x.output];
        stk_scratch_reset(&w->scratch);
        if (!b->common->out[x.output].row_bytes && b->out[x.output].row[row_number].own &&
            !(r->aimed >> x.output & 1))
            stk_batch_unreserve(b, x.output,
                                row_number); /* a sample stood here that went bad later on */
        rc = make_output(&x, err);
        if (rc < 0) {
            stk_error_at(err, NULL, r->want[x.output].place.offset, (stk_bytes){ 0 });
            return rc;
        }
    }
    return 0;
}

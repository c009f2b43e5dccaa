/* SPDX-License-Identifier: Apache-2.0 */
/* row_call.c - rows whose chain has functions of the program's (stk_caller).
 *
 * A chain is cut at its functions.  Up to the first one a picture is sampled as any other, into a
 * picture of 8 bits; what the function gives is a picture of its own, of any size, for which the
 * steps after it draw.  Bytes and numbers go through their steps one by one.  A worker waits in the
 * function; others go on. */
#include <assert.h>
#include <string.h>

#include "base/rng.h"
#include "chain/segment.h"
#include "row/row.h"

static int is_call(const stk_step *s)
{
    return s->op && s->op->can & STK_OP_CALL;
}

static int call_one(const stk_row *x, const stk_call_step *s, stk_value_row *row, stk_error *err)
{
    const stk_plan_policy *p = &x->plan->policy;
    const stk_call_at at = { .function = s->function,
                             .number = s->number,
                             .output = x->plan->chains.out[x->output].name,
                             .kind = s->kind,
                             .out = s->out,
                             .gives = s->gives,
                             .dtype = s->dtype,
                             .seed = p->seed,
                             .epoch = x->batch->epoch,
                             .position = x->position,
                             .view = x->view,
                             .sample = stk_schedule_id(x->schedule, &x->where) };

    uint64_t from = STK_COUNTERS ? stk_ticks() : 0;
    int rc;

    assert(p->caller.call); /* the plan refuses such chains without one */
    rc = p->caller.call(p->caller.cookie, &at, row, &x->m->scratch, err);

    if (STK_COUNTERS)
        stk_count(&x->m->count.call[stk_row_chain(x)->calls.first == STK_KIND_IMAGE],
                  stk_ticks() - from);
    if (rc < 0)
        return rc;
    return s->gives == STK_KIND_VALUE ? stk_call_check(s, row, err) : 0;
}

/* ---- numbers and bytes ---- */

/* The steps from number `first` up to `end`. */
static int run_some(stk_row *x, uint32_t first, uint32_t end, stk_value_row *row, stk_error *err)
{
    for (uint32_t i = first; i < end; i++) {
        const stk_step *s = &stk_row_chain(x)->step[i];

        if (s->op && s->op->can & STK_OP_PACKS)
            break; /* what follows is of packed rows */
        if (is_call(s))
            STK_TRY(call_one(x, s->state, row, err));
        else
            STK_TRY(stk_value_step(x, s, row, err));
    }
    return 0;
}

/* The steps from number `first` on, and the row. */
static int run_steps(stk_row *x, uint32_t first, stk_value_row *row, stk_error *err)
{
    const stk_chain *c = stk_row_chain(x);

    STK_TRY(run_some(x, first, c->n_steps, row, err));
    return stk_row_ops_of(x)->goal->put(x, row, err);
}

/* What the first step works on. */
static int begin(stk_row *x, stk_value_row *row, stk_error *err)
{
    const stk_wanted *want = &x->req->want[x->output];
    const stk_chain *c = stk_row_chain(x);
    stk_bytes in = want->bytes;

    if (!c->calls.n || c->calls.first == STK_KIND_VALUE)
        return stk_value_parse(x, row, err);
    if (want->unpack || c->extracts)
        STK_TRY(stk_row_extract_more(x, &in, err));
    *row = (stk_value_row){
        .dtype = STK_U8, .ndim = 1, .shape = { (int64_t)in.len }, .data = (void *)(uintptr_t)in.data
    };
    return 0;
}

int stk_call_first(stk_row *x, stk_value_row *row, stk_error *err)
{
    assert(stk_row_chain(x)->like.how && stk_row_chain(x)->like.at < stk_row_chain(x)->n_steps);
    STK_TRY(begin(x, row, err));
    return run_some(x, 0, stk_row_chain(x)->like.at, row, err);
}

static int make_steps(stk_row *x, stk_error *err)
{
    const stk_row_goal *to = stk_row_ops_of(x)->goal;
    stk_value_row row;

    if (to->counts && stk_row_chain(x)->calls.n && to->counts(x))
        return 0;
    stk_scratch_reset(&x->m->scratch);
    STK_TRY(begin(x, &row, err));
    return run_steps(x, 0, &row, err);
}

const stk_row_work stk_work_steps = { .name = "steps", .make = make_steps };

/* ---- pictures ---- */

/* The picture as far as it is made: 8 bits, height x width x channels; or as to() and normalize
 * say. */
static int to_array(stk_row *x, stk_draws *d, const stk_pixels *px, const stk_call_step *s,
                    stk_value_row *row, stk_error *err)
{
    const stk_view *v = stk_draws_last(d);
    stk_spec spec = s->made;
    size_t bytes;

    spec.picture.width = v->vis_w;
    spec.picture.height = v->vis_h;
    if (s->kind == STK_KIND_IMAGE) {
        spec.dtype = STK_U8;
        spec.picture.layout = STK_HWC;
        for (int i = 0; i < 3; i++)
            spec.picture.mul[i] = 1, spec.picture.add[i] = 0;
    }
    bytes = (size_t)3 * v->vis_w * v->vis_h * stk_dtype_size(spec.dtype);
    *row = (stk_value_row){ .dtype = spec.dtype,
                            .data = stk_scratch_get(&x->m->scratch, bytes + 1) };
    row->ndim = stk_spec_picture_shape(&spec, row->shape);
    if (!row->data)
        return stk_fail_nomem(err, bytes);
    return stk_picture_array(x, d, px, &spec, row->data, err);
}

static int check_picture(const stk_row *x, const stk_call_step *s, const stk_view *given,
                         const stk_value_row *row, stk_error *err)
{
    int64_t channels = row->ndim == 3 ? row->shape[2] : row->ndim == 2 ? 1 : 0;
    stk_image_info info = { 0 };

    if (row->dtype != STK_U8 || channels != (s->made.picture.mode ? 1 : 3) ||
        row->shape[0] > UINT16_MAX || row->shape[1] > UINT16_MAX)
        return stk_fail(err, STK_ECORRUPT,
                        "call(%.80s) gave no picture: u8 of height x width x %d, sides up to %u",
                        s->function, s->made.picture.mode ? 1 : 3, UINT16_MAX);
    if (stk_row_chain(x)->like.followed &&
        (row->shape[0] != given->vis_h || row->shape[1] != given->vis_w))
        return stk_fail(err, STK_ECORRUPT,
                        "call(%.80s) gave %" PRId64 "x%" PRId64 " for %ux%u, and other outputs are "
                        "like(%.40s): give that size back",
                        s->function, row->shape[1], row->shape[0], given->vis_w, given->vis_h,
                        x->plan->chains.out[x->output].name);
    info.width = (uint32_t)row->shape[1];
    info.height = (uint32_t)row->shape[0];
    return stk_picture_check(x, &info, err);
}

/* What a function gave, as decoders give it: R, G, B, X. */
static int from_array(stk_row *x, const stk_value_row *row, stk_mode mode, stk_pixels *px,
                      stk_error *err)
{
    uint32_t w = (uint32_t)row->shape[1], h = (uint32_t)row->shape[0];
    size_t n = (size_t)w * h, step = mode ? 1 : 3, second = mode ? 0 : 1;
    uint8_t *out = stk_scratch_get(&x->m->scratch, 4 * n);
    const uint8_t *in = row->data;

    if (!out)
        return stk_fail_nomem(err, 4 * n);
    *px = (stk_pixels){ out, (size_t)w * 4, { 0, 0, w, h }, px->lane };
    for (size_t i = 0; i < n; i++, out += 4, in += step) {
        out[0] = in[0];
        out[1] = in[second];
        out[2] = in[2 * second];
        out[3] = 0;
    }
    return 0;
}

/* like() is the next to draw: 1.  Another function comes before it: 0. */
static int like_is_next(const stk_chain *c, uint32_t first)
{
    if (!c->like.how || first > c->like.at)
        return 0;
    while (first < c->like.at && !is_call(&c->step[first]))
        first++;
    return first == c->like.at;
}

static int follow_rest(const stk_row *x, const stk_value_row *row, stk_draws *d, stk_error *err)
{
    const stk_wanted *want = &x->req->want[x->output];

    if (row->shape[1] != want->width || row->shape[0] != want->height)
        return stk_fail(err, STK_ECORRUPT,
                        "call() before like() gave %" PRId64 "x%" PRId64
                        " for %ux%u: give that size back",
                        row->shape[1], row->shape[0], want->width, want->height);
    return stk_picture_follow(x, &(stk_image_info){ .width = want->width, .height = want->height },
                              x->view, d, err);
}

/* The steps after a function draw for the picture that it gave. */
static int draw_rest(const stk_row *x, uint32_t first, const stk_value_row *row, stk_draws *d,
                     stk_error *err)
{
    const stk_address at = { .seed = x->plan->policy.seed,
                             .position = x->position,
                             .epoch = (uint32_t)x->batch->epoch,
                             .output = x->output,
                             .view = x->view };
    const uint32_t size[2] = { (uint32_t)row->shape[1], (uint32_t)row->shape[0] };

    if (like_is_next(stk_row_chain(x), first))
        return follow_rest(x, row, d, err);
    stk_chain_draw_from(stk_row_chain(x), first, &at, size, d, stk_picture_observer(x));
    if (stk_draws_last(d)->refused)
        return stk_fail(err, STK_ECORRUPT, "%s", stk_draws_last(d)->refused);
    return 0;
}

/* A batch whose rows have one size has no room for another. */
static int check_size(const stk_row *x, const stk_view *v, stk_error *err)
{
    const stk_spec *spec = &stk_row_chain(x)->spec;

    if (!spec->picture.width || !spec->picture.height ||
        (v->vis_w == spec->picture.width && v->vis_h == spec->picture.height))
        return 0;
    return stk_fail(err, STK_ECORRUPT,
                    "after call() it is %ux%u, and the rows of output %s are %ux%u: give that size "
                    "back, or put resize((height, width)) after call()",
                    v->vis_w, v->vis_h, x->plan->chains.out[x->output].name, spec->picture.width,
                    spec->picture.height);
}

/* A function on a picture: *px is the one that it gave.  1: it gave numbers, which are in *row. */
static int call_picture(stk_row *x, const stk_call_step *s, stk_draws *d, stk_pixels *px,
                        stk_value_row *row, stk_error *err)
{
    STK_TRY(to_array(x, d, px, s, row, err));
    STK_TRY(call_one(x, s, row, err));
    if (s->gives == STK_KIND_VALUE)
        return 1;
    STK_TRY(check_picture(x, s, stk_draws_last(d), row, err));
    return from_array(x, row, s->made.picture.mode, px, err);
}

static int call_pictures(stk_row *x, stk_draws *d, stk_pixels *px, stk_error *err)
{
    const stk_chain *c = stk_row_chain(x);
    stk_value_row row;

    for (uint32_t i = stk_spec_lead(&c->spec, STK_LEAD_VIEWS) ? c->views_at : 0; i < c->n_steps;
         i++) {
        int rc;

        if (!is_call(&c->step[i]))
            continue;
        rc = call_picture(x, c->step[i].state, d, px, &row, err);
        if (rc == 1)
            STK_TRY(run_steps(x, i + 1, &row, err));
        if (rc)
            return rc;
        STK_TRY(draw_rest(x, i + 1, &row, d, err));
    }
    return check_size(x, stk_draws_last(d), err);
}

int stk_call_before_views(stk_row *x, stk_draws *d, stk_pixels *px, stk_error *err)
{
    const stk_chain *c = stk_row_chain(x);
    stk_value_row row;
    int rc = 0;

    for (uint32_t i = 0; i < c->views_at; i++) {
        if (!is_call(&c->step[i]))
            continue;
        STK_TRY(call_picture(x, c->step[i].state, d, px, &row, err));
        for (x->view = 0; x->view < stk_row_views(x) && rc == 0; x->view++)
            rc = draw_rest(x, i + 1, &row, &d[x->view], err);
        x->view = 0;
        if (rc)
            break;
    }
    return rc;
}

static int make_called(stk_row *x, stk_error *err)
{
    const stk_row_goal *to = stk_row_ops_of(x)->goal;

    return to->counts && to->counts(x) ? 0 : stk_picture_make(x, err);
}

const stk_row_work stk_work_called = {
    .name = "called", .make = make_called, .sample = stk_tile_sample, .between = call_pictures
};

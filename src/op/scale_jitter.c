/* SPDX-License-Identifier: Apache-2.0 */
/* scale_jitter - resize to fit into a box, times a random factor: torchvision's ScaleJitter.
 * random_shortest_size - the shorter side is one of several: torchvision's RandomShortestSize. */
#include "base/rng.h"
#include "op/spec.h"

#define MAX_SIZES 16 /* of a tuple, as many as chains can have */

struct scale_jitter {
    uint32_t h, w;
    double scale[2];
    uint8_t filter;
};

static int scale_jitter_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct scale_jitter *s = state;

    STK_TRY(stk_spec_sides(args, "scale_jitter", &s->h, &s->w, err));
    s->scale[0] = stk_args_f64_at(args, "scale", 0);
    s->scale[1] = stk_args_f64_at(args, "scale", 1);
    if (stk_args_count(args, "scale") != 2 || !(s->scale[0] > 0 && s->scale[0] <= s->scale[1]) ||
        s->scale[1] > 1000)
        return stk_fail(err, STK_EINVAL,
                        "scale_jitter: scale is (least, most), above 0 and at most 1000");
    STK_TRY(stk_spec_filter(args, "scale_jitter", &s->filter, err));
    STK_TRY(stk_spec_resize(spec, "scale_jitter", err));
    stk_spec_size(spec, 0, 0);
    return 0;
}

static void resize_by(stk_view *view, double r, uint8_t filter)
{
    double w = view->vis_w * r, h = view->vis_h * r;

    if (view->refused)
        return;
    if (w > STK_MAX_SIDE || h > STK_MAX_SIDE) {
        view->refused = "a resize to a side longer than 65535 pixels";
        return;
    }
    stk_view_resize(view, w < 1 ? 1 : (uint32_t)w, h < 1 ? 1 : (uint32_t)h);
    view->filter = filter;
}

static void scale_jitter_draw(const void *state, stk_rng *rng, stk_view *view)
{
    const struct scale_jitter *s = state;
    double by = s->scale[0] + (s->scale[1] - s->scale[0]) * stk_rng_unit(rng);
    double rw = (double)s->w / view->vis_w, rh = (double)s->h / view->vis_h;

    resize_by(view, (rw < rh ? rw : rh) * by, s->filter);
}

static const stk_arg scale_jitter_args[] = {
    { "size", STK_ARG_INTS, NULL, "side of the box, or (height, width)" },
    { "scale", STK_ARG_FLOATS, "(0.1, 2)", "least and most of what fits the box" },
    STK_ARGS_FILTER,
    { 0 },
};

struct random_shortest_size {
    uint32_t n, size[MAX_SIZES], max_size;
    uint8_t filter;
};

static int random_shortest_size_plan(void *state, const stk_args *args, stk_spec *spec,
                                     stk_error *err)
{
    struct random_shortest_size *s = state;
    double most = stk_args_f64(args, "max_size");

    s->n = stk_args_count(args, "min_size");
    for (uint32_t i = 0; i < s->n; i++) {
        double side = stk_args_f64_at(args, "min_size", i);

        if (!(side >= 1 && side <= STK_MAX_SIDE))
            return stk_fail(err, STK_EINVAL,
                            "random_shortest_size: a side of %g pixels is not in 1..%u", side,
                            STK_MAX_SIDE);
        s->size[i] = (uint32_t)side;
    }
    if (!(most >= 0 && most <= STK_MAX_SIDE))
        return stk_fail(err, STK_EINVAL, "random_shortest_size: max_size=%g is not in 1..%u", most,
                        STK_MAX_SIDE);
    s->max_size = (uint32_t)most;
    STK_TRY(stk_spec_filter(args, "random_shortest_size", &s->filter, err));
    STK_TRY(stk_spec_resize(spec, "random_shortest_size", err));
    stk_spec_size(spec, 0, 0);
    return 0;
}

static void random_shortest_size_draw(const void *state, stk_rng *rng, stk_view *view)
{
    const struct random_shortest_size *s = state;
    uint32_t small = view->vis_w < view->vis_h ? view->vis_w : view->vis_h,
             large = view->vis_w < view->vis_h ? view->vis_h : view->vis_w;
    double r = (double)s->size[stk_rng_below(rng, s->n)] / small;

    if (s->max_size && (double)s->max_size / large < r)
        r = (double)s->max_size / large;
    resize_by(view, r, s->filter);
}

static const stk_arg random_shortest_size_args[] = {
    { "min_size", STK_ARG_INTS, NULL, "the shorter side: up to 16 sizes, one is drawn" },
    { "max_size", STK_ARG_INT, "0", "the longer side is at most this; 0: any" },
    STK_ARGS_FILTER,
    { 0 },
};

const stk_op stk_op_scale_jitter = { .abi = STK_PLUGIN_ABI,
                                     .size = sizeof(stk_op),
                                     .name = "scale_jitter",
                                     .help = "resize to a box, times a random factor",
                                     .args = scale_jitter_args,
                                     .state_size = sizeof(struct scale_jitter),
                                     .plan = scale_jitter_plan,
                                     .draw = scale_jitter_draw,
                                     .can = STK_OP_VIEW | STK_OP_SIZES };

const stk_op stk_op_random_shortest_size = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_op),
    .name = "random_shortest_size",
    .help = "resize the shorter side to one of several sizes, at random",
    .args = random_shortest_size_args,
    .state_size = sizeof(struct random_shortest_size),
    .plan = random_shortest_size_plan,
    .draw = random_shortest_size_draw,
    .can = STK_OP_VIEW | STK_OP_SIZES
};

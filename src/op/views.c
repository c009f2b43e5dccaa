/* SPDX-License-Identifier: Apache-2.0 */
/* views - what follows is drawn so many times, from one decode: rows get a first dimension of
 * views.  five_crop, ten_crop - the corners and the middle, and their mirror images: torchvision's
 * FiveCrop and TenCrop, as views of a picture. */
#include "base/rng.h"
#include "op/spec.h"

#define MAX_VIEWS 1024

struct views {
    uint32_t n, h, w;
    int vertical;
};

static int begin(stk_spec *spec, const char *op, double n, stk_error *err)
{
    STK_TRY(stk_spec_geometry(spec, op, err));
    if (stk_spec_lead(spec, STK_LEAD_VIEWS))
        return stk_fail(err, STK_EINVAL, "%s: the chain has views already: leave one", op);
    if (!(n >= 1 && n <= MAX_VIEWS))
        return stk_fail(err, STK_EINVAL, "%s: n=%g is not in 1..%d", op, n, MAX_VIEWS);
    return stk_spec_add_lead(spec, op, (stk_lead){ STK_LEAD_VIEWS, (uint32_t)n }, err);
}

static int views_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    (void)state;
    return begin(spec, "views", stk_args_f64(args, "n"), err);
}

static int crops_plan(struct views *v, const stk_args *args, stk_spec *spec, const char *op,
                      stk_error *err)
{
    STK_TRY(stk_spec_sides(args, op, &v->h, &v->w, err));
    STK_TRY(begin(spec, op, v->n, err));
    stk_spec_size(spec, v->w, v->h);
    return 0;
}

static int five_crop_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    ((struct views *)state)->n = 5;
    return crops_plan(state, args, spec, "five_crop", err);
}

static int ten_crop_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct views *v = state;

    v->n = 10;
    v->vertical = stk_args_bool(args, "vertical_flip");
    return crops_plan(state, args, spec, "ten_crop", err);
}

/* Top left, top right, bottom left, bottom right, the middle; then the same of the mirror image. */
static void crops_draw(const void *state, stk_rng *rng, stk_view *view)
{
    const struct views *v = state;
    uint32_t which = rng->view % 5, w = view->vis_w, h = view->vis_h;

    if (view->refused)
        return;
    if (w < v->w || h < v->h) {
        view->refused =
            v->n == 5 ? "five_crop: the picture is smaller than the crop: resize or pad it first"
                      : "ten_crop: the picture is smaller than the crop: resize or pad it first";
        return;
    }
    if (rng->view >= 5 && v->vertical)
        stk_view_upend(view);
    else if (rng->view >= 5)
        stk_view_mirror(view);
    w -= v->w;
    h -= v->h;
    if (which == 4)
        stk_view_crop(view, (int32_t)stk_round_even(w / 2.0), (int32_t)stk_round_even(h / 2.0),
                      v->w, v->h);
    else
        stk_view_crop(view, which & 1 ? (int32_t)w : 0, which & 2 ? (int32_t)h : 0, v->w, v->h);
}

static const stk_arg views_args[] = {
    { "n", STK_ARG_INT, NULL, "how many" },
    { 0 },
};
static const stk_arg five_crop_args[] = {
    { "size", STK_ARG_INTS, NULL, "side of a crop, or (height, width)" },
    { 0 },
};
static const stk_arg ten_crop_args[] = {
    { "size", STK_ARG_INTS, NULL, "side of a crop, or (height, width)" },
    { "vertical_flip", STK_ARG_BOOL, "false", "mirror top to bottom, not left to right" },
    { 0 },
};

const stk_op stk_op_views = { .abi = STK_PLUGIN_ABI,
                              .size = sizeof(stk_op),
                              .name = "views",
                              .help = "what follows is drawn once per view; rows are (views, ...)",
                              .args = views_args,
                              .state_size = sizeof(struct views),
                              .plan = views_plan,
                              .can = STK_OP_VIEWS };
const stk_op stk_op_five_crop = { .abi = STK_PLUGIN_ABI,
                                  .size = sizeof(stk_op),
                                  .name = "five_crop",
                                  .help = "the four corners and the middle, as 5 views",
                                  .args = five_crop_args,
                                  .state_size = sizeof(struct views),
                                  .plan = five_crop_plan,
                                  .draw = crops_draw,
                                  .can = STK_OP_VIEW | STK_OP_VIEWS };
const stk_op stk_op_ten_crop = { .abi = STK_PLUGIN_ABI,
                                 .size = sizeof(stk_op),
                                 .name = "ten_crop",
                                 .help = "five_crop of the picture and of its mirror image",
                                 .args = ten_crop_args,
                                 .state_size = sizeof(struct views),
                                 .plan = ten_crop_plan,
                                 .draw = crops_draw,
                                 .can = STK_OP_VIEW | STK_OP_VIEWS };

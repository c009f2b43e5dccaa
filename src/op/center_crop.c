/* SPDX-License-Identifier: Apache-2.0 */
/* center_crop - the middle of the picture; where the picture is smaller, black around it.
 * Halves are rounded as torchvision rounds them: to even when cutting, down on the left and top
 * when padding. */
#include "op/spec.h"

struct center_crop {
    uint32_t h, w;
};

static int center_crop_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct center_crop *c = state;

    STK_TRY(stk_spec_geometry(spec, "center_crop", err));
    STK_TRY(stk_spec_sides(args, "center_crop", &c->h, &c->w, err));
    stk_spec_size(spec, c->w, c->h);
    return 0;
}

static int32_t begin(uint32_t have, uint32_t want)
{
    if (want > have)
        return -(int32_t)((want - have) / 2);
    return (int32_t)stk_round_even((have - want) / 2.0);
}

static void center_crop_draw(const void *state, stk_rng *rng, stk_view *view)
{
    const struct center_crop *c = state;

    (void)rng;
    stk_view_crop(view, begin(view->vis_w, c->w), begin(view->vis_h, c->h), c->w, c->h);
}

static const stk_arg center_crop_args[] = {
    { "size", STK_ARG_INTS, NULL, "side, or (height, width)" },
    { 0 },
};

const stk_op stk_op_center_crop = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_op),
    .name = "center_crop",
    .help = "cut out the middle; black where the picture is smaller",
    .args = center_crop_args,
    .state_size = sizeof(struct center_crop),
    .plan = center_crop_plan,
    .draw = center_crop_draw,
    .can = STK_OP_VIEW
};

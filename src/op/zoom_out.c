/* SPDX-License-Identifier: Apache-2.0 */
/* zoom_out - the picture at a random place of a larger canvas: torchvision's RandomZoomOut, of
 * SSD. */
#include "base/rng.h"
#include "op/padding.h"

struct zoom_out {
    double side[2], p;
    stk_padding by;
};

static int zoom_out_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct zoom_out *z = state;

    STK_TRY(stk_spec_geometry(spec, "zoom_out", err));
    z->side[0] = stk_args_f64_at(args, "side_range", 0);
    z->side[1] = stk_args_f64_at(args, "side_range", 1);
    if (stk_args_count(args, "side_range") != 2 || !(z->side[0] >= 1 && z->side[0] <= z->side[1]) ||
        z->side[1] > 1000)
        return stk_fail(err, STK_EINVAL,
                        "zoom_out: side_range is (least, most), from 1 to 1000 times the picture");
    STK_TRY(stk_spec_chance(args, "zoom_out", "p", &z->p, err));
    STK_TRY(stk_spec_fill(args, "zoom_out", &z->by, err));
    stk_spec_size(spec, 0, 0);
    return 0;
}

static void zoom_out_draw(const void *state, stk_rng *rng, stk_view *view)
{
    const struct zoom_out *z = state;
    stk_padding by = z->by;
    double chance = stk_rng_unit(rng), r, w, h;

    if (view->refused || chance >= z->p)
        return;
    r = z->side[0] + (z->side[1] - z->side[0]) * stk_rng_unit(rng);
    w = (double)(uint64_t)(view->vis_w * r) - view->vis_w;
    h = (double)(uint64_t)(view->vis_h * r) - view->vis_h;
    if (view->vis_w + w > STK_MAX_SIDE || view->vis_h + h > STK_MAX_SIDE) {
        view->refused = "zoom_out to a side longer than 65535 pixels";
        return;
    }
    by.left = (uint32_t)(w * stk_rng_unit(rng));
    by.top = (uint32_t)(h * stk_rng_unit(rng));
    by.right = (uint32_t)w - by.left;
    by.bottom = (uint32_t)h - by.top;
    stk_view_pad(view, &by);
}

static const stk_arg zoom_out_args[] = {
    { "side_range", STK_ARG_FLOATS, "(1, 4)", "least and most of the picture's side, 1 and more" },
    { "p", STK_ARG_FLOAT, "0.5", "how likely" },
    STK_ARG_FILL("0"),
    STK_ARG_PADDING_MODE,
    { 0 },
};

const stk_op stk_op_zoom_out = { .abi = STK_PLUGIN_ABI,
                                 .size = sizeof(stk_op),
                                 .name = "zoom_out",
                                 .help = "put the picture at a random place of a larger canvas",
                                 .args = zoom_out_args,
                                 .state_size = sizeof(struct zoom_out),
                                 .plan = zoom_out_plan,
                                 .draw = zoom_out_draw,
                                 .can = STK_OP_VIEW | STK_OP_SIZES };

/* SPDX-License-Identifier: Apache-2.0 */
/* random_crop - a window of the size at a random place: torchvision's RandomCrop.  Padding comes
 * first; pad_if_needed then adds what a side lacks, on both of its ends. */
#include "base/rng.h"
#include "op/padding.h"

struct random_crop {
    uint32_t h, w;
    stk_padding by;
    int if_needed;
};

static int random_crop_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct random_crop *r = state;

    STK_TRY(stk_spec_geometry(spec, "random_crop", err));
    STK_TRY(stk_spec_sides(args, "random_crop", &r->h, &r->w, err));
    STK_TRY(stk_spec_padding(args, "random_crop", "padding", &r->by, err));
    STK_TRY(stk_spec_fill(args, "random_crop", &r->by, err));
    r->if_needed = stk_args_bool(args, "pad_if_needed");
    if (spec->picture.width && !r->if_needed &&
        (spec->picture.width + r->by.left + r->by.right < r->w ||
         spec->picture.height + r->by.top + r->by.bottom < r->h))
        return stk_fail(err, STK_EINVAL,
                        "random_crop: the picture is %ux%u here, smaller than the crop of %ux%u: "
                        "give pad_if_needed=true",
                        spec->picture.width, spec->picture.height, r->w, r->h);
    stk_spec_size(spec, r->w, r->h);
    return 0;
}

static void random_crop_draw(const void *state, stk_rng *rng, stk_view *view)
{
    const struct random_crop *r = state;
    stk_padding by = r->by;
    uint32_t w = view->vis_w + by.left + by.right, h = view->vis_h + by.top + by.bottom, x, y;

    if (view->refused)
        return;
    if (r->if_needed && w < r->w) {
        by.left += r->w - w;
        by.right += r->w - w;
    }
    if (r->if_needed && h < r->h) {
        by.top += r->h - h;
        by.bottom += r->h - h;
    }
    w = view->vis_w + by.left + by.right;
    h = view->vis_h + by.top + by.bottom;
    if (w < r->w || h < r->h) {
        view->refused = "the picture is smaller than random_crop: give pad_if_needed=true";
        return;
    }
    y = stk_rng_below(rng, h - r->h + 1);
    x = stk_rng_below(rng, w - r->w + 1);
    stk_view_pad(view, &by);
    stk_view_crop(view, (int32_t)x, (int32_t)y, r->w, r->h);
}

static const stk_arg random_crop_args[] = {
    { "size", STK_ARG_INTS, NULL, "side of the output, or (height, width)" },
    { "padding", STK_ARG_INTS, "0",
      "pixels, added first: one number, or (left, top, right, bottom)" },
    { "pad_if_needed", STK_ARG_BOOL, "false", "pad what is smaller than the crop" },
    STK_ARG_FILL("0"),
    STK_ARG_PADDING_MODE,
    { 0 },
};

const stk_op stk_op_random_crop = { .abi = STK_PLUGIN_ABI,
                                    .size = sizeof(stk_op),
                                    .name = "random_crop",
                                    .help = "a window of this size at a random place",
                                    .args = random_crop_args,
                                    .state_size = sizeof(struct random_crop),
                                    .plan = random_crop_plan,
                                    .draw = random_crop_draw,
                                    .can = STK_OP_VIEW };

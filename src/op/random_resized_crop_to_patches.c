/* SPDX-License-Identifier: Apache-2.0 */
/* random_resized_crop_to_patches - a random part of the picture, as large as so many patches allow:
 * timm's RandomResizedCropToSequence.
 *
 * The ratio of a crop is the picture's own times a factor.  timm accepts max_ratio there and does
 * not pass it on; here it counts. */
#include "base/rng.h"
#include "op/patch_size.h"

#include <math.h>
#include <string.h>

#define TRIES 10

struct crop_to_patches {
    stk_patch_sizing sizing;
    double scale[2], log_ratio[2];
    uint8_t filter;
    int any_filter; /* bilinear or bicubic, for each picture */
};

static int range_of(const stk_args *args, const char *name, double most, double out[2],
                    stk_error *err)
{
    for (uint32_t i = 0; i < 2; i++)
        out[i] = stk_args_f64_at(args, name, i);
    if (stk_args_count(args, name) != 2 || !(out[0] >= 1e-6 && out[0] <= out[1] && out[1] <= most))
        return stk_fail(err, STK_EINVAL,
                        "random_resized_crop_to_patches: %s is (least, most), above 0 and at most "
                        "%g",
                        name, most);
    return 0;
}

static int crop_to_patches_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct crop_to_patches *t = state;
    const char *filter = stk_args_str(args, "interpolation");
    const stk_patch_model *model;
    double ratio[2];

    STK_TRY(stk_patch_sizing_plan(args, "random_resized_crop_to_patches", &t->sizing, &model, err));
    STK_TRY(range_of(args, "scale", 1, t->scale, err));
    STK_TRY(range_of(args, "ratio", 1e6, ratio, err));
    for (int i = 0; i < 2; i++)
        t->log_ratio[i] = stk_ln(ratio[i]);
    t->any_filter = filter && !strcmp(filter, "random");
    if (t->any_filter)
        STK_TRY(stk_patch_exact(args, "random_resized_crop_to_patches", model, &t->filter, err));
    else
        STK_TRY(stk_patch_filter(args, "random_resized_crop_to_patches", model, &t->filter, err));
    STK_TRY(stk_spec_resize(spec, "random_resized_crop_to_patches", err));
    stk_spec_size(spec, 0, 0);
    return 0;
}

static double between(stk_rng *rng, const double range[2])
{
    return range[0] + (range[1] - range[0]) * stk_rng_unit(rng);
}

/* All of the picture, where no try fits: its own ratio is one that is allowed. */
static void draw_part(const struct crop_to_patches *t, stk_rng *rng, const stk_view *view,
                      stk_rect *out)
{
    int64_t width = view->vis_w, height = view->vis_h;

    for (int tries = 0; tries < TRIES; tries++) {
        double area = (double)width * (double)height * between(rng, t->scale);
        double aspect = (double)width / (double)height * stk_exp(between(rng, t->log_ratio));
        int64_t h = stk_round_even(sqrt(area / aspect)), w = stk_round_even(sqrt(area * aspect));

        if (w < 1 || w > width || h < 1 || h > height)
            continue;
        out->y = stk_rng_below(rng, (uint32_t)(height - h + 1));
        out->x = stk_rng_below(rng, (uint32_t)(width - w + 1));
        out->w = (uint32_t)w;
        out->h = (uint32_t)h;
        return;
    }
    *out = (stk_rect){ 0, 0, view->vis_w, view->vis_h };
}

static void crop_to_patches_draw(const void *state, stk_rng *rng, stk_view *view)
{
    const struct crop_to_patches *t = state;
    stk_patch_size size;
    stk_rect part;

    if (view->refused)
        return;
    draw_part(t, rng, view, &part);
    view->refused = stk_patch_size_of(&t->sizing, part.w, part.h, &size);
    if (view->refused)
        return;
    stk_view_crop(view, (int32_t)part.x, (int32_t)part.y, part.w, part.h);
    stk_view_resize(view, size.w, size.h);
    view->filter = t->filter;
    if (t->any_filter && stk_rng_u32(rng) & 1)
        view->filter |= STK_BICUBIC;
    if (size.canvas_w > size.w || size.canvas_h > size.h)
        stk_view_pad(view, &(stk_padding){ .right = size.canvas_w - size.w,
                                           .bottom = size.canvas_h - size.h });
}

static const stk_arg crop_to_patches_args[] = {
    { "patch", STK_ARG_ANY, NULL, "side of a patch, or " STK_PATCH_MODELS },
    { "max_patches", STK_ARG_INT, "", "the part is as large as so many patches allow" },
    { "scale", STK_ARG_FLOATS, "(0.08, 1)", "least and most share of the picture's area" },
    { "ratio", STK_ARG_FLOATS, "(0.8, 1.25)", "least and most of what its ratio is multiplied by" },
    { "merge", STK_ARG_INT, "", "sides are multiples of patch * merge; 1" },
    { "min_pixels", STK_ARG_INT, "", "Qwen's rule: at least so many pixels ..." },
    { "max_pixels", STK_ARG_INT, "", "... and at most so many" },
    { "max_ratio", STK_ARG_FLOAT, "", "the part gets at most so many times as large" },
    { "interpolation", STK_ARG_NAME, "",
      "nearest, bilinear, bicubic or lanczos; the model's, else bicubic; random: bilinear or "
      "bicubic for each picture" },
    STK_PATCH_EXACT,
    { 0 },
};

const stk_op stk_op_random_resized_crop_to_patches = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_op),
    .name = "random_resized_crop_to_patches",
    .version = 1, /* a model's pixels are exact */
    .help = "a random part of the picture, resized to whole patches",
    .args = crop_to_patches_args,
    .state_size = sizeof(struct crop_to_patches),
    .plan = crop_to_patches_plan,
    .draw = crop_to_patches_draw,
    .can = STK_OP_VIEW | STK_OP_SIZES
};

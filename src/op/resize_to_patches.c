/* SPDX-License-Identifier: Apache-2.0 */
/* resize_to_patches - to the size that a model of patches wants, the ratio kept as far as patches
 * allow: timm's ResizeToSequence and SigLIP2 (max_patches), Qwen's smart_resize (min_pixels and
 * max_pixels), Kimi's navit_resize (pad). */
#include "op/patch_size.h"

struct to_patches {
    stk_patch_sizing sizing;
    uint8_t filter;
};

static int to_patches_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct to_patches *t = state;
    stk_patch_size size = { 0 };
    const stk_patch_model *model;
    const char *why = NULL;

    STK_TRY(stk_patch_sizing_plan(args, "resize_to_patches", &t->sizing, &model, err));
    STK_TRY(stk_patch_filter(args, "resize_to_patches", model, &t->filter, err));
    STK_TRY(stk_spec_resize(spec, "resize_to_patches", err));
    if (spec->picture.width && spec->picture.height)
        why = stk_patch_size_of(&t->sizing, spec->picture.width, spec->picture.height, &size);
    if (why)
        return stk_fail(err, STK_EINVAL, "resize_to_patches: %s", why);
    stk_spec_size(spec, size.canvas_w, size.canvas_h);
    return 0;
}

static void to_patches_draw(const void *state, stk_rng *rng, stk_view *view)
{
    const struct to_patches *t = state;
    stk_patch_size size;

    (void)rng;
    if (view->refused)
        return;
    view->refused = stk_patch_size_of(&t->sizing, view->vis_w, view->vis_h, &size);
    if (view->refused)
        return;
    stk_view_resize(view, size.w, size.h);
    view->filter = t->filter;
    if (size.canvas_w > size.w || size.canvas_h > size.h)
        stk_view_pad(view, &(stk_padding){ .right = size.canvas_w - size.w,
                                           .bottom = size.canvas_h - size.h });
}

static const stk_arg to_patches_args[] = {
    { "patch", STK_ARG_ANY, NULL, "side of a patch, or " STK_PATCH_MODELS },
    { "max_patches", STK_ARG_INT, "", "the picture is as large as so many patches allow" },
    { "merge", STK_ARG_INT, "", "sides are multiples of patch * merge; 1" },
    { "min_pixels", STK_ARG_INT, "", "Qwen's rule: at least so many pixels ..." },
    { "max_pixels", STK_ARG_INT, "", "... and at most so many" },
    { "max_ratio", STK_ARG_FLOAT, "", "a picture gets at most so many times as large" },
    { "pad", STK_ARG_BOOL, "", "Kimi's rule: only made smaller, then padded to whole patches" },
    { "max_side", STK_ARG_INT, "", "with pad: patches of a side" },
    { "interpolation", STK_ARG_NAME, "",
      "nearest, bilinear, bicubic or lanczos; the model's, else bicubic" },
    STK_PATCH_EXACT,
    { 0 },
};

const stk_op stk_op_resize_to_patches = { .abi = STK_PLUGIN_ABI,
                                          .size = sizeof(stk_op),
                                          .name = "resize_to_patches",
                                          .version = 1, /* a model's pixels are exact */
                                          .help = "resize to whole patches, the ratio kept",
                                          .args = to_patches_args,
                                          .state_size = sizeof(struct to_patches),
                                          .plan = to_patches_plan,
                                          .draw = to_patches_draw,
                                          .can = STK_OP_VIEW };

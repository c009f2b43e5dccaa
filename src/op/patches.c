/* SPDX-License-Identifier: Apache-2.0 */
/* patches - the picture as a sequence of patches, each a vector of its pixels: what NaFlex, SigLIP2
 * (rows, channels last) and Qwen-VL (blocks of 2 x 2, channels first, two equal frames) read.  The
 * last of a chain but for `to`. */
#include "op/patch_size.h"

#include <string.h>

static int choice(const stk_args *args, const char *name, const char *const two[2], int fallback,
                  int *out, stk_error *err)
{
    const char *given = stk_args_str(args, name);

    *out = fallback;
    if (!stk_args_has(args, name))
        return 0;
    for (*out = 0; *out < 2; ++*out)
        if (given && !strcmp(given, two[*out]))
            return 0;
    return stk_fail(err, STK_EINVAL, "patches: %s is %s or %s, not %s", name, two[0], two[1],
                    given ? given : "a number");
}

static int patches_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    static const char *const orders[2] = { "rows", "blocks" }, *const places[2] = { "last",
                                                                                    "first" };
    stk_patch_spec p = { 0 };
    const stk_patch_model *model;
    stk_spec place = *spec;
    int64_t frames, block;
    int blocks;

    (void)state;
    place.picture.normalized = 0; /* which it may follow */
    STK_TRY(stk_spec_geometry(&place, "patches", err));
    if (spec->picture.mode != STK_MODE_RGB)
        return stk_fail(err, STK_EINVAL,
                        "patches: pictures of one channel are not cut: leave mode");
    STK_TRY(stk_patch_arg(args, "patches", &p.side, &model, err));
    STK_TRY(choice(args, "order", orders, model && model->blocks, &blocks, err));
    STK_TRY(choice(args, "channels", places, model && model->first, &p.first, err));
    frames = stk_args_has(args, "frames") ? stk_args_i64(args, "frames")
             : model                      ? model->frames
                                          : 1;
    block = stk_args_i64(args, "block");
    if (frames < 1 || frames > 2)
        return stk_fail(err, STK_EINVAL, "patches: frames=%" PRId64 " is not 1 or 2", frames);
    if (block < 1 || block > 16)
        return stk_fail(err, STK_EINVAL, "patches: block=%" PRId64 " is not in 1..16", block);
    p.frames = (uint32_t)frames;
    p.block = blocks ? (uint32_t)block : 1;
    if (spec->picture.width % (p.side * p.block) || spec->picture.height % (p.side * p.block))
        return stk_fail(err, STK_EINVAL,
                        "patches: pictures of %ux%u are not whole patches of %u: put "
                        "resize_to_patches before it",
                        spec->picture.width, spec->picture.height, p.side * p.block);
    spec->picture.patch = p;
    spec->picture.layout = STK_HWC; /* rows as they are in memory */
    return 0;
}

static const stk_arg patches_args[] = {
    { "patch", STK_ARG_ANY, NULL, "side of a patch, or " STK_PATCH_MODELS },
    { "order", STK_ARG_NAME, "", "rows: row by row (timm, SigLIP2); blocks: Qwen's" },
    { "frames", STK_ARG_INT, "", "2: a picture is two equal frames (Qwen); 1" },
    { "channels", STK_ARG_NAME, "", "last: (y, x, c) inside a patch; first: (c, frame, y, x)" },
    { "block", STK_ARG_INT, "2", "with order=blocks: patches of a block's side" },
    { 0 },
};

const stk_op stk_op_patches = { .abi = STK_PLUGIN_ABI,
                                .size = sizeof(stk_op),
                                .name = "patches",
                                .help = "cut the picture into patches: rows of (n, values)",
                                .args = patches_args,
                                .plan = patches_plan };

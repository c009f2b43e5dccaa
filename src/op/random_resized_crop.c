/* SPDX-License-Identifier: Apache-2.0 */
/* random_resized_crop - a random part of the picture, resized: torchvision's RandomResizedCrop.
 *
 * Ten tries at an area (uniform share of the picture's) and an aspect ratio (log-uniform) that
 * fit, then a uniform place; else the largest centered crop with an allowed ratio.  The draws
 * must be the same bits on every machine, so exp and log are ours and sqrt is IEEE's. */
#include "base/rng.h"
#include "op/spec.h"

#include <math.h>
#include <string.h>

struct rrc {
    uint32_t h, w;
    double scale[2], ratio[2], log_ratio[2];
    uint8_t filter;
    int any_filter; /* bilinear or bicubic, for each picture: timm's `random` */
};

static int rrc_range(const stk_args *args, const char *name, double out[2], stk_error *err)
{
    uint32_t n = stk_args_count(args, name);

    if (n != 2)
        return stk_fail(err, STK_EINVAL,
                        "random_resized_crop: %s takes (least, most), not %u numbers", name, n);
    for (uint32_t i = 0; i < 2; i++)
        out[i] = stk_args_f64_at(args, name, i);
    if (!(out[0] > 0 && out[0] <= out[1]))
        return stk_fail(err, STK_EINVAL,
                        "random_resized_crop: %s=(%g, %g) must be (least, most), above 0", name,
                        out[0], out[1]);
    return 0;
}

static int rrc_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct rrc *r = state;

    STK_TRY(stk_spec_resize(spec, "random_resized_crop", err));
    STK_TRY(stk_spec_sides(args, "random_resized_crop", &r->h, &r->w, err));
    STK_TRY(rrc_range(args, "scale", r->scale, err));
    STK_TRY(rrc_range(args, "ratio", r->ratio, err));
    r->any_filter = stk_args_str(args, "interpolation") &&
                    !strcmp(stk_args_str(args, "interpolation"), "random");
    if (!r->any_filter)
        STK_TRY(stk_spec_filter(args, "random_resized_crop", &r->filter, err));
    else if (!stk_args_bool(args, "antialias"))
        r->filter = STK_FILTER_SHARP;
    if (r->any_filter)
        STK_TRY(stk_spec_exact(args, "random_resized_crop", &r->filter, err));
    if (r->scale[1] > 1)
        return stk_fail(err, STK_EINVAL,
                        "random_resized_crop: scale=(%g, %g) is more than the picture", r->scale[0],
                        r->scale[1]);
    if (r->ratio[0] < 1e-6 || r->ratio[1] > 1e6)
        return stk_fail(err, STK_EINVAL, "random_resized_crop: ratio=(%g, %g) is not in 1e-6..1e6",
                        r->ratio[0], r->ratio[1]);
    for (int i = 0; i < 2; i++)
        r->log_ratio[i] = stk_ln(r->ratio[i]);
    stk_spec_size(spec, r->w, r->h);
    return 0;
}

static double between(stk_rng *rng, const double range[2])
{
    return range[0] + (range[1] - range[0]) * stk_rng_unit(rng);
}

static void central(const struct rrc *r, int64_t width, int64_t height, int64_t *w, int64_t *h)
{
    double ratio = (double)width / (double)height;

    *w = width;
    *h = height;
    if (ratio < r->ratio[0])
        *h = stk_round_even((double)width / r->ratio[0]);
    else if (ratio > r->ratio[1])
        *w = stk_round_even((double)height * r->ratio[1]);
    *w = *w < 1 ? 1 : *w > width ? width : *w;
    *h = *h < 1 ? 1 : *h > height ? height : *h;
}

static void rrc_draw(const void *state, stk_rng *rng, stk_view *view)
{
    const struct rrc *r = state;
    int64_t width = view->vis_w, height = view->vis_h, w = 0, h = 0, x, y;
    double area = (double)width * (double)height;
    int tries;

    for (tries = 0; tries < 10; tries++) {
        double target = area * between(rng, r->scale), aspect = stk_exp(between(rng, r->log_ratio));

        w = stk_round_even(sqrt(target * aspect));
        h = stk_round_even(sqrt(target / aspect));
        if (w > 0 && w <= width && h > 0 && h <= height)
            break;
    }
    if (tries < 10) {
        y = stk_rng_below(rng, (uint32_t)(height - h + 1));
        x = stk_rng_below(rng, (uint32_t)(width - w + 1));
    } else {
        central(r, width, height, &w, &h);
        y = (height - h) / 2;
        x = (width - w) / 2;
    }
    stk_view_crop(view, (int32_t)x, (int32_t)y, (uint32_t)w, (uint32_t)h);
    stk_view_resize(view, r->w, r->h);
    view->filter = r->filter;
    if (r->any_filter && stk_rng_u32(rng) & 1)
        view->filter |= STK_BICUBIC;
}

static const stk_arg rrc_args[] = {
    { "size", STK_ARG_INTS, NULL, "side of the output, or (height, width)" },
    { "scale", STK_ARG_FLOATS, "(0.08, 1)", "least and most share of the picture's area" },
    { "ratio", STK_ARG_FLOATS, "(0.75, 1.3333333333333333)", "least and most width / height" },
    { "interpolation", STK_ARG_NAME, "bilinear",
      "nearest, bilinear, bicubic or lanczos; random: bilinear or bicubic for each picture", 1 },
    { "antialias", STK_ARG_BOOL, "true", "a picture that shrinks is smoothed first", 1 },
    STK_ARG_EXACT("the pixels are those of pillow or torchvision, to the bit"),
    { 0 },
};

const stk_op stk_op_random_resized_crop = { .abi = STK_PLUGIN_ABI,
                                            .size = sizeof(stk_op),
                                            .name = "random_resized_crop",
                                            .help = "a random part of the picture, resized",
                                            .args = rrc_args,
                                            .state_size = sizeof(struct rrc),
                                            .plan = rrc_plan,
                                            .draw = rrc_draw,
                                            .can = STK_OP_VIEW };

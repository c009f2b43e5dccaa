/* SPDX-License-Identifier: Apache-2.0 */
/* blur.c - gaussian_blur and sharpness, as torchvision's GaussianBlur and RandomAdjustSharpness.
 * Beyond the edge a blur sees the picture mirrored, as often as it takes. */
#include "kern/near.h"
#include "kern/tile.h"
#include "op/random.h"

struct blur {
    double p;
    uint32_t half[2]; /* across, down */
    stk_range range;  /* of sigma, or of the factor */
};

static int plan_kernel(struct blur *b, const stk_args *args, stk_error *err)
{
    uint32_t n = stk_args_count(args, "kernel");

    if (n != 1 && n != 2)
        return stk_fail(err, STK_EINVAL,
                        "gaussian_blur: kernel is one number or (across, down), not %u numbers", n);
    for (uint32_t i = 0; i < 2; i++) {
        double k = stk_args_f64_at(args, "kernel", n == 2 ? i : 0);

        if (!(k >= 1 && k <= STK_BLUR_SIDE) || (uint32_t)k % 2 == 0)
            return stk_fail(err, STK_EINVAL,
                            "gaussian_blur: kernel=%g is not an odd number of 1 to %d pixels", k,
                            STK_BLUR_SIDE);
        b->half[i] = (uint32_t)k / 2;
    }
    return 0;
}

static int blur_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct blur *b = state;

    STK_TRY(stk_spec_geometry(spec, "gaussian_blur", err));
    STK_TRY(plan_kernel(b, args, err));
    STK_TRY(
        stk_arg_range(args, "gaussian_blur", "sigma", (stk_range){ 0.01, 100 }, &b->range, err));
    return stk_arg_p(args, "gaussian_blur", &b->p, err);
}

static uint32_t blur_act(const void *state, stk_rng *rng, const stk_view *canvas, stk_action *out)
{
    const struct blur *b = state;

    (void)canvas;
    if (!stk_hits(rng, b->p))
        return 0;
    *out = (stk_action){ .code = STK_ACT_BLUR, .n = 3 };
    out->v.u[0] = b->half[0];
    out->v.u[1] = b->half[1];
    out->v.f[2] = (float)stk_between(rng, &b->range);
    return 1;
}

static int sharpness_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct blur *b = state;

    STK_TRY(stk_spec_geometry(spec, "sharpness", err));
    STK_TRY(stk_arg_range(args, "sharpness", "factor", (stk_range){ 0, 100 }, &b->range, err));
    return stk_arg_p(args, "sharpness", &b->p, err);
}

static uint32_t sharpness_act(const void *state, stk_rng *rng, const stk_view *canvas,
                              stk_action *out)
{
    const struct blur *b = state;

    (void)canvas;
    if (!stk_hits(rng, b->p))
        return 0;
    *out = (stk_action){ .code = STK_ACT_SHARPNESS, .n = 1 };
    out->v.f[0] = (float)stk_between(rng, &b->range);
    return 1;
}

static const stk_arg blur_args[] = {
    { "kernel", STK_ARG_INTS, NULL, "pixels of its side, odd; or (across, down)" },
    { "sigma", STK_ARG_FLOATS, "(0.1, 2)",
      "its deviation in pixels: least and most, or one number" },
    { "p", STK_ARG_FLOAT, "1", "how often" },
    { 0 },
};
static const stk_arg sharpness_args[] = {
    { "factor", STK_ARG_FLOATS, NULL, "0 blurs, 1 changes nothing, 2 sharpens; or (least, most)" },
    { "p", STK_ARG_FLOAT, "0.5", "how often" },
    { 0 },
};

const stk_op stk_op_gaussian_blur = { .abi = STK_PLUGIN_ABI,
                                      .size = sizeof(stk_op),
                                      .name = "gaussian_blur",
                                      .help = "a blur of random width",
                                      .args = blur_args,
                                      .state_size = sizeof(struct blur),
                                      .plan = blur_plan,
                                      .act = blur_act,
                                      .can = STK_OP_NEAR | STK_OP_GPU };
const stk_op stk_op_sharpness = { .abi = STK_PLUGIN_ABI,
                                  .size = sizeof(stk_op),
                                  .name = "sharpness",
                                  .help = "the distance from a soft copy times a factor, at random",
                                  .args = sharpness_args,
                                  .state_size = sizeof(struct blur),
                                  .plan = sharpness_plan,
                                  .act = sharpness_act,
                                  .can = STK_OP_NEAR | STK_OP_GPU };

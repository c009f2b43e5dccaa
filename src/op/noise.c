/* SPDX-License-Identifier: Apache-2.0 */
/* noise.c - gaussian_noise, as torchvision's GaussianNoise. */
#include "kern/tile.h"
#include "op/random.h"

struct noise {
    double p;
    stk_range mean, sigma;
};

static int noise_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct noise *s = state;

    STK_TRY(stk_spec_geometry(spec, "gaussian_noise", err));
    STK_TRY(stk_arg_range(args, "gaussian_noise", "mean", (stk_range){ -1, 1 }, &s->mean, err));
    STK_TRY(stk_arg_range(args, "gaussian_noise", "sigma", (stk_range){ 0, 10 }, &s->sigma, err));
    return stk_arg_p(args, "gaussian_noise", &s->p, err);
}

static uint32_t noise_act(const void *state, stk_rng *rng, const stk_view *canvas, stk_action *out)
{
    const struct noise *s = state;

    (void)canvas;
    if (!stk_hits(rng, s->p))
        return 0;
    *out = (stk_action){ .code = STK_ACT_NOISE, .n = 7 };
    out->v.f[5] = (float)(255 * stk_between(rng, &s->mean));
    out->v.f[6] = (float)(255 * stk_between(rng, &s->sigma));
    stk_op_stream(rng, out->v.u);
    return 1;
}

static const stk_arg noise_args[] = {
    { "mean", STK_ARG_FLOATS, "0", "of 1, which is 255; or (least, most)" },
    { "sigma", STK_ARG_FLOATS, "0.1", "deviation, of 1; or (least, most)" },
    { "p", STK_ARG_FLOAT, "1", "how often" },
    { 0 },
};

const stk_op stk_op_gaussian_noise = { .abi = STK_PLUGIN_ABI,
                                       .size = sizeof(stk_op),
                                       .name = "gaussian_noise",
                                       .help = "normal noise, of every value its own",
                                       .args = noise_args,
                                       .state_size = sizeof(struct noise),
                                       .plan = noise_plan,
                                       .act = noise_act,
                                       .can = STK_OP_POINT | STK_OP_GPU };

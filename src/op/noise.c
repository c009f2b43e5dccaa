/* SPDX-License-Identifier: Apache-2.0 */
/* noise.c - gaussian_noise, as torchvision's GaussianNoise; hsv, as detection recipes have it. */
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

/* ---- hsv ---- */

struct hsv {
    double p;
    stk_range hue, sat, val;
};

static int hsv_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct hsv *h = state;

    STK_TRY(stk_spec_geometry(spec, "hsv", err));
    STK_TRY(stk_arg_turn(args, "hsv", "hue", &h->hue, err));
    STK_TRY(stk_arg_factor(args, "hsv", "saturation", &h->sat, err));
    STK_TRY(stk_arg_factor(args, "hsv", "value", &h->val, err));
    return stk_arg_p(args, "hsv", &h->p, err);
}

static uint32_t hsv_act(const void *state, stk_rng *rng, const stk_view *canvas, stk_action *out)
{
    const struct hsv *h = state;

    (void)canvas;
    if (!stk_hits(rng, h->p))
        return 0;
    *out = (stk_action){ .code = STK_ACT_HSV, .n = 3 };
    out->v.u[0] = stk_hue_sixths(stk_between(rng, &h->hue));
    out->v.f[1] = (float)stk_between(rng, &h->sat);
    out->v.f[2] = (float)stk_between(rng, &h->val);
    return 1;
}

static const stk_arg noise_args[] = {
    { "mean", STK_ARG_FLOATS, "0", "of 1, which is 255; or (least, most)" },
    { "sigma", STK_ARG_FLOATS, "0.1", "deviation, of 1; or (least, most)" },
    { "p", STK_ARG_FLOAT, "1", "how often" },
    { 0 },
};
static const stk_arg hsv_args[] = {
    { "hue", STK_ARG_FLOATS, "0.015", "h: turns from -h to h of the circle; or (least, most)" },
    { "saturation", STK_ARG_FLOATS, "0.7", "s: factors from 1 - s to 1 + s; or (least, most)" },
    { "value", STK_ARG_FLOATS, "0.4", "v: factors from 1 - v to 1 + v; or (least, most)" },
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
const stk_op stk_op_hsv = { .abi = STK_PLUGIN_ABI,
                            .size = sizeof(stk_op),
                            .name = "hsv",
                            .help = "hue turned, saturation and value times a factor",
                            .args = hsv_args,
                            .state_size = sizeof(struct hsv),
                            .plan = hsv_plan,
                            .act = hsv_act,
                            .can = STK_OP_POINT | STK_OP_GPU };

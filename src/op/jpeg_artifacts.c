/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_artifacts - what saving as JPEG takes from a picture, as torchvision's JPEG. */
#include "kern/tile.h"
#include "op/random.h"

struct artifacts {
    double p;
    stk_range quality;
};

static int artifacts_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    static const char op[] = "jpeg_artifacts";
    struct artifacts *s = state;

    STK_TRY(stk_spec_geometry(spec, op, err));
    STK_TRY(stk_arg_range(args, op, "quality", (stk_range){ 1, 100 }, &s->quality, err));
    return stk_arg_p(args, op, &s->p, err);
}

static uint32_t artifacts_act(const void *state, stk_rng *rng, const stk_view *canvas,
                              stk_action *out)
{
    const struct artifacts *s = state;

    (void)canvas;
    if (!stk_hits(rng, s->p))
        return 0;
    *out = (stk_action){ .code = STK_ACT_JPEG, .n = 1 };
    out->v.u[0] = (uint32_t)s->quality.lo +
                  stk_rng_below(rng, (uint32_t)(s->quality.hi - s->quality.lo) + 1);
    return 1;
}

static const stk_arg artifacts_args[] = {
    { "quality", STK_ARG_INTS, NULL, "1 to 100, as Pillow counts it; or (least, most)" },
    { "p", STK_ARG_FLOAT, "1", "how often" },
    { 0 },
};

const stk_op stk_op_jpeg_artifacts = { .abi = STK_PLUGIN_ABI,
                                       .size = sizeof(stk_op),
                                       .name = "jpeg_artifacts",
                                       .help = "what saving as JPEG takes from a picture",
                                       .args = artifacts_args,
                                       .state_size = sizeof(struct artifacts),
                                       .plan = artifacts_plan,
                                       .act = artifacts_act,
                                       .can = STK_OP_NEAR | STK_OP_GPU };

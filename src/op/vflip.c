/* SPDX-License-Identifier: Apache-2.0 */
/* vflip - mirror top to bottom with probability p.  Moves no pixel itself: it turns the view. */
#include "op/spec.h"

struct vflip {
    double p;
};

static int vflip_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct vflip *f = state;

    STK_TRY(stk_spec_geometry(spec, "vflip", err));
    return stk_spec_chance(args, "vflip", "p", &f->p, err);
}

static void vflip_draw(const void *state, stk_rng *rng, stk_view *view)
{
    const struct vflip *f = state;

    if (stk_rng_unit(rng) < f->p)
        stk_view_upend(view);
}

static const stk_arg vflip_args[] = {
    { "p", STK_ARG_FLOAT, "0.5", "how often" },
    { 0 },
};

const stk_op stk_op_vflip = { .abi = STK_PLUGIN_ABI,
                              .size = sizeof(stk_op),
                              .name = "vflip",
                              .help = "mirror top to bottom, at random",
                              .args = vflip_args,
                              .state_size = sizeof(struct vflip),
                              .plan = vflip_plan,
                              .draw = vflip_draw,
                              .can = STK_OP_VIEW };

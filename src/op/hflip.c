/* SPDX-License-Identifier: Apache-2.0 */
/* hflip - mirror left to right with probability p.  Moves no pixel itself: it turns the view. */
#include "op/spec.h"

struct hflip {
    double p;
};

static int hflip_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct hflip *f = state;

    STK_TRY(stk_spec_geometry(spec, "hflip", err));
    f->p = stk_args_f64(args, "p");
    if (!(f->p >= 0 && f->p <= 1))
        return stk_fail(err, STK_EINVAL, "hflip: p=%g is not in 0..1", f->p);
    return 0;
}

static void hflip_draw(const void *state, stk_rng *rng, stk_view *view)
{
    const struct hflip *f = state;

    if (stk_rng_unit(rng) < f->p)
        stk_view_mirror(view);
}

static const stk_arg hflip_args[] = {
    { "p", STK_ARG_FLOAT, "0.5", "how often" },
    { 0 },
};

const stk_op stk_op_hflip = { .abi = STK_PLUGIN_ABI,
                              .size = sizeof(stk_op),
                              .name = "hflip",
                              .help = "mirror left to right, at random",
                              .args = hflip_args,
                              .state_size = sizeof(struct hflip),
                              .plan = hflip_plan,
                              .draw = hflip_draw,
                              .can = STK_OP_VIEW };

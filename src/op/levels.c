/* SPDX-License-Identifier: Apache-2.0 */
/* levels.c - autocontrast and equalize, which need figures of the whole picture, and a probability.
 * Names and defaults are those of torchvision's Random* classes. */
#include "kern/tile.h"
#include "op/random.h"

struct level {
    double p;
    uint16_t code;
};

static int plan(void *state, const stk_args *args, stk_spec *spec, const char *op, stk_error *err)
{
    struct level *l = state;

    STK_TRY(stk_spec_geometry(spec, op, err));
    return stk_arg_p(args, op, &l->p, err);
}

static uint32_t simple_act(const void *state, stk_rng *rng, const stk_view *canvas, stk_action *out)
{
    const struct level *l = state;

    (void)canvas;
    if (!stk_hits(rng, l->p))
        return 0;
    *out = (stk_action){ .code = l->code };
    return 1;
}

#define SIMPLE(name, its)                                                                          \
    static int name##_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)      \
    {                                                                                              \
        ((struct level *)state)->code = its;                                                       \
        return plan(state, args, spec, #name, err);                                                \
    }
SIMPLE(autocontrast, STK_ACT_AUTOCONTRAST)
SIMPLE(equalize, STK_ACT_EQUALIZE)

static const stk_arg half_args[] = { STK_ARG_P("0.5"), { 0 } };

#define OP(...) STK_ACT_OP(struct level, __VA_ARGS__)
OP(autocontrast, "every channel stretched to 0..255, at random", autocontrast_plan, simple_act,
   half_args, STK_OP_STATS);
OP(equalize, "every channel's values spread evenly, at random", equalize_plan, simple_act,
   half_args, STK_OP_STATS);

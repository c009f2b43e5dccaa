/* SPDX-License-Identifier: Apache-2.0 */
/* levels.c - ops that need no more than a probability and a number: solarize, posterize,
 * autocontrast, equalize, invert.  Names and defaults are those of torchvision's Random*
 * classes. */
#include "kern/tile.h"
#include "op/random.h"

struct level {
    double p;
    uint16_t code;
    stk_range range; /* of its number */
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
SIMPLE(invert, STK_ACT_INVERT)

/* ---- with a number ---- */

static int solarize_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct level *l = state;

    STK_TRY(stk_arg_range(args, "solarize", "threshold", (stk_range){ 0, 256 }, &l->range, err));
    return plan(state, args, spec, "solarize", err);
}

static uint32_t solarize_act(const void *state, stk_rng *rng, const stk_view *canvas,
                             stk_action *out)
{
    const struct level *l = state;
    float from;

    (void)canvas;
    if (!stk_hits(rng, l->p))
        return 0;
    from = (float)stk_between(rng, &l->range);
    *out = (stk_action){ .code = STK_ACT_SOLARIZE, .n = 1 };
    /* the first whole number not under it */
    out->v.u[0] = (uint32_t)from + ((float)(uint32_t)from < from);
    return 1;
}

static int posterize_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct level *l = state;

    STK_TRY(stk_arg_range(args, "posterize", "bits", (stk_range){ 0, 8 }, &l->range, err));
    return plan(state, args, spec, "posterize", err);
}

static uint32_t posterize_act(const void *state, stk_rng *rng, const stk_view *canvas,
                              stk_action *out)
{
    const struct level *l = state;
    uint32_t bits;

    (void)canvas;
    if (!stk_hits(rng, l->p))
        return 0;
    bits = (uint32_t)l->range.lo;
    bits += l->range.lo < l->range.hi
                ? stk_rng_below(rng, (uint32_t)(l->range.hi - l->range.lo) + 1)
                : 0;
    *out = (stk_action){ .code = STK_ACT_POSTERIZE, .n = 1 };
    out->v.u[0] = 255 & ~(255u >> bits);
    return 1;
}

static const stk_arg half_args[] = { STK_ARG_P("0.5"), { 0 } };
static const stk_arg solarize_args[] = {
    { "threshold", STK_ARG_FLOATS, NULL, "values from it on are inverted; or (least, most)" },
    STK_ARG_P("0.5"),
    { 0 },
};
static const stk_arg posterize_args[] = {
    { "bits", STK_ARG_INTS, NULL, "bits that a channel keeps, 0 to 8; or (least, most)" },
    STK_ARG_P("0.5"),
    { 0 },
};

#define OP(...) STK_ACT_OP(struct level, __VA_ARGS__)
OP(solarize, "bright values inverted, at random", solarize_plan, solarize_act, solarize_args,
   STK_OP_POINT);
OP(posterize, "fewer bits for every value, at random", posterize_plan, posterize_act,
   posterize_args, STK_OP_POINT);
OP(autocontrast, "every channel stretched to 0..255, at random", autocontrast_plan, simple_act,
   half_args, STK_OP_STATS);
OP(equalize, "every channel's values spread evenly, at random", equalize_plan, simple_act,
   half_args, STK_OP_STATS);
OP(invert, "255 minus every value, at random", invert_plan, simple_act, half_args, STK_OP_POINT);

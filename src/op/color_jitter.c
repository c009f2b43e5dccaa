/* SPDX-License-Identifier: Apache-2.0 */
/* color_jitter - brightness, contrast, saturation and hue, in an order that is drawn too; and each
 * of them as an op of its own.  Factors and limits are those of torchvision's ColorJitter. */
#include "kern/tile.h"
#include "op/random.h"

enum { BRIGHTNESS, CONTRAST, SATURATION, HUE, PARTS };

struct jitter {
    double p;
    stk_range part[PARTS];
    uint8_t on[PARTS];
};

static const char *const names[PARTS] = { "brightness", "contrast", "saturation", "hue" };

static int plan_part(struct jitter *j, int part, const char *op, const stk_args *args,
                     stk_error *err)
{
    double middle = part == HUE ? 0 : 1;

    STK_TRY(
        (part == HUE ? stk_arg_turn : stk_arg_factor)(args, op, names[part], &j->part[part], err));
    j->on[part] = j->part[part].lo != middle || j->part[part].hi != middle;
    return 0;
}

static stk_action action(const struct jitter *j, int part, stk_rng *rng)
{
    static const uint16_t codes[PARTS] = { STK_ACT_BRIGHTNESS, STK_ACT_CONTRAST, STK_ACT_saturation,
                                           STK_ACT_hue };
    stk_action a = { .code = codes[part], .n = 1 };
    double v = stk_between(rng, &j->part[part]);

    if (part == HUE)
        a.v.u[0] = stk_hue_sixths(v);
    else
        a.v.f[0] = (float)v;
    return a;
}

static uint32_t jitter_act(const void *state, stk_rng *rng, const stk_view *canvas, stk_action *out)
{
    const struct jitter *j = state;
    int order[PARTS] = { 0, 1, 2, 3 };
    uint32_t n = 0;

    (void)canvas;
    if (!stk_hits(rng, j->p))
        return 0;
    for (uint32_t i = PARTS - 1; i > 0; i--) {
        uint32_t k = stk_rng_below(rng, i + 1);
        int was = order[i];

        order[i] = order[k];
        order[k] = was;
    }
    for (int i = 0; i < PARTS; i++)
        if (j->on[order[i]])
            out[n++] = action(j, order[i], rng);
    return n;
}

static int jitter_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct jitter *j = state;

    STK_TRY(stk_spec_geometry(spec, "color_jitter", err));
    for (int i = 0; i < PARTS; i++)
        STK_TRY(plan_part(j, i, "color_jitter", args, err));
    return stk_arg_p(args, "color_jitter", &j->p, err);
}

/* ---- one of them ---- */

static int plan_one(void *state, const stk_args *args, stk_spec *spec, int part, stk_error *err)
{
    struct jitter *j = state;

    STK_TRY(stk_spec_geometry(spec, names[part], err));
    STK_TRY(plan_part(j, part, names[part], args, err));
    return stk_arg_p(args, names[part], &j->p, err);
}

static uint32_t act_one(const void *state, stk_rng *rng, int part, stk_action *out)
{
    const struct jitter *j = state;

    if (!j->on[part] || !stk_hits(rng, j->p))
        return 0;
    *out = action(j, part, rng);
    return 1;
}

#define ONE(name, part)                                                                            \
    static int name##_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)      \
    {                                                                                              \
        return plan_one(state, args, spec, part, err);                                             \
    }                                                                                              \
    static uint32_t name##_act(const void *state, stk_rng *rng, const stk_view *canvas,            \
                               stk_action *out)                                                    \
    {                                                                                              \
        (void)canvas;                                                                              \
        return act_one(state, rng, part, out);                                                     \
    }
ONE(brightness, BRIGHTNESS)
ONE(contrast, CONTRAST)
ONE(saturation, SATURATION)
ONE(hue, HUE)

static const stk_arg jitter_args[] = {
    { "brightness", STK_ARG_FLOATS, "0", "b: factors from 1 - b to 1 + b; or (least, most)" },
    { "contrast", STK_ARG_FLOATS, "0", "the same" },
    { "saturation", STK_ARG_FLOATS, "0", "the same" },
    { "hue", STK_ARG_FLOATS, "0", "h: turns from -h to h of the circle, at most 0.5; or a pair" },
    STK_ARG_P("1"),
    { 0 },
};
static const stk_arg brightness_args[] = {
    { "brightness", STK_ARG_FLOATS, NULL, "b: factors from 1 - b to 1 + b; or (least, most)" },
    STK_ARG_P("1"),
    { 0 },
};
static const stk_arg contrast_args[] = {
    { "contrast", STK_ARG_FLOATS, NULL, "c: factors from 1 - c to 1 + c; or (least, most)" },
    STK_ARG_P("1"),
    { 0 },
};
static const stk_arg saturation_args[] = {
    { "saturation", STK_ARG_FLOATS, NULL, "s: factors from 1 - s to 1 + s; or (least, most)" },
    STK_ARG_P("1"),
    { 0 },
};
static const stk_arg hue_args[] = {
    { "hue", STK_ARG_FLOATS, NULL, "h: turns from -h to h of the circle, at most 0.5; or a pair" },
    STK_ARG_P("1"),
    { 0 },
};

#define OP(...) STK_ACT_OP(struct jitter, __VA_ARGS__)
OP(color_jitter, "brightness, contrast, saturation and hue, in random order", jitter_plan,
   jitter_act, jitter_args, STK_OP_POINT | STK_OP_STATS);
OP(brightness, "every value times a factor", brightness_plan, brightness_act, brightness_args,
   STK_OP_POINT);
OP(contrast, "the distance from the picture's mean gray times a factor", contrast_plan,
   contrast_act, contrast_args, STK_OP_STATS);
OP(saturation, "the distance from a pixel's own gray times a factor", saturation_plan,
   saturation_act, saturation_args, STK_OP_POINT);
OP(hue, "colors turned around the circle", hue_plan, hue_act, hue_args, STK_OP_POINT);

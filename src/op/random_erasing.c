/* SPDX-License-Identifier: Apache-2.0 */
/* random_erasing - a rectangle of the picture replaced, as torchvision's RandomErasing.  Before
 * normalize it works on 8-bit values, after it on the row, in the units that normalize made. */
#include "base/rng.h"
#include "kern/normal.h"
#include "kern/tile.h"
#include "op/random.h"

#include <math.h>
#include <string.h>

struct erasing {
    double p;
    stk_range scale, log_ratio;
    int in_row, noise;
    int color; /* each rectangle has one of its own */
    uint32_t count;
    float value[3];
};

static int plan_value(struct erasing *e, const stk_args *args, stk_error *err)
{
    const char *name = stk_args_str(args, "value");
    uint32_t n = stk_args_count(args, "value");

    if (name && !strcmp(name, "random")) {
        e->noise = 1;
        return 0;
    }
    if (name && !strcmp(name, "color")) {
        e->color = 1;
        return 0;
    }
    if (name || (n != 1 && n != 3))
        return stk_fail(err, STK_EINVAL,
                        "random_erasing: value is one number, three, `random` or `color`");
    for (uint32_t i = 0; i < 3; i++) {
        double v = stk_args_f64_at(args, "value", n == 3 ? i : 0);

        if (stk_args_str_at(args, "value", n == 3 ? i : 0))
            return stk_fail(err, STK_EINVAL, "random_erasing: value is three numbers, not names");
        if (e->in_row ? !(v >= -1e4 && v <= 1e4) : !(v >= 0 && v <= 255))
            return stk_fail(err, STK_EINVAL, "random_erasing: value=%g is not in %s", v,
                            e->in_row ? "-10000..10000" : "0..255, which it is before normalize");
        e->value[i] = (float)v;
    }
    return 0;
}

static int erasing_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct erasing *e = state;
    stk_range ratio;

    e->in_row = spec->kind == STK_KIND_IMAGE && spec->picture.normalized && !spec->dtype_fixed;
    if (!e->in_row)
        STK_TRY(stk_spec_geometry(spec, "random_erasing", err));
    STK_TRY(stk_arg_p(args, "random_erasing", &e->p, err));
    STK_TRY(stk_arg_range(args, "random_erasing", "scale", (stk_range){ 0, 1 }, &e->scale, err));
    STK_TRY(
        stk_arg_range(args, "random_erasing", "ratio", (stk_range){ 0.001, 1000 }, &ratio, err));
    e->log_ratio = (stk_range){ stk_log(ratio.lo), stk_log(ratio.hi) };
    if (!(stk_args_f64(args, "count") >= 1 && stk_args_f64(args, "count") <= STK_OP_ACTS))
        return stk_fail(err, STK_EINVAL, "random_erasing: count=%g is not in 1..%d",
                        stk_args_f64(args, "count"), STK_OP_ACTS);
    e->count = (uint32_t)stk_args_i64(args, "count");
    return plan_value(e, args, err);
}

/* One color: normal numbers in the row, of pixels any. */
static void draw_color(const struct erasing *e, stk_rng *rng, float out[3])
{
    for (int i = 0; i < 3; i++)
        out[i] = e->in_row ? stk_normal_pair(stk_rng_u32(rng)).a : (float)stk_rng_below(rng, 256);
}

/* One rectangle; area: what its share is of. */
static uint32_t erase_one(const struct erasing *e, stk_rng *rng, const stk_view *canvas,
                          double area, stk_action *out)
{
    int64_t w = 0, h = 0;
    int tries;

    for (tries = 0; tries < 10; tries++) {
        double target = area * stk_between(rng, &e->scale),
               aspect = stk_exp(stk_between(rng, &e->log_ratio));

        h = stk_round_even(sqrt(target * aspect));
        w = stk_round_even(sqrt(target / aspect));
        if (w < canvas->vis_w && h < canvas->vis_h)
            break;
    }
    if (tries == 10 || w <= 0 || h <= 0)
        return 0; /* as torchvision: the picture stays as it is */
    *out = (stk_action){ .code = e->in_row ? STK_ACT_ERASE_ROW : STK_ACT_ERASE, .n = 10 };
    out->v.u[1] = stk_rng_below(rng, canvas->vis_h - (uint32_t)h + 1);
    out->v.u[0] = stk_rng_below(rng, canvas->vis_w - (uint32_t)w + 1);
    out->v.u[2] = (uint32_t)w;
    out->v.u[3] = (uint32_t)h;
    out->v.u[4] = (uint32_t)e->noise;
    if (e->noise)
        stk_op_stream(rng, out->v.u + 5);
    else if (e->color)
        draw_color(e, rng, out->v.f + 5);
    else
        memcpy(out->v.f + 5, e->value, sizeof e->value);
    return 1;
}

static uint32_t erasing_act(const void *state, stk_rng *rng, const stk_view *canvas,
                            stk_action *out)
{
    const struct erasing *e = state;
    double area = (double)canvas->vis_w * canvas->vis_h;
    uint32_t count = 1, n = 0;

    if (!stk_hits(rng, e->p))
        return 0;
    if (e->count > 1)
        count = 1 + stk_rng_below(rng, e->count);
    for (uint32_t i = 0; i < count; i++)
        n += erase_one(e, rng, canvas, area / count, out + n);
    return n;
}

static const stk_arg erasing_args[] = {
    { "p", STK_ARG_FLOAT, "0.5", "how often" },
    { "scale", STK_ARG_FLOATS, "(0.02, 0.33)", "least and most share of the picture's area" },
    { "ratio", STK_ARG_FLOATS, "(0.3, 3.3)", "least and most height / width" },
    { "value", STK_ARG_ANY, "0",
      "one number, three, or random: after normalize normal noise, before it any of 0..255; "
      "color: the same, one for each rectangle" },
    { "count", STK_ARG_INT, "1", "up to so many rectangles, which share the area", 1 },
    { 0 },
};

const stk_op stk_op_random_erasing = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_op),
    .name = "random_erasing",
    .help = "a rectangle replaced, at random; after normalize in its units",
    .args = erasing_args,
    .state_size = sizeof(struct erasing),
    .plan = erasing_plan,
    .act = erasing_act,
    .can = STK_OP_POINT | STK_OP_ROW | STK_OP_GPU
};

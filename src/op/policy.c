/* SPDX-License-Identifier: Apache-2.0 */
/* policy.c - rand_augment, trivial_augment and auto_augment, with torchvision's ops and magnitudes.
 *
 * Each draws some of fifteen ops and how strong they are, and writes their actions: what single ops
 * would write, so that nothing is known here of pixels. */
#include "kern/tile.h"
#include "op/random.h"

#include <string.h>

#define MAX_N STK_OP_ACTS
#define MAX_BINS 1000

enum {
    IDENTITY,
    SHEAR_X,
    SHEAR_Y,
    TRANSLATE_X,
    TRANSLATE_Y,
    ROTATE,
    BRIGHTNESS,
    COLOR,
    CONTRAST,
    SHARPNESS,
    POSTERIZE,
    SOLARIZE,
    AUTOCONTRAST,
    EQUALIZE,
    WIDTH_OF_RANDOM, /* the first fourteen are those of rand_augment and trivial_augment */
    INVERT = WIDTH_OF_RANDOM
};

struct limits { /* what the last bin means */
    double shear, translate, rotate, factor, posterize;
    int of_size; /* translate: of the picture's side, else pixels */
};

static const struct limits usual = { 0.3, 150.0 / 331, 30, 0.9, 4, 1 },
                           wide = { 0.99, 32, 135, 0.99, 6, 0 };

struct part { /* of auto_augment: an op, how often in tenths, its bin of ten */
    uint8_t op, often, bin;
};

struct policy {
    double p;
    uint32_t n, m, bins;
    uint32_t bilinear, fill;
    const struct part (*parts)[2];
};

/* ---- an op of its strength ---- */

/* m: from the place of an output pixel to that of an input pixel, both from the middle. */
static stk_action moved(const struct policy *s, const stk_view *canvas, const double m[6])
{
    stk_action out = { .code = STK_ACT_WARP, .n = 10 };
    double cx = canvas->vis_w / 2.0, cy = canvas->vis_h / 2.0;

    for (int i = 0; i < 6; i++)
        out.v.f[i] = (float)m[i];
    out.v.f[2] = (float)(m[2] + cx - m[0] * cx - m[1] * cy);
    out.v.f[5] = (float)(m[5] + cy - m[3] * cx - m[4] * cy);
    out.v.u[8] = s->bilinear ? STK_BILINEAR : STK_NEAREST;
    out.v.u[9] = s->fill;
    return out;
}

/* Sheared about the corner, as the papers do. */
static stk_action sheared(const struct policy *s, int down, double v, const stk_view *canvas)
{
    double m[6] = { 1, 0, 0, 0, 1, 0 };

    m[down ? 3 : 1] = v;
    m[down ? 5 : 2] = v * (down ? canvas->vis_w : canvas->vis_h) / 2;
    return moved(s, canvas, m);
}

static stk_action translated(const struct policy *s, int down, double v, const stk_view *canvas)
{
    double m[6] = { 1, 0, 0, 0, 1, 0 };

    m[down ? 5 : 2] = (double)-(int64_t)v; /* whole pixels, cut down */
    return moved(s, canvas, m);
}

static stk_action rotated(const struct policy *s, double degrees, const stk_view *canvas)
{
    double sine, cosine;

    stk_sincos(-degrees, &sine, &cosine);
    return moved(s, canvas, (double[6]){ cosine, sine, 0, -sine, cosine, 0 });
}

static stk_action by_number(uint16_t code, float f)
{
    stk_action out = { .code = code, .n = 1 };

    out.v.f[0] = f;
    return out;
}

static stk_action by_bits(uint16_t code, uint32_t u)
{
    stk_action out = { .code = code, .n = 1 };

    out.v.u[0] = u;
    return out;
}

static double translation(const struct limits *l, uint32_t side)
{
    return l->of_size ? l->translate * side : l->translate;
}

/* From which value on a bin solarizes: torch counts its bins from the nearer end, keeps a float of
 * each, and compares with a float; where a threshold is all but a whole number that decides. */
static uint32_t solarize_from(uint32_t bin, uint32_t bins)
{
    double step = 1.0f / (float)(bins - 1);
    float share = (float)(bin < bins / 2 ? 1 - step * bin : step * (bins - 1 - bin));
    float from = (float)(255 * (double)share);

    return (uint32_t)from + ((float)(uint32_t)from < from);
}

/* v: -1..1 of the limit; what has no sign takes its size. */
static uint32_t act_of(const struct policy *s, const struct limits *l, uint32_t op, double v,
                       const stk_view *canvas, stk_action *out)
{
    double share = v < 0 ? -v : v, factor = 1 + v * l->factor;
    uint32_t bin = (uint32_t)stk_round_even(share * (s->bins - 1));

    switch (op) {
    case SHEAR_X: *out = sheared(s, 0, v * l->shear, canvas); break;
    case SHEAR_Y: *out = sheared(s, 1, v * l->shear, canvas); break;
    case TRANSLATE_X: *out = translated(s, 0, v * translation(l, canvas->vis_w), canvas); break;
    case TRANSLATE_Y: *out = translated(s, 1, v * translation(l, canvas->vis_h), canvas); break;
    case ROTATE: *out = rotated(s, v * l->rotate, canvas); break;
    case BRIGHTNESS: *out = by_number(STK_ACT_BRIGHTNESS, (float)factor); break;
    case COLOR: *out = by_number(STK_ACT_saturation, (float)factor); break;
    case CONTRAST: *out = by_number(STK_ACT_CONTRAST, (float)factor); break;
    case SHARPNESS: *out = by_number(STK_ACT_SHARPNESS, (float)factor); break;
    case POSTERIZE:
        *out = by_bits(STK_ACT_posterize,
                       255 & ~(255u >> (uint32_t)stk_round_even(8 - share * l->posterize)));
        break;
    case SOLARIZE: *out = by_bits(STK_ACT_solarize, solarize_from(bin, s->bins)); break;
    case AUTOCONTRAST: *out = (stk_action){ .code = STK_ACT_AUTOCONTRAST }; break;
    case EQUALIZE: *out = (stk_action){ .code = STK_ACT_EQUALIZE }; break;
    case INVERT: *out = (stk_action){ .code = STK_ACT_invert }; break;
    default: return 0; /* IDENTITY */
    }
    return 1;
}

static double sign_of(stk_rng *rng)
{
    return stk_rng_u32(rng) & 1 ? -1 : 1;
}

/* ---- the three ---- */

static uint32_t rand_act(const void *state, stk_rng *rng, const stk_view *canvas, stk_action *out)
{
    const struct policy *s = state;
    double share = (double)s->m / (s->bins - 1);
    uint32_t n = 0;

    if (!stk_hits(rng, s->p))
        return 0;
    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t op = stk_rng_below(rng, WIDTH_OF_RANDOM);

        n += act_of(s, &usual, op, share * sign_of(rng), canvas, out + n);
    }
    return n;
}

static uint32_t trivial_act(const void *state, stk_rng *rng, const stk_view *canvas,
                            stk_action *out)
{
    const struct policy *s = state;
    uint32_t op, bin;

    if (!stk_hits(rng, s->p))
        return 0;
    op = stk_rng_below(rng, WIDTH_OF_RANDOM);
    bin = stk_rng_below(rng, s->bins);
    return act_of(s, &wide, op, sign_of(rng) * bin / (s->bins - 1), canvas, out);
}

static uint32_t auto_act(const void *state, stk_rng *rng, const stk_view *canvas, stk_action *out)
{
    const struct policy *s = state;
    const struct part *part;
    uint32_t n = 0;

    if (!stk_hits(rng, s->p))
        return 0;
    part = s->parts[stk_rng_below(rng, 25)];
    for (int i = 0; i < 2; i++)
        if (stk_rng_unit(rng) < part[i].often / 10.0)
            n += act_of(s, &usual, part[i].op, sign_of(rng) * part[i].bin / 9, canvas, out + n);
    return n;
}

/* ---- plan ---- */

static int plan_move(struct policy *s, const stk_args *args, const char *op, stk_error *err)
{
    const char *how = stk_args_str(args, "interpolation");

    s->bilinear = !strcmp(how, "bilinear");
    if (!s->bilinear && strcmp(how, "nearest"))
        return stk_fail(err, STK_EINVAL, "%s: interpolation is nearest or bilinear, not %s", op,
                        how);
    STK_TRY(stk_arg_fill(args, op, &s->fill, err));
    return stk_arg_p(args, op, &s->p, err);
}

static int plan_whole(const stk_args *args, const char *op, const char *name, const stk_range *in,
                      uint32_t *out, stk_error *err)
{
    double v = stk_args_f64(args, name);

    if (!(v >= in->lo && v <= in->hi))
        return stk_fail(err, STK_EINVAL, "%s: %s=%g is not in %g..%g", op, name, v, in->lo, in->hi);
    *out = (uint32_t)v;
    return 0;
}

static int rand_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    static const char op[] = "rand_augment";
    struct policy *s = state;

    STK_TRY(stk_spec_geometry(spec, op, err));
    STK_TRY(plan_whole(args, op, "n", &(stk_range){ 0, MAX_N }, &s->n, err));
    STK_TRY(plan_whole(args, op, "bins", &(stk_range){ 2, MAX_BINS }, &s->bins, err));
    STK_TRY(plan_whole(args, op, "m", &(stk_range){ 0, s->bins - 1 }, &s->m, err));
    return plan_move(s, args, op, err);
}

static int trivial_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    static const char op[] = "trivial_augment";
    struct policy *s = state;

    STK_TRY(stk_spec_geometry(spec, op, err));
    STK_TRY(plan_whole(args, op, "bins", &(stk_range){ 2, MAX_BINS }, &s->bins, err));
    return plan_move(s, args, op, err);
}

static const struct part imagenet[25][2] = {
    { { POSTERIZE, 4, 8 }, { ROTATE, 6, 9 } },  { { SOLARIZE, 6, 5 }, { AUTOCONTRAST, 6, 0 } },
    { { EQUALIZE, 8, 0 }, { EQUALIZE, 6, 0 } }, { { POSTERIZE, 6, 7 }, { POSTERIZE, 6, 6 } },
    { { EQUALIZE, 4, 0 }, { SOLARIZE, 2, 4 } }, { { EQUALIZE, 4, 0 }, { ROTATE, 8, 8 } },
    { { SOLARIZE, 6, 3 }, { EQUALIZE, 6, 0 } }, { { POSTERIZE, 8, 5 }, { EQUALIZE, 10, 0 } },
    { { ROTATE, 2, 3 }, { SOLARIZE, 6, 8 } },   { { EQUALIZE, 6, 0 }, { POSTERIZE, 4, 6 } },
    { { ROTATE, 8, 8 }, { COLOR, 4, 0 } },      { { ROTATE, 4, 9 }, { EQUALIZE, 6, 0 } },
    { { EQUALIZE, 0, 0 }, { EQUALIZE, 8, 0 } }, { { INVERT, 6, 0 }, { EQUALIZE, 10, 0 } },
    { { COLOR, 6, 4 }, { CONTRAST, 10, 8 } },   { { ROTATE, 8, 8 }, { COLOR, 10, 2 } },
    { { COLOR, 8, 8 }, { SOLARIZE, 8, 7 } },    { { SHARPNESS, 4, 7 }, { INVERT, 6, 0 } },
    { { SHEAR_X, 6, 5 }, { EQUALIZE, 10, 0 } }, { { COLOR, 4, 0 }, { EQUALIZE, 6, 0 } },
    { { EQUALIZE, 4, 0 }, { SOLARIZE, 2, 4 } }, { { SOLARIZE, 6, 5 }, { AUTOCONTRAST, 6, 0 } },
    { { INVERT, 6, 0 }, { EQUALIZE, 10, 0 } },  { { COLOR, 6, 4 }, { CONTRAST, 10, 8 } },
    { { EQUALIZE, 8, 0 }, { EQUALIZE, 6, 0 } },
};

static const struct part cifar10[25][2] = {
    { { INVERT, 1, 0 }, { CONTRAST, 2, 6 } },
    { { ROTATE, 7, 2 }, { TRANSLATE_X, 3, 9 } },
    { { SHARPNESS, 8, 1 }, { SHARPNESS, 9, 3 } },
    { { SHEAR_Y, 5, 8 }, { TRANSLATE_Y, 7, 9 } },
    { { AUTOCONTRAST, 5, 0 }, { EQUALIZE, 9, 0 } },
    { { SHEAR_Y, 2, 7 }, { POSTERIZE, 3, 7 } },
    { { COLOR, 4, 3 }, { BRIGHTNESS, 6, 7 } },
    { { SHARPNESS, 3, 9 }, { BRIGHTNESS, 7, 9 } },
    { { EQUALIZE, 6, 0 }, { EQUALIZE, 5, 0 } },
    { { CONTRAST, 6, 7 }, { SHARPNESS, 6, 5 } },
    { { COLOR, 7, 7 }, { TRANSLATE_X, 5, 8 } },
    { { EQUALIZE, 3, 0 }, { AUTOCONTRAST, 4, 0 } },
    { { TRANSLATE_Y, 4, 3 }, { SHARPNESS, 2, 6 } },
    { { BRIGHTNESS, 9, 6 }, { COLOR, 2, 8 } },
    { { SOLARIZE, 5, 2 }, { INVERT, 0, 0 } },
    { { EQUALIZE, 2, 0 }, { AUTOCONTRAST, 6, 0 } },
    { { EQUALIZE, 2, 0 }, { EQUALIZE, 6, 0 } },
    { { COLOR, 9, 9 }, { EQUALIZE, 6, 0 } },
    { { AUTOCONTRAST, 8, 0 }, { SOLARIZE, 2, 8 } },
    { { BRIGHTNESS, 1, 3 }, { COLOR, 7, 0 } },
    { { SOLARIZE, 4, 5 }, { AUTOCONTRAST, 9, 0 } },
    { { TRANSLATE_Y, 9, 9 }, { TRANSLATE_Y, 7, 9 } },
    { { AUTOCONTRAST, 9, 0 }, { SOLARIZE, 8, 3 } },
    { { EQUALIZE, 8, 0 }, { INVERT, 1, 0 } },
    { { TRANSLATE_Y, 7, 9 }, { AUTOCONTRAST, 9, 0 } },
};

static const struct part svhn[25][2] = {
    { { SHEAR_X, 9, 4 }, { INVERT, 2, 0 } },       { { SHEAR_Y, 9, 8 }, { INVERT, 7, 0 } },
    { { EQUALIZE, 6, 0 }, { SOLARIZE, 6, 6 } },    { { INVERT, 9, 0 }, { EQUALIZE, 6, 0 } },
    { { EQUALIZE, 6, 0 }, { ROTATE, 9, 3 } },      { { SHEAR_X, 9, 4 }, { AUTOCONTRAST, 8, 0 } },
    { { SHEAR_Y, 9, 8 }, { INVERT, 4, 0 } },       { { SHEAR_Y, 9, 5 }, { SOLARIZE, 2, 6 } },
    { { INVERT, 9, 0 }, { AUTOCONTRAST, 8, 0 } },  { { EQUALIZE, 6, 0 }, { ROTATE, 9, 3 } },
    { { SHEAR_X, 9, 4 }, { SOLARIZE, 3, 3 } },     { { SHEAR_Y, 8, 8 }, { INVERT, 7, 0 } },
    { { EQUALIZE, 9, 0 }, { TRANSLATE_Y, 6, 6 } }, { { INVERT, 9, 0 }, { EQUALIZE, 6, 0 } },
    { { CONTRAST, 3, 3 }, { ROTATE, 8, 4 } },      { { INVERT, 8, 0 }, { TRANSLATE_Y, 0, 2 } },
    { { SHEAR_Y, 7, 6 }, { SOLARIZE, 4, 8 } },     { { INVERT, 6, 0 }, { ROTATE, 8, 4 } },
    { { SHEAR_Y, 3, 7 }, { TRANSLATE_X, 9, 3 } },  { { SHEAR_X, 1, 6 }, { INVERT, 6, 0 } },
    { { SOLARIZE, 7, 2 }, { TRANSLATE_Y, 6, 7 } }, { { SHEAR_Y, 8, 4 }, { INVERT, 8, 0 } },
    { { SHEAR_X, 7, 9 }, { TRANSLATE_Y, 8, 3 } },  { { SHEAR_Y, 8, 5 }, { AUTOCONTRAST, 7, 0 } },
    { { SHEAR_X, 7, 2 }, { INVERT, 1, 0 } },
};

static int auto_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    static const char op[] = "auto_augment";
    const char *name = stk_args_str(args, "policy");
    struct policy *s = state;

    STK_TRY(stk_spec_geometry(spec, op, err));
    s->parts = !strcmp(name, "imagenet")  ? imagenet
               : !strcmp(name, "cifar10") ? cifar10
               : !strcmp(name, "svhn")    ? svhn
                                          : NULL;
    if (!s->parts)
        return stk_fail(err, STK_EINVAL, "%s: policy is imagenet, cifar10 or svhn, not %s", op,
                        name);
    s->bins = 10;
    return plan_move(s, args, op, err);
}

#define MOVES                                                                                      \
    { "interpolation", STK_ARG_NAME, "nearest", "nearest or bilinear, where pixels move" },        \
        { "fill", STK_ARG_FLOATS, "0", "what comes in from outside: one number or three" },        \
        { "p", STK_ARG_FLOAT, "1", "how often" },                                                  \
    {                                                                                              \
        0                                                                                          \
    }

static const stk_arg rand_args[] = {
    { "n", STK_ARG_INT, "2", "ops one after the other" },
    { "m", STK_ARG_INT, "9", "how strong each is: a bin" },
    { "bins", STK_ARG_INT, "31", "of strength" },
    MOVES,
};
static const stk_arg trivial_args[] = {
    { "bins", STK_ARG_INT, "31", "of strength, of which one is drawn" },
    MOVES,
};
static const stk_arg auto_args[] = {
    { "policy", STK_ARG_NAME, "imagenet", "imagenet, cifar10 or svhn" },
    MOVES,
};

#define OP(id, text, arg_table, plan_fn, act_fn)                                                   \
    const stk_op stk_op_##id = { .abi = STK_PLUGIN_ABI,                                            \
                                 .size = sizeof(stk_op),                                           \
                                 .name = #id,                                                      \
                                 .help = text,                                                     \
                                 .args = arg_table,                                                \
                                 .state_size = sizeof(struct policy),                              \
                                 .plan = plan_fn,                                                  \
                                 .act = act_fn,                                                    \
                                 .can = STK_OP_WARP | STK_OP_POINT | STK_OP_NEAR | STK_OP_STATS |  \
                                        STK_OP_GPU }
OP(rand_augment, "n of fourteen ops at one strength", rand_args, rand_plan, rand_act);
OP(trivial_augment, "one of fourteen ops at any strength", trivial_args, trivial_plan, trivial_act);
OP(auto_augment, "one of 25 learned pairs of ops", auto_args, auto_plan, auto_act);

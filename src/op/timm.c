/* SPDX-License-Identifier: Apache-2.0 */
/* timm_rand_augment, timm_auto_augment, timm_augmix - the policies of timm.data.auto_augment: its
 * ops, its strengths of 0 to 10 with noise (mstd), its fill, and a filter that is drawn for each
 * op.
 *
 * Given the same numbers, pixels are those of timm's functions, which are Pillow's (kern/pil.h). */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "kern/normal.h"
#include "kern/pil.h"
#include "kern/tile.h"
#include "op/random.h"

#define MAX_N STK_OP_ACTS
#define LEVELS 10.0      /* what timm divides a strength by */
#define UNIFORM_FROM 100 /* an mstd beyond it: strengths are uniform */

enum { /* the first fifteen in timm's order: _RAND_TRANSFORMS */
       AUTOCONTRAST,
       EQUALIZE,
       INVERT,
       ROTATE,
       POSTERIZE,
       SOLARIZE,
       SOLARIZE_ADD,
       COLOR,
       CONTRAST,
       BRIGHTNESS,
       SHARPNESS,
       SHEAR_X,
       SHEAR_Y,
       TRANSLATE_X,
       TRANSLATE_Y,
       N_OPS,
       DESATURATE = N_OPS, /* these two are in lists that are named 3a */
       BLUR,
       N_ALL,
       BLUR_RANDOM = N_ALL, /* GaussianBlurRand */
       POSTERIZE_UP,        /* PosterizeIncreasing */
       POSTERIZE_HIGH       /* PosterizeOriginal */
};
#define BLUR_PASSES 3 /* Pillow's, each way */
#define BLUR_ACTS (2 * BLUR_PASSES)

struct part { /* of a policy: an op, how often in tenths, its strength */
    uint8_t op, often, level;
};

struct timm {
    double m, mstd, mmax, p, translate;
    uint32_t n, fill;
    int filter;              /* -1: drawn for each op */
    int increasing;          /* ops get stronger with m */
    const uint8_t *list;     /* RandAugment: of n_list ops one is drawn; NULL: of all, ... */
    const uint16_t *weights; /* ... or by weight, each op once */
    uint32_t n_list;
    const struct part (*parts)[2];
    uint32_t n_parts;
    uint32_t width, depth; /* AugMix: versions, and ops of each; depth 0: 1 to 3 */
};

/* ---- an op of its strength ---- */

/* What is drawn for one op, in timm's order. */
typedef struct drawn {
    const struct timm *s;
    stk_rng *rng;
    const stk_view *canvas;
} drawn;

static double level_of(const drawn *d, double m)
{
    double level = m;

    if (d->s->mstd > UNIFORM_FROM)
        level = m * stk_rng_unit(d->rng);
    else if (d->s->mstd > 0)
        level = m + d->s->mstd * (double)stk_normal_pair(stk_rng_u32(d->rng)).a;
    level = level < d->s->mmax ? level : d->s->mmax;
    return level > 0 ? level : 0;
}

static double either(const drawn *d, double v)
{
    return stk_rng_u32(d->rng) & 1 ? -v : v;
}

static double rounded15(double v)
{
    return nearbyint(v * 1e15) / 1e15;
}

static stk_action moved(const drawn *d, uint32_t map, double v, double w)
{
    stk_action out = { .code = STK_ACT_PIL_WARP, .n = 10 };
    stk_pil_number a = { .d = v }, b = { .d = w };
    int filter = d->s->filter;

    memcpy(out.v.u, a.u, sizeof a.u);
    memcpy(out.v.u + 2, b.u, sizeof b.u);
    out.v.u[4] = map;
    if (filter < 0)
        filter = stk_rng_u32(d->rng) & 1 ? STK_BICUBIC : STK_BILINEAR;
    out.v.u[8] = (uint32_t)filter;
    out.v.u[9] = d->s->fill;
    return out;
}

/* The sum of (-q)^i / (first + 2 i)! * first!, from the smallest term on: of a sine or a cosine. */
static double series(double q, int first)
{
    double sum = 1;

    for (int i = first + 20; i > first; i -= 2)
        sum = 1 - sum * q / (i * (i - 1));
    return sum;
}

/* Of the angle that Pillow's rotate() takes: -radians(degrees % 360), its roundoff included.  The
 * same bits on every machine. */
static void sincos_of(double degrees, double *sine, double *cosine)
{
    double a = fmod(degrees, 360), r, x, s, c, k;

    a = a < 0 ? a + 360 : a;
    r = -(a * (3.14159265358979323846 / 180));
    k = nearbyint(r / 1.57079632679489661923);
    x = r - k * 1.57079632673412561417; /* the first 33 bits of a quarter: exact */
    x -= k * 6.07710050650619224932e-11;
    s = x * series(x * x, 1);
    c = series(x * x, 0);
    switch ((int)k & 3) {
    case 0: *sine = s, *cosine = c; break;
    case 1: *sine = c, *cosine = -s; break;
    case 2: *sine = -s, *cosine = -c; break;
    default: *sine = -c, *cosine = s;
    }
}

static stk_action rotated(const drawn *d, double degrees)
{
    double sine, cosine;

    sincos_of(degrees, &sine, &cosine);
    return moved(d, STK_PIL_ROTATE, rounded15(cosine), rounded15(sine));
}

/* ImageEnhance: from 0.1 to 1.9; increasing: away from 1, either way. */
static stk_action enhanced(const drawn *d, uint16_t code, double level)
{
    stk_action out = { .code = code, .n = 1 };
    double factor = level / LEVELS * 1.8 + 0.1;

    if (d->s->increasing) {
        factor = 1.0 + either(d, level / LEVELS * .9);
        factor = factor > 0.1 ? factor : 0.1;
    }
    out.v.f[0] = (float)factor;
    return out;
}

static stk_action by_bits(uint16_t code, uint32_t a, uint32_t b)
{
    stk_action out = { .code = code, .n = 2 };

    out.v.u[0] = a;
    out.v.u[1] = b;
    return out;
}

static stk_action posterized(int64_t bits)
{
    return by_bits(STK_ACT_posterize, bits >= 8 ? 255 : bits <= 0 ? 0 : 255 & ~(255u >> bits), 0);
}

static stk_action solarized(const drawn *d, double level)
{
    int64_t from = (int64_t)(level / LEVELS * 256);

    from = from < 256 ? from : 256;
    return by_bits(STK_ACT_solarize, (uint32_t)(d->s->increasing ? 256 - from : from), 0);
}

static stk_action added(double level)
{
    int64_t add = (int64_t)(level / LEVELS * 110);

    return by_bits(STK_ACT_SOLARIZE_ADD, (uint32_t)(add < 128 ? add : 128), 128);
}

/* ImageEnhance.Color: from half of the color to none. */
static stk_action grayed(double level)
{
    stk_action out = { .code = STK_ACT_pil_saturation, .n = 1 };
    double by = 0.5 + (1.0 - 0.5) * (level / LEVELS);

    by = 1. - (by < 1 ? by : 1);
    out.v.f[0] = (float)(by > 0 ? by : 0);
    return out;
}

/* Pillow's GaussianBlur: boxes whose side need not be whole (ImagingGaussianBlur, in floats). */
static uint32_t blurred(float radius, stk_action *out)
{
    float sigma2 = radius * radius / BLUR_PASSES, side = (float)sqrt(12.0 * (double)sigma2 + 1.0);
    float l = (float)floor(((double)side - 1.0) / 2.0), a, half;
    uint32_t whole, ww;

    a = (2 * l + 1) * (l * (l + 1) - 3 * sigma2);
    a /= 6 * (sigma2 - (l + 1) * (l + 1));
    half = l + a;
    whole = (uint32_t)half;
    ww = (uint32_t)((float)(1u << 24) / (half * 2 + 1));
    for (uint32_t i = 0; i < BLUR_ACTS; i++) {
        out[i] = (stk_action){ .code = STK_ACT_PIL_BOX, .n = 4 };
        out[i].v.u[0] = whole;
        out[i].v.u[1] = ww;
        out[i].v.u[2] = ((1u << 24) - (whole * 2 + 1) * ww) / 2;
        out[i].v.u[3] = i >= BLUR_PASSES;
    }
    return BLUR_ACTS;
}

static stk_action act_of(const drawn *d, uint32_t op, double level)
{
    int64_t bits = (int64_t)(level / LEVELS * 4);
    double by = level / LEVELS;

    switch (op) {
    case DESATURATE: return grayed(level);
    case AUTOCONTRAST: return (stk_action){ .code = STK_ACT_PIL_AUTOCONTRAST };
    case EQUALIZE: return (stk_action){ .code = STK_ACT_EQUALIZE };
    case INVERT: return (stk_action){ .code = STK_ACT_invert };
    case ROTATE: return rotated(d, either(d, by * 30.));
    case POSTERIZE: return posterized(d->s->increasing ? 4 - bits : bits);
    case POSTERIZE_UP: return posterized(4 - bits);
    case POSTERIZE_HIGH: return posterized(bits + 4);
    case SOLARIZE: return solarized(d, level);
    case SOLARIZE_ADD: return added(level);
    case COLOR: return enhanced(d, STK_ACT_pil_saturation, level);
    case CONTRAST: return enhanced(d, STK_ACT_PIL_CONTRAST, level);
    case BRIGHTNESS: return enhanced(d, STK_ACT_PIL_BRIGHTNESS, level);
    case SHARPNESS: return enhanced(d, STK_ACT_PIL_SHARPNESS, level);
    case SHEAR_X: return moved(d, STK_PIL_SHEAR_X, either(d, by * 0.3), 0);
    case SHEAR_Y: return moved(d, STK_PIL_SHEAR_Y, either(d, by * 0.3), 0);
    case TRANSLATE_X:
        return moved(d, STK_PIL_MOVE_X, either(d, by * d->s->translate) * d->canvas->vis_w, 0);
    default: return moved(d, STK_PIL_MOVE_Y, either(d, by * d->s->translate) * d->canvas->vis_h, 0);
    }
}

/* How many actions that is. */
static uint32_t put_op(const drawn *d, uint32_t op, double level, stk_action *out)
{
    double by = level < LEVELS ? level / LEVELS : 1;

    if (op == BLUR)
        return blurred((float)(0.1 + (2.0 - 0.1) * by), out);
    if (op == BLUR_RANDOM)
        return blurred((float)(0.1 + (2.0 * by - 0.1) * stk_rng_unit(d->rng)), out);
    *out = act_of(d, op, level);
    return 1;
}

/* ---- the three ---- */

/* timm's _RAND_WEIGHTED_0, in hundredths. */
static const uint16_t weighted_0[N_ALL] = {
    [ROTATE] = 300, [SHEAR_X] = 200,  [SHEAR_Y] = 200,     [TRANSLATE_X] = 100, [TRANSLATE_Y] = 100,
    [COLOR] = 25,   [SHARPNESS] = 25, [AUTOCONTRAST] = 25, [SOLARIZE] = 5,      [SOLARIZE_ADD] = 5,
    [CONTRAST] = 5, [BRIGHTNESS] = 5, [EQUALIZE] = 5,      [POSTERIZE] = 5,     [INVERT] = 5
};

/* timm's _RAND_WEIGHTED_3A, and _RAND_3A. */
static const uint16_t weighted_3a[N_ALL] = {
    [SOLARIZE] = 6, [DESATURATE] = 6, [BLUR] = 6,         [ROTATE] = 3, [SHEAR_X] = 2,
    [SHEAR_Y] = 2,  [POSTERIZE] = 1,  [AUTOCONTRAST] = 1, [COLOR] = 1,  [SHARPNESS] = 1,
    [CONTRAST] = 1, [BRIGHTNESS] = 1, [EQUALIZE] = 1,     [INVERT] = 1
};
static const uint8_t list_3a[] = { SOLARIZE, DESATURATE, BLUR };

/* One that is not in `taken` yet, by its weight. */
static uint32_t weighted(const uint16_t *weights, stk_rng *rng, uint32_t taken)
{
    uint32_t total = 0, at, op = 0;

    for (uint32_t i = 0; i < N_ALL; i++)
        total += taken >> i & 1 ? 0 : weights[i];
    at = stk_rng_below(rng, total);
    for (;; op++) {
        uint32_t w = taken >> op & 1 ? 0 : weights[op];

        if (at < w)
            return op;
        at -= w;
    }
}

static uint32_t rand_act(const void *state, stk_rng *rng, const stk_view *canvas, stk_action *out)
{
    const struct timm *s = state;
    const drawn d = { s, rng, canvas };
    uint32_t n = 0, taken = 0;

    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t op = s->weights ? weighted(s->weights, rng, taken) : stk_rng_below(rng, s->n_list);

        op = s->list ? s->list[op] : op;
        taken |= 1u << op;
        if (stk_hits(rng, s->p))
            n += put_op(&d, op, level_of(&d, s->m), out + n);
    }
    return n;
}

static uint32_t auto_act(const void *state, stk_rng *rng, const stk_view *canvas, stk_action *out)
{
    const struct timm *s = state;
    const drawn d = { s, rng, canvas };
    const struct part *part = s->parts[stk_rng_below(rng, s->n_parts)];
    uint32_t n = 0;

    for (int i = 0; i < 2; i++)
        if (stk_hits(rng, part[i].often / 10.0))
            n += put_op(&d, part[i].op, level_of(&d, part[i].level), out + n);
    return n;
}

/* One version of the picture, and its weight. */
static uint32_t version(const drawn *d, float weight, stk_action *out)
{
    static const uint8_t ops[] = { AUTOCONTRAST, COLOR,       CONTRAST,   BRIGHTNESS, SHARPNESS,
                                   EQUALIZE,     ROTATE,      POSTERIZE,  SOLARIZE,   SHEAR_X,
                                   SHEAR_Y,      TRANSLATE_X, TRANSLATE_Y };
    uint32_t n = d->s->depth ? d->s->depth : 1 + stk_rng_below(d->rng, 3);

    for (uint32_t i = 0; i < n; i++) {
        out[i] = act_of(d, ops[stk_rng_below(d->rng, sizeof ops)], level_of(d, d->s->m));
        if (out[i].code == STK_ACT_PIL_WARP)
            out[i].code = STK_ACT_MIX_WARP;
    }
    out[n] = (stk_action){ .code = STK_ACT_MIX_ADD, .n = 1 };
    out[n].v.f[0] = weight;
    return n + 1;
}

/* Dirichlet's and Beta's numbers with alpha = 1: exponential ones over their sum, and a uniform
 * one. */
static uint32_t mix_act(const void *state, stk_rng *rng, const stk_view *canvas, stk_action *out)
{
    const struct timm *s = state;
    const drawn d = { s, rng, canvas };
    double share[MAX_N], total = 0;
    uint32_t n = 1;

    *out = (stk_action){ .code = STK_ACT_MIX_BEGIN };
    for (uint32_t i = 0; i < s->width; i++)
        total += share[i] = (double)stk_minus_2ln(stk_rng_u32(rng) >> 16);
    for (uint32_t i = 0; i < s->width; i++)
        n += version(&d, (float)(share[i] / total), out + n);
    out[n] = (stk_action){ .code = STK_ACT_MIX_END, .n = 1 };
    out[n].v.f[0] = (float)stk_rng_unit(rng);
    return n + 1;
}

/* ---- plan ---- */

static int plan_number(const stk_args *args, const char *op, const char *name, stk_range in,
                       double *out, stk_error *err)
{
    *out = stk_args_f64(args, name);
    if (!(*out >= in.lo && *out <= in.hi))
        return stk_fail(err, STK_EINVAL, "%s: %s=%g is not in %g..%g", op, name, *out, in.lo,
                        in.hi);
    return 0;
}

static int plan_filter(struct timm *s, const stk_args *args, const char *op, stk_error *err)
{
    const char *how = stk_args_str(args, "interpolation");

    s->filter = !how                       ? -2
                : !strcmp(how, "random")   ? -1
                : !strcmp(how, "bilinear") ? STK_BILINEAR
                : !strcmp(how, "bicubic")  ? STK_BICUBIC
                                           : -2;
    if (s->filter == -2)
        return stk_fail(err, STK_EINVAL, "%s: interpolation is random, bilinear or bicubic, not %s",
                        op, how ? how : "a number");
    return 0;
}

static int plan_shared(struct timm *s, const stk_args *args, const char *op, stk_error *err)
{
    STK_TRY(plan_number(args, op, "mstd", (stk_range){ 0, 1e9 }, &s->mstd, err));
    STK_TRY(plan_number(args, op, "mmax", (stk_range){ 0.001, 1000 }, &s->mmax, err));
    STK_TRY(plan_number(args, op, "translate", (stk_range){ 0, 10 }, &s->translate, err));
    STK_TRY(plan_filter(s, args, op, err));
    return stk_arg_fill(args, op, &s->fill, err);
}

/* Lists of RandAugment.  Those that draw by weight have each op once, and a blur is six actions. */
static const struct list {
    const char *name;
    const uint8_t *list;
    const uint16_t *weights;
    uint32_t n, most; /* most: ops, one after the other */
    int increasing;
} lists[] = { { "all", NULL, NULL, N_OPS, MAX_N, 0 },
              { "weights", NULL, weighted_0, 0, N_OPS, 1 },
              { "t3a", list_3a, NULL, sizeof list_3a, STK_OP_ACTS / BLUR_ACTS, 1 },
              { "t3aw", NULL, weighted_3a, 0, STK_OP_ACTS - BLUR_ACTS + 1, 1 } };

static int rand_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    static const char op[] = "timm_rand_augment";
    const char *which = stk_args_str(args, "transforms");
    const struct list *found = NULL;
    struct timm *s = state;
    double n;

    STK_TRY(stk_spec_geometry(spec, op, err));
    STK_TRY(plan_number(args, op, "m", (stk_range){ 0, 1000 }, &s->m, err));
    STK_TRY(plan_number(args, op, "n", (stk_range){ 0, MAX_N }, &n, err));
    STK_TRY(stk_arg_p(args, op, &s->p, err));
    s->n = (uint32_t)n;
    for (const struct list *l = lists; !found && l < lists + sizeof lists / sizeof *lists; l++)
        found = which && !strcmp(which, l->name) ? l : NULL;
    if (!found)
        return stk_fail(err, STK_EINVAL, "%s: transforms is all, weights, t3a or t3aw, not %s", op,
                        which ? which : "a number");
    if (s->n > found->most)
        return stk_fail(err, STK_EINVAL, "%s: transforms=%s: n is at most %u", op, which,
                        found->most);
    s->weights = found->weights;
    s->list = found->list;
    s->n_list = found->n;
    s->increasing = found->increasing || stk_args_bool(args, "increasing");
    return plan_shared(s, args, op, err);
}

static int mix_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    static const char op[] = "timm_augmix";
    struct timm *s = state;
    double width, depth;

    STK_TRY(stk_spec_geometry(spec, op, err));
    STK_TRY(plan_number(args, op, "m", (stk_range){ 0, 1000 }, &s->m, err));
    STK_TRY(plan_number(args, op, "width", (stk_range){ 1, MAX_N }, &width, err));
    STK_TRY(plan_number(args, op, "depth", (stk_range){ 0, MAX_N }, &depth, err));
    s->width = (uint32_t)width;
    s->depth = (uint32_t)depth;
    if (2 + s->width * (1 + (s->depth ? s->depth : 3)) > STK_OP_ACTS)
        return stk_fail(err, STK_EINVAL,
                        "%s: width=%u and depth=%u are more than %d ops: width * (depth + 1) is at "
                        "most %d",
                        op, s->width, s->depth, STK_OP_ACTS, STK_OP_ACTS - 2);
    s->increasing = 1;
    return plan_shared(s, args, op, err);
}

#define V0(posterize)                                                                              \
    {                                                                                              \
        { { EQUALIZE, 8, 1 }, { SHEAR_Y, 8, 4 } }, { { COLOR, 4, 9 }, { EQUALIZE, 6, 3 } },        \
            { { COLOR, 4, 1 }, { ROTATE, 6, 8 } }, { { SOLARIZE, 8, 3 }, { EQUALIZE, 4, 7 } },     \
            { { SOLARIZE, 4, 2 }, { SOLARIZE, 6, 2 } }, { { COLOR, 2, 0 }, { EQUALIZE, 8, 8 } },   \
            { { EQUALIZE, 4, 8 }, { SOLARIZE_ADD, 8, 3 } },                                        \
            { { SHEAR_X, 2, 9 }, { ROTATE, 6, 8 } }, { { COLOR, 6, 1 }, { EQUALIZE, 10, 2 } },     \
            { { INVERT, 4, 9 }, { ROTATE, 6, 0 } }, { { EQUALIZE, 10, 9 }, { SHEAR_Y, 6, 3 } },    \
            { { COLOR, 4, 7 }, { EQUALIZE, 6, 0 } },                                               \
            { { posterize, 4, 6 }, { AUTOCONTRAST, 4, 7 } },                                       \
            { { SOLARIZE, 6, 8 }, { COLOR, 6, 9 } }, { { SOLARIZE, 2, 4 }, { ROTATE, 8, 9 } },     \
            { { ROTATE, 10, 7 }, { TRANSLATE_Y, 8, 9 } },                                          \
            { { SHEAR_X, 0, 0 }, { SOLARIZE, 8, 4 } }, { { SHEAR_Y, 8, 0 }, { COLOR, 6, 4 } },     \
            { { COLOR, 10, 0 }, { ROTATE, 6, 2 } }, { { EQUALIZE, 8, 4 }, { EQUALIZE, 0, 8 } },    \
            { { EQUALIZE, 10, 4 }, { AUTOCONTRAST, 6, 2 } },                                       \
            { { SHEAR_Y, 4, 7 }, { SOLARIZE_ADD, 6, 7 } },                                         \
            { { posterize, 8, 2 }, { SOLARIZE, 6, 10 } },                                          \
            { { SOLARIZE, 6, 8 }, { EQUALIZE, 6, 1 } }, { { COLOR, 8, 6 }, { ROTATE, 4, 5 } },     \
    }

#define ORIGINAL(posterize)                                                                        \
    {                                                                                              \
        { { posterize, 4, 8 }, { ROTATE, 6, 9 } }, { { SOLARIZE, 6, 5 }, { AUTOCONTRAST, 6, 5 } }, \
            { { EQUALIZE, 8, 8 }, { EQUALIZE, 6, 3 } },                                            \
            { { posterize, 6, 7 }, { posterize, 6, 6 } },                                          \
            { { EQUALIZE, 4, 7 }, { SOLARIZE, 2, 4 } }, { { EQUALIZE, 4, 4 }, { ROTATE, 8, 8 } },  \
            { { SOLARIZE, 6, 3 }, { EQUALIZE, 6, 7 } },                                            \
            { { posterize, 8, 5 }, { EQUALIZE, 10, 2 } },                                          \
            { { ROTATE, 2, 3 }, { SOLARIZE, 6, 8 } }, { { EQUALIZE, 6, 8 }, { posterize, 4, 6 } }, \
            { { ROTATE, 8, 8 }, { COLOR, 4, 0 } }, { { ROTATE, 4, 9 }, { EQUALIZE, 6, 2 } },       \
            { { EQUALIZE, 0, 7 }, { EQUALIZE, 8, 8 } }, { { INVERT, 6, 4 }, { EQUALIZE, 10, 8 } }, \
            { { COLOR, 6, 4 }, { CONTRAST, 10, 8 } }, { { ROTATE, 8, 8 }, { COLOR, 10, 2 } },      \
            { { COLOR, 8, 8 }, { SOLARIZE, 8, 7 } }, { { SHARPNESS, 4, 7 }, { INVERT, 6, 8 } },    \
            { { SHEAR_X, 6, 5 }, { EQUALIZE, 10, 9 } }, { { COLOR, 4, 0 }, { EQUALIZE, 6, 3 } },   \
            { { EQUALIZE, 4, 7 }, { SOLARIZE, 2, 4 } },                                            \
            { { SOLARIZE, 6, 5 }, { AUTOCONTRAST, 6, 5 } },                                        \
            { { INVERT, 6, 4 }, { EQUALIZE, 10, 8 } }, { { COLOR, 6, 4 }, { CONTRAST, 10, 8 } },   \
            { { EQUALIZE, 8, 8 }, { EQUALIZE, 6, 3 } },                                            \
    }

static const struct part v0[25][2] = V0(POSTERIZE), v0r[25][2] = V0(POSTERIZE_UP),
                         original[25][2] = ORIGINAL(POSTERIZE_HIGH),
                         originalr[25][2] = ORIGINAL(POSTERIZE_UP),
                         three[3][2] = { { { SOLARIZE, 10, 5 } },
                                         { { DESATURATE, 10, 10 } },
                                         { { BLUR_RANDOM, 10, 10 } } };

static int auto_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    static const char op[] = "timm_auto_augment";
    const char *name = stk_args_str(args, "policy");
    struct timm *s = state;

    STK_TRY(stk_spec_geometry(spec, op, err));
    s->parts = !name                        ? NULL
               : !strcmp(name, "v0")        ? v0
               : !strcmp(name, "v0r")       ? v0r
               : !strcmp(name, "original")  ? original
               : !strcmp(name, "originalr") ? originalr
               : !strcmp(name, "t3a")       ? three
                                            : NULL;
    s->n_parts = s->parts == three ? 3 : 25;
    if (!s->parts)
        return stk_fail(err, STK_EINVAL,
                        "%s: policy is v0, v0r, original, originalr or t3a, not %s", op,
                        name ? name : "a number");
    return plan_shared(s, args, op, err);
}

#define SHARED(noise, moves)                                                                       \
    { "mstd", STK_ARG_FLOAT, noise, "deviation of m; above 100: m is drawn from 0 to m" },         \
        { "mmax", STK_ARG_FLOAT, "10", "m is at most this" },                                      \
        { "fill", STK_ARG_FLOATS, "128", "what comes in from outside: one number or three" },      \
        { "interpolation", STK_ARG_NAME, "random",                                                 \
          "bilinear, bicubic, or random: one of these for each op" },                              \
        { "translate", STK_ARG_FLOAT, moves, "of a side, at m = 10" },                             \
    {                                                                                              \
        0                                                                                          \
    }

static const stk_arg rand_args[] = {
    { "m", STK_ARG_FLOAT, "10", "how strong each op is, of 10" },
    { "n", STK_ARG_INT, "2", "ops one after the other" },
    { "p", STK_ARG_FLOAT, "0.5", "how often each of them is done" },
    { "increasing", STK_ARG_BOOL, "false", "all ops get stronger with m (inc1)" },
    { "transforms", STK_ARG_NAME, "all",
      "all: fifteen, evenly; weights: by weight, each once; t3a, t3aw: timm's lists 3a and 3aw" },
    SHARED("0", "0.45"),
};
static const stk_arg auto_args[] = {
    { "policy", STK_ARG_NAME, "v0", "v0, v0r, original, originalr or t3a" },
    SHARED("0", "0.45"),
};

static const stk_arg mix_args[] = {
    { "m", STK_ARG_FLOAT, "3", "how strong each op is, of 10" },
    { "width", STK_ARG_INT, "3", "versions that are mixed" },
    { "depth", STK_ARG_INT, "0", "ops of each version; 0: 1 to 3, drawn" },
    SHARED("1000", "0.3"),
};

#define OP(id, text, arg_table, plan_fn, act_fn, where)                                            \
    const stk_op stk_op_##id = { .abi = STK_PLUGIN_ABI,                                            \
                                 .size = sizeof(stk_op),                                           \
                                 .name = #id,                                                      \
                                 .help = text,                                                     \
                                 .args = arg_table,                                                \
                                 .state_size = sizeof(struct timm),                                \
                                 .plan = plan_fn,                                                  \
                                 .act = act_fn,                                                    \
                                 .can = STK_OP_POINT | STK_OP_NEAR | STK_OP_STATS | (where) }
OP(timm_rand_augment, "timm's RandAugment: n of fifteen ops", rand_args, rand_plan, rand_act,
   STK_OP_WARP | STK_OP_GPU);
OP(timm_auto_augment, "timm's AutoAugment: one of 25 pairs of ops, or of three ops", auto_args,
   auto_plan, auto_act, STK_OP_WARP | STK_OP_GPU);
OP(timm_augmix, "timm's AugMix: several versions of a picture, mixed", mix_args, mix_plan, mix_act,
   STK_OP_GPU);

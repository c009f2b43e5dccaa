/* SPDX-License-Identifier: Apache-2.0 */
/* warp.c - rotate, affine, perspective: torchvision's RandomRotation, RandomAffine and
 * RandomPerspective.
 *
 * Each draws its numbers as those classes do and gives the matrix that they give; angles go through
 * a sine of our own, so that the matrix has the same bits on every machine. */
#include <math.h>
#include <string.h>

#include "kern/tile.h"
#include "op/padding.h"
#include "op/random.h"

struct warp {
    stk_range degrees, scale, shear_x, shear_y;
    double translate[2], distortion, p;
    uint32_t filter, fill;
};

/* ---- angles ---- */

/* sin and cos of |x| <= pi / 4. */
static double sin_small(double x)
{
    double q = x * x;

    return x * (1 + q * (-1.0 / 6 +
                         q * (1.0 / 120 + q * (-1.0 / 5040 + q * (1.0 / 362880 +
                                                                  q * (-1.0 / 39916800 +
                                                                       q * (1.0 / 6227020800)))))));
}

static double cos_small(double x)
{
    double q = x * x;

    return 1 + q * (-1.0 / 2 +
                    q * (1.0 / 24 + q * (-1.0 / 720 + q * (1.0 / 40320 +
                                                           q * (-1.0 / 3628800 +
                                                                q * (1.0 / 479001600 +
                                                                     q * (-1.0 / 87178291200)))))));
}

static void sin_cos(double degrees, double *s, double *c)
{
    int64_t quarter = stk_round_even(degrees / 90);
    double x = (degrees - 90 * (double)quarter) * (3.14159265358979323846 / 180), a = sin_small(x),
           b = cos_small(x);

    switch (quarter & 3) {
    case 0: *s = a, *c = b; break;
    case 1: *s = b, *c = -a; break;
    case 2: *s = -a, *c = -b; break;
    default: *s = -b, *c = a;
    }
}

/* ---- arguments ---- */

/* v: -v to v; a pair is the range itself. */
static int arg_spread(const stk_args *args, const char *op, const char *name, double most,
                      stk_range *out, stk_error *err)
{
    uint32_t n = stk_args_count(args, name);
    double lo = stk_args_f64_at(args, name, 0), hi = stk_args_f64_at(args, name, n == 2 ? 1 : 0);

    if (n == 1)
        lo = -hi;
    if (n < 1 || n > 2 || !(lo <= hi && lo >= -most && hi <= most))
        return stk_fail(err, STK_EINVAL,
                        "%s: %s is one number, 0 or more, or (least, most), within %g", op, name,
                        most);
    *out = (stk_range){ lo, hi };
    return 0;
}

static int arg_sampling(const stk_args *args, const char *op, struct warp *w, stk_error *err)
{
    const char *name = stk_args_str(args, "interpolation");
    stk_padding by = { 0 };

    if (!name || (strcmp(name, "nearest") != 0 && strcmp(name, "bilinear") != 0))
        return stk_fail(err, STK_EINVAL, "%s: interpolation is nearest or bilinear, not %s", op,
                        name ? name : "a number");
    w->filter = name[0] == 'n' ? STK_NEAREST : STK_BILINEAR;
    STK_TRY(stk_spec_fill(args, op, &by, err));
    w->fill = by.fill[0] | (uint32_t)by.fill[1] << 8 | (uint32_t)by.fill[2] << 16;
    return 0;
}

static int rotate_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct warp *w = state;

    STK_TRY(stk_spec_geometry(spec, "rotate", err));
    STK_TRY(arg_spread(args, "rotate", "degrees", 3600, &w->degrees, err));
    STK_TRY(stk_spec_chance(args, "rotate", "p", &w->p, err));
    w->scale = (stk_range){ 1, 1 };
    return arg_sampling(args, "rotate", w, err);
}

static int affine_shear(const stk_args *args, struct warp *w, stk_error *err)
{
    if (stk_args_count(args, "shear") != 4)
        return arg_spread(args, "affine", "shear", 89, &w->shear_x, err);
    w->shear_x = (stk_range){ stk_args_f64_at(args, "shear", 0),
                              stk_args_f64_at(args, "shear", 1) };
    w->shear_y = (stk_range){ stk_args_f64_at(args, "shear", 2),
                              stk_args_f64_at(args, "shear", 3) };
    if (!(w->shear_x.lo <= w->shear_x.hi && w->shear_y.lo <= w->shear_y.hi &&
          w->shear_x.lo >= -89 && w->shear_x.hi <= 89 && w->shear_y.lo >= -89 &&
          w->shear_y.hi <= 89))
        return stk_fail(err, STK_EINVAL,
                        "affine: shear of four numbers is (x least, x most, y least, y most), "
                        "within 89");
    return 0;
}

static int affine_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct warp *w = state;

    STK_TRY(stk_spec_geometry(spec, "affine", err));
    STK_TRY(arg_spread(args, "affine", "degrees", 3600, &w->degrees, err));
    for (uint32_t i = 0; i < 2; i++) {
        w->translate[i] = stk_args_f64_at(args, "translate", i);
        if (stk_args_count(args, "translate") != 2 ||
            !(w->translate[i] >= 0 && w->translate[i] <= 1))
            return stk_fail(err, STK_EINVAL,
                            "affine: translate is (width, height), shares of 0..1");
    }
    STK_TRY(stk_arg_range(args, "affine", "scale", (stk_range){ 0.01, 100 }, &w->scale, err));
    STK_TRY(affine_shear(args, w, err));
    STK_TRY(stk_spec_chance(args, "affine", "p", &w->p, err));
    return arg_sampling(args, "affine", w, err);
}

static int perspective_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct warp *w = state;

    STK_TRY(stk_spec_geometry(spec, "perspective", err));
    STK_TRY(stk_spec_chance(args, "perspective", "distortion_scale", &w->distortion, err));
    STK_TRY(stk_spec_chance(args, "perspective", "p", &w->p, err));
    return arg_sampling(args, "perspective", w, err);
}

/* ---- matrices ---- */

typedef struct turn { /* torchvision's names */
    double angle, tx, ty, scale, shear_x, shear_y;
} turn;

/* The inverse of an affine map about the picture's middle: torchvision's
 * _get_inverse_affine_matrix, with the middle of the picture as the center. */
static void affine_matrix(const turn *t, double w, double h, float m[8])
{
    double s, c, sx, cx, sy, cy, a, b, cc, d, inv[4], x = w * 0.5, y = h * 0.5;

    sin_cos(t->angle - t->shear_y, &s, &c);
    sin_cos(t->shear_x, &sx, &cx);
    sin_cos(t->shear_y, &sy, &cy);
    a = c / cy;
    b = -c * (sx / cx) / cy;
    cc = s / cy;
    d = -s * (sx / cx) / cy;
    sin_cos(t->angle, &s, &c);
    b -= s;
    d += c;
    inv[0] = d / t->scale;
    inv[1] = -b / t->scale;
    inv[2] = -cc / t->scale;
    inv[3] = a / t->scale;
    m[0] = (float)inv[0];
    m[1] = (float)inv[1];
    m[2] = (float)(x - inv[0] * (x + t->tx) - inv[1] * (y + t->ty));
    m[3] = (float)inv[2];
    m[4] = (float)inv[3];
    m[5] = (float)(y - inv[2] * (x + t->tx) - inv[3] * (y + t->ty));
    m[6] = m[7] = 0;
}

/* Solve A x = b of eight unknowns; rows have b at their end.  0: there is no solution. */
static int solve(double A[8][9], double x[8])
{
    for (int k = 0; k < 8; k++) {
        int best = k;

        for (int i = k + 1; i < 8; i++)
            if (fabs(A[i][k]) > fabs(A[best][k]))
                best = i;
        if (fabs(A[best][k]) < 1e-12)
            return 0;
        for (int j = 0; j < 9; j++) {
            double swap = A[k][j];

            A[k][j] = A[best][j];
            A[best][j] = swap;
        }
        for (int i = k + 1; i < 8; i++) {
            double by = A[i][k] / A[k][k];

            for (int j = k; j < 9; j++)
                A[i][j] -= by * A[k][j];
        }
    }
    for (int k = 7; k >= 0; k--) {
        x[k] = A[k][8];
        for (int j = k + 1; j < 8; j++)
            x[k] -= A[k][j] * x[j];
        x[k] /= A[k][k];
    }
    return 1;
}

/* Corners `to` of the output show corners `from` of the picture: torchvision's
 * _get_perspective_coeffs. */
static int perspective_matrix(const double from[4][2], const double to[4][2], float m[8])
{
    double A[8][9] = { { 0 } }, x[8];

    for (int i = 0; i < 4; i++) {
        double *r = A[2 * i], *q = A[2 * i + 1];

        r[0] = q[3] = to[i][0];
        r[1] = q[4] = to[i][1];
        r[2] = q[5] = 1;
        for (int k = 0; k < 2; k++) {
            r[6 + k] = -from[i][0] * to[i][k];
            q[6 + k] = -from[i][1] * to[i][k];
        }
        r[8] = from[i][0];
        q[8] = from[i][1];
    }
    if (!solve(A, x))
        return 0;
    for (int i = 0; i < 8; i++)
        m[i] = (float)x[i];
    return 1;
}

/* ---- draws ---- */

static stk_action *put(const struct warp *w, stk_action *out)
{
    *out = (stk_action){ .code = STK_ACT_WARP, .n = 10 };
    out->v.u[8] = w->filter;
    out->v.u[9] = w->fill;
    return out;
}

static uint32_t rotate_act(const void *state, stk_rng *rng, const stk_view *canvas, stk_action *out)
{
    const struct warp *w = state;
    turn t = { .scale = 1 };

    if (!stk_hits(rng, w->p))
        return 0;
    t.angle = -stk_between(rng, &w->degrees);
    affine_matrix(&t, canvas->vis_w, canvas->vis_h, put(w, out)->v.f);
    return 1;
}

static uint32_t affine_act(const void *state, stk_rng *rng, const stk_view *canvas, stk_action *out)
{
    const struct warp *w = state;
    stk_range dx = { -w->translate[0] * canvas->vis_w, w->translate[0] * canvas->vis_w },
              dy = { -w->translate[1] * canvas->vis_h, w->translate[1] * canvas->vis_h };
    turn t;

    if (!stk_hits(rng, w->p))
        return 0;
    t.angle = stk_between(rng, &w->degrees);
    t.tx = (double)stk_round_even(stk_between(rng, &dx));
    t.ty = (double)stk_round_even(stk_between(rng, &dy));
    t.scale = stk_between(rng, &w->scale);
    t.shear_x = stk_between(rng, &w->shear_x);
    t.shear_y = stk_between(rng, &w->shear_y);
    affine_matrix(&t, canvas->vis_w, canvas->vis_h, put(w, out)->v.f);
    return 1;
}

/* A whole number from `lo` to `hi` - 1. */
static double whole(stk_rng *rng, int64_t lo, int64_t hi)
{
    return (double)(lo + (int64_t)stk_rng_below(rng, (uint32_t)(hi - lo)));
}

static uint32_t perspective_act(const void *state, stk_rng *rng, const stk_view *canvas,
                                stk_action *out)
{
    const struct warp *s = state;
    int64_t w = canvas->vis_w, h = canvas->vis_h, half_w = w / 2, half_h = h / 2;
    int64_t dx = (int64_t)(s->distortion * (double)half_w);
    int64_t dy = (int64_t)(s->distortion * (double)half_h);
    double from[4][2] = { { 0, 0 },
                          { (double)w - 1, 0 },
                          { (double)w - 1, (double)h - 1 },
                          { 0, (double)h - 1 } },
           to[4][2];

    if (!stk_hits(rng, s->p))
        return 0;
    to[0][0] = whole(rng, 0, dx + 1);
    to[0][1] = whole(rng, 0, dy + 1);
    to[1][0] = whole(rng, w - dx - 1, w);
    to[1][1] = whole(rng, 0, dy + 1);
    to[2][0] = whole(rng, w - dx - 1, w);
    to[2][1] = whole(rng, h - dy - 1, h);
    to[3][0] = whole(rng, 0, dx + 1);
    to[3][1] = whole(rng, h - dy - 1, h);
    /* Too thin a picture has no such map: it stays as it is. */
    return w > 1 && h > 1 && perspective_matrix(from, to, put(s, out)->v.f);
}

/* ---- tables ---- */

#define SAMPLING(filter)                                                                           \
    { "interpolation", STK_ARG_NAME, filter, "nearest or bilinear" }, STK_ARG_FILL("0"),           \
    {                                                                                              \
        0                                                                                          \
    }

static const stk_arg rotate_args[] = {
    { "degrees", STK_ARG_FLOATS, NULL, "-degrees to degrees, counter-clockwise; or (least, most)" },
    { "p", STK_ARG_FLOAT, "1", "how often" },
    SAMPLING("nearest"),
};
static const stk_arg affine_args[] = {
    { "degrees", STK_ARG_FLOATS, NULL, "-degrees to degrees, clockwise; or (least, most)" },
    { "translate", STK_ARG_FLOATS, "(0, 0)", "at most so much of width and height" },
    { "scale", STK_ARG_FLOATS, "(1, 1)", "(least, most)" },
    { "shear", STK_ARG_FLOATS, "(0, 0)", "degrees along x; four numbers: along x and y" },
    { "p", STK_ARG_FLOAT, "1", "how often" },
    SAMPLING("nearest"),
};
static const stk_arg perspective_args[] = {
    { "distortion_scale", STK_ARG_FLOAT, "0.5", "how far corners move, of half a side, 0..1" },
    { "p", STK_ARG_FLOAT, "0.5", "how often" },
    SAMPLING("bilinear"),
};

#define WARP(its, says)                                                                            \
    const stk_op stk_op_##its = { .abi = STK_PLUGIN_ABI,                                           \
                                  .size = sizeof(stk_op),                                          \
                                  .name = #its,                                                    \
                                  .help = says,                                                    \
                                  .args = its##_args,                                              \
                                  .state_size = sizeof(struct warp),                               \
                                  .plan = its##_plan,                                              \
                                  .can = STK_OP_WARP | STK_OP_GPU,                                 \
                                  .act = its##_act };
WARP(rotate, "turn about the middle")
WARP(affine, "turn, move, scale and shear about the middle")
WARP(perspective, "look at it from a random side")

/* SPDX-License-Identifier: Apache-2.0 */
/* random.c - arguments that random ops share.  Comparisons are written so that NaN is refused. */
#include "op/random.h"

#include <math.h>

#include "base/rng.h"

#define FACTOR 100 /* more makes black and white of any picture */

int stk_arg_p(const stk_args *args, const char *op, double *p, stk_error *err)
{
    *p = stk_args_f64(args, "p");
    if (!(*p >= 0 && *p <= 1))
        return stk_fail(err, STK_EINVAL, "%s: p=%g is not in 0..1", op, *p);
    return 0;
}

int stk_arg_fill(const stk_args *args, const char *op, uint32_t *out, stk_error *err)
{
    uint32_t n = stk_args_count(args, "fill");

    if (n != 1 && n != 3)
        return stk_fail(err, STK_EINVAL, "%s: fill is one number or three, not %u", op, n);
    *out = 0;
    for (uint32_t i = 0; i < 3; i++) {
        double v = stk_args_f64_at(args, "fill", n == 3 ? i : 0);

        if (!(v >= 0 && v <= 255))
            return stk_fail(err, STK_EINVAL, "%s: fill=%g is not in 0..255", op, v);
        *out |= (uint32_t)v << 8 * i;
    }
    return 0;
}

static int check(const char *op, const char *name, const stk_range *in, const stk_range *out,
                 stk_error *err)
{
    if (!(out->lo >= in->lo && out->hi <= in->hi && out->lo <= out->hi))
        return stk_fail(err, STK_EINVAL, "%s: %s from %g to %g: it must go up and be in %g..%g", op,
                        name, out->lo, out->hi, in->lo, in->hi);
    return 0;
}

int stk_arg_range(const stk_args *args, const char *op, const char *name, stk_range in,
                  stk_range *out, stk_error *err)
{
    uint32_t n = stk_args_count(args, name);

    if (n != 1 && n != 2)
        return stk_fail(err, STK_EINVAL, "%s: %s is one number or (least, most), not %u numbers",
                        op, name, n);
    out->lo = stk_args_f64_at(args, name, 0);
    out->hi = stk_args_f64_at(args, name, n - 1);
    return check(op, name, &in, out, err);
}

int stk_arg_factor(const stk_args *args, const char *op, const char *name, stk_range *out,
                   stk_error *err)
{
    double v = stk_args_f64_at(args, name, 0);

    if (stk_args_count(args, name) != 1)
        return stk_arg_range(args, op, name, (stk_range){ 0, FACTOR }, out, err);
    if (!(v >= 0 && v <= FACTOR - 1))
        return stk_fail(err, STK_EINVAL, "%s: %s=%g is not in 0..%d", op, name, v, FACTOR - 1);
    *out = (stk_range){ v < 1 ? 1 - v : 0, 1 + v };
    return 0;
}

int stk_arg_turn(const stk_args *args, const char *op, const char *name, stk_range *out,
                 stk_error *err)
{
    double v = stk_args_f64_at(args, name, 0);

    if (stk_args_count(args, name) != 1)
        return stk_arg_range(args, op, name, (stk_range){ -0.5, 0.5 }, out, err);
    if (!(v >= 0 && v <= 0.5))
        return stk_fail(err, STK_EINVAL, "%s: %s=%g is not in 0..0.5", op, name, v);
    *out = (stk_range){ -v, v };
    return 0;
}

uint32_t stk_hue_sixths(double turn)
{
    int64_t sixths = stk_round_even(turn * 6 * 65536) % (6 * 65536);

    return (uint32_t)(sixths < 0 ? sixths + 6 * 65536 : sixths);
}

void stk_op_stream(stk_rng *rng, uint32_t *u)
{
    stk_rng_stream s;

    stk_rng_widen(rng);
    s = stk_rng_stream_of(rng);
    u[0] = s.key[0];
    u[1] = s.key[1];
    for (int i = 0; i < 3; i++)
        u[2 + i] = s.at[i];
}

double stk_log(double x)
{
    int e;
    double m = frexp(x, &e), y = e * 0.6931471805599453 + (m - 1);

    for (int i = 0; i < 5; i++) { /* Halley's step triples the digits that are right */
        double t = stk_exp(y);

        y += 2 * (x - t) / (x + t);
    }
    return y;
}

void stk_sincos(double degrees, double *sine, double *cosine)
{
    int64_t quarter = stk_round_even(degrees / 90);
    double x = (degrees - (double)quarter * 90) * 0.017453292519943295, z = x * x, s = 1, c = 1;

    for (int i = 19; i >= 3; i -= 2) { /* both series by Horner; |x| is at most pi / 4 */
        s = 1 - z * s / (i * (i - 1));
        c = 1 - z * c / ((i - 1) * (i - 2));
    }
    s *= x;
    *sine = quarter & 1 ? c : s;
    *cosine = quarter & 1 ? s : c;
    if (quarter & 2)
        *sine = -*sine;
    if ((quarter + 1) & 2)
        *cosine = -*cosine;
}

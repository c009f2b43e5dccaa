/* SPDX-License-Identifier: Apache-2.0 */
/* random.c - arguments that random ops share.  Comparisons are written so that NaN is refused. */
#include "op/random.h"

#define FACTOR 100 /* more makes black and white of any picture */

int stk_arg_p(const stk_args *args, const char *op, double *p, stk_error *err)
{
    *p = stk_args_f64(args, "p");
    if (!(*p >= 0 && *p <= 1))
        return stk_fail(err, STK_EINVAL, "%s: p=%g is not in 0..1", op, *p);
    return 0;
}

static int check(const char *op, const char *name, const stk_range *in, const stk_range *out,
                 stk_error *err)
{
    if (!(out->lo >= in->lo && out->hi <= in->hi && out->lo <= out->hi))
        return stk_fail(err, STK_EINVAL,
                        "%s: %s from %g to %g: it must go up and be in %g..%g", op, name, out->lo,
                        out->hi, in->lo, in->hi);
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

/* SPDX-License-Identifier: Apache-2.0 */
/* random.h - what random ops share: reading their arguments (a probability, a range), and drawing
 * from them.  Ops call it in plan() and draw(). */
#ifndef STOKER_OP_RANDOM_H
#define STOKER_OP_RANDOM_H

#include "op/spec.h"

typedef struct stk_range {
    double lo, hi;
} stk_range;

/* Each of these reads an argument of `op` and returns 0, or STK_EINVAL with the op's name. */

/* The probability `p`, 0..1. */
int stk_arg_p(const stk_args *args, const char *op, double *p, stk_error *err);

/* The color `fill`, one number or three in 0..255, as red | green << 8 | blue << 16. */
int stk_arg_fill(const stk_args *args, const char *op, uint32_t *out, stk_error *err);

/* One number (lo equals hi), or (least, most); all in [in.lo, in.hi]. */
int stk_arg_range(const stk_args *args, const char *op, const char *name, stk_range in,
                  stk_range *out, stk_error *err);

/* As torchvision's ColorJitter: v means 1 - v to 1 + v, cut off at 0; a pair is the range
 * itself. */
int stk_arg_factor(const stk_args *args, const char *op, const char *name, stk_range *out,
                   stk_error *err);

/* The same for a turn of the hue, in parts of a full circle: v means -v to v. */
int stk_arg_turn(const stk_args *args, const char *op, const char *name, stk_range *out,
                 stk_error *err);

#define STK_ARG_P(often)                                                                           \
    {                                                                                              \
        "p", STK_ARG_FLOAT, often, "how often"                                                     \
    }

/* An op that changes colors: it draws an action, on the CPU or a GPU. */
#define STK_ACT_OP(state, id, text, plan_fn, act_fn, arg_table, flags)                             \
    const stk_op stk_op_##id = { .abi = STK_PLUGIN_ABI,                                            \
                                 .size = sizeof(stk_op),                                           \
                                 .name = #id,                                                      \
                                 .help = text,                                                     \
                                 .args = arg_table,                                                \
                                 .state_size = sizeof(state),                                      \
                                 .plan = plan_fn,                                                  \
                                 .act = act_fn,                                                    \
                                 .can = (flags) | STK_OP_GPU }

static inline int stk_hits(stk_rng *rng, double p)
{
    return p >= 1 || stk_rng_unit(rng) < p;
}

static inline double stk_between(stk_rng *rng, const stk_range *r)
{
    return r->lo == r->hi ? r->lo : r->lo + stk_rng_unit(rng) * (r->hi - r->lo);
}

/* For noise: stores in u[0..5) the place of *rng, from which a CPU or GPU computes any block of
 * later random numbers by itself. */
void stk_op_stream(stk_rng *rng, uint32_t *u);

/* Logarithm, 1e-6 <= x <= 1e6, with the same bits on every machine. */
double stk_log(double x);

/* Sine and cosine of an angle in degrees, with the same bits on every machine. */
void stk_sincos(double degrees, double *sine, double *cosine);

/* A turn of the hue, -0.5..0.5 of a full circle, in the unit of STK_ACT_hue. */
uint32_t stk_hue_sixths(double turn);

#endif

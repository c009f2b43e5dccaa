/* SPDX-License-Identifier: Apache-2.0 */
/* choose.c - ops around other ops: random_apply runs a chain or none, one_of runs one of
 * several. */
#include "op/random.h"

struct choose {
    double p;
};

static int apply_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    (void)spec;
    return stk_arg_p(args, "random_apply", &((struct choose *)state)->p, err);
}

static uint32_t apply_choose(const void *state, stk_rng *rng, uint32_t children, uint8_t *run)
{
    if (!stk_hits(rng, ((const struct choose *)state)->p))
        return 0;
    for (uint32_t i = 0; i < children; i++)
        run[i] = (uint8_t)i;
    return children;
}

static int one_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    (void)spec;
    return stk_arg_p(args, "one_of", &((struct choose *)state)->p, err);
}

static uint32_t one_choose(const void *state, stk_rng *rng, uint32_t children, uint8_t *run)
{
    if (!stk_hits(rng, ((const struct choose *)state)->p))
        return 0;
    run[0] = (uint8_t)stk_rng_below(rng, children);
    return 1;
}

static const stk_arg apply_args[] = {
    { "steps", STK_ARG_CHAIN, NULL, "the ops, as color_jitter(0.4) | grayscale(p=1)" },
    { "p", STK_ARG_FLOAT, "0.5", "how often" },
    { 0 },
};
static const stk_arg one_args[] = {
    { "steps", STK_ARG_CHAINS, NULL, "chains of ops, of which one runs" },
    { "p", STK_ARG_FLOAT, "1", "how often any of them does" },
    { 0 },
};

#define OP(id, text, arg_table, plan_fn, choose_fn)                                                \
    const stk_op stk_op_##id = { .abi = STK_PLUGIN_ABI,                                            \
                                 .size = sizeof(stk_op),                                           \
                                 .name = #id,                                                      \
                                 .help = text,                                                     \
                                 .args = arg_table,                                                \
                                 .state_size = sizeof(struct choose),                              \
                                 .plan = plan_fn,                                                  \
                                 .choose = choose_fn,                                              \
                                 .can = STK_OP_CHOOSE }
OP(random_apply, "all of these ops or none, at random", apply_args, apply_plan, apply_choose);
OP(one_of, "one of these chains of ops, at random", one_args, one_plan, one_choose);

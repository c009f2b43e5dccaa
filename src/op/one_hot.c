/* SPDX-License-Identifier: Apache-2.0 */
/* one_hot, multi_hot - class numbers as a row of one weight per class, which batch ops can mix.
 *
 * smoothing=s moves s of the weight to all classes alike, as label smoothing does: the class itself
 * has 1 - s + s / n, every other one s / n. */
#include "op/spec.h"

#define MAX_CLASSES (1 << 24)

struct hot {
    int64_t n;
    float on, off;
};

static int hot_plan(struct hot *h, const char *name, const stk_args *args, stk_spec *spec,
                    stk_error *err)
{
    double s = stk_args_f64(args, "smoothing");

    h->n = stk_args_i64(args, "classes");
    if (h->n < 1 || h->n > MAX_CLASSES)
        return stk_fail(err, STK_EINVAL, "%s: classes=%" PRId64 " is not in 1..%d", name, h->n,
                        MAX_CLASSES);
    if (!(s >= 0 && s < 1)) /* also rejects NaN */
        return stk_fail(err, STK_EINVAL, "%s: smoothing=%g is not in 0..1", name, s);
    h->off = (float)(s / (double)h->n);
    h->on = (float)(1 - s + s / (double)h->n);
    *spec = (stk_spec){
        .kind = STK_KIND_VALUE, .out = STK_OUT_DENSE, .dtype = STK_F32, .ndim = 1, .shape = { h->n }
    };
    return 0;
}

static int one_hot_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    if (spec->kind != STK_KIND_VALUE || spec->array || spec->ndim || spec->dtype != STK_I64)
        return stk_fail(err, STK_EINVAL,
                        "one_hot works on a class number: put `int` before it, as in from(cls) | "
                        "int | one_hot(1000)");
    return hot_plan(state, "one_hot", args, spec, err);
}

static int multi_hot_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    if (spec->kind != STK_KIND_VALUE || spec->array || spec->out != STK_OUT_LIST ||
        spec->dtype != STK_I64 || spec->max_len)
        return stk_fail(err, STK_EINVAL,
                        "multi_hot works on a list of class numbers: put `ints` right before it, "
                        "as in from(json) | json(tags) | ints | multi_hot(80)");
    return hot_plan(state, "multi_hot", args, spec, err);
}

static int turn(const struct hot *h, const char *name, stk_value_row *row, stk_scratch *scratch,
                stk_error *err)
{
    float *made = stk_scratch_get(scratch, (size_t)h->n * sizeof *made);
    const int64_t *label = row->data;
    size_t n = 1;

    if (!made)
        return stk_fail_nomem(err, (size_t)h->n * sizeof *made);
    for (uint32_t i = 0; i < row->ndim; i++)
        n *= (size_t)row->shape[i];
    for (int64_t i = 0; i < h->n; i++)
        made[i] = h->off;
    for (size_t i = 0; i < n; i++) {
        if (label[i] < 0 || label[i] >= h->n)
            return stk_fail(err, STK_ECORRUPT, "%s: the class %" PRId64 " is not in 0..%" PRId64,
                            name, label[i], h->n - 1);
        made[label[i]] = h->on;
    }
    *row = (stk_value_row){ .dtype = STK_F32, .ndim = 1, .shape = { h->n }, .data = made };
    return 0;
}

static int one_hot_turn(const void *state, stk_value_row *row, stk_rng *rng, stk_scratch *scratch,
                        stk_error *err)
{
    return turn(state, "one_hot", row, scratch, err);
}

static int multi_hot_turn(const void *state, stk_value_row *row, stk_rng *rng, stk_scratch *scratch,
                          stk_error *err)
{
    return turn(state, "multi_hot", row, scratch, err);
}

static const stk_arg hot_args[] = {
    { "classes", STK_ARG_INT, NULL, "how many classes there are" },
    { "smoothing", STK_ARG_FLOAT, "0",
      "label smoothing: so much of the weight goes to all classes" },
    { 0 },
};

const stk_op stk_op_one_hot = { .abi = STK_PLUGIN_ABI,
                                .size = sizeof(stk_op),
                                .name = "one_hot",
                                .help = "a class number as a row of zeros and a one, as f32",
                                .args = hot_args,
                                .state_size = sizeof(struct hot),
                                .plan = one_hot_plan,
                                .value = one_hot_turn };

const stk_op stk_op_multi_hot = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_op),
    .name = "multi_hot",
    .help = "a list of class numbers as a row of zeros and ones, as f32",
    .args = hot_args,
    .state_size = sizeof(struct hot),
    .plan = multi_hot_plan,
    .value = multi_hot_turn
};

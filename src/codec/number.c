/* SPDX-License-Identifier: Apache-2.0 */
/* int, float - a number written as text: "7\n" in a .cls field, a value found by json(...).
 *
 * The grammar is base/numeral.c's.  Floats are rounded to f64 first and then to f32, as Python and
 * NumPy do. */
#include "base/numeral.h"
#include "codec/codec.h"
#include "base/json.h"

#include <string.h>

struct number {
    int json;
};

static int number_plan(struct number *n, const char *name, stk_dtype dtype, stk_spec *spec,
                       stk_error *err)
{
    if (spec->kind != STK_KIND_BYTES)
        return stk_fail(err, STK_EINVAL,
                        "%s reads a field's bytes: put it first, or after json(...)", name);
    n->json = spec->out == STK_OUT_JSON;
    *spec = (stk_spec){ .kind = STK_KIND_VALUE, .out = STK_OUT_DENSE, .dtype = dtype };
    return 0;
}

static int int_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    (void)args;
    return number_plan(state, "int", STK_I64, spec, err);
}

static int float_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    (void)args;
    return number_plan(state, "float", STK_F32, spec, err);
}

static int int_parse(const void *state, const stk_codec_work *work, stk_bytes in, void *dst,
                     stk_error *err)
{
    const struct number *n = state;
    stk_bytes s = stk_trimmed(in);
    char shown[STK_SHOWN_MAX];
    int64_t out;
    int got;

    if (n->json && ((s.len == 4 && !memcmp(s.data, "true", 4)) ||
                    (s.len == 5 && !memcmp(s.data, "false", 5)))) {
        out = s.len == 4;
        memcpy(dst, &out, sizeof out);
        return 0;
    }
    got = stk_number_i64(s, &out);
    if (!got)
        return stk_fail(err, STK_ECORRUPT, "int: %s is not an integer", stk_shown(in, shown));
    if (got < 0)
        return stk_fail(err, STK_ECORRUPT, "int: %s does not fit 64 bits", stk_shown(in, shown));
    memcpy(dst, &out, sizeof out);
    return 0;
}

static int float_parse(const void *state, const stk_codec_work *work, stk_bytes in, void *dst,
                       stk_error *err)
{
    stk_bytes s = stk_trimmed(in);
    char shown[STK_SHOWN_MAX];
    double wide;
    float out;
    int got = stk_number_f64(s, &wide);

    (void)state;
    if (!got)
        return stk_fail(err, STK_ECORRUPT, "float: %s is not a number", stk_shown(in, shown));
    if (got < 0)
        return stk_fail(err, STK_ECORRUPT, "float: a number of %zu characters, at most %d", s.len,
                        STK_NUMBER_TEXT - 1);
    out = (float)wide;
    memcpy(dst, &out, sizeof out);
    return 0;
}

static const stk_arg no_args[] = { { 0 } };

const stk_codec stk_codec_int = { .abi = STK_PLUGIN_ABI,
                                  .size = sizeof(stk_codec),
                                  .name = "int",
                                  .help = "a decimal integer, as i64",
                                  .args = no_args,
                                  .can = STK_CODEC_NUMBERS,
                                  .state_size = sizeof(struct number),
                                  .plan = int_plan,
                                  .parse = int_parse };

const stk_codec stk_codec_float = { .abi = STK_PLUGIN_ABI,
                                    .size = sizeof(stk_codec),
                                    .name = "float",
                                    .help = "a decimal number, as f32",
                                    .args = no_args,
                                    .can = STK_CODEC_NUMBERS,
                                    .state_size = sizeof(struct number),
                                    .plan = float_plan,
                                    .parse = float_parse };

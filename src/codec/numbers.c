/* SPDX-License-Identifier: Apache-2.0 */
/* ints, floats - a list of numbers written as text: [1, 2, 3] as JSON has it, or without brackets,
 * parted by white space or by commas ("464 2068 7586").
 *
 * Each row has its own length, so text is read twice: to count, and into its place.  What a single
 * number may look like is base/numeral.c's affair. */
#include "base/numeral.h"
#include "codec/codec.h"
#include "codec/text.h"

#include <string.h>

typedef struct list { /* what is left of one */
    stk_bytes in;
    int comma; /* one stood after the last number: another must follow */
} list;

static int is_space(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static void skip_space(list *l)
{
    while (l->in.len && is_space(*l->in.data)) {
        l->in.data++;
        l->in.len--;
    }
}

static int list_open(list *l, stk_bytes in, stk_error *err)
{
    stk_bytes s = stk_trimmed(in);
    char shown[STK_SHOWN_MAX];

    if (s.len && (s.data[0] == '[' || s.data[s.len - 1] == ']')) {
        if (s.len < 2 || s.data[0] != '[' || s.data[s.len - 1] != ']')
            return stk_fail(err, STK_ECORRUPT, "%s is not a list of numbers", stk_shown(in, shown));
        s.data++;
        s.len -= 2;
    }
    *l = (list){ .in = s };
    skip_space(l);
    return 0;
}

/* The next number's text: 1; 0: there is none; a comma with nothing on one side is an empty one. */
static int list_next(list *l, stk_bytes *out)
{
    size_t n = 0;

    if (!l->in.len && !l->comma)
        return 0;
    while (n < l->in.len && !is_space(l->in.data[n]) && l->in.data[n] != ',')
        n++;
    *out = (stk_bytes){ l->in.data, n };
    l->in.data += n;
    l->in.len -= n;
    skip_space(l);
    l->comma = l->in.len && *l->in.data == ',';
    if (l->comma) {
        l->in.data++;
        l->in.len--;
        skip_space(l);
    }
    return 1;
}

static int numbers_shape(const void *state, stk_bytes in, stk_spec *row, stk_error *err)
{
    stk_bytes one;
    list l;

    (void)state;
    STK_TRY(list_open(&l, in, err));
    row->ndim = 1;
    row->shape[0] = 0;
    while (list_next(&l, &one))
        row->shape[0]++;
    return 0;
}

static int bad_number(const char *what, int got, int64_t i, stk_bytes one, stk_error *err)
{
    char shown[STK_SHOWN_MAX];

    return stk_fail(err, STK_ECORRUPT, "%s: number %" PRId64 " of the list, %s, %s", what, i,
                    stk_shown(one, shown), got ? "is too large" : "is none");
}

static int ints_parse(const void *state, stk_bytes in, void *dst, stk_error *err)
{
    int64_t value, i = 0;
    stk_bytes one;
    list l;

    (void)state;
    STK_TRY(list_open(&l, in, err));
    for (; list_next(&l, &one); i++) {
        int got = stk_number_i64(one, &value);

        if (got != 1)
            return bad_number("ints", got, i, one, err);
        memcpy((uint8_t *)dst + (size_t)i * sizeof value, &value, sizeof value);
    }
    return 0;
}

static int floats_parse(const void *state, stk_bytes in, void *dst, stk_error *err)
{
    stk_bytes one;
    double wide;
    int64_t i = 0;
    float value;
    list l;

    (void)state;
    STK_TRY(list_open(&l, in, err));
    for (; list_next(&l, &one); i++) {
        int got = stk_number_f64(one, &wide);

        if (got != 1)
            return bad_number("floats", got, i, one, err);
        value = (float)wide;
        memcpy((uint8_t *)dst + (size_t)i * sizeof value, &value, sizeof value);
    }
    return 0;
}

static int numbers_plan(const char *name, stk_dtype dtype, stk_spec *spec, stk_error *err)
{
    if (spec->kind != STK_KIND_BYTES)
        return stk_fail(err, STK_EINVAL,
                        "%s reads a field's bytes: put it first, or after json(...)", name);
    *spec = (stk_spec){ .kind = STK_KIND_VALUE, .out = STK_OUT_LIST, .dtype = dtype, .ndim = 1 };
    return 0;
}

static int ints_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    (void)state;
    (void)args;
    return numbers_plan("ints", STK_I64, spec, err);
}

static int floats_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    (void)state;
    (void)args;
    return numbers_plan("floats", STK_F32, spec, err);
}

static const stk_arg no_args[] = { { 0 } };

const stk_codec stk_codec_ints = { .abi = STK_PLUGIN_ABI,
                                   .size = sizeof(stk_codec),
                                   .name = "ints",
                                   .help = "a list of integers, [1, 2] or 1 2, as i64",
                                   .args = no_args,
                                   .can = STK_CODEC_NUMBERS,
                                   .plan = ints_plan,
                                   .parse = ints_parse,
                                   .shape = numbers_shape };

const stk_codec stk_codec_floats = { .abi = STK_PLUGIN_ABI,
                                     .size = sizeof(stk_codec),
                                     .name = "floats",
                                     .help = "a list of numbers, [0.5, 2] or 0.5 2, as f32",
                                     .args = no_args,
                                     .can = STK_CODEC_NUMBERS,
                                     .plan = floats_plan,
                                     .parse = floats_parse,
                                     .shape = numbers_shape };

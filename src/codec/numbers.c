/* SPDX-License-Identifier: Apache-2.0 */
/* ints, floats - a list of numbers written as text: [1, 2, 3] as JSON has it, or without brackets,
 * parted by white space or by commas ("464 2068 7586").
 *
 * shape=(-1, 4) gives rows that shape; one side may be -1, which is what the numbers make it.  Then
 * lists may be nested as JSON has them, and every innermost one must have the last side's length.
 * A shape without -1 makes rows of one size.
 *
 * null=-1 stands for a null in a list, as stoker.open(null=-1) does in lists of tables.
 *
 * Each row has its own length, so text is read twice: to count, and into its place.  What a single
 * number may look like is base/numeral.c's affair. */
#include "base/numeral.h"
#include "codec/codec.h"
#include "base/json.h"

#include <string.h>

#define MAX_NUMBERS ((int64_t)1 << 31)

struct numbers {
    uint32_t ndim; /* 0: no shape was given */
    int64_t shape[STK_MAX_DIMS - 1];
    int64_t each; /* product of the sides but for the -1 */
    int open;     /* which side is -1; -1: none */
    int fills;    /* a null in the list is this: */
    int64_t whole;
    float real;
};

typedef struct list { /* what is left of one */
    stk_bytes in;
    int nested; /* brackets part numbers, too */
    int comma;  /* one stood after the last number: another must follow */
} list;

static int is_space(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static void skip_space(list *l)
{
    while (l->in.len &&
           (is_space(*l->in.data) || (l->nested && (*l->in.data == '[' || *l->in.data == ']')))) {
        l->in.data++;
        l->in.len--;
    }
}

/* Brackets must close, and every list inside another must have `last` numbers (-1: any). */
static int check_nested(stk_bytes in, int64_t last, stk_error *err)
{
    int64_t count = 0;
    int depth = 0, inner = 0, number = 0, over = 0; /* over: something follows the last bracket */
    char shown[STK_SHOWN_MAX];

    for (size_t i = 0; i < in.len; i++) {
        uint8_t c = in.data[i];
        int part = is_space(c) || c == ',' || c == '[' || c == ']';

        count += !part && !number;
        number = !part;
        over |= !depth && i && !is_space(c);
        depth += (c == '[') - (c == ']');
        if (c == '[') {
            inner = 1;
            count = 0;
        }
        if (c == ']' && inner && last >= 0 && depth && count != last)
            return stk_fail(err, STK_ECORRUPT,
                            "a list of %" PRId64 " numbers where shape says %" PRId64, count, last);
        inner &= c != ']';
    }
    if (depth || over)
        return stk_fail(err, STK_ECORRUPT, "%s is not a list of numbers", stk_shown(in, shown));
    return 0;
}

static int list_open(list *l, stk_bytes in, const struct numbers *n, stk_error *err)
{
    stk_bytes s = stk_trimmed(in);
    char shown[STK_SHOWN_MAX];

    if (n->ndim && s.len && s.data[0] == '[') {
        STK_TRY(check_nested(s, n->ndim > 1 ? n->shape[n->ndim - 1] : -1, err));
        *l = (list){ .in = s, .nested = 1 };
        skip_space(l);
        return 0;
    }
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
    while (n < l->in.len && !is_space(l->in.data[n]) && l->in.data[n] != ',' &&
           !(l->nested && l->in.data[n] == ']'))
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

static int count_numbers(const struct numbers *n, stk_bytes in, int64_t *out, stk_error *err)
{
    stk_bytes one;
    list l;

    *out = 0;
    STK_TRY(list_open(&l, in, n, err));
    while (list_next(&l, &one))
        ++*out;
    return 0;
}

static int numbers_shape(const void *state, stk_bytes in, stk_spec *row, stk_error *err)
{
    const struct numbers *n = state;
    int64_t count;

    STK_TRY(count_numbers(n, in, &count, err));
    row->ndim = n->ndim ? n->ndim : 1;
    row->shape[0] = count;
    if (!n->ndim)
        return 0;
    if (count % n->each)
        return stk_fail(err, STK_ECORRUPT,
                        "%" PRId64 " numbers don't fill rows of %" PRId64 " as shape says", count,
                        n->each);
    memcpy(row->shape, n->shape, n->ndim * sizeof *n->shape);
    row->shape[n->open] = count / n->each;
    return 0;
}

/* Rows of one size must have its numbers, before they are written there. */
static int check_count(const struct numbers *n, stk_bytes in, stk_error *err)
{
    int64_t count;

    if (!n->ndim || n->open >= 0)
        return 0;
    STK_TRY(count_numbers(n, in, &count, err));
    return count == n->each
               ? 0
               : stk_fail(err, STK_ECORRUPT, "%" PRId64 " numbers where shape says %" PRId64, count,
                          n->each);
}

static int bad_number(const char *what, int got, int64_t i, stk_bytes one, stk_error *err)
{
    char shown[STK_SHOWN_MAX];

    return stk_fail(err, STK_ECORRUPT, "%s: number %" PRId64 " of the list, %s, %s", what, i,
                    stk_shown(one, shown), got ? "is too large" : "is none");
}

static int is_null(const struct numbers *n, stk_bytes one)
{
    return n->fills && one.len == 4 && !memcmp(one.data, "null", 4);
}

static int ints_parse(const void *state, const stk_codec_work *work, stk_bytes in, void *dst,
                      stk_error *err)
{
    const struct numbers *n = state;
    int64_t value, i = 0;
    stk_bytes one;
    list l;

    STK_TRY(check_count(state, in, err));
    STK_TRY(list_open(&l, in, state, err));
    for (; list_next(&l, &one); i++) {
        int null = is_null(n, one), got = null ? 1 : stk_number_i64(one, &value);

        if (got != 1)
            return bad_number("ints", got, i, one, err);
        value = null ? n->whole : value;
        memcpy((uint8_t *)dst + (size_t)i * sizeof value, &value, sizeof value);
    }
    return 0;
}

static int floats_parse(const void *state, const stk_codec_work *work, stk_bytes in, void *dst,
                        stk_error *err)
{
    const struct numbers *n = state;
    stk_bytes one;
    double wide;
    int64_t i = 0;
    float value;
    list l;

    STK_TRY(check_count(state, in, err));
    STK_TRY(list_open(&l, in, state, err));
    for (; list_next(&l, &one); i++) {
        int null = is_null(n, one), got = null ? 1 : stk_number_f64(one, &wide);

        if (got != 1)
            return bad_number("floats", got, i, one, err);
        value = null ? n->real : (float)wide;
        memcpy((uint8_t *)dst + (size_t)i * sizeof value, &value, sizeof value);
    }
    return 0;
}

static int shape_plan(struct numbers *n, const char *name, const stk_args *args, stk_error *err)
{
    n->each = 1;
    n->open = -1;
    n->ndim = stk_args_has(args, "shape") ? stk_args_count(args, "shape") : 0;
    if (n->ndim >= STK_MAX_DIMS)
        return stk_fail(err, STK_EINVAL, "%s: shape has %u sides, at most %d", name, n->ndim,
                        STK_MAX_DIMS - 1);
    for (uint32_t i = 0; i < n->ndim; i++) {
        double side = stk_args_f64_at(args, "shape", i);

        n->shape[i] = (int64_t)side;
        if (side == -1 && n->open < 0)
            n->open = (int)i;
        else if (side < 1 || side * (double)n->each > (double)MAX_NUMBERS)
            return stk_fail(err, STK_EINVAL,
                            "%s: a side of shape is at least 1, and one of them may be -1, not %g",
                            name, side);
        else
            n->each *= n->shape[i];
    }
    return 0;
}

static int numbers_plan(struct numbers *n, const char *name, stk_dtype dtype, const stk_args *args,
                        stk_spec *spec, stk_error *err)
{
    STK_TRY(shape_plan(n, name, args, err));
    n->fills = stk_args_has(args, "null");
    if (n->fills && dtype == STK_I64)
        n->whole = stk_args_i64(args, "null");
    else if (n->fills)
        n->real = (float)stk_args_f64(args, "null");
    if (spec->kind != STK_KIND_BYTES)
        return stk_fail(err, STK_EINVAL,
                        "%s reads a field's bytes: put it first, or after json(...)", name);
    *spec = (stk_spec){ .kind = STK_KIND_VALUE,
                        .out = n->ndim && n->open < 0 ? STK_OUT_DENSE : STK_OUT_LIST,
                        .dtype = dtype,
                        .ndim = n->ndim ? n->ndim : 1 };
    memcpy(spec->shape, n->shape, n->ndim * sizeof *n->shape);
    return 0;
}

static int ints_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    return numbers_plan(state, "ints", STK_I64, args, spec, err);
}

static int floats_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    return numbers_plan(state, "floats", STK_F32, args, spec, err);
}

#define SHAPE "of a row, as (-1, 4): one side may be -1; lists may be nested then; absent: (-1)"
#define NULLS "what stands for a null, of lists that are written as text; absent: it is refused"

static const stk_arg ints_args[] = {
    { "shape", STK_ARG_INTS, "", SHAPE, 1 },
    { "null", STK_ARG_INT, "", NULLS, 1 },
    { 0 },
};

static const stk_arg floats_args[] = {
    { "shape", STK_ARG_INTS, "", SHAPE, 1 },
    { "null", STK_ARG_FLOAT, "", NULLS, 1 },
    { 0 },
};

const stk_codec stk_codec_ints = { .abi = STK_PLUGIN_ABI,
                                   .size = sizeof(stk_codec),
                                   .name = "ints",
                                   .help = "a list of integers, [1, 2] or 1 2, as i64",
                                   .can = STK_CODEC_NUMBERS,
                                   .args = ints_args,
                                   .state_size = sizeof(struct numbers),
                                   .plan = ints_plan,
                                   .parse = ints_parse,
                                   .shape = numbers_shape };

const stk_codec stk_codec_floats = { .abi = STK_PLUGIN_ABI,
                                     .size = sizeof(stk_codec),
                                     .name = "floats",
                                     .help = "a list of numbers, [0.5, 2] or 0.5 2, as f32",
                                     .can = STK_CODEC_NUMBERS,
                                     .args = floats_args,
                                     .state_size = sizeof(struct numbers),
                                     .plan = floats_plan,
                                     .parse = floats_parse,
                                     .shape = numbers_shape };

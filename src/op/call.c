/* SPDX-License-Identifier: Apache-2.0 */
/* call - a function of the program's on the value at this point of the chain (stk_caller,
 * plugin_loader.h).
 *
 * A picture comes back as a picture of any size, bytes as bytes, text as text, numbers as numbers.
 * With dtype= the function gives numbers, of any shape, or of the one that shape= says.  The step
 * only says so: rows are made by row/row_call.c. */
#include "op/call.h"

#include <stdio.h>
#include <string.h>

static int dtype_of(const char *name, stk_dtype *out, stk_error *err)
{
    for (stk_dtype d = STK_U8; stk_dtype_size(d); d++)
        if (d != STK_BF16 && !strcmp(stk_dtype_name(d), name)) {
            *out = d;
            return 0;
        }
    return stk_fail(err, STK_EINVAL,
                    "call: dtype `%s` is not known: u8 i8 u16 i16 i32 u32 i64 f16 f32 f64", name);
}

static int shape_of(stk_call_step *c, const stk_args *args, stk_error *err)
{
    c->shaped = stk_args_has(args, "shape");
    c->ndim = c->shaped ? stk_args_count(args, "shape") : 0;
    if (c->shaped && c->gives != STK_KIND_VALUE)
        return stk_fail(err, STK_EINVAL, "call: shape is of numbers: say their dtype too");
    if (c->ndim >= STK_MAX_DIMS)
        return stk_fail(err, STK_EINVAL, "call: shape has %u sides, at most %d", c->ndim,
                        STK_MAX_DIMS - 1);
    if (c->ndim == 1 && stk_args_f64_at(args, "shape", 0) == 0)
        c->ndim = 0; /* one number */
    for (uint32_t i = 0; i < c->ndim; i++) {
        double side = stk_args_f64_at(args, "shape", i);

        if ((side < 1 && side != -1) || side > INT32_MAX)
            return stk_fail(err, STK_EINVAL,
                            "call: a side of shape is at least 1, or -1 where rows differ, not %g",
                            side);
        c->shape[i] = (int64_t)side;
    }
    return 0;
}

/* A picture whose type is settled: its numbers, as a batch has them. */
static int settled(const stk_spec *spec)
{
    return spec->kind == STK_KIND_IMAGE && (spec->dtype_fixed || spec->picture.normalized);
}

static int take_numbers(stk_call_step *c, stk_spec *spec, stk_error *err)
{
    if (spec->dtype == STK_BF16)
        return stk_fail(err, STK_EINVAL,
                        "call: NumPy has no bf16: write to(f32) before it, and to(bf16) after it");
    if (spec->kind != STK_KIND_IMAGE)
        return 0;
    if (spec->picture.layout == STK_CHANNELS_LAST)
        return stk_fail(err, STK_EINVAL, "call takes numbers as chw or hwc, not channels_last");
    c->kind = STK_KIND_VALUE;
    spec->out = spec->picture.width && spec->picture.height ? STK_OUT_DENSE : STK_OUT_LIST;
    spec->ndim = stk_spec_picture_shape(spec, spec->shape);
    return 0;
}

/* What rows look like after it. */
static void settle(const stk_call_step *c, stk_spec *spec)
{
    const stk_spec was = *spec;
    int any = !c->shaped;

    for (uint32_t i = 0; i < c->ndim; i++)
        any |= c->shape[i] < 0;
    *spec = (stk_spec){ .kind = STK_KIND_VALUE,
                        .out = any ? STK_OUT_LIST : STK_OUT_DENSE,
                        .dtype = c->dtype,
                        .ndim = c->shaped ? c->ndim : 1,
                        .n_leads = was.n_leads,
                        /* of the picture that it is made of, for those that follow it */
                        .picture = { .exif = was.picture.exif,
                                     .mode = was.picture.mode,
                                     .width = was.picture.width,
                                     .height = was.picture.height,
                                     .like = was.picture.like } };
    memcpy(spec->lead, was.lead, sizeof spec->lead);
    memcpy(spec->shape, c->shape, sizeof spec->shape);
}

/* Numbers that stay numbers keep their type and shape where no other is said. */
static void keep(stk_call_step *c, const stk_spec *spec)
{
    if (!c->dtype)
        c->dtype = spec->dtype;
    if (c->shaped || spec->out != STK_OUT_DENSE)
        return;
    c->shaped = 1;
    c->ndim = spec->ndim;
    memcpy(c->shape, spec->shape, sizeof c->shape);
}

static int call_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    stk_call_step *c = state;
    const char *name = stk_args_str(args, "function"), *dtype = stk_args_str(args, "dtype");
    int64_t which = stk_args_i64(args, "which");

    if (!name ||
        (size_t)snprintf(c->function, sizeof c->function, "%s", name) >= sizeof c->function)
        return stk_fail(err, STK_EINVAL, "call: a function's name has at most %d bytes",
                        STK_CALL_NAME - 1);
    if (which < 0 || which > UINT16_MAX)
        return stk_fail(err, STK_EINVAL, "call: which=%" PRId64 " is not in 0..65535", which);
    if (spec->kind == STK_KIND_IMAGE && spec->picture.mode == STK_MODE_GRAY16 && !settled(spec))
        return stk_fail(err, STK_EINVAL,
                        "call takes pictures of 8 bits, and mode=gray16 has 16: write to(u16) or "
                        "to(f32) before it");
    if (spec->picture.patch.side)
        return stk_fail(err, STK_EINVAL, "call comes before patches: put it there");
    if (spec->max_len)
        return stk_fail(err, STK_EINVAL, "call comes before truncate: put it there");
    c->which = (uint32_t)which;
    c->kind = spec->kind;
    if (settled(spec) || spec->kind == STK_KIND_VALUE)
        STK_TRY(take_numbers(c, spec, err));
    c->out = spec->out;
    c->made = *spec;
    c->gives = dtype ? STK_KIND_VALUE : c->kind;
    if (dtype)
        STK_TRY(dtype_of(dtype, &c->dtype, err));
    STK_TRY(shape_of(c, args, err));
    if (c->kind == STK_KIND_VALUE)
        keep(c, spec);
    if (c->gives == STK_KIND_VALUE)
        settle(c, spec);
    spec->picture.resized = 0; /* it is a picture of its own */
    return 0;
}

/* "(2, 3)"; of one number "()". */
static void shape_text(char out[96], const int64_t *shape, uint32_t ndim)
{
    size_t at = (size_t)snprintf(out, 96, "(");

    for (uint32_t i = 0; i < ndim && at < 72; i++)
        at += (size_t)snprintf(out + at, 96 - at, "%s%" PRId64, i ? ", " : "", shape[i]);
    snprintf(out + at, 96 - at, ")");
}

int stk_call_check(const stk_call_step *c, const stk_value_row *row, stk_error *err)
{
    int fits = !c->shaped || row->ndim == c->ndim;
    char gave[96], says[96];

    if (row->dtype != c->dtype)
        return stk_fail(err, STK_ECORRUPT, "call(%.80s) gave %s, and its chain says %s",
                        c->function, stk_dtype_name(row->dtype), stk_dtype_name(c->dtype));
    for (uint32_t i = 0; fits && i < c->ndim; i++)
        fits = c->shape[i] < 0 || row->shape[i] == c->shape[i];
    if (row->ndim >= STK_MAX_DIMS)
        return stk_fail(err, STK_ECORRUPT, "call(%.80s) gave %u dimensions: at most %d",
                        c->function, row->ndim, STK_MAX_DIMS - 1);
    if (fits)
        return 0;
    shape_text(gave, row->shape, row->ndim);
    shape_text(says, c->shape, c->ndim);
    return stk_fail(
        err, STK_ECORRUPT,
        "call(%.80s) gave numbers of the shape %s, and its chain says %s: say shape=, with -1 "
        "where rows differ",
        c->function, gave, says);
}

static const stk_arg call_args[] = {
    { "function", STK_ARG_NAME, NULL, "its name; Python: .call(function)" },
    { "which", STK_ARG_INT, "0", "of several functions of that name" },
    { "dtype", STK_ARG_NAME, "", "it gives numbers of this type; absent: what it is given" },
    { "shape", STK_ARG_INTS, "",
      "of these numbers, as (-1, 4): -1 where rows differ; 0: one number; absent: any" },
    { 0 },
};

const stk_op stk_op_call = { .abi = STK_PLUGIN_ABI,
                             .size = sizeof(stk_op),
                             .name = "call",
                             .help = "a function of your own, in Python: .call(function)",
                             .args = call_args,
                             .state_size = sizeof(stk_call_step),
                             .plan = call_plan,
                             .can = STK_OP_CALL };

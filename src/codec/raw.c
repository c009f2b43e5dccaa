/* SPDX-License-Identifier: Apache-2.0 */
/* raw - numbers as memory has them: NumPy's tobytes(), in little-endian order and without a header.
 *
 * raw(f32, shape=(3, 4)) gives rows that stack; of one with a -1 in front, or without a shape, each
 * row says by its bytes how long it is. */
#include "codec/codec.h"

#include <string.h>

#define MAX_PART 0x1p34 /* bytes of a row that a chain may plan for */

struct raw {
    stk_dtype dtype;
    uint32_t ndim;
    int64_t shape[STK_MAX_DIMS - 1];
    int ragged;  /* the first side follows from the bytes */
    size_t part; /* bytes of a row, or of one of its parts */
};

static int raw_shape(const void *state, stk_bytes in, stk_spec *row, stk_error *err)
{
    const struct raw *r = state;

    if (r->ragged ? in.len % r->part : in.len != r->part)
        return stk_fail(err, STK_ECORRUPT, "raw: %zu bytes, and %s%zu are wanted", in.len,
                        r->ragged ? "a multiple of " : "", r->part);
    row->dtype = r->dtype;
    row->ndim = r->ndim;
    memcpy(row->shape, r->shape, r->ndim * sizeof *r->shape);
    if (r->ragged)
        row->shape[0] = (int64_t)(in.len / r->part);
    return 0;
}

static int raw_parse(const void *state, const stk_codec_work *work, stk_bytes in, void *dst,
                     stk_error *err)
{
    stk_spec row;

    STK_TRY(raw_shape(state, in, &row, err));
    if (in.len)
        memcpy(dst, in.data, in.len);
    return 0;
}

static int plan_dtype(struct raw *r, const char *name, stk_error *err)
{
    for (stk_dtype d = STK_U8; name && d <= STK_U32; d++)
        if (!strcmp(stk_dtype_name(d), name))
            r->dtype = d;
    return r->dtype
               ? 0
               : stk_fail(err, STK_EINVAL,
                          "raw: dtype `%s` is none of u8 i8 u16 i16 i32 u32 i64 f16 bf16 f32 f64",
                          name ? name : "?");
}

static int plan_shape(struct raw *r, const stk_args *args, stk_error *err)
{
    double bytes = (double)stk_dtype_size(r->dtype);

    r->ndim = stk_args_has(args, "shape") ? stk_args_count(args, "shape") : 1;
    r->ragged = !stk_args_has(args, "shape");
    if (r->ndim >= STK_MAX_DIMS)
        return stk_fail(err, STK_EINVAL, "raw: shape has %u sides, at most %d", r->ndim,
                        STK_MAX_DIMS - 1);
    for (uint32_t i = 0; i < r->ndim && stk_args_has(args, "shape"); i++) {
        double side = stk_args_f64_at(args, "shape", i);

        r->shape[i] = (int64_t)side;
        if (!i && side == -1) {
            r->ragged = 1;
            continue;
        }
        bytes *= side;
        if (!(side >= 1) || bytes > MAX_PART)
            return stk_fail(err, STK_EINVAL,
                            "raw: a side of shape is at least 1, and the first may be -1, not %g",
                            side);
    }
    r->part = (size_t)bytes;
    return 0;
}

static int raw_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct raw *r = state;

    if (spec->kind != STK_KIND_BYTES)
        return stk_fail(err, STK_EINVAL,
                        "raw reads a field's bytes: put it first, or after gunzip");
    STK_TRY(plan_dtype(r, stk_args_str(args, "dtype"), err));
    STK_TRY(plan_shape(r, args, err));
    *spec = (stk_spec){ .kind = STK_KIND_VALUE,
                        .out = r->ragged ? STK_OUT_LIST : STK_OUT_DENSE,
                        .dtype = r->dtype,
                        .ndim = r->ndim };
    memcpy(spec->shape, r->shape, r->ndim * sizeof *r->shape);
    return 0;
}

static const stk_arg raw_args[] = {
    { "dtype", STK_ARG_NAME, NULL, "of the numbers: u8 i8 u16 i16 i32 u32 i64 f16 bf16 f32 f64" },
    { "shape", STK_ARG_INTS, "",
      "of every row, so that they stack; the first side may be -1; absent: (-1)", 1 },
    { 0 },
};

const stk_codec stk_codec_raw = { .abi = STK_PLUGIN_ABI,
                                  .size = sizeof(stk_codec),
                                  .name = "raw",
                                  .help = "numbers as memory has them, without a header",
                                  .args = raw_args,
                                  .state_size = sizeof(struct raw),
                                  .plan = raw_plan,
                                  .parse = raw_parse,
                                  .shape = raw_shape };

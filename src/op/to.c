/* SPDX-License-Identifier: Apache-2.0 */
/* to - element type and layout of an image's rows, element type of numbers; the last of a chain.
 * Float types are scaled to 0..1 as torchvision's ToTensor does, unless normalize has scaled them
 * or scale=false. */
#include "op/spec.h"

#include <string.h>

#include "base/cpu.h"
#include "base/expr.h"
#include "kern/convert.h"

/* Of frames: channels before them.  A frame by itself is CHW. */
#define CTHW ((stk_layout)(STK_CHANNELS_LAST + 1))

static const struct {
    const char *name;
    stk_dtype dtype;
    stk_layout layout;
} names[] = {
    { "u8", STK_U8, 0 },
    { "uint8", STK_U8, 0 },
    { "f16", STK_F16, 0 },
    { "float16", STK_F16, 0 },
    { "bf16", STK_BF16, 0 },
    { "bfloat16", STK_BF16, 0 },
    { "f32", STK_F32, 0 },
    { "float32", STK_F32, 0 },
    { "i8", STK_I8, 0 },
    { "int8", STK_I8, 0 },
    { "u16", STK_U16, 0 },
    { "uint16", STK_U16, 0 },
    { "i16", STK_I16, 0 },
    { "int16", STK_I16, 0 },
    { "i32", STK_I32, 0 },
    { "int32", STK_I32, 0 },
    { "u32", STK_U32, 0 },
    { "uint32", STK_U32, 0 },
    { "i64", STK_I64, 0 },
    { "int64", STK_I64, 0 },
    { "f64", STK_F64, 0 },
    { "float64", STK_F64, 0 },
    { "chw", 0, STK_CHW },
    { "hwc", 0, STK_HWC },
    { "channels_last", 0, STK_CHANNELS_LAST },
    { "cthw", 0, CTHW },
};
#define NAMES (sizeof names / sizeof *names)

/* A name in either place may be a type or a layout: to(hwc), to(u8, hwc). */
static int take(const char *name, stk_dtype *dtype, stk_layout *layout, stk_error *err)
{
    const char *all[NAMES], *near;

    for (size_t i = 0; i < NAMES; i++) {
        all[i] = names[i].name;
        if (strcmp(name, names[i].name))
            continue;
        if (names[i].dtype ? *dtype != 0 : *layout != 0)
            return stk_fail(err, STK_EINVAL, "to: `%s` is a second %s", name,
                            names[i].dtype ? "type" : "layout");
        if (names[i].dtype)
            *dtype = names[i].dtype;
        else
            *layout = names[i].layout;
        return 0;
    }
    near = stk_nearest(name, all, NAMES);
    if (near)
        return stk_fail(err, STK_EINVAL, "to: `%s` is not known: did you mean `%s`?", name, near);
    return stk_fail(err, STK_EINVAL,
                    "to: `%s` is not known: u8 f16 bf16 f32; chw hwc channels_last cthw", name);
}

/* Rows of arrays have a type and no layout; their numbers are never scaled. */
static int to_array(const stk_args *args, stk_spec *spec, stk_error *err)
{
    const char *name = stk_args_str(args, "dtype");
    stk_dtype dtype = 0;
    stk_layout layout = 0;

    if (spec->dtype_fixed)
        return stk_fail(err, STK_EINVAL, "to comes twice: leave one");
    if (!name || stk_args_has(args, "layout"))
        return stk_fail(err, STK_EINVAL, "to: rows of arrays take a type: to(i32), to(stored)");
    if (strcmp(name, "stored"))
        STK_TRY(take(name, &dtype, &layout, err));
    if (layout)
        return stk_fail(err, STK_EINVAL, "to: `%s` is a layout, which pictures have", name);
    spec->dtype = dtype;
    spec->dtype_fixed = 1;
    return 0;
}

struct to {
    stk_dtype dtype; /* of numbers */
};

/* Numbers have a type and no layout; they are never scaled. */
static int to_value(struct to *t, const stk_args *args, stk_spec *spec, stk_error *err)
{
    const char *name = stk_args_str(args, "dtype");
    stk_layout layout = 0;

    if (spec->dtype_fixed)
        return stk_fail(err, STK_EINVAL, "to comes twice: leave one");
    if (!name || stk_args_has(args, "layout"))
        return stk_fail(err, STK_EINVAL, "to: numbers take a type: to(i32), to(f16)");
    STK_TRY(take(name, &t->dtype, &layout, err));
    if (layout)
        return stk_fail(err, STK_EINVAL, "to: `%s` is a layout, which pictures have", name);
    if (spec->dtype && spec->dtype != t->dtype && !stk_convert_c(spec->dtype, t->dtype))
        return stk_fail(err, STK_EINVAL, "to: %s numbers don't become %s: take a float type",
                        stk_dtype_name(spec->dtype), stk_dtype_name(t->dtype));
    spec->dtype = t->dtype;
    spec->dtype_fixed = 1;
    return 0;
}

static int to_turn(const void *state, stk_value_row *row, stk_rng *rng, stk_scratch *scratch,
                   stk_error *err)
{
    const struct to *t = state;
    stk_convert_fn convert = stk_convert_find(stk_cpu_level(), row->dtype, t->dtype);
    size_t n = 1;
    void *made;

    if (row->dtype == t->dtype)
        return 0;
    if (!convert)
        return stk_fail(err, STK_ECORRUPT, "to: this sample's %s numbers don't become %s",
                        stk_dtype_name(row->dtype), stk_dtype_name(t->dtype));
    for (uint32_t i = 0; i < row->ndim; i++)
        n *= (size_t)row->shape[i];
    made = stk_scratch_get(scratch, n * stk_dtype_size(t->dtype) + 1);
    if (!made)
        return stk_fail_nomem(err, n * stk_dtype_size(t->dtype));
    if (convert(made, row->data, n))
        return stk_fail(err, STK_ECORRUPT, "to: a number does not fit %s: take a wider type",
                        stk_dtype_name(t->dtype));
    row->dtype = t->dtype;
    row->data = made;
    return 0;
}

static int to_check(const stk_spec *spec, stk_error *err)
{
    if (spec->kind != STK_KIND_IMAGE)
        return stk_fail(err, STK_EINVAL, "to works on an image: put `image` before it");
    if (spec->dtype_fixed)
        return stk_fail(err, STK_EINVAL, "to comes twice: leave one");
    return 0;
}

/* Values of 16 bits stay what they are, unless scale=true or normalize says otherwise. */
static int to_deep(const stk_args *args, stk_spec *spec, stk_dtype dtype, stk_error *err)
{
    int scaled = spec->picture.normalized ||
                 (stk_args_given(args, "scale") && stk_args_bool(args, "scale"));

    if (dtype == STK_U8 || dtype == STK_I8 || dtype == STK_I16)
        return stk_fail(err, STK_EINVAL,
                        "to: %s does not hold 16 bits: take u16, i32 or f32, or image(mode=gray, "
                        "bits=8)",
                        stk_dtype_name(dtype));
    if (dtype == STK_F16 && !scaled)
        return stk_fail(err, STK_EINVAL, "to: f16 ends at 65504: take f32, or scale=true for 0..1");
    if (scaled && dtype && dtype != STK_F16 && dtype != STK_BF16 && dtype != STK_F32)
        return stk_fail(err, STK_EINVAL, "to: scaled values come as f16, bf16 or f32, not %s",
                        stk_dtype_name(dtype));
    if (scaled && !dtype && !spec->picture.normalized)
        return stk_fail(err, STK_EINVAL, "to: scale=true needs a float type: to(f32, scale=true)");
    spec->dtype = dtype ? dtype : spec->dtype;
    if (scaled && !spec->picture.normalized)
        spec->picture.mul[0] = 1.0f / 65535;
    spec->dtype_fixed = 1;
    return 0;
}

static int to_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    stk_dtype dtype = 0;
    stk_layout layout = 0;

    if (spec->array)
        return to_array(args, spec, err);
    if (spec->kind == STK_KIND_VALUE)
        return to_value(state, args, spec, err);
    STK_TRY(to_check(spec, err));
    if (stk_args_has(args, "dtype"))
        STK_TRY(take(stk_args_str(args, "dtype"), &dtype, &layout, err));
    if (stk_args_has(args, "layout"))
        STK_TRY(take(stk_args_str(args, "layout"), &dtype, &layout, err));
    if (layout == CTHW) {
        if (!stk_spec_lead(spec, STK_LEAD_FRAMES))
            return stk_fail(err, STK_EINVAL, "to: cthw is of frames: put `video` first");
        spec->picture.channels_first = 1;
        layout = STK_CHW;
    }
    if (spec->picture.mode == STK_MODE_INDEX) { /* whole numbers that mean what they are */
        if (layout || (dtype && !stk_convert_c(STK_U8, dtype) && dtype != STK_U8))
            return stk_fail(err, STK_EINVAL, "to: indices are (height, width), of any type");
        spec->dtype = dtype ? dtype : spec->dtype;
        spec->dtype_fixed = 1;
        return 0;
    }
    if (spec->picture.mode == STK_MODE_GRAY16) {
        spec->picture.layout = layout ? layout : spec->picture.layout;
        return to_deep(args, spec, dtype, err);
    }
    if (dtype && dtype != STK_U8 && dtype != STK_F16 && dtype != STK_BF16 && dtype != STK_F32)
        return stk_fail(err, STK_EINVAL, "to: pictures come as u8, f16, bf16 or f32, not %s",
                        stk_dtype_name(dtype));
    if (dtype == STK_U8 && spec->picture.normalized)
        return stk_fail(err, STK_EINVAL,
                        "to(u8) after normalize would lose everything: take f16, bf16 or f32");
    if (dtype)
        spec->dtype = dtype;
    if (layout && spec->picture.patch.side)
        return stk_fail(err, STK_EINVAL, "to: patches have no layout: patches(channels=first)");
    if (layout)
        spec->picture.layout = layout;
    if (spec->dtype != STK_U8 && !spec->picture.normalized && stk_args_bool(args, "scale"))
        for (int i = 0; i < 3; i++)
            spec->picture.mul[i] = 1.0f / 255;
    spec->dtype_fixed = 1;
    return 0;
}

static const stk_arg to_args[] = {
    { "dtype", STK_ARG_NAME, "",
      "u8, f16, bf16 or f32; of numbers any type; of arrays also stored; absent: as it is" },
    { "layout", STK_ARG_NAME, "", "chw (absent: this), hwc or channels_last; of frames also cthw" },
    { "scale", STK_ARG_BOOL, "true",
      "float types without normalize: 0..255 to 0..1; of gray16 only if it is given" },
    { 0 },
};

const stk_op stk_op_to = { .abi = STK_PLUGIN_ABI,
                           .size = sizeof(stk_op),
                           .name = "to",
                           .help = "element type and layout; comes last",
                           .args = to_args,
                           .state_size = sizeof(struct to),
                           .plan = to_plan,
                           .value = to_turn };

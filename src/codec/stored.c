/* SPDX-License-Identifier: Apache-2.0 */
/* stored - see stored.h.  Of a field whose values differ in length, the first dimension follows
 * from how many bytes there are. */
#include "codec/stored.h"

#include <string.h>

#include "base/cpu.h"

int stk_stored_begin(stk_stored *s, const stk_field_type *type, stk_spec *spec, stk_error *err)
{
    size_t bytes = stk_dtype_size(type->dtype);

    *s = (stk_stored){ .type = *type, .to = type->dtype, .count = 1 };
    s->ragged = type->ndim && type->shape[0] < 0;
    for (uint32_t i = s->ragged; i < type->ndim; i++)
        if (type->shape[i] < 0 || __builtin_mul_overflow(bytes, (size_t)type->shape[i], &bytes) ||
            bytes > PTRDIFF_MAX)
            return stk_fail(err, STK_ENOTSUP, "field %.60s: rows of this shape are not supported",
                            type->name);
    s->count = bytes / stk_dtype_size(type->dtype);
    *spec = (stk_spec){ .kind = STK_KIND_VALUE,
                        .out = s->ragged ? STK_OUT_LIST : STK_OUT_DENSE,
                        .dtype = type->dtype,
                        .ndim = type->ndim,
                        .array = 1 };
    memcpy(spec->shape, type->shape, type->ndim * sizeof *spec->shape);
    return 0;
}

int stk_stored_settle(stk_stored *s, stk_dtype to, stk_error *err)
{
    stk_dtype from = s->type.dtype;

    s->to = to ? to : from;
    s->convert = s->to == from ? NULL : stk_convert_find(stk_cpu_level(), from, s->to);
    if (s->to != from && !s->convert)
        return stk_fail(err, STK_EINVAL, "%s is not made of %s: round it when you save it",
                        stk_dtype_name(s->to), stk_dtype_name(from));
    return 0;
}

/* Which value it was. */
static int misfit(const stk_stored *s, stk_bytes in, stk_error *err)
{
    size_t size = stk_dtype_size(s->type.dtype), i = 0;
    stk_convert_fn wide = stk_convert_c(s->type.dtype, STK_I64);
    uint64_t one[1];
    int64_t v = 0;

    while ((i + 2) * size <= in.len && !s->convert(one, in.data + i * size, 1))
        i++;
    if (wide)
        wide(&v, in.data + i * size, 1);
    else
        memcpy(&v, in.data + i * size, sizeof v);
    return stk_fail(err, STK_ECORRUPT,
                    "%s has the value %" PRId64 ", which is not a %s: take to(i64)", s->type.name,
                    v, stk_dtype_name(s->to));
}

static int stored_parse(const void *state, const stk_codec_work *work, stk_bytes in, void *dst,
                        stk_error *err)
{
    const stk_stored *s = state;
    size_t size = stk_dtype_size(s->type.dtype);

    if (!s->ragged && in.len != s->count * size)
        return stk_fail(err, STK_ECORRUPT, "field %s has %zu bytes, and %zu %s have %zu",
                        s->type.name, in.len, s->count, stk_dtype_name(s->type.dtype),
                        s->count * size);
    if (s->convert)
        return s->convert(dst, in.data, in.len / size) ? misfit(s, in, err) : 0;
    if (in.len) /* an empty row may have no address */
        memcpy(dst, in.data, in.len);
    return 0;
}

static int stored_shape(const void *state, stk_bytes in, stk_spec *row, stk_error *err)
{
    const stk_stored *s = state;
    size_t part = s->count * stk_dtype_size(s->type.dtype);

    if (part ? in.len % part : in.len)
        return stk_fail(err, STK_ECORRUPT, "field %s has %zu bytes, which is not a multiple of %zu",
                        s->type.name, in.len, part);
    row->dtype = s->to;
    row->ndim = s->type.ndim;
    memcpy(row->shape, s->type.shape, s->type.ndim * sizeof *row->shape);
    row->shape[0] = part ? (int64_t)(in.len / part) : 0;
    return 0;
}

/* The chain begins it by stk_stored_begin(), which knows the type. */
static int stored_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    (void)state;
    (void)args;
    (void)spec;
    return stk_fail(err, STK_EINVAL, "`stored` is not a step");
}

const stk_codec stk_codec_stored = { .abi = STK_PLUGIN_ABI,
                                     .size = sizeof(stk_codec),
                                     .name = "stored",
                                     .help = "a field that has a type, as it is",
                                     .state_size = sizeof(stk_stored),
                                     .plan = stored_plan,
                                     .parse = stored_parse,
                                     .shape = stored_shape };

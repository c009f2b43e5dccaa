/* SPDX-License-Identifier: Apache-2.0 */
/* written.c - see written.h. */
#include "codec/written.h"

#include <string.h>

#include "codec/encode.h"

int stk_written_plan(stk_written *w, const stk_field_type *type, const stk_codec *reads,
                     stk_error *err)
{
    uint32_t can = reads ? reads->can : 0;
    char head[STK_NPY_TEXT];

    *w = (stk_written){ .type = *type,
                        .text = !(can & STK_CODEC_NPY),
                        .part = stk_dtype_size(type->dtype) };
    if (!(can & (STK_CODEC_NPY | STK_CODEC_NUMBERS)))
        return stk_fail(err, STK_EINVAL,
                        "the field %.60s is bytes in one data set and has a type (%s) in another: "
                        "begin with npy, "
                        "int, float, ints or floats, which read both",
                        type->name, stk_dtype_name(type->dtype));
    for (uint32_t i = type->ndim && type->shape[0] < 0; i < type->ndim; i++)
        if (type->shape[i] < 0 || __builtin_mul_overflow(w->part, (size_t)type->shape[i], &w->part))
            return stk_fail(err, STK_ENOTSUP, "field %.60s: rows of this shape are not supported",
                            type->name);
    if (!w->text && !stk_npy_text(head, type->dtype, type->ndim, type->shape))
        return stk_fail(
            err, STK_ENOTSUP,
            "the field %.60s has type %s, which NumPy has not: open the data sets apart",
            type->name, stk_dtype_name(type->dtype));
    return 0;
}

static int write_npy(const stk_written *w, stk_bytes in, stk_scratch *scratch, stk_bytes *out,
                     stk_error *err)
{
    int64_t shape[sizeof w->type.shape / sizeof *w->type.shape];
    uint8_t *dst = stk_scratch_get(scratch, STK_NPY_TEXT + in.len);
    size_t head;

    if (!dst)
        return stk_fail_nomem(err, STK_NPY_TEXT + in.len);
    memcpy(shape, w->type.shape, sizeof shape);
    if (w->type.ndim && shape[0] < 0)
        shape[0] = w->part ? (int64_t)(in.len / w->part) : 0;
    head = stk_npy_text((char *)dst, w->type.dtype, w->type.ndim, shape);
    if (in.len)
        memcpy(dst + head, in.data, in.len);
    *out = (stk_bytes){ dst, head + in.len };
    return 0;
}

static int write_text(const stk_written *w, stk_bytes in, stk_scratch *scratch, stk_bytes *out,
                      stk_error *err)
{
    size_t size = stk_dtype_size(w->type.dtype), n = in.len / size, len = 0, room;
    char *dst = __builtin_mul_overflow(n + 1, (size_t)STK_NUMBER_ROOM, &room)
                    ? NULL
                    : stk_scratch_get(scratch, room);

    if (!dst)
        return stk_fail_nomem(err, in.len);
    for (size_t i = 0; i < n; i++) {
        size_t got = stk_number_text(dst + len, w->type.dtype, in.data + i * size);

        if (!got)
            return stk_fail(err, STK_EINVAL,
                            "field %.60s: a number is not finite, which text can't hold: take npy",
                            w->type.name);
        len += got;
        dst[len++] = ' ';
    }
    *out = (stk_bytes){ (const uint8_t *)dst, len };
    return 0;
}

static int written_extract(const void *state, stk_bytes in, stk_scratch *scratch, stk_bytes *out,
                           stk_error *err)
{
    const stk_written *w = state;

    return w->text ? write_text(w, in, scratch, out, err) : write_npy(w, in, scratch, out, err);
}

/* A binding has it, with a state that stk_written_plan() made. */
static int written_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    (void)state, (void)args, (void)spec;
    return stk_fail(err, STK_EINVAL, "`written` is not a step");
}

const stk_codec stk_codec_written = { .abi = STK_PLUGIN_ABI,
                                      .size = sizeof(stk_codec),
                                      .name = "written",
                                      .help = "a value that has a type, as a codec reads it",
                                      .state_size = sizeof(stk_written),
                                      .plan = written_plan,
                                      .extract = written_extract };

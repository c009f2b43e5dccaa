/* SPDX-License-Identifier: Apache-2.0 */
/* encode_plain.c - numbers and text without a picture codec: npy, raw, text, json.
 *
 * Elements are written in C order whatever the strides are.  Numbers in text have enough digits to
 * be read back as they were, and a point in every locale. */
#include "codec/encode.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "kern/half.h"

/* ---- elements ---- */

static int is_string(const stk_encode_in *in)
{
    return in->kind == STK_OUT_BYTES || in->kind == STK_OUT_TEXT || in->kind == STK_OUT_JSON;
}

static int is_dense(const stk_tensor *t)
{
    int64_t step = 1;

    for (uint32_t d = t->ndim; d-- > 0; step *= t->shape[d])
        if (t->shape[d] > 1 && t->strides[d] != step)
            return 0;
    return 1;
}

static uint64_t count_of(const stk_tensor *t)
{
    uint64_t n = 1;

    for (uint32_t d = 0; d < t->ndim; d++)
        n *= (uint64_t)t->shape[d];
    return n;
}

/* Element `i` in C order. */
static const uint8_t *element(const stk_tensor *t, uint64_t i)
{
    int64_t at = 0;

    for (uint32_t d = t->ndim; d-- > 0; i /= (uint64_t)t->shape[d])
        at += (int64_t)(i % (uint64_t)t->shape[d]) * t->strides[d];
    return (const uint8_t *)t->data + at * (int64_t)stk_dtype_size(t->dtype);
}

static int put_elements(const stk_tensor *t, stk_text *out, stk_error *err)
{
    size_t size = stk_dtype_size(t->dtype);
    uint64_t n = count_of(t);

    if (is_dense(t))
        return n ? stk_text_put(out, t->data, (size_t)n * size, err) : 0;
    for (uint64_t i = 0; i < n; i++)
        STK_TRY(stk_text_put(out, element(t, i), size, err));
    return 0;
}

static double real_of(stk_dtype type, const void *p)
{
    uint16_t h;
    float f;
    double d = 0;

    switch (type) {
    case STK_F64: memcpy(&d, p, 8); return d;
    case STK_F32: memcpy(&f, p, 4); return (double)f;
    case STK_F16: memcpy(&h, p, 2); return (double)stk_f16_to(h);
    default: memcpy(&h, p, 2); return (double)stk_bf16_to(h);
    }
}

static int64_t whole_of(stk_dtype type, const void *p)
{
    int64_t i64 = 0;
    int32_t i32;
    uint32_t u32;
    int16_t i16;
    uint16_t u16;

    switch (type) {
    case STK_I64: memcpy(&i64, p, 8); return i64;
    case STK_I32: memcpy(&i32, p, 4); return i32;
    case STK_U32: memcpy(&u32, p, 4); return u32;
    case STK_I16: memcpy(&i16, p, 2); return i16;
    case STK_U16: memcpy(&u16, p, 2); return u16;
    case STK_I8: return *(const int8_t *)p;
    default: return *(const uint8_t *)p;
    }
}

static int is_real(stk_dtype type)
{
    return type == STK_F64 || type == STK_F32 || type == STK_F16 || type == STK_BF16;
}

size_t stk_number_text(char out[STK_NUMBER_ROOM], stk_dtype type, const void *p)
{
    double d;
    int len;

    if (!is_real(type))
        return (size_t)snprintf(out, STK_NUMBER_ROOM, "%" PRId64, whole_of(type, p));
    d = real_of(type, p);
    if (!isfinite(d))
        return 0;
    len = snprintf(out, STK_NUMBER_ROOM, type == STK_F64 ? "%.17g" : "%.9g", d);
    for (int i = 0; i < len; i++) /* the locale's point */
        if (!strchr("0123456789+-e", out[i]))
            out[i] = '.';
    return (size_t)len;
}

static int put_number(stk_text *out, stk_dtype type, const void *p, stk_error *err)
{
    char text[STK_NUMBER_ROOM];
    size_t len = stk_number_text(text, type, p);

    if (!len)
        return stk_fail(
            err, STK_EINVAL,
            "encode: a number is not finite, which text and JSON can't hold: encode(npy)");
    return stk_text_put(out, text, len, err);
}

/* ---- npy, raw ---- */

static const char *npy_name(stk_dtype type)
{
    switch (type) {
    case STK_U8: return "|u1";
    case STK_I8: return "|i1";
    case STK_U16: return "<u2";
    case STK_I16: return "<i2";
    case STK_U32: return "<u4";
    case STK_I32: return "<i4";
    case STK_I64: return "<i8";
    case STK_F16: return "<f2";
    case STK_F32: return "<f4";
    case STK_F64: return "<f8";
    default: return NULL;
    }
}

size_t stk_npy_text(char out[STK_NPY_TEXT], stk_dtype type, uint32_t ndim, const int64_t *shape)
{
    const char *name = npy_name(type);
    size_t len;

    if (!name)
        return 0;
    len = 10 + (size_t)snprintf(out + 10, STK_NPY_TEXT - 10,
                                "{'descr': '%s', 'fortran_order': False, 'shape': (", name);
    for (uint32_t d = 0; d < ndim; d++)
        len += (size_t)snprintf(out + len, STK_NPY_TEXT - len, "%" PRId64 ",%s", shape[d],
                                d + 1 < ndim ? " " : "");
    if (ndim > 1)
        len--; /* only a shape of one has its comma at the end */
    len += (size_t)snprintf(out + len, STK_NPY_TEXT - len, "), }");
    while ((len + 1) % 64)
        out[len++] = ' ';
    out[len++] = '\n';
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    out[8] = (char)((len - 10) & 255);
    out[9] = (char)((len - 10) >> 8);
    return len;
}

static int encode_npy(const stk_encoding *e, const stk_encode_in *in, stk_text *out, stk_error *err)
{
    const stk_tensor *t = &in->tensor;
    char head[STK_NPY_TEXT];
    size_t len;

    (void)e;
    if (is_string(in))
        return stk_fail(err, STK_EINVAL,
                        "encode(npy) takes numbers or a picture, not text: encode(text)");
    len = stk_npy_text(head, t->dtype, t->ndim, t->shape);
    if (!len)
        return stk_fail(err, STK_ENOTSUP, "encode(npy): NumPy has no %s: to(f32) before it",
                        stk_dtype_name(t->dtype));
    STK_TRY(stk_text_put(out, head, len, err));
    return put_elements(&in->tensor, out, err);
}

static int encode_raw(const stk_encoding *e, const stk_encode_in *in, stk_text *out, stk_error *err)
{
    (void)e;
    return put_elements(&in->tensor, out, err);
}

/* ---- text, json ---- */

static int encode_text(const stk_encoding *e, const stk_encode_in *in, stk_text *out,
                       stk_error *err)
{
    (void)e;
    if (is_string(in))
        return put_elements(&in->tensor, out, err);
    if (count_of(&in->tensor) != 1)
        return stk_fail(err, STK_EINVAL,
                        "encode(text) takes text or one number, not several: encode(json)");
    return put_number(out, in->tensor.dtype, in->tensor.data, err);
}

static int put_list(const stk_tensor *t, uint32_t d, const uint8_t *at, stk_text *out,
                    stk_error *err)
{
    int64_t step = d < t->ndim ? t->strides[d] * (int64_t)stk_dtype_size(t->dtype) : 0;

    if (d == t->ndim)
        return put_number(out, t->dtype, at, err);
    STK_TRY(stk_text_put(out, "[", 1, err));
    for (int64_t i = 0; i < t->shape[d]; i++) {
        if (i)
            STK_TRY(stk_text_put(out, ", ", 2, err));
        STK_TRY(put_list(t, d + 1, at + i * step, out, err));
    }
    return stk_text_put(out, "]", 1, err);
}

static int encode_json(const stk_encoding *e, const stk_encode_in *in, stk_text *out,
                       stk_error *err)
{
    const stk_tensor *t = &in->tensor;

    (void)e;
    if (in->kind == STK_OUT_JSON)
        return put_elements(t, out, err);
    if (in->kind == STK_OUT_TEXT)
        return stk_json_quote(out, (stk_bytes){ t->data, (size_t)count_of(t) }, err);
    if (in->kind == STK_OUT_BYTES)
        return stk_fail(
            err, STK_EINVAL,
            "encode(json) takes text, JSON or numbers, not bytes: put `text` before it");
    return put_list(t, 0, t->data, out, err);
}

const stk_encoder stk_encode_npy = { .name = "npy", .encode = encode_npy };
const stk_encoder stk_encode_raw = { .name = "raw", .encode = encode_raw };
const stk_encoder stk_encode_text = { .name = "text", .encode = encode_text };
const stk_encoder stk_encode_json = { .name = "json", .encode = encode_json };

/* SPDX-License-Identifier: Apache-2.0 */
/* pack_values.c - rows of tables as members of a tar.
 *
 * A number becomes its text and a list of numbers a JSON list, so that `int`, `float`, `ints` and
 * `floats` read them as they read the table; text and binary stay as they are; a null is left out.
 * `image.bytes` is called `image`, and `image` that is a picture by its kind (jpg, png, webp), as
 * that of a folder.  The key is the row's number. */
#include <stdio.h>
#include <string.h>

#include "base/decimal.h"
#include "base/mem.h"
#include "kern/half.h"
#include "tools/pack_model.h"

int stk_pack_names(stk_pack_run *p, stk_error *err)
{
    uint32_t n = 0;

    if (p->ds->can & STK_DATA_INDEXED)
        return 0;
    while (stk_dataset_field(p->ds, n))
        n++;
    p->name = stk_zalloc(n + 1u, sizeof *p->name);
    p->type = stk_zalloc(n + 1u, sizeof *p->type);
    if (!p->name || !p->type)
        return stk_fail_nomem(err, n * sizeof *p->type);
    for (uint32_t i = 0; i < n; i++) {
        const char *name;
        size_t len;

        stk_dataset_field_type(p->ds, i, &p->type[i]);
        name = p->type[i].name;
        len = strlen(name);
        if (len > 6 && !strcmp(name + len - 6, ".bytes"))
            len -= 6;
        p->name[i] = stk_strndup(name, len);
        if (!p->name[i])
            return stk_fail_nomem(err, len);
    }
    return 0;
}

stk_bytes stk_pack_key(const stk_pack_run *p, uint64_t id, char text[STK_PACK_KEY])
{
    stk_bytes key = { (const uint8_t *)text, 0 };

    if (p->ds->can & STK_DATA_KEYS)
        key.data = (const uint8_t *)stk_dataset_key(p->ds, id, &key.len);
    else
        key.len = (size_t)snprintf(text, STK_PACK_KEY, "%09" PRIu64, id);
    return key;
}

const char *stk_pack_picture_kind(stk_bytes in)
{
    if (in.len > 3 && !memcmp(in.data, "\xFF\xD8\xFF", 3))
        return "jpg";
    if (in.len > 8 && !memcmp(in.data, "\x89PNG\r\n\x1a\n", 8))
        return "png";
    if (in.len > 12 && !memcmp(in.data, "RIFF", 4) && !memcmp(in.data + 8, "WEBP", 4))
        return "webp";
    return NULL;
}

const char *stk_pack_member(const stk_pack_run *p, uint32_t field, stk_bytes in)
{
    const char *kind = p->type[field].dtype ? NULL : stk_pack_picture_kind(in);

    return kind && !strcmp(p->name[field], "image") ? kind : p->name[field];
}

/* With a point, whatever the program's locale says. */
static int real_put(double v, int digits, char *out, size_t size)
{
    int n = snprintf(out, size, "%.*g", digits, v);

    for (char *c = out; *c; c++)
        if (*c == ',')
            *c = '.';
    return n;
}

/* As few digits as give the same number back. */
static int real_text(double v, int digits, char *out, size_t size)
{
    if (v != v || v - v != 0)
        return snprintf(out, size, "%s", v != v ? "nan" : v > 0 ? "inf" : "-inf");
    for (int d = digits > 9 ? 15 : 6; d < digits; d++) {
        int n = real_put(v, d, out, size);
        double back = stk_decimal(out, NULL);

        if (digits > 9 ? back == v : (float)back == (float)v)
            return n;
    }
    return real_put(v, digits, out, size);
}

static int number_text(stk_dtype t, const uint8_t *in, char *out, size_t size)
{
    union {
        int8_t i8;
        int16_t i16;
        uint16_t u16;
        int32_t i32;
        uint32_t u32;
        int64_t i64;
        float f32;
        double f64;
    } v;

    memcpy(&v, in, stk_dtype_size(t));
    switch (t) {
    case STK_I8: return snprintf(out, size, "%d", v.i8);
    case STK_I16: return snprintf(out, size, "%d", v.i16);
    case STK_U16: return snprintf(out, size, "%u", v.u16);
    case STK_I32: return snprintf(out, size, "%d", v.i32);
    case STK_U32: return snprintf(out, size, "%u", v.u32);
    case STK_I64: return snprintf(out, size, "%lld", (long long)v.i64);
    case STK_F16: return real_text((double)stk_f16_to(v.u16), 9, out, size);
    case STK_BF16: return real_text((double)stk_bf16_to(v.u16), 9, out, size);
    case STK_F32: return real_text((double)v.f32, 9, out, size);
    case STK_F64: return real_text(v.f64, 17, out, size);
    default: return snprintf(out, size, "%u", *in);
    }
}

int stk_pack_value(const stk_pack_run *p, uint32_t field, stk_bytes in, stk_text *out,
                   stk_error *err)
{
    const stk_field_type *t = &p->type[field];
    size_t size = stk_dtype_size(t->dtype);
    char text[40];

    if (!t->dtype)
        return stk_text_put(out, in.data, in.len, err);
    if (t->ndim)
        STK_TRY(stk_text_put(out, "[", 1, err));
    for (size_t at = 0; at + size <= in.len; at += size) {
        int n = number_text(t->dtype, in.data + at, text, sizeof text);

        if (at)
            STK_TRY(stk_text_put(out, ", ", 2, err));
        STK_TRY(stk_text_put(out, text, (size_t)n, err));
    }
    return t->ndim ? stk_text_put(out, "]", 1, err) : 0;
}

void stk_pack_names_fini(stk_pack_run *p)
{
    for (uint32_t i = 0; p->name && p->name[i]; i++)
        stk_free(p->name[i]);
    stk_free(p->name);
    stk_free(p->type);
}

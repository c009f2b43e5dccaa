/* SPDX-License-Identifier: Apache-2.0 */
/* values.c - fields that have a type, as text: 3, 0.25, [1, 2, 3]; and keys of rows that have
 * none. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static double half_of(uint16_t h)
{
    int e = h >> 10 & 31, m = h & 1023;
    double v = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);

    return h & 0x8000 ? -v : v;
}

/* As few digits as give the same number back: `most` always do. */
static int real_text(double v, int least, int most, char *out, size_t size)
{
    int n = 0;

    if (isnan(v))
        return snprintf(out, size, "nan");
    for (int d = least; d <= most; d++) {
        double back;

        n = snprintf(out, size, "%.*g", d, v);
        back = strtod(out, NULL);
        if (most > 9 ? back == v : (float)back == (float)v)
            break;
    }
    return n;
}

static int number_text(stk_dtype t, const void *in, char *out, size_t size)
{
    union {
        uint8_t u8;
        int8_t i8;
        int16_t i16;
        uint16_t u16;
        int32_t i32;
        uint32_t u32;
        int64_t i64;
        float f32;
        double f64;
    } v = { 0 };

    memcpy(&v, in, stk_dtype_size(t));
    switch (t) {
    case STK_I8: return snprintf(out, size, "%d", v.i8);
    case STK_I16: return snprintf(out, size, "%d", v.i16);
    case STK_U16: return snprintf(out, size, "%u", v.u16);
    case STK_I32: return snprintf(out, size, "%" PRId32, v.i32);
    case STK_U32: return snprintf(out, size, "%" PRIu32, v.u32);
    case STK_I64: return snprintf(out, size, "%" PRId64, v.i64);
    case STK_F16: return real_text(half_of(v.u16), 3, 9, out, size);
    case STK_BF16: v.u32 = (uint32_t)v.u16 << 16; return real_text((double)v.f32, 3, 9, out, size);
    case STK_F32: return real_text((double)v.f32, 6, 9, out, size);
    case STK_F64: return real_text(v.f64, 15, 17, out, size);
    default: return snprintf(out, size, "%u", v.u8);
    }
}

char *cli_value_text(const stk_field_type *t, const void *data, size_t len)
{
    size_t each = stk_dtype_size(t->dtype), n = each ? len / each : 0, at = 0;
    char *out = malloc(n * 32 + 3);

    if (!out)
        return NULL;
    if (t->ndim)
        out[at++] = '[';
    for (size_t i = 0; i < n; i++) {
        if (i) {
            out[at++] = ',';
            out[at++] = ' ';
        }
        at += (size_t)number_text(t->dtype, (const char *)data + i * each, out + at, 30);
    }
    if (t->ndim)
        out[at++] = ']';
    out[at] = 0;
    return out;
}

int cli_field_type(const stk_dataset *ds, const char *name, stk_field_type *t)
{
    for (uint32_t i = 0; stk_dataset_field_type(ds, i, t); i++)
        if (!strcmp(t->name, name))
            return t->dtype != 0;
    return 0;
}

const char *cli_key(const stk_dataset *ds, uint64_t id, char text[24], size_t *len)
{
    const char *key = stk_dataset_key(ds, id, len);

    if (key)
        return key;
    *len = (size_t)snprintf(text, 24, "%" PRIu64, id);
    return text;
}

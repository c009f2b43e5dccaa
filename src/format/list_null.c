/* SPDX-License-Identifier: Apache-2.0 */
/* list_null.c - what stands for a null in a list; see list_null.h. */
#include "format/list_null.h"

#include <math.h>
#include <string.h>

int stk_list_null_is_whole(stk_dtype t)
{
    return t && t != STK_F16 && t != STK_F32 && t != STK_F64;
}

int stk_list_null_check(int64_t value, stk_dtype t, const char *column, stk_error *err)
{
    int is_signed = t == STK_I8 || t == STK_I16 || t == STK_I32;
    int bits = 8 * (int)stk_dtype_size(t) - is_signed;

    if (bits < 63 &&
        (value >= (int64_t)1 << bits || value < (is_signed ? -((int64_t)1 << bits) : 0)))
        return stk_fail(err, STK_EINVAL,
                        "null=%" PRId64 " is not a value of column %.60s, of lists of %s", value,
                        column, stk_dtype_name(t));
    return 0;
}

int stk_list_null_put(stk_dtype t, const int64_t *fill, uint8_t *dst)
{
    float f = NAN;
    double x = NAN;
    uint16_t half = 0x7E00;

    switch (t) {
    case STK_F32: memcpy(dst, &f, 4); return 1;
    case STK_F64: memcpy(dst, &x, 8); return 1;
    case STK_F16: memcpy(dst, &half, 2); return 1;
    default:
        if (fill)
            memcpy(dst, fill, stk_dtype_size(t));
        else
            memset(dst, 0, stk_dtype_size(t));
        return fill != NULL;
    }
}

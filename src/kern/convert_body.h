/* SPDX-License-Identifier: Apache-2.0 */
/* convert_body.h - the loops of convert.h.  The files that compile them for a CPU define
 * STK_CONVERT, the name of the function, and include this one. */
#include <stdint.h>
#include <string.h>

#include "kern/convert.h"
#include "kern/half.h"

/* One loop: T is what is there, D what is made; `bad` gathers what does not fit. */
#define LOOP(name, T, D, make, misfit)                                                             \
    static int name(void *restrict dst, const void *restrict src, size_t n)                        \
    {                                                                                              \
        const uint8_t *s = src;                                                                    \
        D *d = dst;                                                                                \
        int bad = 0;                                                                               \
                                                                                                   \
        for (size_t i = 0; i < n; i++) {                                                           \
            T v;                                                                                   \
                                                                                                   \
            memcpy(&v, s + i * sizeof v, sizeof v);                                                \
            d[i] = (D)make(v);                                                                     \
            bad |= misfit(v, D);                                                                   \
        }                                                                                          \
        return bad;                                                                                \
    }

#define PLAIN(v) (v)
#define FITS(v, D) 0
#define CUT(v, D) ((int64_t)(D)(v) != (int64_t)(v))

#define WHOLE(from, T)                                                                             \
    LOOP(from##_u8, T, uint8_t, PLAIN, CUT)                                                        \
    LOOP(from##_i8, T, int8_t, PLAIN, CUT)                                                         \
    LOOP(from##_u16, T, uint16_t, PLAIN, CUT)                                                      \
    LOOP(from##_i16, T, int16_t, PLAIN, CUT)                                                       \
    LOOP(from##_i32, T, int32_t, PLAIN, CUT)                                                       \
    LOOP(from##_u32, T, uint32_t, PLAIN, CUT)                                                      \
    LOOP(from##_i64, T, int64_t, PLAIN, CUT)                                                       \
    REAL(from, T, PLAIN)

#define REAL(from, T, make)                                                                        \
    LOOP(from##_f32, T, float, make, FITS)                                                         \
    LOOP(from##_f64, T, double, make, FITS)                                                        \
    static inline uint16_t from##_half(T v)                                                        \
    {                                                                                              \
        return stk_f16_from((float)make(v));                                                       \
    }                                                                                              \
    static inline uint16_t from##_brain(T v)                                                       \
    {                                                                                              \
        return stk_bf16_from((float)make(v));                                                      \
    }                                                                                              \
    LOOP(from##_f16, T, uint16_t, from##_half, FITS)                                               \
    LOOP(from##_bf16, T, uint16_t, from##_brain, FITS)

WHOLE(u8, uint8_t)
WHOLE(i8, int8_t)
WHOLE(u16, uint16_t)
WHOLE(i16, int16_t)
WHOLE(i32, int32_t)
WHOLE(u32, uint32_t)
WHOLE(i64, int64_t)
REAL(f16, uint16_t, stk_f16_to)
REAL(bf16, uint16_t, stk_bf16_to)
REAL(f32, float, PLAIN)
REAL(f64, double, PLAIN)

#define ROW_REAL(from)                                                                             \
    [STK_F16] = from##_f16, [STK_BF16] = from##_bf16, [STK_F32] = from##_f32, [STK_F64] = from##_f64
#define ROW_WHOLE(from)                                                                            \
    [STK_U8] = from##_u8, [STK_I8] = from##_i8, [STK_U16] = from##_u16, [STK_I16] = from##_i16,    \
    [STK_I32] = from##_i32, [STK_U32] = from##_u32, [STK_I64] = from##_i64, ROW_REAL(from)

stk_convert_fn STK_CONVERT(stk_dtype from, stk_dtype to)
{
    static const stk_convert_fn table[STK_U32 + 1][STK_U32 + 1] = {
        [STK_U8] = { ROW_WHOLE(u8) },    [STK_I8] = { ROW_WHOLE(i8) },
        [STK_U16] = { ROW_WHOLE(u16) },  [STK_I16] = { ROW_WHOLE(i16) },
        [STK_I32] = { ROW_WHOLE(i32) },  [STK_U32] = { ROW_WHOLE(u32) },
        [STK_I64] = { ROW_WHOLE(i64) },  [STK_F16] = { ROW_REAL(f16) },
        [STK_BF16] = { ROW_REAL(bf16) }, [STK_F32] = { ROW_REAL(f32) },
        [STK_F64] = { ROW_REAL(f64) },
    };

    return from == to || from > STK_U32 || to > STK_U32 ? NULL : table[from][to];
}

/* SPDX-License-Identifier: Apache-2.0 */
/* convert_test.c - every pair of types, at every level, against a conversion of one value; every
 * tail length, unaligned sources, guard bytes; what does not fit; both halves over all bits. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "kern/convert.h"
#include "kern/past.h"
#include "kern/half.h"

#define SEED 77u
#define MAX 67
#define GUARD 64

static int is_float(stk_dtype d)
{
    return d == STK_F16 || d == STK_BF16 || d == STK_F32 || d == STK_F64;
}

static double value_of(const void *p, stk_dtype d)
{
    union {
        uint8_t u8;
        int8_t i8;
        uint16_t u16;
        int16_t i16;
        int32_t i32;
        uint32_t u32;
        int64_t i64;
        float f32;
        double f64;
    } v;

    memcpy(&v, p, stk_dtype_size(d));
    switch (d) {
    case STK_U8: return v.u8;
    case STK_I8: return v.i8;
    case STK_U16: return v.u16;
    case STK_I16: return v.i16;
    case STK_I32: return v.i32;
    case STK_U32: return v.u32;
    case STK_I64: return (double)v.i64;
    case STK_F16: return (double)stk_f16_to(v.u16);
    case STK_BF16: return (double)stk_bf16_to(v.u16);
    case STK_F32: return (double)v.f32;
    default: return v.f64;
    }
}

/* A small value of the type, so that all types hold it exactly. */
static void put(void *p, stk_dtype d, int v)
{
    uint16_t half = d == STK_F16 ? stk_f16_from((float)v) : stk_bf16_from((float)v);
    int64_t i = v;
    float f = (float)v;
    double g = v;

    memcpy(p,
           is_float(d) ? (d == STK_F32   ? (void *)&f
                          : d == STK_F64 ? (void *)&g
                                         : &half)
                       : &i,
           stk_dtype_size(d));
}

static void every_pair(void **state)
{
    uint8_t src[MAX * 8 + GUARD + 1], got[MAX * 8 + GUARD] __attribute__((aligned(64))),
        before[MAX * 8 + GUARD];
    uint64_t rng = SEED;

    (void)state;
    for (stk_dtype from = STK_U8; from <= STK_U32; from++)
        for (stk_dtype to = STK_U8; to <= STK_U32; to++)
            for (stk_cpu level = STK_CPU_NONE; level <= stk_cpu_level(); level++) {
                stk_convert_fn fn = stk_convert_find(level, from, to);

                if (from == to || (is_float(from) && !is_float(to))) {
                    assert_null(fn);
                    continue;
                }
                assert_non_null(fn);
                for (size_t n = 0; n <= MAX; n++) {
                    size_t a = stk_dtype_size(from), b = stk_dtype_size(to);
                    uint8_t *at = src + n % 2;

                    for (size_t i = 0; i < n; i++)
                        put(at + i * a, from, (int)(stk_mix64(rng++) % 128));
                    memset(got, 0xA5, sizeof got);
                    memcpy(before, got, sizeof got);
                    assert_int_equal(fn(got, at, n), 0);
                    for (size_t i = 0; i < n; i++)
                        assert_true(value_of(got + i * b, to) == value_of(at + i * a, from));
                    assert_memory_equal(got + n * b, before + n * b, sizeof got - n * b);
                }
            }
}

static void what_does_not_fit(void **state)
{
    static const struct {
        stk_dtype from, to;
        int64_t bad, good;
    } c[] = { { STK_I32, STK_U16, 65536, 65535 }, { STK_I32, STK_U16, -1, 0 },
              { STK_U16, STK_I16, 32768, 32767 }, { STK_I64, STK_I32, 1ll << 31, -(1ll << 31) },
              { STK_U32, STK_I32, 1ll << 31, 5 }, { STK_I64, STK_U32, -1, (1ll << 32) - 1 },
              { STK_I64, STK_U8, 256, 255 },      { STK_I8, STK_U8, -1, 127 },
              { STK_I16, STK_I8, -129, -128 },    { STK_U8, STK_I8, 128, 127 } };

    (void)state;
    for (size_t i = 0; i < sizeof c / sizeof *c; i++)
        for (stk_cpu level = STK_CPU_NONE; level <= stk_cpu_level(); level++)
            for (size_t at = 0; at < MAX; at++) {
                stk_convert_fn fn = stk_convert_find(level, c[i].from, c[i].to);
                size_t a = stk_dtype_size(c[i].from);
                uint8_t src[MAX * 8] = { 0 }, dst[MAX * 8];

                memcpy(src + at * a, &c[i].good, a);
                assert_int_equal(fn(dst, src, MAX), 0);
                memcpy(src + at * a, &c[i].bad, a);
                assert_int_not_equal(fn(dst, src, MAX), 0);
            }
}

/* A value a bit or two longer than a half has: between two of them, or on one. */
static void halves(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        float f = stk_f16_to((uint16_t)h), b = stk_bf16_to((uint16_t)h);

        if (isnan(f))
            assert_true(isnan(stk_f16_to(stk_f16_from(f))));
        else
            assert_int_equal(stk_f16_from(f), h);
        if (isnan(b))
            assert_true(isnan(stk_bf16_to(stk_bf16_from(b))));
        else
            assert_int_equal(stk_bf16_from(b), h);
        if (h >= 0x7bff)
            continue;
        b = stk_f16_to((uint16_t)(h + 1));
        assert_int_equal(stk_f16_from((f + b) / 2), h + (h & 1)); /* ties to even */
        assert_int_equal(stk_f16_from(f + (b - f) * 0.25f), h);
        assert_int_equal(stk_f16_from(f + (b - f) * 0.75f), h + 1);
    }
    assert_int_equal(stk_f16_from(65519.0f), 0x7bff);
    assert_int_equal(stk_f16_from(65520.0f), 0x7c00);
    assert_int_equal(stk_f16_from(-1e30f), 0xfc00);
    assert_int_equal(stk_bf16_from(3.4e38f), 0x7f80);
}

/* Values of all sizes give the same bits at every level. */
static void levels_agree(void **state)
{
    uint64_t src[256], rng = SEED;
    uint8_t a[256 * 8], b[256 * 8];

    (void)state;
    for (stk_dtype from = STK_U8; from <= STK_U32; from++)
        for (stk_dtype to = STK_F16; to <= STK_F64; to++) {
            for (size_t i = 0; i < 256; i++) {
                double d = ldexp((double)stk_mix64(rng), (int)(stk_mix64(~rng) % 90) - 80);
                float f = (float)d;

                src[i] = stk_mix64(rng++);
                if (from == STK_F64)
                    memcpy(&src[i], &d, 8);
                if (from == STK_F32)
                    memcpy(&src[i], (float[]){ f, -f }, 8);
                if (from == STK_F16)
                    src[i] &= 0x3fff3fff3fff3fffu; /* no NaN */
                if (from == STK_BF16)
                    src[i] &= 0xbfffbfffbfffbfffu;
            }
            for (stk_cpu level = STK_CPU_NONE; from != to && level <= stk_cpu_level(); level++) {
                stk_convert_find(STK_CPU_NONE, from, to)(a, src, 256);
                stk_convert_find(level, from, to)(b, src, 256);
                assert_memory_equal(a, b, 256 * stk_dtype_size(to));
            }
        }
}

static void past_the_caches(void **state)
{
    uint8_t from[700], to[800], want[800];

    (void)state;
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (uint8_t)(i * 37 + 1);
    for (size_t at = 0; at < 70; at++)
        for (size_t n = 0; n < 600; n += n < 200 ? 1 : 67) {
            memset(to, 7, sizeof to);
            memset(want, 7, sizeof want);
            memcpy(want + at, from + at % 5, n);
            stk_copy_past(to + at, from + at % 5, n);
            assert_memory_equal(to, want, sizeof to);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(past_the_caches),   cmocka_unit_test(every_pair),
        cmocka_unit_test(what_does_not_fit), cmocka_unit_test(halves),
        cmocka_unit_test(levels_agree),
    };

    printf("seed %u\n", SEED);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

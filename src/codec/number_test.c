/* SPDX-License-Identifier: Apache-2.0 */
/* number_test - int and float read what Python's int() and float() read, and quote what they
 * can't. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <locale.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "codec/codec.h"

#define BYTES(s) ((stk_bytes){ (const uint8_t *)(s), sizeof(s) - 1 })

static int parse(const stk_codec *codec, int json, stk_bytes in, void *dst, stk_error *err)
{
    stk_spec spec = { .kind = STK_KIND_BYTES, .out = json ? STK_OUT_JSON : STK_OUT_BYTES };
    union {
        int64_t align;
        char space[64];
    } state;

    assert_true(codec->state_size <= sizeof state);
    assert_int_equal(codec->plan(&state, NULL, &spec, err), 0);
    assert_int_equal(spec.kind, STK_KIND_VALUE);
    assert_int_equal(spec.out, STK_OUT_DENSE);
    assert_int_equal(spec.ndim, 0);
    return codec->parse(&state, NULL, in, dst, err);
}

static int64_t good_int(int json, stk_bytes in)
{
    stk_error err;
    int64_t v = -77;

    if (parse(&stk_codec_int, json, in, &v, &err) < 0)
        fail_msg("%s", err.message);
    return v;
}

static void bad(const stk_codec *codec, int json, stk_bytes in, const char *says)
{
    stk_error err;
    int64_t v = -77;

    assert_int_equal(parse(codec, json, in, &v, &err), STK_ECORRUPT);
    if (!strstr(err.message, says))
        fail_msg("\"%s\" does not say \"%s\"", err.message, says);
    assert_int_equal(v, -77);
}

static void integers(void **state)
{
    (void)state;
    assert_int_equal(good_int(0, BYTES("7")), 7);
    assert_int_equal(good_int(0, BYTES(" \t-12\r\n")), -12);
    assert_int_equal(good_int(0, BYTES("+0042")), 42);
    assert_true(good_int(0, BYTES("9223372036854775807")) == INT64_MAX);
    assert_true(good_int(0, BYTES("-9223372036854775808")) == INT64_MIN);
    assert_int_equal(good_int(1, BYTES("true")), 1);
    assert_int_equal(good_int(1, BYTES("false")), 0);
}

static void not_integers(void **state)
{
    (void)state;
    bad(&stk_codec_int, 0, BYTES(""), "\"\" is not an integer");
    bad(&stk_codec_int, 0, BYTES("  "), "is not an integer");
    bad(&stk_codec_int, 0, BYTES("-"), "\"-\" is not an integer");
    bad(&stk_codec_int, 0, BYTES("1 2"), "\"1 2\"");
    bad(&stk_codec_int, 0, BYTES("1.0"), "\"1.0\"");
    bad(&stk_codec_int, 0, BYTES("0x10"), "\"0x10\"");
    bad(&stk_codec_int, 0, BYTES("--1"), "is not an integer");
    bad(&stk_codec_int, 0, BYTES("true"), "is not an integer");
    bad(&stk_codec_int, 1, BYTES("truex"), "is not an integer");
    bad(&stk_codec_int, 1, BYTES("null"), "is not an integer");
    bad(&stk_codec_int, 0, BYTES("9223372036854775808"), "does not fit 64 bits");
    bad(&stk_codec_int, 0, BYTES("-9223372036854775809"), "does not fit 64 bits");
    bad(&stk_codec_int, 0, BYTES("99999999999999999999999"), "does not fit 64 bits");
    bad(&stk_codec_int, 0, BYTES("\0\x1b\"\\"), "\"\\x00\\x1b\\x22\\x5c\"");
    bad(&stk_codec_int, 0, BYTES("abcdefghijklmnopqrstuvwxyzabcdefghijkl"),
        "\"abcdefghijklmnopqrstuvwxyzabcdef\"...");
}

static float good_float(stk_bytes in)
{
    stk_error err;
    float v = -77;

    if (parse(&stk_codec_float, 0, in, &v, &err) < 0)
        fail_msg("%s", err.message);
    return v;
}

static void floats(void **state)
{
    (void)state;
    assert_true(good_float(BYTES("1.5\n")) == 1.5f);
    assert_true(good_float(BYTES("-.5e-3")) == -.5e-3f);
    assert_true(good_float(BYTES("5.")) == 5);
    assert_true(good_float(BYTES("+1E+2")) == 100);
    assert_true(good_float(BYTES("0.1")) == 0.1f);
    assert_true(isinf(good_float(BYTES("inf"))) && good_float(BYTES("-Infinity")) < 0);
    assert_true(isnan(good_float(BYTES("NaN"))));
    assert_true(isinf(good_float(BYTES("1e999"))));
    assert_true(good_float(BYTES("1e-999")) == 0);
    assert_true(signbit(good_float(BYTES("-0"))));
    /* Through f64: the f32 nearest to this decimal is the one above, Python and NumPy give the
     * one below. */
    assert_true(good_float(BYTES("1.00000005960464477539062500000000001")) == 1.0f);
}

static void not_floats(void **state)
{
    char long_text[600];

    (void)state;
    bad(&stk_codec_float, 0, BYTES(""), "is not a number");
    bad(&stk_codec_float, 0, BYTES("."), "\".\" is not a number");
    bad(&stk_codec_float, 0, BYTES("1e"), "is not a number");
    bad(&stk_codec_float, 0, BYTES("0x1p3"), "is not a number");
    bad(&stk_codec_float, 0, BYTES("1,5"), "is not a number");
    bad(&stk_codec_float, 0, BYTES("nan(1)"), "is not a number");
    bad(&stk_codec_float, 0, BYTES("infin"), "is not a number");
    bad(&stk_codec_float, 0, BYTES("1 2"), "is not a number");
    bad(&stk_codec_float, 0, BYTES("1\0"), "\"1\\x00\" is not a number");
    memset(long_text, '1', sizeof long_text);
    bad(&stk_codec_float, 0, (stk_bytes){ (uint8_t *)long_text, sizeof long_text },
        "600 characters");
}

static void the_locale_plays_no_part(void **state)
{
    (void)state;
    if (!setlocale(LC_ALL, "de_DE.UTF-8"))
        print_message("no German locale here: only the C locale was tried\n");
    assert_true(good_float(BYTES("1.25")) == 1.25f);
    bad(&stk_codec_float, 0, BYTES("1,25"), "is not a number");
    setlocale(LC_ALL, "C");
}

static void order_in_the_chain(void **state)
{
    stk_spec spec = { .kind = STK_KIND_IMAGE, .out = STK_OUT_LIST };
    int64_t space[4];
    stk_error err;

    (void)state;
    assert_int_equal(stk_codec_int.plan(space, NULL, &spec, &err), STK_EINVAL);
    assert_string_equal(err.message, "int reads a field's bytes: put it first, or after json(...)");
    assert_int_equal(stk_codec_image.plan(space, NULL, &spec, &err), STK_EINVAL);
    assert_string_equal(err.message, "image reads a field's bytes: put it first");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers),
        cmocka_unit_test(not_integers),
        cmocka_unit_test(floats),
        cmocka_unit_test(not_floats),
        cmocka_unit_test(the_locale_plays_no_part),
        cmocka_unit_test(order_in_the_chain),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

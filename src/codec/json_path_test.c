/* SPDX-License-Identifier: Apache-2.0 */
/* json_path_test - values by path, strictness, hostile depth and length; text with and without json
 * before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "codec/codec.h"
#include "base/json.h"

static stk_bytes of(const char *s)
{
    return (stk_bytes){ (const uint8_t *)s, strlen(s) };
}

static void finds(const char *doc, const char *path, const char *want)
{
    stk_bytes out;
    stk_error err;

    if (stk_json_find(of(doc), path, &out, &err) < 0)
        fail_msg("%s at `%s`: %s", doc, path, err.message);
    if (out.len != strlen(want) || memcmp(out.data, want, out.len))
        fail_msg("%s at `%s`: %.*s, not %s", doc, path, (int)out.len, out.data, want);
}

static void fails(const char *doc, const char *path, const char *says)
{
    stk_bytes out;
    stk_error err;

    if (stk_json_find(of(doc), path, &out, &err) != STK_ECORRUPT)
        fail_msg("%s at `%s` is no error", doc, path);
    if (!strstr(err.message, says))
        fail_msg("%s: \"%s\" does not say \"%s\"", doc, err.message, says);
}

static void values_by_path(void **state)
{
    static const char doc[] = " { \"a\": {\"b\": [10, 20, {\"c\": \"x\"}], \"\": 5}, \"n\": null, "
                              "\"k\\u0065y\": -1.5e+3 } ";

    (void)state;
    finds(doc, "a.b.0", "10");
    finds(doc, "a.b.2.c", "\"x\"");
    finds(doc, "a.b", "[10, 20, {\"c\": \"x\"}]");
    finds(doc, "n", "null");
    finds(doc, "key", "-1.5e+3");
    finds("  [1]\n", "", "[1]");
    finds("7", "", "7");
    finds("{\"a\":1,\"a\":2}", "a", "2");
    finds("{\"1\": true}", "1", "true");
    finds("{\"\\ud83d\\ude00\": 1}", "\xF0\x9F\x98\x80", "1");
    finds("{\"\\/\\n\": 1, \"/\": 2}", "/", "2");
    finds("{}", "", "{}");
    finds("[[],{},[{}]]", "2.0", "{}");
}

static void missing_paths(void **state)
{
    (void)state;
    fails("{\"a\": 1}", "b", "nothing at `b`");
    fails("{\"a\": 1}", "a.b", "nothing at `b`");
    fails("[1, 2]", "2", "nothing at `2`");
    fails("[1, 2]", "01", "nothing at `01`");
    fails("[1, 2]", "x", "nothing at `x`");
    fails("[1, 2]", "99999999999999999999", "nothing at");
    fails("{\"ab\": 1}", "a", "nothing at `a`");
    fails("{\"a\": 1}", "ab", "nothing at `ab`");
    fails("{}", "a", "nothing at `a`");
    fails("{\"\\ud800\": 1}", "a", "nothing at `a`");
}

static void not_json(void **state)
{
    static const char *const bad[] = { "",
                                       " ",
                                       "{",
                                       "}",
                                       "[",
                                       "[1",
                                       "[1,",
                                       "[1,]",
                                       "{\"a\"}",
                                       "{\"a\":}",
                                       "{\"a\":1,}",
                                       "{a:1}",
                                       "{1:1}",
                                       "01",
                                       "1.",
                                       ".5",
                                       "+1",
                                       "-",
                                       "1e",
                                       "1e+",
                                       "tru",
                                       "truex",
                                       "nul",
                                       "NaNs",
                                       "-NaN",
                                       "Inf",
                                       "+Infinity",
                                       "\"",
                                       "\"\\x\"",
                                       "\"\\u12\"",
                                       "\"\\u12g4\"",
                                       "\"\t\"",
                                       "'a'",
                                       "1 2",
                                       "[1 2]",
                                       "{\"a\":1 \"b\":2}",
                                       "[}",
                                       "{]",
                                       "[1}",
                                       "// x\n1",
                                       ("\xEF\xBB\xBF"
                                        "1"),
                                       "\"\xFF\"",
                                       "\"\xC0\x80\"",
                                       "\"\xED\xA0\x80\"",
                                       "\"\\",
                                       "{\"a\":1}}",
                                       "{,}",
                                       "[,]",
                                       "nullnull" };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        fails(bad[i], "", "not JSON");
    fails("{\"a\": [1, 2}", "", "',' or ']' was expected (byte 11)");
}

static void depth_is_limited(void **state)
{
    char doc[400], path[400] = "";
    stk_bytes out;
    stk_error err;

    (void)state;
    for (int deep = 1; deep <= 130; deep++) {
        memset(doc, '[', (size_t)deep);
        memset(doc + deep, ']', (size_t)deep);
        doc[2 * deep] = 0;
        assert_int_equal(stk_json_find(of(doc), "", &out, &err), deep <= 64 ? 0 : STK_ECORRUPT);
    }
    memset(doc, '[', 64);
    strcpy(doc + 64, "5");
    memset(doc + 65, ']', 64);
    doc[129] = 0;
    for (int i = 0; i < 64; i++)
        strcat(path, i ? ".0" : "0");
    finds(doc, path, "5");
}

/* Every prefix of a valid text is an error and reads nothing past it. */
static void truncated_anywhere(void **state)
{
    static const char doc[] =
        "{\"a\": [1.5e-3, true, \"\\u00e9\\n\", {\"b\": null}], \"c\": {\"d\": \"e\"}}";
    stk_bytes out;
    stk_error err;

    (void)state;
    for (size_t n = 0; n < sizeof doc - 1; n++) {
        uint8_t *copy = malloc(n ? n : 1);

        memcpy(copy, doc, n);
        assert_int_equal(stk_json_find((stk_bytes){ copy, n }, "c.d", &out, &err), STK_ECORRUPT);
        free(copy);
    }
    finds(doc, "c.d", "\"e\"");
}

static int to_text(stk_bytes in, int json, stk_scratch *s, stk_bytes *out, stk_error *err)
{
    stk_spec spec = { .kind = STK_KIND_BYTES, .out = json ? STK_OUT_JSON : STK_OUT_BYTES };
    int64_t space[4];

    assert_int_equal(stk_codec_text.plan(space, NULL, &spec, err), 0);
    assert_int_equal(spec.out, STK_OUT_TEXT);
    stk_scratch_reset(s);
    return stk_codec_text.extract(space, in, s, out, err);
}

static void text(void **state)
{
    stk_scratch s = { 0 };
    stk_bytes out;
    stk_error err;

    (void)state;
    assert_int_equal(to_text(of("a\xC3\xA9"), 0, &s, &out, &err), 0);
    assert_int_equal(out.len, 3);
    assert_int_equal(to_text(of("ab\xFF"), 0, &s, &out, &err), STK_ECORRUPT);
    assert_string_equal(err.message, "text: byte 2 (0xff) is not UTF-8");
    assert_int_equal(
        to_text(of("\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00\""), 1, &s, &out, &err), 0);
    assert_int_equal(out.len, 15);
    assert_memory_equal(out.data, "a\"\\/\b\f\n\r\t\xC3\xA9\xF0\x9F\x98\x80", 15);
    assert_int_equal(to_text(of("12"), 1, &s, &out, &err), STK_ECORRUPT);
    assert_string_equal(err.message, "JSON value is not a string: \"12\"");
    assert_int_equal(to_text(of("\"\\ud83d\""), 1, &s, &out, &err), STK_ECORRUPT);
    assert_int_equal(to_text(of("\"\\ude00\\ud83d\""), 1, &s, &out, &err), STK_ECORRUPT);
    stk_mem_fail_at(1);
    stk_scratch_fini(&s);
    assert_int_equal(to_text(of("\"long enough\""), 1, &s, &out, &err), STK_ENOMEM);
    stk_mem_fail_at(0);
    stk_scratch_fini(&s);
}

/* Each length class at its bounds, against a decoder by arithmetic. */
static int slow_utf8(const uint8_t *p, size_t n)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    size_t len = p[0] < 0x80       ? 1
                 : p[0] >> 5 == 6  ? 2
                 : p[0] >> 4 == 14 ? 3
                 : p[0] >> 3 == 30 ? 4
                                   : 0;
    uint32_t c = len == 1 ? p[0] : len ? p[0] & (0x7Fu >> len) : 0;

    if (len != n)
        return 0;
    for (size_t i = 1; i < len; i++) {
        if (p[i] >> 6 != 2)
            return 0;
        c = c << 6 | (p[i] & 63u);
    }
    return c >= least[len] && c <= 0x10FFFF && !(c >= 0xD800 && c < 0xE000);
}

static void utf8_against_arithmetic(void **state)
{
    static const uint8_t tail[] = { 0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xFF };

    (void)state;
    for (unsigned a = 0x80; a < 256; a++)
        for (unsigned b = 0; b < 256; b++)
            for (size_t i = 0; i < sizeof tail; i++)
                for (size_t n = 1; n <= 4; n++) {
                    uint8_t p[4] = { (uint8_t)a, (uint8_t)b, tail[i], 0x80 };

                    if ((n > 1 && b < 0x80) || (n > 2 && tail[i] < 0x80))
                        continue; /* several characters: not what the slow one reads */
                    if ((stk_utf8_span((stk_bytes){ p, n }) == n) != slow_utf8(p, n))
                        fail_msg("%02x %02x %02x %02x, %zu bytes", p[0], p[1], p[2], p[3], n);
                }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_by_path),
        cmocka_unit_test(missing_paths),
        cmocka_unit_test(not_json),
        cmocka_unit_test(depth_is_limited),
        cmocka_unit_test(truncated_anywhere),
        cmocka_unit_test(text),
        cmocka_unit_test(utf8_against_arithmetic),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

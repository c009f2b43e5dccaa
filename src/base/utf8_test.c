/* SPDX-License-Identifier: Apache-2.0 */
/* utf8_test.c - what is shown of foreign text: nothing that a terminal obeys, and nothing
 * unseen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/log.h"

static const char *const pairs[][2] = {
    { "plain \xc3\xa9 \xe6\x97\xa5 \xf0\x9f\x98\x80",
      "plain \xc3\xa9 \xe6\x97\xa5 \xf0\x9f\x98\x80" },
    { "\x1b[31mred\x1b]0;x\x07", "\\x1b[31mred\\x1b]0;x\\x07" },
    { "a\nb\tc\r\x7f", "a\\nb\\x09c\\x0d\\x7f" },
    { "\xc2\x9b"
      "2J",
      "\\x9b2J" }, /* C1 as UTF-8 */
    { "\x9b"
      "2J",
      "\\x9b2J" }, /* C1 as a byte, which is not UTF-8 */
    { "\xff\xc0\x80\xed\xa0\x80", "\\xff\\xc0\\x80\\xed\\xa0\\x80" }, /* overlong, a surrogate */
    { "gpj.\xe2\x80\xae"
      "exe",
      "gpj.\\u202eexe" }, /* right to left */
    { "a\xe2\x80\x8b"
      "b\xe2\x81\xa6\xef\xbb\xbf",
      "a\\u200bb\\u2066\\ufeff" },
    { "a\xe2\x80\xa8"
      "b",
      "a\\u2028b" },                       /* a line separator */
    { "\xf3\xa0\x81\x81", "\\U000e0041" }, /* a tag */
    { "\xe3\x81", "\\xe3\\x81" },          /* cut off */
};

static void shows(void **state)
{
    char buf[200], again[200];

    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        size_t n = stk_text_show(pairs[i][0], strlen(pairs[i][0]), buf, sizeof buf);

        assert_string_equal(buf, pairs[i][1]);
        assert_int_equal(n, strlen(pairs[i][1]));
        stk_text_show(buf, n, again, sizeof again);
        assert_string_equal(again, buf); /* shown twice is shown once */
    }
    assert_int_equal(stk_text_show("\0", 1, buf, sizeof buf), 4);
}

static void short_buffers_hold_whole_characters(void **state)
{
    static const char text[] = "a\x1b\xe6\x97\xa5z", full[] = "a\\x1b\xe6\x97\xa5z";
    char buf[16];

    (void)state;
    for (size_t size = 0; size < 12; size++) {
        memset(buf, '#', sizeof buf);
        assert_int_equal(stk_text_show(text, sizeof text - 1, buf, size), sizeof full - 1);
        if (size) {
            size_t n = size < 2 ? 0 : size < 6 ? 1 : size < 9 ? 5 : size < 10 ? 8 : 9;

            assert_int_equal(strlen(buf), n);
            assert_memory_equal(buf, full, n);
        }
        assert_int_equal(buf[size], '#');
    }
}

static void errors_are_shown_and_keys_stay(void **state)
{
    static const char key[] = "k\x1b[2J\xe2\x80\xae";
    char line[1024];
    stk_error err;

    (void)state;
    stk_fail(&err, STK_ECORRUPT, "field %s\n", "\x1b]0;owned\x07");
    stk_error_at(&err, "a\x9b.tar", 7, (stk_bytes){ (const uint8_t *)key, sizeof key - 1 });
    stk_error_format(&err, line, sizeof line);
    assert_string_equal(line, "field \\x1b]0;owned\\x07\\n [shard a\\x9b.tar, offset 7, "
                              "key k\\x1b[2J\\u202e]");
    assert_string_equal(err.key, key);
    stk_fail(&err, STK_EINVAL, "%s: again", err.message);
    assert_string_equal(err.message, "field \\x1b]0;owned\\x07\\n: again");
}

static void keep(void *cookie, stk_log_level level, const char *line)
{
    (void)level;
    strcpy(cookie, line);
}

static void log_lines_are_shown(void **state)
{
    char line[1000] = "";
    stk_log log = { keep, line };

    (void)state;
    stk_log_line(&log, STK_LOG_WARN, "shard %s", "\x1b[1A\nforged");
    assert_string_equal(line, "shard \\x1b[1A\\nforged");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shows),
        cmocka_unit_test(short_buffers_hold_whole_characters),
        cmocka_unit_test(errors_are_shown_and_keys_stay),
        cmocka_unit_test(log_lines_are_shown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

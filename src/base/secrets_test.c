/* SPDX-License-Identifier: Apache-2.0 */
/* secrets_test.c - what is hidden of addresses, wherever they stand in a text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/log.h"

static void in_texts(void **state)
{
    static const char *const pairs[][2] = {
        { "http://me:pw@host/a.tar", "http://***@host/a.tar" },
        { "HTTPS://me:p@w@host:80/a?b=c d", "HTTPS://***@host:80/a?... d" },
        { "Try: stoker index 'http://m@host/a?X-Amz-Signature=1&b=2'; or not",
          "Try: stoker index 'http://*@host/a?...'; or not" },
        { "two: https://a:b@c/?q https://d/e?f", "two: https://***@c/?. https://d/e?." },
        { "s3://me:pw@bucket/key?versionId=1@2", "s3://***@bucket/key?versionId=1@2" },
        { "http://host/?0123456789abcdef~a.tar?x", "http://host/?0123456789abcdef~a.tar?x" },
        { "http://host/a#b@c", "http://host/a#b@c" },
        { "http://[::1]:80/a", "http://[::1]:80/a" },
        { "http://host:8080", "http://host:8080" },
        { "cut short: http://me:secr", "cut short: http://***" },
        { "http://a:b@h/http://c:d@i/?e=fghij", "http://***@h/http://***@i/?..." },
        { "AccountName=a;AccountKey=c2Vj/cmV0+w==;BlobEndpoint=http://h/a;",
          "AccountName=a;AccountKey=...;BlobEndpoint=http://h/a;" },
        { "BlobEndpoint=http://h/a/;SharedAccessSignature=sv=1&sig=ab%2Bc%3D end",
          "BlobEndpoint=http://h/a/;SharedAccessSignature=... end" },
        { "az://data/a.tar?sv=2021&sig=ab%2Bc%3D&se=1", "az://data/a.tar?sv=2021&sig=...&se=1" },
        { "'?sp=r&sig=ab%2Bc' design=1 bigsig=2", "'?sp=r&sig=...' design=1 bigsig=2" },
        { "no address: a@b ?c=d ://", "no address: a@b ?c=d ://" },
        { "", "" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char text[200];

        snprintf(text, sizeof text, "%s", pairs[i][0]);
        stk_secrets_hide(text);
        assert_string_equal(text, pairs[i][1]);
        stk_secrets_hide(text); /* once more changes nothing */
        assert_string_equal(text, pairs[i][1]);
    }
}

static void keep_line(void *cookie, stk_log_level level, const char *line)
{
    (void)level;
    snprintf(cookie, 200, "%s", line);
}

static void in_errors_and_lines(void **state)
{
    char line[200] = "", whole[1200];
    stk_log log = { .fn = keep_line, .cookie = line };
    stk_error err;

    (void)state;
    stk_fail(&err, STK_EIO, "can't open %s", "http://me:pw@host/a?sig=1");
    assert_string_equal(err.message, "can't open http://***@host/a?...");
    stk_error_at(&err, "http://me:pw@host/a?sig=1", STK_NO_OFFSET, (stk_bytes){ 0 });
    stk_error_format(&err, whole, sizeof whole);
    assert_null(strstr(whole, "pw"));
    assert_null(strstr(whole, "sig"));
    stk_log_line(&log, STK_LOG_WARN, "waits for %s", "http://me:pw@host/a?sig=1");
    assert_string_equal(line, "waits for http://***@host/a?...");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_texts),
        cmocka_unit_test(in_errors_and_lines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* urls_test.c - patterns to names.  Braces at large are held against braceexpand by
 * tests/formats. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "source/source.h"

/* The names joined by '|', or the error's code and message. */
static const char *expand(const char *pattern)
{
    static char out[4096];
    stk_names names = { 0 };
    stk_error err;
    size_t n = 0;
    int rc = stk_urls_expand(&pattern, 1, &names, &err);

    out[0] = 0;
    if (rc < 0)
        snprintf(out, sizeof out, "%s %s", stk_code_name(rc), err.message);
    for (size_t i = 0; rc == 0 && i < names.n; i++)
        n += (size_t)snprintf(out + n, sizeof out - n, "%s%s", i ? "|" : "", names.name[i]);
    stk_names_fini(&names);
    return out;
}

static void braces(void **state)
{
    (void)state;
    assert_string_equal(expand("s-{000..002}.tar"), "s-000.tar|s-001.tar|s-002.tar");
    assert_string_equal(expand("{8..010}"), "008|009|010");
    assert_string_equal(expand("{3..1}"), "3|2|1");
    assert_string_equal(expand("{a..g..2}"), "a|c|e|g");
    assert_string_equal(expand("{Y..b}"), "Y|Z|a|b");
    assert_string_equal(expand("{C..A}"), "C|B|A");
    assert_string_equal(expand("{1..9..4}"), "1|5|9");
    assert_string_equal(expand("{1..3..0}"), "1|2|3");
    assert_string_equal(expand("{-01..1}"), "-01|000|001");
    assert_string_equal(expand("{0..2}"), "0|1|2");
    assert_string_equal(expand("x{a,b{1,2},c}y"), "xay|xb1y|xb2y|xcy");
    assert_string_equal(expand("{a,b}{1,2}"), "a1|a2|b1|b2");
    assert_string_equal(expand("{x}"), "{x}");
    assert_string_equal(expand("{}"), "{}");
    assert_string_equal(expand("{x{1,2}}"), "{x1}|{x2}");
    assert_string_equal(expand("a{,b}"), "a|ab");
    assert_string_equal(expand("\\{a,b\\}"), "{a,b}");
    assert_string_equal(expand("}{"), "}{");
    assert_string_equal(expand("x{1..2..a}"), "x{1..2..a}");
}

static void braces_refused(void **state)
{
    (void)state;
    assert_string_equal(expand("s-{000..010.tar"),
                        "EINVAL unbalanced braces in \"s-{000..010.tar\": write \\{ or \\} "
                        "for the character itself");
    assert_non_null(strstr(expand("a}"), "EINVAL unbalanced"));
    assert_non_null(strstr(expand("{0..99999999}"), "ELIMIT"));
    assert_non_null(
        strstr(expand("{0..9999}{0..9999}{0..9999}{0..9999}{0..9999}{0..9999}"), "ELIMIT"));
    assert_non_null(strstr(expand("{1..99999999999999999999999}"), "ELIMIT"));
    assert_non_null(strstr(expand(""), "EINVAL"));
    assert_non_null(strstr(expand("a::"), "EINVAL"));
}

static void deep_nesting(void **state)
{
    char pattern[4001];

    (void)state;
    memset(pattern, '{', 2000);
    memset(pattern + 2000, '}', 2000);
    pattern[4000] = 0;
    assert_non_null(strstr(expand(pattern), "ELIMIT braces nest"));
}

static void lists_and_environment(void **state)
{
    (void)state;
    setenv("WDS_DIR", "some/${SUB}", 1);
    setenv("WDS_SUB", "where", 1);
    setenv("WDS_LOOP", "${LOOP}${LOOP}${LOOP}${LOOP}${LOOP}${LOOP}", 1);
    unsetenv("WDS_ABSENT");
    assert_string_equal(expand("a.tar::b-{0..1}.tar"), "a.tar|b-0.tar|b-1.tar");
    assert_string_equal(expand("${DIR}/x.tar"), "some/where/x.tar");
    assert_non_null(strstr(expand("${ABSENT}/x.tar"), "EINVAL the environment has no WDS_ABSENT"));
    assert_non_null(strstr(expand("${LOOP}"), "ELIMIT"));
    assert_string_equal(expand("tape://b/k?x=*"), "tape://b/k?x=*"); /* no source lists it */
    assert_string_equal(expand("s3://b/k{1..2}.tar"), "s3://b/k1.tar|s3://b/k2.tar");
    assert_string_equal(expand("file:///no/such.tar"), "/no/such.tar");
    assert_string_equal(expand("~/x.tar"), "~/x.tar");
    assert_string_equal(expand("no/such.tar"), "no/such.tar"); /* open() will say */
}

static void touch(const char *name)
{
    FILE *f = fopen(name, "w");

    assert_non_null(f);
    fclose(f);
}

static void globs_and_folders(void **state)
{
    char dir[] = "/tmp/stoker-urls-XXXXXX";
    static const char *const files[] = {
        "b.tar", "a.tar", "B.tar", "note.txt", ".h.tar", "q[1].tar"
    };

    (void)state;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(chdir(dir), 0);
    assert_int_equal(mkdir("d", 0755) | mkdir("empty", 0755) | mkdir("d/sub.tar", 0755), 0);
    assert_int_equal(chdir("d"), 0);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        touch(files[i]);
    assert_int_equal(chdir(".."), 0);
    assert_string_equal(expand("d"), "d/B.tar|d/a.tar|d/b.tar|d/q[1].tar");
    assert_string_equal(expand("d/"), "d/B.tar|d/a.tar|d/b.tar|d/q[1].tar");
    assert_string_equal(expand("d/[ab].tar"), "d/a.tar|d/b.tar");
    assert_string_equal(expand("d/?.tar"), "d/B.tar|d/a.tar|d/b.tar");
    assert_string_equal(expand("d/{b,a}.*"), "d/b.tar|d/a.tar");
    assert_string_equal(expand("d/q[1].tar"), "d/q[1].tar");
    assert_string_equal(expand("?"), "d/B.tar|d/a.tar|d/b.tar|d/q[1].tar");
    assert_string_equal(expand("file://d/n*"), "d/note.txt");
    assert_string_equal(expand("d/*.zip"), "ENOTFOUND nothing matches \"d/*.zip\"");
    assert_string_equal(expand("empty"),
                        "ENOTFOUND the folder \"empty\" has no .tar, .parquet or .arrow files and "
                        "no pictures (.jpg .png .webp ...), videos (.mp4 .mkv ...) or sound (.wav "
                        ".flac ...) in it or below");
    touch("empty/a.tar.zst");
    assert_string_equal(
        expand("empty"),
        "ENOTFOUND the folder \"empty\" has packed shards: say which, as in \"empty/*.tar.zst\"");
    assert_int_equal(system("rm -rf d empty"), 0);
    assert_int_equal(chdir("/") | rmdir(dir), 0);
}

static void no_memory(void **state)
{
    const char *pattern = "x{a,b{1..3}}::${Q}";
    uint64_t n = 1;
    int rc = STK_ENOMEM;

    (void)state;
    setenv("WDS_Q", "q", 1);
    for (; rc < 0; n++) {
        stk_names names = { 0 };

        stk_mem_fail_at(n);
        rc = stk_urls_expand(&pattern, 1, &names, NULL);
        stk_mem_fail_at(0);
        assert_true(rc == 0 || rc == STK_ENOMEM);
        stk_names_fini(&names);
    }
    assert_true(n > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(braces),
        cmocka_unit_test(braces_refused),
        cmocka_unit_test(deep_nesting),
        cmocka_unit_test(lists_and_environment),
        cmocka_unit_test(globs_and_folders),
        cmocka_unit_test(no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

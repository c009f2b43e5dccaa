/* SPDX-License-Identifier: Apache-2.0 */
/* wds_test.c - names to keys and fields: every case of the format notes, and corners of the
 * regular expressions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "format/format.h"

static void check_split(const char *name, const char *key, const char *ext)
{
    size_t k = 0, e = 0;
    int got = stk_wds_split(name, strlen(name), &k, &e);

    if (got != (key != NULL))
        fail_msg("\"%s\": %s", name, got ? "split" : "not split");
    if (!key)
        return;
    if (k != strlen(key) || memcmp(name, key, k) || strcmp(name + e, ext))
        fail_msg("\"%s\": key \"%.*s\" ext \"%s\", not \"%s\" \"%s\"", name, (int)k, name, name + e,
                 key, ext);
}

static void splits(void **state)
{
    (void)state;
    check_split("a.jpg", "a", "jpg");
    check_split("a.seg.png", "a", "seg.png");
    check_split("dir.v1/a.jpg", "dir.v1/a", "jpg");
    check_split("./a.jpg", "./a", "jpg");
    check_split("dir/.hidden", "dir/", "hidden"); /* [^.]+ eats the slash */
    check_split("/.hidden", "/", "hidden");
    check_split("x//.a", "x//", "a");
    check_split("x/y/.a.b", "x/y/", "a.b");
    check_split("a.", "a", "");
    check_split("a..jpg", "a", ".jpg");
    check_split("__index__.json", "__index__", "json");
    check_split("A.JPG", "A", "JPG"); /* case is the caller's affair */
    check_split("\xc3\xa9t\xc3\xa9.txt", "\xc3\xa9t\xc3\xa9", "txt");
}

static void no_fields(void **state)
{
    (void)state;
    check_split("dir/a", NULL, NULL);
    check_split("a.b/c", NULL, NULL);
    check_split(".hidden", NULL, NULL);
    check_split("./.x", NULL, NULL);
    check_split("a.b/.x", NULL, NULL);
    check_split("dir/", NULL, NULL);
    check_split("a.jpg/", NULL, NULL);
    check_split("", NULL, NULL);
    check_split(".", NULL, NULL);
    check_split("..", NULL, NULL);
    check_split("/", NULL, NULL);
    check_split("a", NULL, NULL);
}

static void newlines(void **state)
{
    (void)state;
    check_split("a\nb.c", "a\nb", "c");
    check_split("a.c\n", "a", "c\n");
    check_split("x/\ny/b.c", "x/\ny/b", "c");
    check_split("x.1/\ny/b.c", "x.1/\ny/b", "c"); /* the directory may end in the first line */
    check_split("x\n.1/b.c", NULL, NULL);         /* but not after it */
}

static void ignored(void **state)
{
    static const char *const yes[] = { "__x__",       "____",   "__",      "___",
                                       "__x__/a.jpg", "__x__/", "__a.b__", "__x__\n" };
    static const char *const no[] = {
        "__x__.json",    "__x/a__", "a__x__", "_x_",       "x/__y__",
        "x/__y__/a.jpg", "",        "_",      "___/a.jpg", "__x__y/a"
    };

    (void)state;
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        if (!stk_wds_ignored(yes[i], strlen(yes[i])))
            fail_msg("\"%s\" should be ignored", yes[i]);
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        if (stk_wds_ignored(no[i], strlen(no[i])))
            fail_msg("\"%s\" should not be ignored", no[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits),
        cmocka_unit_test(no_fields),
        cmocka_unit_test(newlines),
        cmocka_unit_test(ignored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* home_test.c - the list names the index, not the way it was written. */
#include <sys/stat.h>

#include "index/index_model.h"

static char dir[512];

static void home(stk_index_home *h, const char *const *names, size_t n, const char *cache)
{
    stk_names list = { 0 };
    stk_error err;

    for (size_t i = 0; i < n; i++) {
        char *p = NULL;

        assert_int_equal(stk_path_absolute(names[i], &p, &err), 0);
        assert_int_equal(stk_names_add(&list, p, strlen(p), &err), 0);
        stk_free(p);
    }
    assert_int_equal(stk_index_home_find(h, &list, cache, &err), 0);
    for (size_t i = 0; i < n; i++)
        if (h->beside[0])
            assert_int_equal(stk_index_home_name(h, list.name[i]) - list.name[i],
                             strlen(h->root) + 1);
    stk_names_fini(&list);
}

#define HOME(h, cache, ...)                                                                        \
    home(h, (const char *[]){ __VA_ARGS__ },                                                       \
         sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *), cache)

static void absolute(void **state)
{
    static const struct {
        const char *in, *out;
    } cases[] = {
        { "/a/b.tar", "/a/b.tar" },         { "//a///b.tar", "/a/b.tar" },
        { "/a/./b.tar", "/a/b.tar" },       { "/", "/" },
        { "/a/../b.tar", "/b.tar" },        { "/../b.tar", "/b.tar" },
        { "/a/x/../../b", "/b" },           { "file:///a/b", "/a/b" },
        { "file://localhost/a/b", "/a/b" }, { "mem://x/../y", "mem://x/../y" },
        { "s3://b//k", "s3://b//k" },
    };
    char cwd[1024], link[600], in[700], want[1100], *p;
    stk_error err;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(stk_path_absolute(cases[i].in, &p, &err), 0);
        assert_string_equal(p, cases[i].out);
        stk_free(p);
    }
    assert_non_null(getcwd(cwd, sizeof cwd));
    snprintf(want, sizeof want, "%s/x.tar", cwd);
    assert_int_equal(stk_path_absolute("./x.tar", &p, &err), 0);
    assert_string_equal(p, want);
    stk_free(p);
    /* After a symlink ".." leads elsewhere: kept. */
    snprintf(link, sizeof link, "%s/link", dir);
    assert_int_equal(symlink("/usr/lib", link), 0);
    snprintf(in, sizeof in, "%s/../x", link);
    assert_int_equal(stk_path_absolute(in, &p, &err), 0);
    assert_string_equal(p, in);
    stk_free(p);
}

static void found_by_list(void **state)
{
    stk_index_home a, b;

    HOME(&a, "/c", "/d/x/1.tar", "/d/y/2.tar");
    assert_string_equal(a.root, "/d");
    assert_int_equal(strncmp(a.beside, "/d/.stoker/", 11), 0);
    assert_int_equal(strncmp(a.cache, "/c/index/", 9), 0);
    HOME(&b, "/c", "//d/./x/1.tar", "/d/x/../y/2.tar");
    assert_string_equal(a.beside, b.beside);
    assert_string_equal(a.cache, b.cache);
    HOME(&b, "/c", "/d/y/2.tar", "/d/x/1.tar"); /* another order is another data set */
    assert_string_not_equal(a.beside, b.beside);
    HOME(&b, "/c", "/moved/x/1.tar",
         "/moved/y/2.tar"); /* moved as a whole: same name, other cache */
    assert_string_equal(strrchr(a.beside, '/'), strrchr(b.beside, '/'));
    assert_string_not_equal(a.cache, b.cache);
    HOME(&a, "/c", "/d/ab", "/d/c"); /* the seam between names counts */
    HOME(&b, "/c", "/d/a", "/d/bc");
    assert_string_not_equal(a.beside, b.beside);
}

static void roots(void **state)
{
    stk_index_home h;

    HOME(&h, "/c", "/a.tar");
    assert_string_equal(h.root, "");
    assert_int_equal(strncmp(h.beside, "/.stoker/", 9), 0);
    HOME(&h, "/c", "/d/a.tar");
    assert_string_equal(h.root, "/d");
    HOME(&h, "/c", "/d/ab/1", "/d/ac/1");
    assert_string_equal(h.root, "/d");
    HOME(&h, "/c", "/d/ab/1", "/d/abc/1");
    assert_string_equal(h.root, "/d");
    HOME(&h, "/c", "/d/ab/c/1", "/d/ab/1");
    assert_string_equal(h.root, "/d/ab");
    HOME(&h, "/c", "/d/ab/1", "/d/ab/c/1", "/d/ab/c/2");
    assert_string_equal(h.root, "/d/ab");
    HOME(&h, "/c", "/x/1", "/y/1");
    assert_string_equal(h.root, "");
}

static void schemes_and_cache(void **state)
{
    stk_index_home h;
    stk_names none = { 0 };
    stk_error err;

    HOME(&h, "/c", "mem://a");
    assert_string_equal(h.beside, "");
    assert_string_equal(h.cache, "");
    HOME(&h, "/c", "s3://b/a", "/x/y");
    assert_string_equal(h.beside, "");
    assert_int_equal(strncmp(h.cache, "/c/index/", 9), 0);
    setenv("HOME", "/h", 1);
    unsetenv("STOKER_CACHE");
    unsetenv("XDG_CACHE_HOME");
    HOME(&h, NULL, "/x/y");
    assert_int_equal(strncmp(h.cache, "/h/.cache/stoker/index/", 23), 0);
    setenv("XDG_CACHE_HOME", "/xdg", 1);
    HOME(&h, NULL, "/x/y");
    assert_int_equal(strncmp(h.cache, "/xdg/stoker/index/", 18), 0);
    setenv("STOKER_CACHE", "/sc", 1);
    HOME(&h, NULL, "/x/y");
    assert_int_equal(strncmp(h.cache, "/sc/index/", 10), 0);
    HOME(&h, "/arg", "/x/y");
    assert_int_equal(strncmp(h.cache, "/arg/index/", 11), 0);
    assert_int_equal(stk_index_home_find(&h, &none, NULL, &err), STK_EINVAL);
}

static int setup(void **state)
{
    test_folder(dir, sizeof dir);
    return 0;
}

static int teardown(void **state)
{
    test_remove(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absolute),
        cmocka_unit_test(found_by_list),
        cmocka_unit_test(roots),
        cmocka_unit_test(schemes_and_cache),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}

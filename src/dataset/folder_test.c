/* SPDX-License-Identifier: Apache-2.0 */
/* folder_test.c - directories of files called like pictures: their shards, order, classes; what a
 * change costs; every allocation made to fail.  The listing at large is held against
 * ImageFolder's rules by python/tests/test_folder.py. */
#include <unistd.h>

#include <stoker/stoker.h>

#include "index/dataset_model.h"
#include "source/folder_files.h"

static void put(const char *root, const char *name, const char *text)
{
    char path[800];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s/%s", dir, root, name);
    for (char *p = path + strlen(dir) + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        (void)!mkdir(path, 0777);
        *p = '/';
    }
    f = fopen(path, "wb");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void four(const char *root)
{
    put(root, "dog/2.png", "dog two");
    put(root, "cat/b.JPG", "cat b");
    put(root, "cat/a/q/z.jpg", "cat a z");
    put(root, "cat/a b/y.jpeg", "cat a b y");
    put(root, "cat/readme.txt", "no picture");
}

static int open_root(const char *root, stk_dataset **out, stk_error *err)
{
    stk_dataset_options o = { .size = sizeof o, .cache_dir = cache, .num_workers = 1 };
    char path[700];
    const char *urls[] = { path };

    snprintf(path, sizeof path, "%s/%s", dir, root);
    return stk_dataset_open(out, urls, 1, &o, err);
}

static void check_sample(stk_dataset *ds, uint64_t i, const char *key, const char *text,
                         const char *cls)
{
    stk_sample *x = NULL;
    const void *data;
    stk_error err;
    size_t len;

    assert_int_equal(stk_dataset_read(ds, i, &x, &err), 0);
    assert_int_equal(strlen(key), (stk_sample_key(x, &len), len));
    assert_memory_equal(stk_sample_key(x, &len), key, len);
    assert_string_equal(stk_sample_field(x, 0, &data, &len), "image");
    assert_int_equal(len, strlen(text));
    assert_memory_equal(data, text, len);
    assert_int_equal(stk_sample_fields(x), cls ? 2 : 1);
    if (cls) {
        assert_string_equal(stk_sample_field(x, 1, &data, &len), "cls");
        assert_int_equal(len, strlen(cls));
        assert_memory_equal(data, cls, len);
    }
    stk_sample_close(&x);
}

static void names(void **state)
{
    assert_true(stk_is_picture("a.jpg") && stk_is_picture("A.TIFF") && stk_is_picture(".webp"));
    assert_false(stk_is_picture("jpg") || stk_is_picture("a.jpg.txt") || stk_is_picture("a.gif"));
    assert_true(stk_is_folder("/a/b/") && stk_is_folder("/a/.") && stk_is_folder("/"));
    assert_false(stk_is_folder("/a/b") || stk_is_folder("a.") || stk_is_folder(""));
    assert_true(stk_is_flat("/a/.") && !stk_is_flat("/a/") && !stk_is_flat("."));
}

static void classes(void **state)
{
    stk_dataset *ds = NULL;
    stk_error err;
    char home[700];

    four("plain");
    assert_int_equal(open_root("plain", &ds, &err), 0);
    assert_int_equal(stk_dataset_len(ds), 4);
    assert_int_equal(stk_dataset_shards(ds), 2);
    assert_string_equal(stk_dataset_class(ds, 0), "cat");
    assert_string_equal(stk_dataset_class(ds, 1), "dog");
    assert_null(stk_dataset_class(ds, 2));
    check_sample(ds, 0, "cat/b.JPG", "cat b", "0");
    check_sample(ds, 1, "cat/a b/y.jpeg", "cat a b y", "0"); /* "a b" < "a/": by whole path */
    check_sample(ds, 2, "cat/a/q/z.jpg", "cat a z", "0");
    check_sample(ds, 3, "dog/2.png", "dog two", "1");
    snprintf(home, sizeof home, "%s/.stoker/", dir);
    assert_int_equal(strncmp(stk_dataset_index_path(ds), home, strlen(home)), 0);
    stk_dataset_unref(&ds);
    put("flat", "x.jpg", "x");
    put("flat", "w.jpg", "");
    assert_int_equal(open_root("flat", &ds, &err), 0);
    assert_null(stk_dataset_class(ds, 0));
    check_sample(ds, 0, "w.jpg", "", NULL);
    check_sample(ds, 1, "x.jpg", "x", NULL);
    stk_dataset_unref(&ds);
}

static void changes(void **state)
{
    stk_index_options o = { .size = sizeof o, .cache_dir = cache };
    stk_index_report r = { .size = sizeof r };
    stk_dataset *ds = NULL;
    stk_error err;
    char path[700];
    const char *urls[] = { path };

    snprintf(path, sizeof path, "%s/changes", dir);
    four("changes");
    assert_int_equal(stk_index_build(urls, 1, &o, &r, &err), 0);
    assert_int_equal(r.data_bytes, strlen("dog two"
                                          "cat b"
                                          "cat a z"
                                          "cat a b y"));
    put("changes", "cat/a/q/new.jpg", "deep");
    assert_int_equal(open_root("changes", &ds, &err), STK_ESTALE);
    assert_non_null(strstr(err.shard, "changes/cat/"));
    assert_int_equal(stk_index_build(urls, 1, &o, &r, &err), 0);
    assert_int_equal(r.reused_shards, 1);
    assert_int_equal(r.samples, 5);
    assert_int_equal(open_root("changes", &ds, &err), 0);
    check_sample(ds, 2, "cat/a/q/new.jpg", "deep", "0");
    stk_dataset_unref(&ds);
    put("changes", "bee/1.jpg", "bee"); /* all numbers move, no other class is read again */
    assert_int_equal(stk_index_build(urls, 1, &o, &r, &err), 0);
    assert_int_equal(r.reused_shards, 2);
    assert_int_equal(open_root("changes", &ds, &err), 0);
    check_sample(ds, 5, "dog/2.png", "dog two", "2");
    stk_dataset_unref(&ds);
}

static int load(const char *root, stk_error *err)
{
    stk_output out[] = { { "image", "bytes" }, { "label", "from(cls) | int" } };
    stk_loader_options o = {
        .size = sizeof o, .outputs = out, .n_outputs = 2, .batch_size = 4, .num_workers = STK_NONE
    };
    stk_dataset *ds = NULL;
    stk_loader *l = NULL;
    stk_batch *b = NULL;
    int rc = open_root(root, &ds, err);

    if (rc == 0)
        rc = stk_loader_open(&l, &ds, 1, &o, err);
    if (rc == 0)
        rc = stk_loader_next(l, &b, -1, err);
    stk_batch_release(&b);
    stk_loader_close(&l);
    stk_dataset_unref(&ds);
    return rc;
}

static void no_memory(void **state)
{
    char below[700];
    stk_error err;
    uint64_t n;
    int rc;

    four("nomem/train");
    snprintf(below, sizeof below, "%s/nomem/.stoker", dir);
    for (int indexed = 0; indexed < 2; indexed++) {
        for (n = 1;; n++) {
            stk_mem_fail_at(n);
            rc = load("nomem/train", &err);
            stk_mem_fail_at(0);
            if (rc == 0)
                break;
            if (rc != STK_ENOMEM && rc != STK_ELIMIT)
                fail_msg("allocation %u: %s", (unsigned)n, err.message);
            if (!indexed)
                test_remove(below);
        }
        print_message("%u allocations, each failed once\n", (unsigned)n - 1);
        assert_true(n > 20);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(classes),
        cmocka_unit_test(changes),
        cmocka_unit_test(no_memory),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}

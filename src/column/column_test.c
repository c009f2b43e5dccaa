/* SPDX-License-Identifier: Apache-2.0 */
/* Columns of a data set: from its index, added to it, kept when the list grows, or read. */
#include <math.h>

#include "base/mem.h"
#include "index/dataset_model.h"

static const char *const cls[] = { "cls" };

static int build(const set *d, uint32_t n, const char *const *columns, stk_index_report *r,
                 stk_error *err)
{
    stk_index_options o = {
        .size = sizeof o, .cache_dir = cache, .num_workers = 3, .columns = columns, .n_columns = n
    };

    *r = (stk_index_report){ .size = sizeof *r };
    return stk_index_build(d->urls, 1, &o, r, err);
}

static void check_cls(stk_dataset *ds, const set *d, stk_tri read)
{
    stk_column_options o = { .size = sizeof o, .read = read, .num_workers = 2 };
    uint64_t n = stk_dataset_len(ds);
    int64_t *v = calloc(n, sizeof *v);
    uint8_t *valid = calloc(n, 1);
    stk_column *c = NULL;
    stk_error err;
    double one;

    assert_int_equal(stk_column_open(&c, ds, "cls", &o, &err), 0);
    assert_int_equal(stk_column_kind(c), STK_COLUMN_I64);
    assert_int_equal(stk_column_nulls(c), 0);
    assert_int_equal(stk_column_i64(c, 0, n, v, &err), 0);
    assert_int_equal(stk_column_valid(c, 0, n, valid, &err), 0);
    for (uint64_t i = 0; i < n; i++) {
        assert_true(valid[i] && v[i] == (int64_t)((i / d->samples + i % d->samples) % 10));
        assert_int_equal(stk_column_f64(c, i, 1, &one, &err), 0);
        assert_true(one == (double)v[i]);
    }
    assert_int_equal(stk_column_i64(c, n, 0, v, &err), 0);
    assert_int_equal(stk_column_i64(c, 1, n, v, &err), STK_EINVAL);
    assert_int_equal(stk_column_text(c, 0, 1, NULL, NULL, &err), STK_EINVAL);
    stk_column_close(&c);
    free(valid);
    free(v);
}

static void added_and_kept(void **state)
{
    stk_index_report r;
    stk_dataset *ds = NULL;
    stk_column_type type;
    stk_column *c = NULL;
    stk_error err;
    set d;

    set_make(&d, "kept", 3, 50);
    assert_int_equal(set_open(&d, &ds, &err), 0);
    assert_null(stk_dataset_column(ds, 0, NULL));
    assert_int_equal(stk_column_open(&c, ds, "cls", NULL, &err), STK_ENOTFOUND);
    assert_non_null(strstr(err.message, "stoker index --columns cls DATA"));
    check_cls(ds, &d, STK_YES);
    stk_dataset_unref(&ds);

    assert_int_equal(build(&d, 1, cls, &r, &err), 0);
    assert_true(r.built && r.columns == 1);
    assert_int_equal(build(&d, 1, cls, &r, &err), 0);
    assert_true(!r.built && r.columns == 1);
    assert_int_equal(set_open(&d, &ds, &err), 0);
    assert_string_equal(stk_dataset_column(ds, 0, &type), "cls");
    assert_int_equal(type, STK_COLUMN_I64);
    assert_null(stk_dataset_column(ds, 1, NULL));
    check_cls(ds, &d, STK_UNSET);
    stk_dataset_unref(&ds);

    set_grow(&d, 5); /* opening knows it of three shards only; repair reads the other two */
    assert_int_equal(set_open(&d, &ds, &err), 0);
    assert_null(stk_dataset_column(ds, 0, NULL));
    assert_int_equal(stk_column_open(&c, ds, "cls", NULL, &err), STK_ENOTFOUND);
    assert_non_null(strstr(err.message, "of all shards"));
    stk_dataset_unref(&ds);
    assert_int_equal(build(&d, 0, NULL, &r, &err), 0);
    assert_true(r.columns == 1);
    assert_int_equal(set_open(&d, &ds, &err), 0);
    check_cls(ds, &d, STK_UNSET);
    stk_dataset_unref(&ds);

    assert_int_equal(set_build(&d, 1, &r, &err), 0); /* --force carries nothing over */
    assert_true(r.columns == 0);
}

static void refused(void **state)
{
    const char *const absent[] = { "txt", "nope" }, *const odd[] = { "a..b" };
    stk_column_options o = { .size = sizeof o, .read = STK_YES };
    stk_index_report r;
    stk_dataset *ds = NULL;
    stk_column *c = NULL;
    stk_error err;
    set d;

    set_make(&d, "refused", 2, 10);
    assert_int_equal(build(&d, 2, absent, &r, &err), STK_EINVAL);
    assert_non_null(strstr(err.message, "column nope"));
    assert_non_null(strstr(err.message, "txt, cls"));
    assert_int_equal(build(&d, 1, odd, &r, &err), STK_EINVAL);
    assert_int_equal(set_open(&d, &ds, &err), 0); /* the index without columns is there */
    assert_int_equal(stk_column_open(&c, ds, "nope", &o, &err), STK_EINVAL);
    assert_null(c);
    assert_int_equal(stk_column_open(&c, ds, "", &o, &err), STK_EINVAL);
    stk_dataset_unref(&ds);
}

/* The column outlives the handle of its data set. */
static void holds_the_data(void **state)
{
    stk_column_options o = { .size = sizeof o, .read = STK_YES };
    stk_dataset *ds = NULL;
    stk_column *c = NULL;
    const char *text;
    char want[1024];
    stk_error err;
    size_t len;
    set d;

    set_make(&d, "held", 2, 30);
    assert_int_equal(set_open(&d, &ds, &err), 0);
    assert_int_equal(stk_column_open(&c, ds, "txt", &o, &err), 0);
    stk_dataset_unref(&ds);
    assert_int_equal(stk_column_kind(c), STK_COLUMN_TEXT);
    for (unsigned i = 0; i < 60; i++) {
        assert_int_equal(stk_column_text(c, i, 1, &text, &len, &err), 0);
        assert_int_equal(len, text_of(i / 30, i % 30, 0, want));
        assert_memory_equal(text, want, len);
    }
    stk_column_close(&c);
}

static void no_memory(void **state)
{
    uint64_t n;
    set d;

    set_make(&d, "memory", 2, 20);
    for (n = 1; n < 5000; n++) {
        stk_dataset_options o = {
            .size = sizeof o, .cache_dir = cache, .num_workers = 1, .columns = cls, .n_columns = 1
        };
        stk_column_options read = { .size = sizeof read, .num_workers = 1, .read = STK_YES };
        stk_dataset *ds = NULL;
        stk_column *c = NULL, *t = NULL;
        stk_error err;
        int rc;

        stk_mem_fail_at(n);
        rc = stk_dataset_open(&ds, d.urls, 1, &o, &err);
        if (rc == 0)
            rc = stk_column_open(&c, ds, "cls", NULL, &err);
        if (rc == 0)
            rc = stk_column_open(&t, ds, "txt", &read, &err);
        stk_mem_fail_at(0);
        stk_column_close(&c);
        stk_column_close(&t);
        stk_dataset_unref(&ds);
        if (rc == 0)
            break;
        assert_int_equal(rc, STK_ENOMEM);
    }
    print_message("%u allocations, each failed once\n", (unsigned)n - 1);
    assert_true(n > 40 && n < 5000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(added_and_kept),
        cmocka_unit_test(refused),
        cmocka_unit_test(holds_the_data),
        cmocka_unit_test(no_memory),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* table_data_test.c - the functions that tables share, with a kind that has nothing of its own:
 * rows of files that may be empty, columns by name, files that changed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "table/table_data.h"

static void bare_close(stk_dataset *d)
{
    stk_table_fini((stk_table *)d);
}

static const stk_data_ops bare = {
    .name = "bare",
    STK_TABLE_OPS,
    .gather = stk_table_gather,
    .acquire = stk_table_acquire,
    .close = bare_close,
};

static void bare_open(stk_table *t, const char *const *names, const uint64_t *rows, uint64_t n)
{
    stk_dataset_options o = { .size = sizeof o };

    *t = (stk_table){ 0 };
    stk_table_init(t, &bare, STK_DATA_BLOCKS, &o);
    for (uint64_t i = 0; i < n; i++)
        assert_int_equal(stk_names_add(&t->names, names[i], strlen(names[i]), NULL), 0);
    assert_int_equal(stk_table_files(t, n, NULL), 0);
    for (uint64_t i = 0; i < n; i++)
        assert_int_equal(stk_table_rows(t, i, rows[i], NULL), 0);
    assert_int_equal(stk_table_columns(t, 3, 2, NULL), 0);
    t->column[0] = (stk_field_type){ .name = "label", .dtype = STK_I64 };
    t->column[1] = (stk_field_type){ .name = "image.bytes" };
    t->column[2] = (stk_field_type){ .name = "refused" };
}

static void rows_of_empty_files(void **state)
{
    static const char *const names[] = { "/d/a", "/d/b", "/d/c", "/d/d" };
    static const uint64_t rows[] = { 0, 3, 0, 2 }, file[] = { 1, 1, 1, 3, 3 },
                          row[] = { 0, 1, 2, 0, 1 };
    stk_shard_info info;
    stk_table t;
    stk_entry e;

    (void)state;
    bare_open(&t, names, rows, 4);
    assert_int_equal(bare.len(&t.data), 5);
    assert_int_equal(bare.shards(&t.data), 4);
    assert_string_equal(bare.kind(&t.data), "bare");
    for (uint64_t i = 0; i < 5; i++) {
        assert_int_equal(bare.entry(&t.data, i, &e, NULL), 0);
        assert_int_equal(e.shard, file[i]);
        assert_int_equal(e.row, row[i]);
        assert_int_equal(e.n_fields, 2);
    }
    assert_int_equal(bare.entry(&t.data, 5, &e, NULL), STK_EINVAL);
    assert_int_equal(bare.shard(&t.data, 3, &info, NULL), 0);
    assert_int_equal(info.first, 3);
    assert_int_equal(info.samples, 2);
    assert_string_equal(info.name, "/d/d");
    assert_int_equal(bare.shard(&t.data, 4, &info, NULL), STK_EINVAL);
    assert_null(bare.shard_name(&t.data, 4));
    bare.close(&t.data);
}

static void rows_beyond_64_bits(void **state)
{
    static const char *const names[] = { "/d/a", "/d/b" };
    static const uint64_t rows[] = { 1, 1 };
    stk_error err = { 0 };
    stk_table t;

    (void)state;
    bare_open(&t, names, rows, 2);
    assert_int_equal(stk_table_rows(&t, 1, UINT64_MAX, &err), STK_ECORRUPT);
    assert_string_equal(err.shard, "/d/b");
    bare.close(&t.data);
}

static void columns_by_name(void **state)
{
    static const char *const names[] = { "/d/a" };
    static const uint64_t rows[] = { 1 };
    stk_gather_ask ask = { .names = (const char *const[]){ "label" }, .n = 1 };
    stk_field_type type, together;
    stk_entry e = { 0 };
    stk_field f;
    stk_table t;
    int at;

    (void)state;
    bare_open(&t, names, rows, 1);
    assert_int_equal(bare.find(&t.data, 0, "label"), 0);
    assert_int_equal(bare.find(&t.data, 0, "image"), 1);
    assert_int_equal(bare.find(&t.data, 0, "im"), -1);
    assert_int_equal(bare.type(&t.data, 0, &type), 1);
    assert_int_equal(type.dtype, STK_I64);
    assert_int_equal(bare.type(&t.data, 3, &type), 0);
    assert_int_equal(bare.field(&t.data, &e, 1, &f, NULL), 0);
    assert_string_equal(f.name, "image.bytes");
    assert_int_equal(bare.field(&t.data, &e, 3, &f, NULL), STK_EINVAL);
    assert_int_equal(bare.gather(&t.data, &ask, &together, NULL), 0);
    at = bare.find(&t.data, 0, together.name);
    assert_true(at >= (int)STK_GATHER_FIRST);
    assert_int_equal(bare.field(&t.data, &e, (uint32_t)at, &f, NULL), 0);
    assert_string_equal(f.name, together.name);
    assert_int_equal(bare.type(&t.data, (uint32_t)at, &type), 1);
    assert_int_equal(type.ndim, 1);
    bare.close(&t.data);
}

static void write_file(const char *path, size_t len)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite("0123456789", 1, len, f), len);
    fclose(f);
}

static void a_file_that_changed(void **state)
{
    char path[] = "/tmp/stoker_table_XXXXXX";
    const char *names[] = { path };
    static const uint64_t rows[] = { 1 };
    int fd = mkstemp(path);
    stk_error err = { 0 };
    stk_file *f, *again;
    stk_table t;

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    write_file(path, 7);
    bare_open(&t, names, rows, 1);
    t.file[0].size = 9;
    assert_int_equal(bare.acquire(&t.data, 0, &f, &err), STK_ESTALE);
    assert_non_null(strstr(err.message, "open it again"));
    t.list = "index.json";
    assert_int_equal(bare.acquire(&t.data, 0, &f, &err), STK_ESTALE);
    assert_non_null(strstr(err.message, "7 bytes, and index.json says 9"));
    assert_string_equal(err.shard, path);
    write_file(path, 9);
    assert_int_equal(bare.acquire(&t.data, 0, &f, &err), 0);
    assert_int_equal(bare.acquire(&t.data, 0, &again, &err), 0);
    assert_ptr_equal(f, again);
    bare.release(&t.data, 0);
    bare.close(&t.data);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_empty_files),
        cmocka_unit_test(rows_beyond_64_bits),
        cmocka_unit_test(columns_by_name),
        cmocka_unit_test(a_file_that_changed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

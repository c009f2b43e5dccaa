/* SPDX-License-Identifier: Apache-2.0 */
/* Typed columns: every type and width packed and read back, in an index, carried over, damaged. */
#include <math.h>

#include "index/index_model.h"
#include "index/part.h"

static char dir[512];

static stk_bytes bytes_of(const char *s)
{
    return (stk_bytes){ (const uint8_t *)s, strlen(s) };
}

/* Words parted by blanks: "-" is null, 'x is the text x. */
static stk_chunk chunk_of(const char *words)
{
    stk_values v = { 0 };
    stk_chunk c;
    char buf[400], *save = NULL;

    snprintf(buf, sizeof buf, "%s", words);
    for (char *w = strtok_r(buf, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        int quoted = w[0] == '\'';
        stk_value_kind kind = !strcmp(w, "-") ? STK_VALUE_NULL
                              : quoted        ? STK_VALUE_QUOTED
                                              : STK_VALUE_BARE;

        assert_int_equal(stk_values_add(&v, kind, bytes_of(w + quoted), NULL), 0);
    }
    assert_int_equal(stk_values_chunk(&v, &c, NULL), 0);
    assert_true(stk_chunk_sound(&c));
    stk_values_fini(&v);
    return c;
}

static void expect(const char *words, stk_chunk_type type, unsigned width, unsigned nulls)
{
    stk_chunk c = chunk_of(words);

    assert_int_equal(c.rec.type, type);
    assert_int_equal(c.rec.width, width);
    assert_int_equal(c.rec.nulls, nulls);
    stk_chunk_fini(&c);
}

static void types_and_widths(void **state)
{
    expect("", STK_CHUNK_NULL, 0, 0);
    expect("- -", STK_CHUNK_NULL, 0, 2);
    expect("7 7 -", STK_CHUNK_I64, 0, 1);
    expect("1 256", STK_CHUNK_I64, 1, 0);
    expect("-1 255", STK_CHUNK_I64, 2, 0);
    expect("0 65536", STK_CHUNK_I64, 4, 0);
    expect("1000000000000 1000000000255", STK_CHUNK_I64, 1, 0);
    expect("-9223372036854775808 9223372036854775807", STK_CHUNK_I64, 8, 0);
    expect("1 2.5", STK_CHUNK_F64, 4, 0);
    expect("1 0.1", STK_CHUNK_F64, 8, 0);
    expect("9223372036854775808 1", STK_CHUNK_F64, 4, 0);
    expect("nan inf 1", STK_CHUNK_F64, 4, 0);
    expect("1 cat", STK_CHUNK_TEXT, 1, 0);
    expect("'1 '1 -", STK_CHUNK_TEXT, 0, 1);
}

static void values_come_back(void **state)
{
    stk_chunk c = chunk_of("-9223372036854775808 - 9223372036854775807 0"), t;
    int64_t v[4];
    double d[4];

    stk_chunk_i64(&c, 0, 4, v);
    assert_true(v[0] == INT64_MIN && v[1] == 0 && v[2] == INT64_MAX && v[3] == 0);
    stk_chunk_i64(&c, 2, 1, v);
    assert_true(v[0] == INT64_MAX);
    stk_chunk_f64(&c, 0, 4, d);
    assert_true(d[0] == -9223372036854775808.0 && isnan(d[1]) && d[3] == 0);
    assert_int_equal(stk_chunk_to_text(&c, &t, NULL), 0);
    assert_int_equal(stk_chunk_text(&t, 0).len, 20);
    assert_memory_equal(stk_chunk_text(&t, 0).data, "-9223372036854775808", 20);
    assert_null(stk_chunk_text(&t, 1).data);
    stk_chunk_fini(&t);
    stk_chunk_fini(&c);

    c = chunk_of("0.1 1e300 -2.5 nan");
    stk_chunk_f64(&c, 0, 4, d);
    assert_true(d[0] == 0.1 && d[1] == 1e300 && d[2] == -2.5 && isnan(d[3]));
    assert_int_equal(stk_chunk_to_text(&c, &t, NULL), 0);
    assert_memory_equal(stk_chunk_text(&t, 0).data, "0.1", 3);
    assert_memory_equal(stk_chunk_text(&t, 1).data, "1e+300", 6);
    stk_chunk_fini(&t);
    stk_chunk_fini(&c);

    c = chunk_of("cat dog - cat 'x");
    assert_int_equal(c.rec.entries, 3);
    assert_ptr_equal(stk_chunk_text(&c, 0).data, stk_chunk_text(&c, 3).data);
    assert_memory_equal(stk_chunk_text(&c, 1).data, "dog", 3);
    assert_null(stk_chunk_text(&c, 2).data);
    stk_chunk_fini(&c);
}

/* ---- in an index ---- */

static const model m = { .seed = 5, .shards = 7, .per_shard = 3000 };

static int64_t value_of(uint64_t shard, uint64_t row)
{
    return (int64_t)(model_draw(&m, shard, row, 9) >> (8 * (shard % 8)));
}

static stk_chunk model_chunk(uint64_t shard)
{
    stk_values v = { 0 };
    stk_chunk c;
    char text[32];

    for (uint64_t row = 0; row < model_samples(&m, shard); row++) {
        snprintf(text, sizeof text, "%" PRId64, value_of(shard, row));
        assert_int_equal(stk_values_add(&v, row % 5 == shard ? STK_VALUE_NULL : STK_VALUE_BARE,
                                        bytes_of(text), NULL),
                         0);
    }
    assert_int_equal(stk_values_chunk(&v, &c, NULL), 0);
    stk_values_fini(&v);
    return c;
}

/* Shards below `known` have the column; those of `carried` come from an older index. */
static void write_index(const char *path, uint64_t known, const stk_index *old)
{
    stk_index_writer *w = NULL;
    stk_shard_info info;
    stk_chunk c;
    char name[32];

    assert_int_equal(stk_index_writer_open(&w, path, "tar", m.shards, NULL), 0);
    for (uint64_t i = 0; i < m.shards; i++) {
        model_info(i, &info, name);
        if (old)
            assert_int_equal(stk_index_writer_reuse(w, i, &info, old, i, NULL), 0);
        else
            model_add(&m, w, i);
        if (i >= known || (old && i < known - 2))
            continue;
        c = model_chunk(i);
        assert_int_equal(stk_index_writer_column(w, i, "num", &c, NULL), 0);
        stk_chunk_fini(&c);
    }
    assert_int_equal(stk_index_writer_commit(w, NULL), 0);
    stk_index_writer_close(&w);
}

static void index_check(const stk_index *ix, uint64_t known)
{
    stk_chunk c;
    int64_t v;

    assert_int_equal(stk_index_columns(ix), 1);
    assert_string_equal(stk_index_column(ix, 0), "num");
    assert_null(stk_index_column(ix, 1));
    assert_int_equal(stk_index_column_find(ix, "num"), 0);
    assert_int_equal(stk_index_column_find(ix, "other"), -1);
    assert_int_equal(stk_index_column_known(ix, 0), known == m.shards);
    for (uint64_t i = 0; i < m.shards; i++) {
        assert_int_equal(stk_index_chunk(ix, 0, i, &c, NULL), 0);
        assert_int_equal(c.rows, model_samples(&m, i));
        assert_int_equal(c.rec.type != STK_CHUNK_UNKNOWN, i < known);
        for (uint64_t row = 0; i < known && row < c.rows; row++) {
            assert_int_equal(stk_chunk_valid(&c, row), row % 5 != i);
            stk_chunk_i64(&c, row, 1, &v);
            assert_true(v == (row % 5 == i ? 0 : value_of(i, row)));
        }
    }
    assert_int_equal(stk_index_chunk(ix, 1, 0, &c, NULL), STK_EINVAL);
    assert_int_equal(stk_index_chunk(ix, 0, m.shards, &c, NULL), STK_EINVAL);
    model_check(&m, ix);
}

static void carried_over(void **state)
{
    char a[600], b[600];
    stk_index *ix = NULL, *more = NULL;

    snprintf(a, sizeof a, "%s/a.idx", dir);
    snprintf(b, sizeof b, "%s/b.idx", dir);
    write_index(a, m.shards - 2, NULL);
    assert_int_equal(stk_index_open(&ix, a, NULL), 0);
    index_check(ix, m.shards - 2);
    write_index(b, m.shards, ix);
    assert_int_equal(stk_index_open(&more, b, NULL), 0);
    index_check(more, m.shards);
    stk_index_close(&more);
    stk_index_close(&ix);
}

static void misuse(void **state)
{
    stk_chunk c = chunk_of("1 2 3");
    stk_index_writer *w = NULL;
    stk_error err;
    char name[32];

    assert_int_equal(stk_index_writer_open(&w, NULL, "tar", 1, NULL), 0);
    assert_int_equal(stk_index_writer_column(w, 0, "x", &c, NULL), 0);
    assert_int_equal(stk_index_writer_column(w, 0, "x", &c, &err), STK_EINVAL);
    assert_non_null(strstr(err.message, "there already"));
    stk_index_writer_close(&w);
    assert_int_equal(stk_index_writer_open(&w, NULL, "tar", 1, NULL), 0);
    for (unsigned i = 0; i < IDX_MAX_COLUMNS; i++) {
        snprintf(name, sizeof name, "c%u", i);
        assert_int_equal(stk_index_writer_column(w, 0, name, &c, NULL), 0);
    }
    assert_int_equal(stk_index_writer_column(w, 0, "more", &c, &err), STK_ELIMIT);
    stk_index_writer_close(&w);
    stk_chunk_fini(&c);
}

/* A flipped byte among the values is found when the chunk is asked for, and nowhere else. */
static void damage(void **state)
{
    char path[600];
    stk_index *ix = NULL;
    stk_error err;
    stk_chunk c;
    size_t len;
    uint8_t *data;
    uint64_t at;

    snprintf(path, sizeof path, "%s/a.idx", dir);
    write_index(path, m.shards, NULL);
    data = test_slurp(path, &len);
    assert_int_equal(stk_index_open_mem(&ix, data, len, NULL), 0);
    assert_int_equal(stk_index_chunk(ix, 0, 1, &c, NULL), 0);
    at = (uint64_t)(c.data - data) + 100;
    stk_index_close(&ix);
    data[at] ^= 4;
    assert_int_equal(stk_index_open_mem(&ix, data, len, NULL), 0);
    assert_int_equal(stk_index_chunk(ix, 0, 1, &c, &err), STK_ECORRUPT);
    assert_non_null(strstr(err.message, "stoker index --force"));
    stk_index_close(&ix);
    free(data);
}

static void no_memory(void **state)
{
    uint64_t n;

    for (n = 1; n < 1000; n++) {
        stk_values v = { 0 };
        stk_chunk c = { 0 }, t = { 0 };
        int rc = 0;

        stk_mem_fail_at(n);
        for (unsigned i = 0; rc == 0 && i < 100; i++)
            rc = stk_values_add(&v, STK_VALUE_BARE, bytes_of(i % 3 ? "1" : "2"), NULL);
        if (rc == 0)
            rc = stk_values_chunk(&v, &c, NULL);
        if (rc == 0)
            rc = stk_chunk_to_text(&c, &t, NULL);
        stk_mem_fail_at(0);
        stk_values_fini(&v);
        stk_chunk_fini(&c);
        stk_chunk_fini(&t);
        if (rc == 0)
            break;
        assert_int_equal(rc, STK_ENOMEM);
    }
    assert_true(n > 10 && n < 1000);
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
        cmocka_unit_test(types_and_widths), cmocka_unit_test(values_come_back),
        cmocka_unit_test(carried_over),     cmocka_unit_test(misuse),
        cmocka_unit_test(damage),           cmocka_unit_test(no_memory),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}

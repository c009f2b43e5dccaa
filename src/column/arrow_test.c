/* SPDX-License-Identifier: Apache-2.0 */
/* The index as an Arrow C stream: what it says, who owns it, without memory. */
#include <errno.h>
#include <stoker/arrow.h>

#include "base/mem.h"
#include "index/dataset_model.h"

static const char *const columns[] = { "cls", "txt" };

static void open_set(set *d, const char *name, unsigned shards, unsigned samples, stk_dataset **ds)
{
    stk_dataset_options o = {
        .size = sizeof o, .cache_dir = cache, .num_workers = 2, .columns = columns, .n_columns = 2
    };
    stk_error err;

    set_make(d, name, shards, samples);
    assert_int_equal(stk_dataset_open(ds, d->urls, 1, &o, &err), 0);
}

static void schema_check(struct ArrowArrayStream *s)
{
    static const char *const want[][2] = { { "sample", "L" }, { "key", "u" },  { "shard", "i" },
                                           { "offset", "L" }, { "size", "L" }, { "cls", "l" },
                                           { "txt", "u" } };
    struct ArrowSchema schema, child;

    assert_int_equal(s->get_schema(s, &schema), 0);
    assert_string_equal(schema.format, "+s");
    assert_int_equal(schema.n_children, 7);
    for (int i = 0; i < 7; i++) {
        assert_string_equal(schema.children[i]->name, want[i][0]);
        assert_string_equal(schema.children[i]->format, want[i][1]);
        assert_int_equal(schema.children[i]->flags, i < 5 ? 0 : ARROW_FLAG_NULLABLE);
    }
    assert_string_equal(schema.children[2]->dictionary->format, "u");
    child = *schema.children[2]; /* moved out: lives on without its parent */
    schema.children[2]->release = NULL;
    schema.release(&schema);
    assert_null(schema.release);
    assert_string_equal(child.name, "shard");
    child.release(&child);
}

static void text_check(const struct ArrowArray *a, int64_t row, const char *want, size_t len)
{
    const int32_t *offsets = a->buffers[1];
    const char *bytes = a->buffers[2];

    assert_int_equal(offsets[row + 1] - offsets[row], len);
    assert_memory_equal(bytes + offsets[row], want, len);
}

static void rows_check(const set *d, const struct ArrowArray *a, uint64_t first)
{
    char text[1024], path[700];

    for (int64_t i = 0; i < a->length; i++) {
        uint64_t id = first + (uint64_t)i;
        unsigned s = (unsigned)(id / d->samples), k = (unsigned)(id % d->samples);
        size_t len = text_of(s, k, 0, text);

        assert_int_equal(((const uint64_t *)a->children[0]->buffers[1])[i], id);
        assert_int_equal(((const int32_t *)a->children[2]->buffers[1])[i], s);
        assert_int_equal(((const uint64_t *)a->children[4]->buffers[1])[i], len + 1);
        assert_int_equal(((const int64_t *)a->children[5]->buffers[1])[i], (s + k) % 10);
        text_check(a->children[6], i, text, len);
        snprintf(text, sizeof text, "%u-%06u", s, k);
        text_check(a->children[1], i, text, strlen(text));
        shard_path(d, s, path, sizeof path);
        text_check(a->children[2]->dictionary, s, path, strlen(path));
    }
}

/* The stream holds the data set, a batch needs neither, a child not its batch. */
static void rows_and_owners(void **state)
{
    struct ArrowArrayStream s;
    struct ArrowArray a, end, child;
    stk_dataset *ds = NULL;
    stk_error err;
    set d;

    open_set(&d, "rows", 3, 40, &ds);
    assert_int_equal(stk_dataset_arrow(ds, &s, &err), 0);
    stk_dataset_unref(&ds);
    schema_check(&s);
    assert_int_equal(s.get_next(&s, &a), 0);
    assert_int_equal(a.length, 120);
    assert_int_equal(s.get_next(&s, &end), 0);
    assert_null(end.release);
    assert_null(s.get_last_error(&s));
    s.release(&s);
    assert_null(s.release);
    rows_check(&d, &a, 0);
    child = *a.children[2];
    a.children[2]->release = NULL;
    a.release(&a);
    assert_null(a.release);
    assert_int_equal(child.dictionary->length, 3);
    assert_int_equal(((const int32_t *)child.buffers[1])[119], 2);
    child.release(&child);
}

static void no_memory(void **state)
{
    stk_dataset *ds = NULL;
    uint64_t n;
    set d;

    open_set(&d, "memory", 2, 20, &ds);
    for (n = 1; n < 2000; n++) {
        struct ArrowArrayStream s = { 0 };
        struct ArrowSchema schema = { 0 };
        struct ArrowArray a = { 0 };
        stk_error err;
        int rc;

        stk_mem_fail_at(n);
        rc = stk_dataset_arrow(ds, &s, &err);
        if (rc < 0)
            assert_int_equal(rc, STK_ENOMEM);
        if (rc == 0)
            rc = s.get_schema(&s, &schema);
        if (rc == 0)
            rc = s.get_next(&s, &a);
        stk_mem_fail_at(0);
        if (rc > 0) {
            assert_int_equal(rc, ENOMEM);
            assert_non_null(strstr(s.get_last_error(&s), "memory"));
        }
        assert_true(!a.release || rc == 0);
        if (schema.release)
            schema.release(&schema);
        if (a.release)
            a.release(&a);
        if (s.release)
            s.release(&s);
        if (rc == 0)
            break;
    }
    print_message("%u allocations, each failed once\n", (unsigned)n - 1);
    assert_true(n > 40 && n < 2000);
    stk_dataset_unref(&ds);
}

/* What the index holds of a sample may be damaged: the consumer hears it. */
static void damaged(void **state)
{
    struct ArrowArrayStream s;
    stk_dataset *ds = NULL;
    stk_error err;
    char path[1300];
    uint8_t *data;
    size_t len;
    set d;

    open_set(&d, "damaged", 1, 40, &ds);
    snprintf(path, sizeof path, "%s", stk_dataset_index_path(ds));
    stk_dataset_unref(&ds);
    data = test_slurp(path, &len);
    data[4096 + 100] ^= 1;
    test_spill(path, data, len);
    free(data);
    assert_int_equal(set_open(&d, &ds, &err), 0);
    assert_int_equal(stk_dataset_arrow(ds, &s, &err), STK_ECORRUPT);
    assert_null(s.release);
    stk_dataset_unref(&ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_and_owners),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(damaged),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}

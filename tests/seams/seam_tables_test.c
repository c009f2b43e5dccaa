/* SPDX-License-Identifier: Apache-2.0 */
/* seam_tables_test - a format of tables as a plug-in: names, rows, types, nulls and damage go
 * through the loader like those of a table that ships.
 *
 * A .rows file is "ROWS", how many rows, then a record per row (a number, where its text is, how
 * long it is; UINT32_MAX: it has none), then the texts. */
#include "seam.h"

#define ROWS 50u

typedef struct record {
    int64_t number;
    uint32_t at, len;
} record;

typedef struct rows {
    uint32_t n;
    record record[];
} rows;

static int opened; /* states that were not closed */

static int take(stk_file *f, uint64_t at, void *dst, size_t len, stk_error *err)
{
    stk_io io = { .offset = at, .len = len, .dst = dst, .file = f };

    return f->source->read(f, &io) == 0 && io.rc == 0 && io.got == len
               ? 0
               : stk_fail(err, STK_ECORRUPT, "a .rows file ends too early");
}

static int rows_open(stk_file *f, uint64_t size, void **state, uint64_t *n, stk_error *err)
{
    uint8_t head[8];
    uint32_t count;
    rows *r;
    int rc = take(f, 0, head, sizeof head, err);

    if (rc < 0)
        return rc;
    memcpy(&count, head + 4, sizeof count);
    if (memcmp(head, "ROWS", 4) != 0 || count > size / sizeof(record))
        return stk_fail(err, STK_ECORRUPT, "it is not a .rows file");
    r = *state = stk_alloc(sizeof *r + count * sizeof(record));
    if (!r)
        return stk_fail(err, STK_ENOMEM, "no memory for %u rows", count);
    opened++;
    r->n = count;
    *n = count;
    return take(f, sizeof head, r->record, count * sizeof(record), err);
}

static int rows_column(const void *state, uint32_t i, stk_field_type *out)
{
    (void)state;
    if (i == 0)
        *out = (stk_field_type){ .name = "number", .dtype = STK_I64 };
    else
        *out = (stk_field_type){ .name = "words", .nullable = 1 };
    return i < 2;
}

static int rows_locate(const void *state, uint64_t row, uint32_t column, stk_place *out,
                       stk_error *err)
{
    const record *r = &((const rows *)state)->record[row];

    (void)err;
    if (column == 0)
        out->here = (stk_bytes){ (const uint8_t *)&r->number, sizeof r->number };
    else if (r->len == UINT32_MAX)
        out->absent = 1;
    else
        *out = (stk_place){ .offset = r->at, .len = r->len };
    return 0;
}

static void rows_close(void *state)
{
    opened--;
    stk_free(state);
}

static const stk_data_kind rows_kind = { .abi = STK_PLUGIN_ABI,
                                         .size = sizeof(stk_data_kind),
                                         .name = "rows",
                                         .help = ".rows files",
                                         .suffixes = ".rws .rows",
                                         .open = stk_table_open,
                                         .rows = 1,
                                         .file_open = rows_open,
                                         .column = rows_column,
                                         .locate = rows_locate,
                                         .file_close = rows_close };

/* Row k of all files has number k and the text "row k", every tenth none. */
static void write_rows(const char *name, uint32_t first, uint32_t n, uint32_t past)
{
    FILE *f = fopen(seam_path(name), "wb");
    uint32_t at = 8 + n * (uint32_t)sizeof(record);

    assert_non_null(f);
    fwrite("ROWS", 1, 4, f);
    fwrite(&n, 1, 4, f);
    for (uint32_t k = first; k < first + n; k++) {
        char text[32];
        record r = { k, at + past, (uint32_t)snprintf(text, sizeof text, "row %u", k) };

        at += r.len;
        if (k % 10 == 0)
            r.len = UINT32_MAX;
        fwrite(&r, 1, sizeof r, f);
    }
    for (uint32_t k = first; k < first + n; k++)
        fprintf(f, "row %u", k);
    assert_int_equal(fclose(f), 0);
}

static int add(void **state)
{
    stk_error err;

    (void)state;
    seam_ok(stk_plugin_add(STK_PLUGIN_DATA, &rows_kind, &err), &err);
    return 0;
}

static void rows_are_loaded(void **state)
{
    const stk_output out[] = { { "number", "from(number)" },
                               { "words", "from(words, default='none') | text" } };
    stk_loader_options o = { .size = sizeof o,
                             .batch_size = 8,
                             .num_workers = 2,
                             .shuffle = STK_SHUFFLE_EXACT,
                             .outputs = out,
                             .n_outputs = 2 };
    stk_loader *l;
    stk_dataset *ds;
    stk_batch *b = NULL;
    uint64_t seen = 0;
    stk_error err;
    int rc;

    (void)state;
    write_rows("a-0.rows", 0, ROWS, 0);
    write_rows("a-1.rows", ROWS, ROWS, 0);
    ds = seam_open("", "a-{0,1}.rows", NULL);
    assert_int_equal(stk_dataset_len(ds), 2 * ROWS);
    l = seam_loader(&ds, 1, &o);
    while ((rc = stk_loader_next(l, &b, 60000, &err)) == 0) {
        for (uint32_t i = 0; i < stk_batch_rows(b); i++, seen++) {
            uint64_t id = stk_batch_ids(b)[i];
            char text[32];
            stk_tensor t;
            int64_t n;

            assert_int_equal(stk_batch_row(b, 0, i, &t), 0);
            memcpy(&n, t.data, sizeof n);
            assert_int_equal(n, id);
            snprintf(text, sizeof text, "row %" PRIu64, id);
            assert_int_equal(stk_batch_row(b, 1, i, &t), 0);
            assert_int_equal(t.shape[0], strlen(id % 10 ? text : "none"));
            assert_memory_equal(t.data, id % 10 ? text : "none", (size_t)t.shape[0]);
        }
        stk_batch_release(&b);
    }
    if (rc != STK_END)
        seam_ok(rc, &err);
    assert_int_equal(seen, 2 * ROWS);
    stk_loader_close(&l);
    stk_dataset_unref(&ds);
    assert_int_equal(opened, 0);
}

static void damage_is_an_error(void **state)
{
    stk_dataset_options o = { .size = sizeof o };
    const char *url;
    stk_sample *s = NULL;
    stk_dataset *ds;
    stk_error err;
    FILE *f;

    (void)state;
    write_rows("past.rws", 1, 5, 1000);
    ds = seam_open("", "past.rws", NULL);
    assert_int_equal(stk_dataset_read(ds, 0, &s, &err), STK_ECORRUPT);
    assert_non_null(strstr(err.message, "past the end of the file"));
    stk_dataset_unref(&ds);
    url = seam_path("short.rows");
    f = fopen(url, "wb");
    assert_non_null(f);
    fwrite("ROWS\5\0\0\0", 1, 8, f);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(stk_dataset_open(&ds, &url, 1, &o, &err), STK_ECORRUPT);
    assert_non_null(strstr(err.shard, "short.rows"));
    assert_int_equal(opened, 0);
}

static void half_a_kind_is_refused(void **state)
{
    stk_data_kind k = rows_kind;
    stk_error err;

    (void)state;
    assert_int_equal(stk_plugin_add(STK_PLUGIN_DATA, &k, &err), STK_EINVAL); /* the name is taken */
    k.name = "half";
    k.locate = NULL;
    assert_int_equal(stk_plugin_add(STK_PLUGIN_DATA, &k, &err), STK_EINVAL);
    assert_non_null(strstr(err.message, "locate()"));
    k = rows_kind;
    k.name = "nameless";
    k.suffixes = NULL;
    assert_int_equal(stk_plugin_add(STK_PLUGIN_DATA, &k, &err), STK_EINVAL);
    assert_non_null(strstr(err.message, "neither suffixes nor meant()"));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(rows_are_loaded),
                                        cmocka_unit_test(damage_is_an_error),
                                        cmocka_unit_test(half_a_kind_is_refused) };

    return cmocka_run_group_tests(tests, add, NULL);
}

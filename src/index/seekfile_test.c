/* SPDX-License-Identifier: Apache-2.0 */
/* seekfile_test.c - what is kept of fields comes back; damage and other shards mean nothing is. */
#include "index/seekfile.h"

#include <unistd.h>

#include "index/index_model.h"

static char dir[512];

static void at(char *path, size_t size, const char *name)
{
    snprintf(path, size, "%s/%s", dir, name);
}

/* What is kept of field f of a row: some rows have nothing, some fields too. */
static size_t record(uint64_t shard, uint64_t row, uint32_t f, uint8_t *out)
{
    uint64_t r = stk_mix64(shard << 40 ^ row << 3 ^ f);
    size_t n = r % 3 ? (size_t)(r >> 8) % 60 : 0;

    for (size_t i = 0; i < n; i++)
        out[i] = (uint8_t)(r >> i % 7);
    return n;
}

static void write_groups(stk_seek_writer *w)
{
    stk_seek_group g = { 0 };
    uint8_t bytes[64];

    for (uint64_t k = stk_seek_writer_groups(w); k-- > 0;) { /* in any order */
        uint64_t shard, row;
        uint32_t rows;

        stk_seek_writer_place(w, k, &shard, &row, &rows);
        assert_int_equal(stk_seek_group_begin(&g, rows, NULL), 0);
        for (uint32_t i = 0; i < rows; i++)
            for (uint32_t f = 0; f < 2; f++) {
                size_t n = record(shard, row + i, f, bytes);

                if (n)
                    assert_int_equal(stk_seek_group_add(&g, i, f, (stk_bytes){ bytes, n }, NULL),
                                     0);
            }
        stk_seek_group_end(&g);
        assert_int_equal(stk_seek_writer_add(w, k, &g, NULL), 0);
    }
    stk_seek_group_fini(&g);
}

static void check(stk_seekfile *s, const stk_index *ix, int any)
{
    stk_seek_room room = { 0 };
    uint8_t bytes[64];

    for (uint64_t shard = 0; shard < stk_index_shards(ix); shard++) {
        stk_shard_info info;

        assert_int_equal(stk_index_shard(ix, shard, &info, NULL), 0);
        for (uint64_t row = 0; row < info.samples; row++)
            for (uint32_t f = 0; f < 3; f++) {
                size_t n = f < 2 && any ? record(shard, row, f, bytes) : 0;
                stk_bytes got = stk_seekfile_get(s, &(stk_seek_field){ shard, row, f }, &room);

                assert_int_equal(got.len, n);
                if (n)
                    assert_memory_equal(got.data, bytes, n);
                for (uint32_t from = 0; row % 97 == 0 && from <= n; from += 5) { /* parts of it */
                    const stk_seek_field some = { shard, row, f, .most = 7, .from = from };
                    size_t left = n - from < 7 ? n - from : 7;

                    got = stk_seekfile_get(s, &some, &room);
                    assert_int_equal(got.len, left);
                    if (left)
                        assert_memory_equal(got.data, bytes + from, left);
                }
            }
        assert_null(stk_seekfile_get(s, &(stk_seek_field){ shard, info.samples, 0 }, &room).data);
    }
    assert_null(stk_seekfile_get(s, &(stk_seek_field){ stk_index_shards(ix), 0, 0 }, &room).data);
    stk_seek_room_fini(&room);
}

static stk_index *open_index(const char *name, uint64_t seed)
{
    model m = { .seed = seed, .shards = 5, .per_shard = 2500 };
    char path[600];
    stk_index *ix = NULL;

    at(path, sizeof path, name);
    model_write(&m, path);
    assert_int_equal(stk_index_open(&ix, path, NULL), 0);
    return ix;
}

static void round_trip(void **state)
{
    stk_index *ix = open_index("a.idx", 7), *other = open_index("b.idx", 8);
    char path[600], second[600];
    stk_seek_writer *w = NULL;
    stk_seekfile *s = NULL, *t = NULL;
    stk_shard_info info;

    (void)state;
    at(path, sizeof path, "a.seek");
    at(second, sizeof second, "a2.seek");
    assert_int_equal(stk_seekfile_open(&s, path, ix, NULL), STK_ENOTFOUND);
    assert_int_equal(stk_seek_writer_open(&w, path, ix, NULL), 0);
    write_groups(w);
    stk_seek_writer_close(&w); /* not committed: nothing stays */
    assert_int_equal(test_count(dir, "seek"), 0);
    assert_int_equal(stk_seek_writer_open(&w, path, ix, NULL), 0);
    write_groups(w);
    assert_int_equal(stk_seek_writer_commit(w, NULL), 0);
    stk_seek_writer_close(&w);
    assert_int_equal(stk_seekfile_open(&s, path, ix, NULL), 0);
    check(s, ix, 1);
    assert_int_equal(stk_seek_writer_open(&w, second, ix, NULL), 0);
    for (uint64_t k = 0; k < stk_seek_writer_groups(w); k++) {
        uint64_t shard, row;
        uint32_t rows;

        stk_seek_writer_place(w, k, &shard, &row, &rows);
        assert_int_equal(stk_index_shard(ix, shard, &info, NULL), 0);
        assert_int_equal(stk_seek_writer_reuse(w, k, s, stk_seekfile_match(s, &info), NULL), 0);
    }
    assert_int_equal(stk_seek_writer_commit(w, NULL), 0);
    stk_seek_writer_close(&w);
    assert_int_equal(stk_seekfile_open(&t, second, ix, NULL), 0);
    check(t, ix, 1);
    stk_seekfile_close(&t);
    assert_int_equal(stk_seekfile_open(&t, path, other, NULL), 0); /* other shards: nothing */
    check(t, other, 0);
    stk_seekfile_close(&t);
    stk_seekfile_close(&s);
    stk_index_close(&ix);
    stk_index_close(&other);
}

/* Any byte: an error at open, or every answer is the right one or none. */
static void damage(void **state)
{
    stk_index *ix = open_index("c.idx", 9);
    char path[600];
    stk_seek_writer *w = NULL;
    stk_seek_room room = { 0 };
    uint8_t *data, bytes[64];
    size_t len;

    (void)state;
    at(path, sizeof path, "c.seek");
    assert_int_equal(stk_seek_writer_open(&w, path, ix, NULL), 0);
    write_groups(w);
    assert_int_equal(stk_seek_writer_commit(w, NULL), 0);
    stk_seek_writer_close(&w);
    data = test_slurp(path, &len);
    for (uint64_t k = 0; k < 300; k++) {
        size_t where = (size_t)(k < 64 ? k : stk_mix64(k) % len), keep = k % 5 ? len : where;
        stk_seekfile *s = NULL;
        FILE *f;

        data[where] ^= 0x41;
        f = fopen(path, "w");
        assert_int_equal(fwrite(data, 1, keep, f), keep);
        fclose(f);
        data[where] ^= 0x41;
        if (stk_seekfile_open(&s, path, ix, NULL) < 0)
            continue;
        for (uint64_t i = 0; i < 50; i++) {
            uint64_t shard = stk_mix64(i + k) % 5, row = stk_mix64(i ^ k) % 2500;
            stk_bytes got = stk_seekfile_get(s, &(stk_seek_field){ shard, row, 0 }, &room);

            if (got.data) {
                assert_int_equal(got.len, record(shard, row, 0, bytes));
                assert_memory_equal(got.data, bytes, got.len);
            }
        }
        stk_seekfile_close(&s);
    }
    free(data);
    stk_seek_room_fini(&room);
    stk_index_close(&ix);
}

/* Cut off while it is open, also in groups that were looked at: there is nothing, and no signal. */
static void cut_off(void **state)
{
    stk_index *ix = open_index("d.idx", 9);
    stk_seek_room room = { 0 };
    stk_seek_writer *w = NULL;
    stk_seekfile *s = NULL;
    char path[600];

    (void)state;
    at(path, sizeof path, "d.seek");
    assert_int_equal(stk_seek_writer_open(&w, path, ix, NULL), 0);
    write_groups(w);
    assert_int_equal(stk_seek_writer_commit(w, NULL), 0);
    stk_seek_writer_close(&w);
    assert_int_equal(stk_seekfile_open(&s, path, ix, NULL), 0);
    check(s, ix, 1);
    assert_int_equal(truncate(path, 100), 0);
    check(s, ix, 0);
    stk_seekfile_close(&s);
    stk_seek_room_fini(&room);
    stk_index_close(&ix);
}

static int setup(void **state)
{
    (void)state;
    test_folder(dir, sizeof dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    test_remove(dir);
    return 0;
}

/* Rows that are not read at once: each field is found by the heads of those before it. */
static void large_rows(void **state)
{
    stk_index *ix = open_index("large.idx", 11);
    stk_seek_group g = { 0 };
    stk_seek_room room = { 0 };
    stk_seek_writer *w = NULL;
    stk_seekfile *s = NULL;
    static uint8_t bytes[30000];
    uint64_t shard, row;
    char path[600];
    uint32_t rows;

    (void)state;
    at(path, sizeof path, "large.seek");
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 31 >> 3);
    assert_int_equal(stk_seek_writer_open(&w, path, ix, NULL), 0);
    stk_seek_writer_place(w, 0, &shard, &row, &rows);
    assert_int_equal(stk_seek_group_begin(&g, rows, NULL), 0);
    for (uint32_t f = 0; f < 4; f++)
        assert_int_equal(
            stk_seek_group_add(&g, 3, 3 - f, (stk_bytes){ bytes, sizeof bytes - f }, NULL), 0);
    stk_seek_group_end(&g);
    assert_int_equal(stk_seek_writer_add(w, 0, &g, NULL), 0);
    assert_int_equal(stk_seek_writer_commit(w, NULL), 0);
    stk_seek_writer_close(&w);
    assert_int_equal(stk_seekfile_open(&s, path, ix, NULL), 0);
    for (uint32_t f = 0; f < 5; f++) {
        const size_t len = f < 4 ? sizeof bytes - (3 - f) : 0;
        const uint64_t from[] = { 0, 1000, 29990, len, UINT64_MAX };

        for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
            const stk_seek_field some = { shard, 3, f, .most = 100, .from = from[i] };
            size_t left = from[i] < len ? len - (size_t)from[i] : 0;
            stk_bytes got = stk_seekfile_get(s, &some, &room);

            assert_int_equal(got.len, left < 100 ? left : 100);
            if (got.len)
                assert_memory_equal(got.data, bytes + from[i], got.len);
        }
        assert_int_equal(stk_seekfile_get(s, &(stk_seek_field){ shard, 3, f, 0, 0 }, &room).len,
                         len);
    }
    assert_null(stk_seekfile_get(s, &(stk_seek_field){ shard, 4, 0, 0, 0 }, &room).data);
    stk_seek_room_fini(&room);
    stk_seek_group_fini(&g);
    stk_seekfile_close(&s);
    stk_index_close(&ix);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(round_trip), cmocka_unit_test(damage),
                                        cmocka_unit_test(cut_off), cmocka_unit_test(large_rows) };

    return cmocka_run_group_tests(tests, setup, teardown);
}

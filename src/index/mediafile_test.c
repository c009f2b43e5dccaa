/* SPDX-License-Identifier: Apache-2.0 */
/* mediafile_test.c - records come back as they were put; no byte can be changed unnoticed; a file
 * that is cut while it is open reads as if nothing were known. */
#include "index/mediafile.h"

#include <unistd.h>

#include "base/mem.h"
#include "index/index_model.h"

static char dir[512];

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

static const char *const names[] = { "jpg", "mp4", "seg.png" };
static const uint64_t rows[] = { 7, 0, 40 };
#define SHARDS 3u

/* The record of a field: pictures, but for mp4, which is video; some have none. */
static stk_media_rec record(uint64_t shard, uint64_t row, uint32_t f)
{
    uint64_t r = stk_mix64(shard << 40 ^ row << 3 ^ f);

    if (r % 5 == 0)
        return (stk_media_rec){ 0 };
    return (stk_media_rec){ .units = f == 1 ? r : 1,
                            .duration_us = f == 1 ? (int64_t)(r >> 20) : 0,
                            .width = (uint32_t)(r >> 8) % (f == 2 ? 1u << 28 : 1u << 30),
                            .height = (uint32_t)(r >> 30) & ((1u << 28) - 1),
                            .rate = f == 1 ? (uint32_t)r : 0,
                            .channels = f == 1 ? (uint16_t)(r >> 3) : 0,
                            .kind = f == 1 ? 2 : 1,
                            .turn = (uint8_t)(r >> 50) % 9 };
}

static stk_media_shard identity(uint64_t shard)
{
    return (stk_media_shard){ 1000 + shard, stk_mix64(shard), rows[shard] };
}

static void make(uint8_t **data, size_t *len)
{
    stk_media_records s[SHARDS] = { 0 };

    for (uint64_t i = 0; i < SHARDS; i++) {
        s[i].shard = identity(i);
        for (uint64_t r = 0; r < rows[i]; r++)
            for (uint32_t f = 0; f < 3; f++) {
                stk_media_rec rec = record(i, r, f);

                if (rec.kind)
                    assert_int_equal(stk_media_records_put(&s[i], names[f], r, &rec, NULL), 0);
            }
        assert_int_equal(stk_media_records_end(&s[i], NULL), 0);
    }
    assert_int_equal(stk_mediafile_make(s, SHARDS, data, len, NULL), 0);
    for (uint64_t i = 0; i < SHARDS; i++)
        stk_media_records_fini(&s[i]);
}

static int same(const stk_media_rec *a, const stk_media_rec *b)
{
    return a->units == b->units && a->duration_us == b->duration_us && a->width == b->width &&
           a->height == b->height && a->rate == b->rate && a->channels == b->channels &&
           a->kind == b->kind && a->turn == b->turn;
}

/* Everything that a sound shard says is what was put; returns how many shards are sound. */
static unsigned check(const stk_mediafile *m)
{
    unsigned sound = 0;

    for (uint64_t i = 0; i < SHARDS; i++) {
        stk_media_shard id = identity(i);

        if (!stk_mediafile_has(m, i, &id))
            continue;
        sound++;
        for (uint32_t f = 0; f < 3; f++) {
            stk_media_column c = stk_mediafile_column(m, i, names[f]);

            for (uint64_t r = 0; r <= rows[i]; r++) {
                stk_media_rec want = r < rows[i] ? record(i, r, f) : (stk_media_rec){ 0 },
                              got = stk_media_at(&c, r);

                assert_true(same(&want, &got));
            }
        }
        assert_null(stk_mediafile_column(m, i, "nope").data);
    }
    return sound;
}

static void comes_back(void **state)
{
    stk_media_shard other = identity(0);
    stk_mediafile *m = NULL, *again = NULL;
    stk_media_records s[2] = { 0 };
    uint8_t *data;
    size_t len;

    (void)state;
    make(&data, &len);
    assert_int_equal(stk_mediafile_take(&m, data, len, NULL), 0);
    assert_int_equal(check(m), SHARDS);
    assert_non_null(strstr(stk_mediafile_figure(m, 0), ".width"));
    assert_non_null(strstr(stk_mediafile_figure(m, 5), ".height"));
    assert_null(stk_mediafile_figure(m, 6));
    assert_null(stk_mediafile_name(m, 3));
    other.print++; /* a shard that was written again */
    assert_false(stk_mediafile_has(m, 0, &other));
    assert_true(stk_mediafile_match(m, &other) == UINT64_MAX);
    other = identity(2);
    assert_int_equal(stk_mediafile_match(m, &other), 2);
    assert_null(stk_mediafile_column(m, SHARDS, "jpg").data);
    s[0].shard = other; /* carried over to another list */
    assert_int_equal(stk_media_records_copy(&s[0], m, 2, NULL), 0);
    assert_int_equal(stk_mediafile_make(s, 1, &data, &len, NULL), 0);
    assert_int_equal(stk_mediafile_take(&again, data, len, NULL), 0);
    for (uint64_t r = 0; r < rows[2]; r++) {
        stk_media_column c = stk_mediafile_column(again, 0, "mp4");
        stk_media_rec want = record(2, r, 1), got = stk_media_at(&c, r);

        assert_true(same(&want, &got));
    }
    stk_media_records_fini(&s[0]);
    stk_mediafile_close(&again);
    stk_mediafile_close(&m);
}

/* Every byte in turn: the file is refused, or the shards with the byte have no records. */
static void damage_is_found(void **state)
{
    uint8_t *data, *copy;
    size_t len;

    (void)state;
    make(&data, &len);
    for (size_t at = 0; at < len; at++) {
        stk_mediafile *m = NULL;

        copy = stk_alloc(len);
        memcpy(copy, data, len);
        copy[at] ^= (uint8_t)(1 + at % 255);
        if (stk_mediafile_take(&m, copy, len, NULL) == 0)
            assert_true(check(m) < SHARDS);
        stk_mediafile_close(&m);
    }
    for (size_t cut = 0; cut < len; cut += 1 + cut / 9) {
        stk_mediafile *m = NULL;

        copy = stk_alloc(cut + 1);
        memcpy(copy, data, cut);
        assert_int_equal(stk_mediafile_take(&m, copy, cut, NULL), STK_ECORRUPT);
        assert_null(m);
    }
    stk_free(data);
}

static void cut_while_open(void **state)
{
    char path[600];
    stk_mediafile *m = NULL;
    stk_error err;
    uint8_t *data;
    size_t len;
    FILE *f;

    (void)state;
    snprintf(path, sizeof path, "%s/x.media", dir);
    assert_int_equal(stk_mediafile_open(&m, path, &err), STK_ENOTFOUND);
    make(&data, &len);
    f = fopen(path, "wb");
    assert_true(f && fwrite(data, 1, len, f) == len);
    fclose(f);
    stk_free(data);
    assert_int_equal(stk_mediafile_open(&m, path, &err), 0);
    assert_int_equal(check(m), SHARDS);
    assert_int_equal(truncate(path, 0), 0);
    for (uint64_t r = 0; r < rows[2]; r++) {
        stk_media_column c = stk_mediafile_column(m, 2, "jpg");

        assert_int_equal(stk_media_at(&c, r).kind, 0);
    }
    stk_mediafile_close(&m);
    assert_int_equal(stk_mediafile_open(&m, path, &err), STK_ECORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_back),
        cmocka_unit_test(damage_is_found),
        cmocka_unit_test(cut_while_open),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
